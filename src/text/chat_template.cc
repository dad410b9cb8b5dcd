#include "lorica/text/chat_template.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lorica/io/file_system.h"
#include "lorica/io/gguf.h"
#include "lorica/tensor/status.h"

namespace lorica {

using jinja::Dict;
using jinja::Value;

namespace {

// Templates have some KB, tokenizer_config.json with all its added tokens some MB.
constexpr size_t kMaxTemplateBytes = size_t{4} << 20;
constexpr size_t kMaxConfigBytes = size_t{64} << 20;

constexpr const char* kTokenNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};

// Their keys in GGUF.
constexpr std::pair<const char*, const char*> kGgufTokens[] = {
    {"bos_token", "tokenizer.ggml.bos_token_id"},
    {"eos_token", "tokenizer.ggml.eos_token_id"},
    {"unk_token", "tokenizer.ggml.unknown_token_id"},
    {"sep_token", "tokenizer.ggml.seperator_token_id"},
    {"pad_token", "tokenizer.ggml.padding_token_id"},
};

bool IsDirectory(const std::string& path) {
  const auto info = PosixFiles().Stat(path);
  return info.ok() && info->is_directory;
}

bool IsGguf(const std::string& path) { return absl::EndsWith(path, ".gguf"); }

// The folder of the model's tokenizer files: the path itself, or the folder of the file that it
// names.
std::string FolderOfModel(const std::string& path) {
  return IsDirectory(path) ? path : FolderOf(path);
}

// A JSON object; undefined where the file doesn't exist.
absl::StatusOr<Value> ReadJsonObject(const std::string& path) {
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

struct NamedTemplate {
  std::string name;
  std::string source;
};

absl::Status NoTemplateNamed(const std::string& where, const std::string& name,
                             const std::vector<NamedTemplate>& templates) {
  std::vector<std::string> names;
  for (const NamedTemplate& entry : templates) names.push_back(entry.name);
  return absl::NotFoundError(absl::StrCat(where, ": no chat template is called \"", name,
                                          "\"; there are: ", absl::StrJoin(names, ", ")));
}

// The value of "chat_template": one template, or several with names.
absl::StatusOr<std::string> ChooseTemplate(const Value& field, const std::string& name,
                                           const std::string& where) {
  if (field.is_string() && name.empty()) return field.as_string();
  std::vector<NamedTemplate> templates;
  if (field.is_string()) templates.push_back({"default", field.as_string()});
  if (field.is_list()) {
    for (const Value& entry : field.as_list()) {
      if (!entry.Get("name").is_string() || !entry.Get("template").is_string()) {
        return absl::InvalidArgumentError(
            absl::StrCat(where, ": expected chat_template to list objects of name and template"));
      }
      templates.push_back({entry.Get("name").as_string(), entry.Get("template").as_string()});
    }
  } else if (field.is_dict()) {
    for (const auto& [key, value] : field.as_dict().entries()) {
      if (key.is_string() && value.is_string()) {
        templates.push_back({key.as_string(), value.as_string()});
      }
    }
  }
  if (templates.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": expected chat_template to be a string or a list of named ones"));
  }
  const std::string wanted = name.empty() ? "default" : name;
  for (const NamedTemplate& entry : templates) {
    if (entry.name == wanted) return entry.source;
  }
  if (name.empty() && templates.size() == 1) return templates[0].source;
  return NoTemplateNamed(where, wanted, templates);
}

struct Source {
  std::string text;
  std::string origin;
};

absl::StatusOr<Source> FindInFolder(const std::string& folder, const std::string& name) {
  const std::string file =
      name.empty() || name == "default"
          ? JoinPath(folder, "chat_template.jinja")
          : JoinPath(JoinPath(folder, "additional_chat_templates"), name + ".jinja");
  if (!IsPlainName(NameOf(file)) || absl::StrContains(name, "/")) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\" can't be the name of a chat template"));
  }
  auto text = PosixFiles().Read(file, kMaxTemplateBytes);
  if (text.ok()) return Source{*std::move(text), file};
  if (!absl::IsNotFound(text.status())) return text.status();
  for (const char* config : {"tokenizer_config.json", "chat_template.json"}) {
    const std::string path = JoinPath(folder, config);
    LORICA_ASSIGN_OR_RETURN(const Value json, ReadJsonObject(path));
    const Value field = json.Get("chat_template");
    if (field.is_undefined() || field.is_none()) continue;
    LORICA_ASSIGN_OR_RETURN(std::string source, ChooseTemplate(field, name, path));
    return Source{std::move(source), absl::StrCat(path, " (chat_template)")};
  }
  return absl::NotFoundError(absl::StrCat(
      folder, ": no chat template, neither chat_template.jinja nor in tokenizer_config.json"));
}

