// A stretch of text on its way through the pipeline: its present spelling, where it came from, and
// how it's cut.
//
// Normalizers and some pre-tokenizers rewrite text; the map back to the original costs eight bytes
// for each byte, so it is kept only where it was asked for or isn't the identity.
#ifndef LORICA_TEXT_PIECES_H_
#define LORICA_TEXT_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace lorica {

// Bytes [begin, end).
struct ByteRange {
  uint32_t begin = 0;
  uint32_t end = 0;

  uint32_t size() const { return end - begin; }
  bool operator==(const ByteRange&) const = default;
};

// Text and, for each of its bytes, the range of the original that the byte's character came from.
class MappedText {
 public:
  // The original itself, `text` standing at `offset` in it. With `track` false ranges aren't kept
  // and OriginalOf must not be called.
  MappedText(absl::string_view text, size_t offset, bool track);

  absl::string_view text() const { return text_; }

  // Whether the first byte comes from the original's first one, or was put before it.
  bool at_start() const { return at_start_; }

  // The range of the original that bytes [begin, end) of the text came from.
  ByteRange OriginalOf(ByteRange range) const;

  // Bytes [range.begin, range.end) as a text of their own.
  MappedText Slice(ByteRange range) const;

 private:
  friend class TextRewriter;
  MappedText(std::string text, bool track, bool at_start)
      : text_(std::move(text)), track_(track), at_start_(at_start) {}

  std::string text_;
  bool track_;
  bool at_start_;
  uint32_t offset_ = 0;            // where text_[0] stands in the original, while origin_ is empty
  std::vector<ByteRange> origin_;  // empty: the identity from offset_ on
};

// Builds the successor of a MappedText from left to right.
class TextRewriter {
 public:
  explicit TextRewriter(const MappedText& source);

  // Appends bytes [begin, end) of the source unchanged.
  void Keep(size_t begin, size_t end);
  // Appends `text` in place of bytes [begin, end) of the source (begin == end: an insertion there).
  void Replace(size_t begin, size_t end, absl::string_view text);

  // Takes `suffix`, not empty, off the end of what was appended; false where it doesn't stand
  // there.
  bool DropSuffix(absl::string_view suffix);

  size_t size() const { return text_.size(); }
  MappedText Finish();

 private:
  const MappedText& source_;
  bool at_start_ = false;
  std::string text_;
  std::vector<ByteRange> origin_;
};

// A text and the pieces of it that pre-tokenizers made: in order, not overlapping, not empty; bytes
// between them are dropped.
struct Pieces {
  MappedText text;
  std::vector<ByteRange> ranges;

  explicit Pieces(MappedText whole) : text(std::move(whole)) {
    if (!text.text().empty()) ranges.push_back({0, static_cast<uint32_t>(text.text().size())});
  }
};

}  // namespace lorica

#endif  // LORICA_TEXT_PIECES_H_
