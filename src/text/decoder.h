// From pieces of the vocabulary back to bytes.
#ifndef LORICA_TEXT_DECODER_H_
#define LORICA_TEXT_DECODER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/text/normalizer.h"
#include "lorica/text/tokenizer.h"

namespace lorica {

// One step of a decoder. Steps work on a list of texts, at first one for each token.
struct DecodeStep {
  enum Kind {
    kByteLevel,     // from the GPT-2 byte alphabet
    kByteFallback,  // "<0x0A>" to that byte
    kFuse,          // one text of all
    kMetaspace,     // `mark` to a space; with `drop_first`, those of the first text to nothing
    kReplace,       // matches of `pattern` to `content`
    kStrip,         // up to `start` and `stop` times `mark` off the ends of each text
    kSuffix,        // `mark` to a space, in the last text to nothing
  };
  Kind kind;
  std::string mark;
  bool drop_first = false;
  std::vector<TextPattern> pattern;  // exactly one, of kReplace
  std::string content;
  size_t start = 0;
  size_t stop = 0;
};

// Immutable and safe to use from many threads.
class PieceDecoder {
 public:
  // Without any step pieces are joined by spaces, as Hugging Face does it.
  explicit PieceDecoder(std::vector<DecodeStep> steps = {});

  struct Piece {
    absl::string_view text;
    bool added = false;  // the text of an added token, which isn't spelled in the byte alphabet
  };

  absl::StatusOr<std::string> Decode(const std::vector<Piece>& pieces) const;

  // Whether DecodeNext may be used: no step looks at what comes behind a token.
  bool streams() const { return streams_; }
  // The bytes that `piece` adds behind those before it.
  absl::StatusOr<std::string> DecodeNext(const Piece& piece, DecodePosition* position) const;

 private:
  std::vector<DecodeStep> steps_;
  bool streams_;
};

}  // namespace lorica

#endif  // LORICA_TEXT_DECODER_H_
