// A model's chat template: how a list of messages becomes the text that the model was trained on.
#ifndef LORICA_TEXT_CHAT_TEMPLATE_H_
#define LORICA_TEXT_CHAT_TEMPLATE_H_

#include <ctime>
#include <memory>
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

  // The template of the model at `model_path` (chat_template_files.h says where it lies). Of
  // several that are named: the one called `name`; without a name "default", or the only one, and
  // then the one called "tool_use" takes its place for requests with tools, as in transformers.
  // NotFound where the model has none, or none of that name.
  static absl::StatusOr<ChatTemplate> FromModel(const std::string& model_path,
                                                const std::string& name = "");

  // What a user chose: the name of one of the model's templates, or a file; empty: the model's.
  static absl::StatusOr<ChatTemplate> FromChoice(const std::string& choice,
                                                 const std::string& model_path);

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

  // The messages of a request, where content that is a list of text parts is joined unless the
  // template reads such lists itself: those that do may put every part in its place, others would
  // write the list.
  jinja::Value Readable(const jinja::Value& messages, const jinja::Value& tools) const;

  // The source texts of all templates that a request may meet.
  std::string sources() const;
  const std::string& origin() const { return origin_; }
  const SpecialTokens& special_tokens() const { return special_tokens_; }

 private:
  ChatTemplate(jinja::Template parsed, std::string source, std::string origin,
               SpecialTokens special_tokens);

  jinja::Template template_;
  std::string source_;
  std::string origin_;
  SpecialTokens special_tokens_;
  bool reads_parts_ = false;
  std::shared_ptr<const ChatTemplate> tool_use_;  // for requests with tools; null: this one
};

}  // namespace lorica

#endif  // LORICA_TEXT_CHAT_TEMPLATE_H_
