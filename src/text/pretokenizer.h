// Cutting of normalized text into words, which the model never joins again.
#ifndef LORICA_TEXT_PRETOKENIZER_H_
#define LORICA_TEXT_PRETOKENIZER_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lorica/text/normalizer.h"
#include "lorica/text/pieces.h"
#include "lorica/text/regex.h"

namespace lorica {

// Immutable and safe to use from many threads.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;

  // Cuts the pieces into smaller ones.
  virtual absl::Status Apply(Pieces* pieces, Regex::Scratch* scratch) const = 0;
};

// What becomes of the matches of a pattern that cuts: each is a piece, is dropped, is added to the
// piece before or behind it, or joins matches next to it to one piece.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

// `invert` swaps matches and what lies between them.
std::unique_ptr<PreTokenizer> MakeSplit(TextPattern pattern, SplitBehavior behavior, bool invert);

// Cuts at the characters for which `matches` holds.
std::unique_ptr<PreTokenizer> MakeCharacterSplit(bool (*matches)(uint32_t code_point),
                                                 SplitBehavior behavior);

// Digits, one by one or in runs.
std::unique_ptr<PreTokenizer> MakeDigits(bool individual);

// Words and runs of what's neither word nor space.
std::unique_ptr<PreTokenizer> MakeWhitespace();

// Respells each piece in the GPT-2 byte alphabet, after putting a space before it where it has none
// (`add_prefix_space`) and cutting it by GPT-2's expression (`use_regex`).
absl::StatusOr<std::unique_ptr<PreTokenizer>> MakeByteLevel(bool add_prefix_space, bool use_regex);

// Where Metaspace puts its mark before a text that doesn't begin with one: before all, before the
// first, before none.
enum class PrependScheme { kAlways, kFirst, kNever };

// Makes spaces `replacement` (one character, usually U+2581) and, with `split`, cuts before each.
std::unique_ptr<PreTokenizer> MakeMetaspace(absl::string_view replacement, PrependScheme scheme,
                                            bool split);

}  // namespace lorica

#endif  // LORICA_TEXT_PRETOKENIZER_H_
