// A model with all that turns text into its tokens and back: what generation and chat work on.
#ifndef LORICA_TRAIN_TEXT_MODEL_H_
#define LORICA_TRAIN_TEXT_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/nn/decoder.h"
#include "lorica/peft/adapter_set.h"
#include "lorica/text/jinja/value.h"
#include "lorica/text/tokenizer.h"
#include "lorica/train/load_text.h"

namespace lorica {

// What a model is to continue: exactly one of text, messages and ids is there.
struct Prompt {
  std::optional<std::string> text;  // as it is
  // A list of dicts in the form that chat templates read, or none; rendered with the prompt for an
  // answer.
  jinja::Value messages = nullptr;
  jinja::Value tools = nullptr;
  std::vector<int32_t> ids;

  static Prompt OfText(std::string text);
  // One message of the user, behind a system message where `system` isn't empty.
  static Prompt OfQuestion(const std::string& question, const std::string& system = "");
};

// From JSON: a list of messages, or an object with "messages" and perhaps "tools", or "prompt" (a
// text or a list of messages), or "input_ids". DataLoss starting with `where` for anything else.
absl::StatusOr<Prompt> PromptFromJson(const jinja::Value& json, const std::string& where);
// One object a line. DataLoss naming file and line; a file without a prompt is an error.
absl::StatusOr<std::vector<Prompt>> ReadPrompts(const std::string& path);
// A file that holds one JSON value.
absl::StatusOr<Prompt> ReadPrompt(const std::string& path);

struct TextModelOptions {
  std::string model;          // a Hugging Face folder or a .gguf file
  std::string adapter;        // a PEFT folder; empty: none
  std::string chat_template;  // one of the model's templates by name, or a file
};

struct TextModel {
  std::unique_ptr<CausalLm> model;
  AdapterSet adapters;
  ModelText text;
  std::vector<int32_t> stop_ids;  // that end a text

  // Errors have the codes of exit_status.h. `backend` must outlive the result.
  static absl::StatusOr<TextModel> Load(const TextModelOptions& options, Backend& backend,
                                        DType compute);

  // The ids of a prompt. FailedPrecondition where the model lacks what it takes; InvalidArgument
  // for text that isn't UTF-8, for a prompt of no token, and for ids outside of the vocabulary.
  absl::StatusOr<std::vector<int32_t>> Encode(const Prompt& prompt) const;
};

// The ids that end a text: those of the model's configuration, of generation_config.json beside it,
// and the tokenizer's (may be null) end token. Ascending.
absl::StatusOr<std::vector<int32_t>> StopIds(const std::string& model_path,
                                             const ModelConfig& config, const Tokenizer* tokenizer);

}  // namespace lorica

#endif  // LORICA_TRAIN_TEXT_MODEL_H_
