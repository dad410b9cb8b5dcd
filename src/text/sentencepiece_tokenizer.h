// sentencepiece's `.model` files: a protocol buffer with pieces, scores and how text is prepared.
#ifndef LORICA_TEXT_SENTENCEPIECE_TOKENIZER_H_
#define LORICA_TEXT_SENTENCEPIECE_TOKENIZER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/text/tokenizer.h"

namespace lorica {

// Builds the tokenizer of a model file's bytes; `name` stands for its path in error messages.
// `config_json` is the text of the `tokenizer_config.json` beside it, or empty: then BOS is added
// and EOS isn't, as Llama has it.
absl::StatusOr<Tokenizer> TokenizerFromSentencepiece(absl::string_view model,
                                                     absl::string_view name,
                                                     absl::string_view config_json = "");

}  // namespace lorica

#endif  // LORICA_TEXT_SENTENCEPIECE_TOKENIZER_H_