absl::StatusOr<Source> FindInGguf(const std::string& path, const std::string& name) {
  LORICA_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  const std::string key = name.empty() || name == "default"
                              ? "tokenizer.chat_template"
                              : absl::StrCat("tokenizer.chat_template.", name);
  if (!file.Has(key)) {
    return absl::NotFoundError(absl::StrCat(path, ": no chat template under ", key));
  }
  LORICA_ASSIGN_OR_RETURN(std::string source, file.GetString(key));
  return Source{std::move(source), absl::StrCat(path, " (", key, ")")};
}

absl::StatusOr<ChatTemplate::SpecialTokens> GgufSpecialTokens(const std::string& path) {
  LORICA_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  ChatTemplate::SpecialTokens tokens;
  if (!file.Has("tokenizer.ggml.tokens")) return tokens;
  LORICA_ASSIGN_OR_RETURN(const auto pieces, file.GetStrings("tokenizer.ggml.tokens"));
  for (const auto& [name, key] : kGgufTokens) {
    if (!file.Has(key)) continue;
    LORICA_ASSIGN_OR_RETURN(const uint64_t id, file.GetU64(key));
    if (id < pieces.size()) tokens.emplace_back(name, std::string(pieces[id]));
  }
  return tokens;
}

// A token as a string, or as an object with its text under "content"; false for anything else.
bool TokenText(const Value& field, std::string* text) {
  const Value content = field.is_dict() ? field.Get("content") : field;
  if (!content.is_string()) return false;
  *text = content.as_string();
  return true;
}

}  // namespace

ChatTemplate::ChatTemplate(jinja::Template parsed, std::string source, std::string origin,
                           SpecialTokens special_tokens)
    : template_(std::move(parsed)),
      source_(std::move(source)),
      origin_(std::move(origin)),
      special_tokens_(std::move(special_tokens)) {}

absl::StatusOr<ChatTemplate> ChatTemplate::FromSource(const std::string& source, std::string origin,
                                                      SpecialTokens special_tokens) {
  auto parsed = jinja::Template::Parse(source);
  if (!parsed.ok()) {
    return absl::Status(parsed.status().code(),
                        absl::StrCat(origin, ": ", parsed.status().message()));
  }
  return ChatTemplate(*std::move(parsed), source, std::move(origin), std::move(special_tokens));
}

absl::StatusOr<ChatTemplate> ChatTemplate::FromModel(const std::string& model_path,
                                                     const std::string& name) {
  LORICA_ASSIGN_OR_RETURN(Source source, IsGguf(model_path)
                                             ? FindInGguf(model_path, name)
                                             : FindInFolder(FolderOfModel(model_path), name));
  LORICA_ASSIGN_OR_RETURN(SpecialTokens tokens, ReadSpecialTokens(model_path));
  return FromSource(source.text, std::move(source.origin), std::move(tokens));
}

absl::StatusOr<ChatTemplate> ChatTemplate::FromFile(const std::string& path,
                                                    const std::string& model_path) {
  LORICA_ASSIGN_OR_RETURN(const std::string source, PosixFiles().Read(path, kMaxTemplateBytes));
  SpecialTokens tokens;
  if (!model_path.empty()) {
    LORICA_ASSIGN_OR_RETURN(tokens, ReadSpecialTokens(model_path));
  }
  return FromSource(source, path, std::move(tokens));
}

absl::StatusOr<ChatTemplate::SpecialTokens> ChatTemplate::ReadSpecialTokens(
    const std::string& model_path) {
  if (IsGguf(model_path)) return GgufSpecialTokens(model_path);
  const std::string folder = FolderOfModel(model_path);
  SpecialTokens tokens;
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    LORICA_ASSIGN_OR_RETURN(const Value json, ReadJsonObject(JoinPath(folder, file)));
    for (const char* name : kTokenNames) {
      const bool is_known = std::any_of(tokens.begin(), tokens.end(),
                                        [&](const auto& token) { return token.first == name; });
      std::string text;
      if (!is_known && TokenText(json.Get(name), &text)) tokens.emplace_back(name, text);
    }
  }
  return tokens;
}

absl::StatusOr<jinja::RenderResult> ChatTemplate::Render(const ChatRequest& request,
                                                         const jinja::RenderLimits& limits) const {
  Dict context;
  for (const auto& [name, text] : special_tokens_) context.Set(name, text);
  context.Set("messages", request.messages);
  context.Set("tools", request.tools);
  context.Set("documents", nullptr);
  context.Set("add_generation_prompt", request.add_generation_prompt);
  if (request.extra.is_dict()) {
    for (const auto& [key, value] : request.extra.as_dict().entries()) context.Set(key, value);
  }
  auto rendered = template_.Render(Value(std::move(context)), {limits, request.now});
  if (rendered.ok()) return rendered;
  return absl::Status(rendered.status().code(),
                      absl::StrCat(origin_, ": ", rendered.status().message()));
}

}  // namespace lorica
