#include "lorica/text/jinja/word_wrap.h"

#include <algorithm>

#include "lorica/text/jinja/unicode.h"

namespace lorica::jinja {
namespace {

using Text = std::vector<uint32_t>;

// A part of the text that stays together: characters [begin, end).
struct Chunk {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
};

bool IsBreak(uint32_t c) { return (c >= 0x09 && c <= 0x0D) || c == ' '; }
bool IsWord(uint32_t c) { return c == '_' || IsAlpha(c) || IsNumeric(c); }
bool IsLetter(uint32_t c) { return IsWord(c) && !IsDecimal(c); }
bool IsBeforeDash(uint32_t c) {
  return IsWord(c) || c == '!' || c == '"' || c == '\'' || c == '&' || c == '.' || c == ',' ||
         c == '?';
}

// Cuts text into runs of whitespace, words, pieces of words that end in a hyphen between letters,
// and dashes of several hyphens between words.
class Splitter {
 public:
  explicit Splitter(const Text& text) : text_(text) {}

  std::vector<Chunk> Split(bool at_hyphens) const {
    std::vector<Chunk> chunks;
    for (size_t begin = 0; begin < text_.size();) {
      size_t end = begin + 1;
      if (IsBreak(text_[begin])) {
        while (end < text_.size() && IsBreak(text_[end])) ++end;
      } else if (at_hyphens && DashEnd(begin) > 0) {
        end = DashEnd(begin);
      } else {
        while (end < text_.size() && !IsBreak(text_[end])) {
          if (at_hyphens && EndsAtHyphen(end)) {
            ++end;
            break;
          }
          if (at_hyphens && DashEnd(end) > 0) break;
          ++end;
        }
      }
      chunks.push_back({begin, end});
      begin = end;
    }
    return chunks;
  }

 private:
  uint32_t At(size_t i) const { return i < text_.size() ? text_[i] : ' '; }
  bool LetterAt(size_t i) const { return i < text_.size() && IsLetter(text_[i]); }

  // Behind two or more hyphens that begin at `begin` between words; 0 where there are none.
  size_t DashEnd(size_t begin) const {
    if (begin == 0 || At(begin) != '-' || !IsBeforeDash(text_[begin - 1])) return 0;
    size_t end = begin;
    while (At(end) == '-') ++end;
    return end - begin >= 2 && end < text_.size() && IsWord(text_[end]) ? end : 0;
  }

  // Whether the character at `i` is a hyphen behind two letters (perhaps with another hyphen
  // between them) and before two.
  bool EndsAtHyphen(size_t i) const {
    if (text_[i] != '-' || i < 2 || !LetterAt(i - 1)) return false;
    const bool behind = LetterAt(i - 2) || (i >= 3 && text_[i - 2] == '-' && LetterAt(i - 3));
    return behind && LetterAt(i + 1) && (LetterAt(i + 2) || (At(i + 2) == '-' && LetterAt(i + 3)));
  }

  const Text& text_;
};

class Wrapper {
 public:
  Wrapper(const Text& text, const WrapStyle& style, Budget& budget)
      : text_(text), style_(style), width_(static_cast<size_t>(style.width)), budget_(budget) {}

  std::vector<std::string> Wrap(std::vector<Chunk> chunks) {
    std::reverse(chunks.begin(), chunks.end());
    std::vector<std::string> lines;
    while (!chunks.empty()) {
      std::vector<Chunk> line;
      size_t length = 0;
      if (!lines.empty() && IsBlank(chunks.back())) chunks.pop_back();
      while (!chunks.empty() && length + chunks.back().size() <= width_) {
        length += chunks.back().size();
        line.push_back(chunks.back());
        chunks.pop_back();
      }
      if (!chunks.empty() && chunks.back().size() > width_) BreakWord(length, &chunks, &line);
      if (!line.empty() && IsBlank(line.back())) line.pop_back();
      if (!line.empty()) lines.push_back(TextOf(line));
    }
    return lines;
  }

 private:
  bool IsBlank(const Chunk& chunk) const {
    return std::all_of(text_.begin() + static_cast<ptrdiff_t>(chunk.begin),
                       text_.begin() + static_cast<ptrdiff_t>(chunk.end), IsSpace);
  }

  // The next chunk is longer than a line: its start goes on this one, or all of it on a new one.
  void BreakWord(size_t length, std::vector<Chunk>* chunks, std::vector<Chunk>* line) const {
    Chunk& word = chunks->back();
    if (!style_.break_long_words) {
      if (!line->empty()) return;
      line->push_back(word);
      chunks->pop_back();
      return;
    }
    const size_t left = width_ - length;
    size_t taken = left;
    if (style_.break_on_hyphens) {
      for (size_t hyphen = left; hyphen-- > 1;) {
        if (text_[word.begin + hyphen] != '-') continue;
        const auto begin = text_.begin() + static_cast<ptrdiff_t>(word.begin);
        if (std::any_of(begin, begin + static_cast<ptrdiff_t>(hyphen),
                        [](uint32_t c) { return c != '-'; })) {
          taken = hyphen + 1;
        }
        break;
      }
    }
    line->push_back({word.begin, word.begin + taken});
    word.begin += taken;
  }

  std::string TextOf(const std::vector<Chunk>& line) {
    std::string out;
    for (const Chunk& chunk : line) {
      for (size_t i = chunk.begin; i < chunk.end; ++i) AppendUtf8(text_[i], &out);
    }
    budget_.Bytes(static_cast<int64_t>(out.size()));
    return out;
  }

  const Text& text_;
  const WrapStyle& style_;
  const size_t width_;
  Budget& budget_;
};

}  // namespace

std::vector<std::string> WrapLine(absl::string_view line, const WrapStyle& style, Budget& budget) {
  if (style.width <= 0) Raise("invalid width ", style.width, " (must be > 0)");
  budget.Bytes(static_cast<int64_t>(4 * line.size()));
  Text text;
  for (size_t i = 0; i < line.size();) text.push_back(NextCodePoint(line, &i));
  budget.Step(static_cast<int64_t>(text.size()));
  return Wrapper(text, style, budget).Wrap(Splitter(text).Split(style.break_on_hyphens));
}

}  // namespace lorica::jinja
