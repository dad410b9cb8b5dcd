#include "lorica/text/chat_template_files.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lorica/io/file_system.h"
#include "lorica/io/gguf.h"
#include "lorica/tensor/status.h"

namespace lorica {

using jinja::Value;

namespace {

constexpr size_t kMaxConfigBytes = size_t{64} << 20;

// Models have some; a folder of more is something else.
constexpr size_t kMaxTemplates = 100;

constexpr char kInGguf[] = "tokenizer.chat_template";

bool IsDirectory(const std::string& path) {
  const auto info = PosixFiles().Stat(path);
  return info.ok() && info->is_directory;
}

// The value of "chat_template": one template, or several with names.
absl::Status AppendNamed(const Value& field, const std::string& where,
                         std::vector<NamedTemplate>* templates) {
  const std::string origin = absl::StrCat(where, " (chat_template)");
  const size_t before = templates->size();
  if (field.is_string()) templates->push_back({"default", field.as_string(), origin});
  if (field.is_list()) {
    for (const Value& entry : field.as_list()) {
      if (!entry.Get("name").is_string() || !entry.Get("template").is_string()) {
        return absl::InvalidArgumentError(
            absl::StrCat(where, ": expected chat_template to list objects of name and template"));
      }
      templates->push_back(
          {entry.Get("name").as_string(), entry.Get("template").as_string(), origin});
    }
  } else if (field.is_dict()) {
    for (const auto& [key, value] : field.as_dict().entries()) {
      if (key.is_string() && value.is_string()) {
        templates->push_back({key.as_string(), value.as_string(), origin});
      }
    }
  }
  if (templates->size() == before) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": expected chat_template to be a string or a list of named ones"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NamedTemplate>> InConfiguration(const std::string& folder) {
  std::vector<NamedTemplate> templates;
  for (const char* config : {"tokenizer_config.json", "chat_template.json"}) {
    const std::string path = JoinPath(folder, config);
    LORICA_ASSIGN_OR_RETURN(const Value json, ReadTokenizerConfig(path));
    const Value field = json.Get("chat_template");
    if (field.is_undefined() || field.is_none()) continue;
    LORICA_RETURN_IF_ERROR(AppendNamed(field, path, &templates));
    break;
  }
  return templates;
}

absl::Status AppendFile(const std::string& path, std::string name,
                        std::vector<NamedTemplate>* templates) {
  auto text = PosixFiles().Read(path, kMaxTemplateBytes);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  LORICA_RETURN_IF_ERROR(text.status());
  templates->push_back({std::move(name), *std::move(text), path});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NamedTemplate>> InFiles(const std::string& folder) {
  std::vector<NamedTemplate> templates;
  LORICA_RETURN_IF_ERROR(
      AppendFile(JoinPath(folder, "chat_template.jinja"), "default", &templates));
  const std::string more = JoinPath(folder, "additional_chat_templates");
  if (!IsDirectory(more)) return templates;
  LORICA_ASSIGN_OR_RETURN(std::vector<std::string> names, PosixFiles().List(more));
  std::sort(names.begin(), names.end());
  for (const std::string& file : names) {
    absl::string_view name = file;
    if (!absl::ConsumeSuffix(&name, ".jinja")) continue;
    if (templates.size() == kMaxTemplates) {
      return absl::InvalidArgumentError(
          absl::StrCat(more, ": expected at most ", kMaxTemplates, " chat templates"));
    }
    LORICA_RETURN_IF_ERROR(AppendFile(JoinPath(more, file), std::string(name), &templates));
  }
  return templates;
}

absl::StatusOr<std::vector<NamedTemplate>> InGguf(const std::string& path) {
  LORICA_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  std::vector<NamedTemplate> templates;
  for (const std::string& key : file.keys()) {
    absl::string_view name = key;
    if (!absl::ConsumePrefix(&name, kInGguf)) continue;
    if (!name.empty() && !absl::ConsumePrefix(&name, ".")) continue;
    LORICA_ASSIGN_OR_RETURN(std::string source, file.GetString(key));
    templates.push_back({name.empty() ? "default" : std::string(name), std::move(source),
                         absl::StrCat(path, " (", key, ")")});
  }
  return templates;
}

}  // namespace

const NamedTemplate* FindTemplate(const std::vector<NamedTemplate>& templates,
                                  absl::string_view name) {
  for (const NamedTemplate& entry : templates) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

bool IsGgufModel(const std::string& path) { return absl::EndsWith(path, ".gguf"); }

std::string TokenizerFolder(const std::string& model_path) {
  return IsDirectory(model_path) ? model_path : FolderOf(model_path);
}

absl::StatusOr<Value> ReadTokenizerConfig(const std::string& path) {
  auto text = PosixFiles().Read(path, kMaxConfigBytes);
  if (absl::IsNotFound(text.status())) return Value();
  LORICA_RETURN_IF_ERROR(text.status());
  auto json = jinja::ParseJson(*text);
  if (!json.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", json.status().message()));
  }
  if (!json->is_dict()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a JSON object"));
  }
  return *std::move(json);
}

absl::StatusOr<std::vector<NamedTemplate>> TemplatesOfModel(const std::string& model_path,
                                                            absl::string_view name) {
  if (IsGgufModel(model_path)) return InGguf(model_path);
  const std::string folder = TokenizerFolder(model_path);
  LORICA_ASSIGN_OR_RETURN(std::vector<NamedTemplate> templates, InFiles(folder));
  if (FindTemplate(templates, name) != nullptr) return templates;
  LORICA_ASSIGN_OR_RETURN(std::vector<NamedTemplate> others, InConfiguration(folder));
  for (NamedTemplate& entry : others) {
    if (FindTemplate(templates, entry.name) == nullptr) templates.push_back(std::move(entry));
  }
  return templates;
}

}  // namespace lorica
