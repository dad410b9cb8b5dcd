// Tokenizer, template and data of a command, with errors in the codes of exit_status.h.
#ifndef LORICA_TRAIN_LOAD_TEXT_H_
#define LORICA_TRAIN_LOAD_TEXT_H_

#include <cstdint>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/text/chat_template.h"
#include "lorica/text/tokenizer.h"
#include "lorica/train/dataset.h"
#include "lorica/train/exit_status.h"

namespace lorica {

// What a model knows of text; either may be absent.
struct ModelText {
  std::optional<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;

  // A checksum of the template's source text; empty without one.
  std::string TemplateFingerprint() const;
};

// `template_choice` is the name of one of the model's templates, or a file in place of them; empty:
// the model's own.
absl::StatusOr<ModelText> LoadModelText(const std::string& model_path,
                                        const std::string& template_choice);

struct DataOptions {
  std::string train_on = "assistant";
  std::string system;
  std::string overlong = "truncate";
  int64_t max_length = 0;
  int64_t vocab_size = 0;
  std::optional<std::tm> now;  // as in TokenizeOptions
  bool require_trained = true;
  // As in DatasetOptions.
  bool deduplicate = false;
  bool find_unwritten = false;
  int64_t memory_bytes = DatasetOptions().memory_bytes;
  std::string spool_folder;
  ThreadPool* pool = nullptr;
  std::function<void(int64_t bytes, int64_t total_bytes, int64_t records)> progress;
  std::function<bool()> cancelled;
};

// Of FindDataFiles and the like: a name of which the option itself is wrong stays InvalidArgument,
// what the disk says of it is an input error.
template <typename T>
absl::StatusOr<T> AsDataNameError(absl::StatusOr<T> result) {
  return absl::IsInvalidArgument(result.status()) ? std::move(result)
                                                  : AsInputError(std::move(result));
}

// `text` must outlive the result.
absl::StatusOr<Dataset> LoadDataset(const std::vector<std::string>& files, const ModelText& text,
                                    const DataOptions& options);

// The ids of one user message as a model with a template expects it, ready for its answer; without
// a template those of the plain text. `now` as in ChatRequest. FailedPrecondition without a
// tokenizer.
absl::StatusOr<std::vector<int32_t>> EncodePrompt(const ModelText& text, const std::string& prompt,
                                                  const std::string& system,
                                                  const std::optional<std::tm>& now = std::nullopt);

}  // namespace lorica

#endif  // LORICA_TRAIN_LOAD_TEXT_H_
