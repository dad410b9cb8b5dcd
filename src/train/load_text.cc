#include "lorica/train/load_text.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "lorica/io/crc32c.h"
#include "lorica/tensor/status.h"
#include "lorica/train/exit_status.h"

namespace lorica {

std::string ModelText::TemplateFingerprint() const {
  if (!chat_template.has_value()) return "";
  const std::string source = chat_template->sources();
  return absl::StrFormat("crc32c %08x",
                         Crc32c({reinterpret_cast<const uint8_t*>(source.data()), source.size()}));
}

absl::StatusOr<ModelText> LoadModelText(const std::string& model_path,
                                        const std::string& template_choice) {
  ModelText text;
  if (HasTokenizer(model_path)) {
    LORICA_ASSIGN_OR_RETURN(text.tokenizer, AsInputError(LoadTokenizer(model_path)));
  }
  absl::StatusOr<ChatTemplate> chat_template =
      ChatTemplate::FromChoice(template_choice, model_path);
  if (template_choice.empty() && absl::IsNotFound(chat_template.status())) return text;
  LORICA_ASSIGN_OR_RETURN(text.chat_template, AsInputError(std::move(chat_template)));
  return text;
}

absl::StatusOr<Dataset> LoadDataset(const std::vector<std::string>& files, const ModelText& text,
                                    const DataOptions& options) {
  DatasetOptions dataset;
  LORICA_ASSIGN_OR_RETURN(dataset.tokenize.train_on, AsOptionError(ParseTrainOn(options.train_on)));
  LORICA_ASSIGN_OR_RETURN(dataset.overlong, AsOptionError(ParseOverlong(options.overlong)));
  dataset.tokenize.system = options.system;
  dataset.tokenize.now = options.now;
  dataset.max_length = options.max_length;
  dataset.vocab_size = options.vocab_size;
  dataset.require_trained = options.require_trained;
  dataset.deduplicate = options.deduplicate;
  dataset.find_unwritten = options.find_unwritten;
  dataset.memory_bytes = options.memory_bytes;
  dataset.spool_folder = options.spool_folder;
  dataset.pool = options.pool;
  dataset.progress = options.progress;
  dataset.cancelled = options.cancelled;
  absl::StatusOr<Dataset> loaded =
      Dataset::Load(files, text.tokenizer.has_value() ? &*text.tokenizer : nullptr,
                    text.chat_template.has_value() ? &*text.chat_template : nullptr, dataset);
  // The disk is full where records would be put aside: that isn't the data's fault.
  if (absl::IsInternal(loaded.status())) return loaded;
  return AsInputError(std::move(loaded));
}

absl::StatusOr<std::vector<int32_t>> EncodePrompt(const ModelText& text, const std::string& prompt,
                                                  const std::string& system,
                                                  const std::optional<std::tm>& now) {
  if (!text.tokenizer.has_value()) {
    return absl::FailedPreconditionError(
        "a prompt needs the model's tokenizer, and the model has none");
  }
  if (!text.chat_template.has_value()) return AsInputError(text.tokenizer->Encode(prompt));
  const auto message = [](const char* role, const std::string& content) {
    return jinja::Value(jinja::Dict({{"role", role}, {"content", content}}));
  };
  jinja::List messages;
  if (!system.empty()) messages.push_back(message("system", system));
  messages.push_back(message("user", prompt));
  ChatRequest request;
  request.messages = jinja::Value(std::move(messages));
  request.add_generation_prompt = true;
  request.now = now;
  LORICA_ASSIGN_OR_RETURN(const jinja::RenderResult rendered,
                          AsInputError(text.chat_template->Render(request)));
  // The template has put in what special tokens there are.
  return AsInputError(text.tokenizer->Encode(rendered.text, {.add_special_tokens = false}));
}

}  // namespace lorica
