// What stands beside a tokenizer.json: which tokens begin and end a text, and whether they are
// added.
#ifndef LORICA_TEXT_TOKENIZER_CONFIG_H_
#define LORICA_TEXT_TOKENIZER_CONFIG_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/text/added_tokens.h"
#include "lorica/text/tokenizer_parts.h"

namespace lorica {

// Of tokenizer_config.json. Its other keys are about chat templates, about batches (padding,
// truncation, model_max_length), or about Python classes, and change no id.
struct TokenizerConfig {
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::optional<std::string> unk_token;
  std::optional<std::string> pad_token;
  std::vector<std::string> other_special_tokens;
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  // Added tokens as this file has them; they win over those of tokenizer.json.
  std::vector<AddedToken> added_tokens;
};

// `json` may be empty: nothing is configured. `name` stands for the path in error messages.
absl::StatusOr<TokenizerConfig> ParseTokenizerConfig(absl::string_view json,
                                                     absl::string_view name);

// Gives `parts`, whose model is there, what the configuration says. `sets_ends`: whether BOS and
// EOS are added as it says; beside a tokenizer.json they aren't, since there the post-processor
// alone decides (transformers 5). A BOS or EOS token that the vocabulary doesn't have is an error
// where it would be added; one that merely has a name for padding or unknown text stays without an
// id.
absl::Status ApplyTokenizerConfig(const TokenizerConfig& config, absl::string_view name,
                                  bool sets_ends, Tokenizer::Parts* parts);

// Makes `prefix` begin with BOS or not, and `suffix` end with EOS or not, as far as it's given.
// InvalidArgument where such a token is to be added and isn't known.
absl::Status SetAddedEnds(std::optional<bool> add_bos, std::optional<bool> add_eos,
                          Tokenizer::Parts* parts);

}  // namespace lorica

#endif  // LORICA_TEXT_TOKENIZER_CONFIG_H_
