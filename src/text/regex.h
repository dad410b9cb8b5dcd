// Regular expressions of tokenizers, run by PCRE2.
//
// tokenizer.json files are written for Oniguruma with its own syntax and Unicode 16. A pattern is
// translated to PCRE2 so that it matches the same text; what has no equivalent is refused by name.
#ifndef LORICA_TEXT_REGEX_H_
#define LORICA_TEXT_REGEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/text/pieces.h"

namespace lorica {

// A compiled pattern: immutable, cheap to copy, safe to use from many threads.
class Regex {
 public:
  // InvalidArgument with the place in the pattern where it can't be compiled.
  static absl::StatusOr<Regex> Compile(absl::string_view pattern);

  // What a search needs for itself: one per thread, for any number of patterns.
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    friend class Regex;
    struct State;
    std::unique_ptr<State> state_;
  };

  // Replaces `*matches` with all matches in `text` (valid UTF-8), each search starting where the
  // last match ended. An empty match right after a match isn't one. The work is bounded: a pattern
  // that would take minutes, by backtracking, ends with ResourceExhausted.
  absl::Status FindAll(absl::string_view text, Scratch* scratch,
                       std::vector<ByteRange>* matches) const;

 private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const Code> code_;
};

// The translation to PCRE2 syntax (for UTF, UCP and MULTILINE mode with LF as newline).
absl::StatusOr<std::string> TranslateToPcre2(absl::string_view pattern);

}  // namespace lorica

#endif  // LORICA_TEXT_REGEX_H_
