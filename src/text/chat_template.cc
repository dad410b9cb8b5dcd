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
#include "lorica/text/chat_messages.h"
#include "lorica/text/chat_template_files.h"

namespace lorica {

using jinja::Dict;
using jinja::Value;

namespace {

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

// Whether a short conversation in parts comes out as text, whoever speaks; tried, since templates
// have many ways to look at content.
bool ReadsParts(const jinja::Template& parsed, const ChatTemplate::SpecialTokens& tokens) {
  const auto message = [](const char* role, const char* text) {
    const Value part = Dict({{"type", "text"}, {"text", text}});
    return Value(Dict({{"role", role}, {"content", jinja::List{part}}}));
  };
  const std::vector<std::string> texts = {"qzasked", "qzanswered", "qztold"};
  const Value asked = message("user", texts[0].c_str());
  const Value answered = message("assistant", texts[1].c_str());
  const Value told = message("system", texts[2].c_str());
  Dict context;
  for (const auto& [name, text] : tokens) context.Set(name, text);
  for (const bool with_system : {true, false}) {
    context.Set("messages",
                with_system ? jinja::List{told, asked, answered} : jinja::List{asked, answered});
    const auto rendered =
        parsed.Render(Value(context), {.limits = {.steps = 1'000'000, .bytes = 1 << 24}});
    if (!rendered.ok()) continue;  // perhaps it has no system message
    const std::string& text = rendered->text;
    const size_t spoken = with_system ? 3 : 2;
    return std::all_of(texts.begin(), texts.begin() + static_cast<ptrdiff_t>(spoken),
                       [&](const std::string& one) { return absl::StrContains(text, one); }) &&
           !absl::StrContains(text, "'text'") && !absl::StrContains(text, "\"text\"");
  }
  return false;
}

}  // namespace

ChatTemplate::ChatTemplate(jinja::Template parsed, std::string source, std::string origin,
                           SpecialTokens special_tokens)
    : template_(std::move(parsed)),
      source_(std::move(source)),
      origin_(std::move(origin)),
      special_tokens_(std::move(special_tokens)),
      reads_parts_(ReadsParts(template_, special_tokens_)) {}

absl::StatusOr<ChatTemplate> ChatTemplate::FromSource(const std::string& source, std::string origin,
                                                      SpecialTokens special_tokens) {
  auto parsed = jinja::Template::Parse(source);
  if (!parsed.ok()) {
    return absl::Status(parsed.status().code(),
                        absl::StrCat(origin, ": ", parsed.status().message()));
  }
  return ChatTemplate(*std::move(parsed), source, std::move(origin), std::move(special_tokens));
}

namespace {

std::string NamesOf(const std::vector<NamedTemplate>& templates) {
  return absl::StrJoin(templates, ", ", [](std::string* out, const NamedTemplate& entry) {
    absl::StrAppend(out, entry.name);
  });
}

}  // namespace

absl::StatusOr<ChatTemplate> ChatTemplate::FromModel(const std::string& model_path,
                                                     const std::string& name) {
  const std::string wanted = name.empty() ? "default" : name;
  LORICA_ASSIGN_OR_RETURN(const std::vector<NamedTemplate> templates,
                          TemplatesOfModel(model_path, wanted));
  if (templates.empty()) {
    return absl::NotFoundError(absl::StrCat(
        model_path, ": no chat template",
        IsGgufModel(model_path) ? ""
                                : ", neither chat_template.jinja nor in tokenizer_config.json"));
  }
  const NamedTemplate* chosen = FindTemplate(templates, wanted);
  if (chosen == nullptr && name.empty() && templates.size() == 1) chosen = &templates[0];
  if (chosen == nullptr) {
    return absl::NotFoundError(absl::StrCat(model_path, ": no chat template is called \"", wanted,
                                            "\"; there are: ", NamesOf(templates)));
  }
  LORICA_ASSIGN_OR_RETURN(const SpecialTokens tokens, ReadSpecialTokens(model_path));
  LORICA_ASSIGN_OR_RETURN(ChatTemplate result, FromSource(chosen->text, chosen->origin, tokens));
  const NamedTemplate* for_tools = FindTemplate(templates, "tool_use");
  if (name.empty() && for_tools != nullptr && for_tools != chosen) {
    LORICA_ASSIGN_OR_RETURN(ChatTemplate tool_use,
                            FromSource(for_tools->text, for_tools->origin, tokens));
    result.tool_use_ = std::make_shared<const ChatTemplate>(std::move(tool_use));
  }
  return result;
}

absl::StatusOr<ChatTemplate> ChatTemplate::FromChoice(const std::string& choice,
                                                      const std::string& model_path) {
  if (choice.empty()) return FromModel(model_path);
  LORICA_ASSIGN_OR_RETURN(const std::vector<NamedTemplate> templates,
                          TemplatesOfModel(model_path, choice));
  if (FindTemplate(templates, choice) != nullptr) return FromModel(model_path, choice);
  absl::StatusOr<ChatTemplate> of_file = FromFile(choice, model_path);
  if (!absl::IsNotFound(of_file.status()) || templates.empty()) return of_file;
  return absl::NotFoundError(
      absl::StrCat(choice, ": expected a file or the name of one of the model's chat templates (",
                   NamesOf(templates), "), found neither"));
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
  if (IsGgufModel(model_path)) return GgufSpecialTokens(model_path);
  const std::string folder = TokenizerFolder(model_path);
  SpecialTokens tokens;
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    LORICA_ASSIGN_OR_RETURN(const Value json, ReadTokenizerConfig(JoinPath(folder, file)));
    for (const char* name : kTokenNames) {
      const bool is_known = std::any_of(tokens.begin(), tokens.end(),
                                        [&](const auto& token) { return token.first == name; });
      std::string text;
      if (!is_known && TokenText(json.Get(name), &text)) tokens.emplace_back(name, text);
    }
  }
  return tokens;
}

Value ChatTemplate::Readable(const Value& messages, const Value& tools) const {
  const bool takes_tools = tool_use_ != nullptr && !tools.is_none() && !tools.is_undefined();
  const bool reads_parts = takes_tools ? tool_use_->reads_parts_ : reads_parts_;
  return reads_parts ? messages : WithTextContent(messages);
}

std::string ChatTemplate::sources() const {
  return tool_use_ == nullptr ? source_ : absl::StrCat(source_, "\n", tool_use_->source_);
}

absl::StatusOr<jinja::RenderResult> ChatTemplate::Render(const ChatRequest& request,
                                                         const jinja::RenderLimits& limits) const {
  if (tool_use_ != nullptr && !request.tools.is_none() && !request.tools.is_undefined()) {
    return tool_use_->Render(request, limits);
  }
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
