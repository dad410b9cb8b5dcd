// sentencepiece's compiled replacement rules: four bytes of length, a double-array trie of that
// many bytes (Darts-clone, https://github.com/s-yata/darts-clone), and the replacements, each ended
// by a zero byte.
#ifndef LORICA_TEXT_PRECOMPILED_CHARSMAP_H_
#define LORICA_TEXT_PRECOMPILED_CHARSMAP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lorica {

class PrecompiledCharsmap {
 public:
  static absl::StatusOr<PrecompiledCharsmap> Parse(absl::string_view bytes);

  struct Rule {
    size_t size = 0;  // bytes of the text that it replaces; 0: no rule
    absl::string_view replacement;
  };
  // The rule for the shortest, or the longest, prefix of `text` that has one.
  Rule Shortest(absl::string_view text) const { return Search(text, true); }
  Rule Longest(absl::string_view text) const { return Search(text, false); }

 private:
  Rule Search(absl::string_view text, bool shortest) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace lorica

#endif  // LORICA_TEXT_PRECOMPILED_CHARSMAP_H_
