// The pipeline of sentencepiece models (Kudo and Richardson, 2018,
// https://aclanthology.org/D18-2012), whichever file they come in.
#ifndef LORICA_TEXT_SENTENCEPIECE_PIPELINE_H_
#define LORICA_TEXT_SENTENCEPIECE_PIPELINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lorica/text/normalizer.h"
#include "lorica/text/precompiled_charsmap.h"
#include "lorica/text/string_finder.h"
#include "lorica/text/tokenizer_parts.h"

namespace lorica {

// The numbers are the format's, and GGUF's.
enum class PieceType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,  // always a token of its own where it stands in the text
  kUnused = 5,
  kByte = 6,
};

struct SentencepieceModel {
  bool unigram = false;  // else BPE
  std::vector<std::string> pieces;
  std::vector<float> scores;          // one per piece
  std::vector<PieceType> types;       // one per piece
  std::string charsmap;               // replacement rules; empty: none
  bool add_dummy_prefix = true;       // a space before each text
  bool whitespace_as_suffix = false;  // that space stands behind instead
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;  // spaces are U+2581 in the pieces
  bool byte_fallback = false;
};

// Gives `parts`, whose unk_id may be set, normalizer, model, decoder and added tokens. Errors are
// InvalidArgument and name no file.
absl::Status BuildSentencepiece(SentencepieceModel source, Tokenizer::Parts* parts);

}  // namespace lorica

#endif  // LORICA_TEXT_SENTENCEPIECE_PIPELINE_H_
