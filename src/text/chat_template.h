// A model's chat template: how a list of messages becomes the text that the model was trained on.
#ifndef LORICA_TEXT_CHAT_TEMPLATE_H_
#define LORICA_TEXT_CHAT_TEMPLATE_H_

#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/text/jinja/template.h"
#include "lorica/text/jinja/value.h"

namespace lorica {

// What one rendering shows the template.
struct ChatRequest {
  jinja::Value messages;  // list of dicts: role, content, and whatever else the template reads
  jinja::Value tools = nullptr;  // list of dicts, or none
  bool add_generation_prompt = false;
  // Dict of further variables (enable_thinking, documents, date_string, ...); they win over
  // everything above.
  jinja::Value extra = nullptr;
  std::optional<std::tm> now;  // for strftime_now(); the local time where absent
};

// Immutable; rendering is thread-safe.
class ChatTemplate {
 public:
  // Names and texts of special tokens, as the template's variables: bos_token, eos_token,
  // pad_token, ...
  using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

  // From the source text; `origin` names it in errors ("chat_template.jinja").
  static absl::StatusOr<ChatTemplate> FromSource(const std::string& source, std::string origin,
                                                 SpecialTokens special_tokens);

  // The template of the model at `model_path`: of a Hugging Face folder, chat_template.jinja, else
  // the one in tokenizer_config.json (where that holds several, the one called `name`, or
  // "default"); of a GGUF file, tokenizer.chat_template (or tokenizer.chat_template.NAME). NotFound
  // where the model has none.
  static absl::StatusOr<ChatTemplate> FromModel(const std::string& model_path,
                                                const std::string& name = "");

  // A template file in place of the model's own; special tokens still come from the model
  // (`model_path` may be empty).
  static absl::StatusOr<ChatTemplate> FromFile(const std::string& path,
                                               const std::string& model_path);

  // The special tokens that a model's tokenizer files name; empty where it has no such files.
  static absl::StatusOr<SpecialTokens> ReadSpecialTokens(const std::string& model_path);

  // Errors: InvalidArgument (what the template raised or failed on, with its line) or
  // ResourceExhausted (a template that never ends); both name the template's origin.
  absl::StatusOr<jinja::RenderResult> Render(const ChatRequest& request,
                                             const jinja::RenderLimits& limits = {}) const;

  bool has_generation_blocks() const { return template_.has_generation_blocks(); }
  const std::string& source() const { return source_; }
  const std::string& origin() const { return origin_; }
  const SpecialTokens& special_tokens() const { return special_tokens_; }

 private:
  ChatTemplate(jinja::Template parsed, std::string source, std::string origin,
               SpecialTokens special_tokens);

  jinja::Template template_;
  std::string source_;
  std::string origin_;
  SpecialTokens special_tokens_;
};

}  // namespace lorica

#endif  // LORICA_TEXT_CHAT_TEMPLATE_H_
