// Writing the folder of a model whose weights were changed in memory. Internal to src/train.
#ifndef LORICA_TRAIN_MODEL_FOLDER_H_
#define LORICA_TRAIN_MODEL_FOLDER_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lorica/io/atomic_commit.h"
#include "lorica/io/gguf.h"
#include "lorica/io/stored_type.h"
#include "lorica/nn/decoder.h"

namespace lorica::internal {

struct ChangedModel {
  CausalLm* model = nullptr;
  // Paths of the parameters whose values differ from the files'.
  std::set<std::string> changed;
  // Type to write floating-point tensors in; absent: as stored.
  std::optional<StoredType> type;
};

struct WrittenWeights {
  int64_t tensors = 0;
  int64_t bytes = 0;
  std::vector<std::string> left_behind;
};

// From a Hugging Face folder: its weight files again, shard by shard, with what changed;
// config.json where it has to say something else; every other file as it is, except weights in
// other formats.
absl::StatusOr<WrittenWeights> WriteChangedFolder(const ChangedModel& changed,
                                                  const std::string& source, FileSystem& files,
                                                  DirectoryCommit& folder);

// From a GGUF file: config.json, generation_config.json, model.safetensors, tokenizer.json,
// tokenizer_config.json.
absl::StatusOr<WrittenWeights> WriteGgufAsFolder(const ChangedModel& changed,
                                                 const std::string& source,
                                                 DirectoryCommit& folder);

// What WriteGgufAsFolder gives a tokenizer: the text of tokenizer.json and of
// tokenizer_config.json. Unimplemented for a tokenizer other than byte-level BPE.
struct TokenizerTexts {
  std::string tokenizer;
  std::string config;
};
absl::StatusOr<TokenizerTexts> TokenizerTextsOfGguf(const GgufFile& file);

}  // namespace lorica::internal

#endif  // LORICA_TRAIN_MODEL_FOLDER_H_
