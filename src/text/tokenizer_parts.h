// What a Tokenizer is made of, for the code that builds one.
#ifndef LORICA_TEXT_TOKENIZER_PARTS_H_
#define LORICA_TEXT_TOKENIZER_PARTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "lorica/text/added_tokens.h"
#include "lorica/text/decoder.h"
#include "lorica/text/model.h"
#include "lorica/text/normalizer.h"
#include "lorica/text/pretokenizer.h"
#include "lorica/text/tokenizer.h"

namespace lorica {

struct Tokenizer::Parts {
  AddedTokens added;
  std::vector<std::unique_ptr<Normalizer>> normalizers;      // in order
  std::vector<std::unique_ptr<PreTokenizer>> pretokenizers;  // in order
  std::unique_ptr<TokenModel> model;
  PieceDecoder decoder;
  // What the post-processor puts around the ids of a text.
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;

  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  std::optional<int32_t> unk_id;
  std::optional<int32_t> pad_id;

  // Set by FinishTokenizer.
  int32_t id_limit = 0;
};

// Checks that every id that the parts name exists, gives added tokens their normalized forms and
// returns the tokenizer.
absl::StatusOr<Tokenizer> FinishTokenizer(std::shared_ptr<Tokenizer::Parts> parts);

}  // namespace lorica

#endif  // LORICA_TEXT_TOKENIZER_PARTS_H_
