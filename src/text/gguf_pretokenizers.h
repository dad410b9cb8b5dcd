// The pre-tokenizers that GGUF files name in `tokenizer.ggml.pre`.
#ifndef LORICA_TEXT_GGUF_PRETOKENIZERS_H_
#define LORICA_TEXT_GGUF_PRETOKENIZERS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace lorica {

struct GgufPreTokenizer {
  // All names that stand for it.
  absl::Span<const absl::string_view> names;
  // Expressions that cut one after the other, each match a piece of its own; then comes the byte
  // alphabet.
  absl::Span<const absl::string_view> expressions;
  bool nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;  // where the file doesn't say
};

// Null where no pre-tokenizer has that name.
const GgufPreTokenizer* FindGgufPreTokenizer(absl::string_view name);

// All names, with commas between them.
std::string GgufPreTokenizerNames();

}  // namespace lorica

#endif  // LORICA_TEXT_GGUF_PRETOKENIZERS_H_
