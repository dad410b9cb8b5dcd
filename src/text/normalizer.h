// Rewriting of text before it is cut: Unicode normal forms, replacements, prefixes.
#ifndef LORICA_TEXT_NORMALIZER_H_
#define LORICA_TEXT_NORMALIZER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/text/pieces.h"
#include "lorica/text/regex.h"

namespace lorica {

// Immutable and safe to use from many threads.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual absl::Status Apply(MappedText* text, Regex::Scratch* scratch) const = 0;
};

// What a replacement or a split looks for: a literal string, or a regular expression.
class TextPattern {
 public:
  static absl::StatusOr<TextPattern> Literal(absl::string_view text);  // not empty
  static absl::StatusOr<TextPattern> Expression(absl::string_view pattern);

  // Replaces `*matches` with all matches, from left to right, not overlapping.
  absl::Status FindAll(absl::string_view text, Regex::Scratch* scratch,
                       std::vector<ByteRange>* matches) const;

 private:
  std::string literal_;
  std::optional<Regex> regex_;
};

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

std::unique_ptr<Normalizer> MakeUnicodeNormalizer(NormalForm form);
// Character by character, without regard to its neighbours.
std::unique_ptr<Normalizer> MakeLowercase();
// Takes off white space at the ends.
std::unique_ptr<Normalizer> MakeStrip(bool left, bool right);
// Takes out combining marks (categories M*).
std::unique_ptr<Normalizer> MakeStripAccents();
// The steps of BERT's normalizer: takes out nonspacing marks (Mn); white space to spaces, controls
// and U+FFFD taken out; Chinese characters between spaces.
std::unique_ptr<Normalizer> MakeStripNonspacing();
std::unique_ptr<Normalizer> MakeCleanText();
std::unique_ptr<Normalizer> MakeSpacedIdeographs();
std::unique_ptr<Normalizer> MakeReplace(TextPattern pattern, absl::string_view content);
// Puts `prefix` before a text that isn't empty.
std::unique_ptr<Normalizer> MakePrepend(absl::string_view prefix);
// Sentencepiece's white space and control characters.
std::unique_ptr<Normalizer> MakeNmt();
// The GPT-2 byte alphabet (byte_alphabet.h).
std::unique_ptr<Normalizer> MakeByteLevelNormalizer();

// The compiled replacement rules of sentencepiece (`precompiled_charsmap`). InvalidArgument where
// the bytes are malformed. With `by_grapheme`, rules see one grapheme at a time and fall back to
// single characters where it has none, as Hugging Face has it; without, the longest rule at each
// place wins, as in sentencepiece.
absl::StatusOr<std::unique_ptr<Normalizer>> MakePrecompiled(std::string charsmap, bool by_grapheme);

}  // namespace lorica

#endif  // LORICA_TEXT_NORMALIZER_H_
