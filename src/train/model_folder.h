// Writing the files of a model whose weights were changed in memory. Internal to src/train.
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
#include "lorica/io/tensor_source.h"
#include "lorica/nn/decoder.h"

namespace lorica::internal {

struct ChangedModel {
  CausalLm* model = nullptr;
  // Paths of the parameters whose values differ from the files'.
  std::set<std::string> changed;
  // Type to write floating-point tensors in; absent: as stored.
  std::optional<StoredType> type;
  // The files that the model was loaded from.
  const TensorSource* source = nullptr;
};

struct WrittenWeights {
  int64_t tensors = 0;
  int64_t bytes = 0;
  std::vector<std::string> left_behind;
};

// From a Hugging Face folder: its weight files again, shard by shard, with what changed;
// config.json where it has to say something else; every other file as it is, except weights in
// other formats. 8-bit weights with scales become plain ones, bf16 where no type is given.
absl::StatusOr<WrittenWeights> WriteChangedFolder(const ChangedModel& changed,
                                                  const std::string& source, FileSystem& files,
                                                  DirectoryCommit& folder);

// From a GGUF file: config.json, generation_config.json, model.safetensors, tokenizer.json,
// tokenizer_config.json.
absl::StatusOr<WrittenWeights> WriteGgufAsFolder(const ChangedModel& changed,
                                                 const std::string& source,
                                                 DirectoryCommit& folder);

// From a GGUF file, split or not, into another, which is whole: metadata and tensors in their
// order. Tensors of another type than the one to write are converted, but those of one dimension
// and routers stay or become f32, as llama.cpp wants them, and so do rows that Q8_0 can't cut into
// blocks (f16). Without a type, what changed keeps its own where it can be written, else f32.
absl::StatusOr<WrittenWeights> WriteGgufAsGguf(const ChangedModel& changed,
                                               const std::string& source, WritableFile& sink);

// `values` (whole blocks) as stored bytes. An error where the type can't hold them; `name` is the
// tensor's.
absl::StatusOr<std::vector<uint8_t>> EncodeFloats(absl::string_view name, StoredType type,
                                                  absl::Span<const float> values);

// What WriteGgufAsFolder gives a tokenizer: the text of tokenizer.json and of
// tokenizer_config.json. Unimplemented for one that is neither byte-level BPE nor
// sentencepiece BPE, or whose scores leave open which of two overlapping tokens comes first.
struct TokenizerTexts {
  std::string tokenizer;
  std::string config;
};
absl::StatusOr<TokenizerTexts> TokenizerTextsOfGguf(const GgufFile& file);

}  // namespace lorica::internal

#endif  // LORICA_TRAIN_MODEL_FOLDER_H_
