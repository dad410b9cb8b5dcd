// Tokenizers inside GGUF files: the `tokenizer.ggml.*` metadata.
#ifndef LORICA_TEXT_GGUF_TOKENIZER_H_
#define LORICA_TEXT_GGUF_TOKENIZER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/text/tokenizer.h"

namespace lorica {

class GgufFile;

// The metadata as it stands in the file, each field named as its key there. Ids are not checked
// yet.
struct GgufTokenizer {
  std::string model;  // "gpt2" (byte-level BPE), "llama" (sentencepiece BPE), "t5" (Unigram)
  std::string pre;    // name of the pre-tokenizer, for "gpt2"; empty: "default"
  std::vector<std::string> tokens;
  std::vector<int32_t> token_types;  // empty, or one per token: a GgufTokenType
  std::vector<float> scores;         // empty, or one per token
  std::vector<std::string> merges;   // "left right", best first
  std::optional<int64_t> bos_id;
  std::optional<int64_t> eos_id;
  std::optional<int64_t> unk_id;
  std::optional<int64_t> pad_id;
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<bool> add_space_prefix;
  std::optional<bool> remove_extra_whitespaces;  // of "t5"
  std::string precompiled_charsmap;              // of "t5"
};

enum GgufTokenType : int32_t {
  kGgufTokenNormal = 1,
  kGgufTokenUnknown = 2,
  kGgufTokenControl = 3,
  kGgufTokenUserDefined = 4,
  kGgufTokenUnused = 5,
  kGgufTokenByte = 6,
};

// Reads the metadata; `NotFound` where the file has no tokenizer.
absl::StatusOr<GgufTokenizer> ReadGgufTokenizer(const GgufFile& file);

// Builds the tokenizer that `metadata` describes; `name` stands for the file in error messages.
absl::StatusOr<Tokenizer> TokenizerFromGguf(GgufTokenizer metadata, absl::string_view name);

}  // namespace lorica

#endif  // LORICA_TEXT_GGUF_TOKENIZER_H_
