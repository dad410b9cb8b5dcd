#include "lorica/text/pieces.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "lorica/tensor/check.h"

namespace lorica {

MappedText::MappedText(absl::string_view text, size_t offset, bool track)
    : text_(text), track_(track), at_start_(offset == 0), offset_(static_cast<uint32_t>(offset)) {}

ByteRange MappedText::OriginalOf(ByteRange range) const {
  LORICA_DCHECK(track_ && range.begin <= range.end && range.end <= text_.size());
  if (origin_.empty()) return {offset_ + range.begin, offset_ + range.end};
  if (range.begin == range.end) {
    const uint32_t at =
        range.begin < origin_.size() ? origin_[range.begin].begin : origin_.back().end;
    return {at, at};
  }
  // Reordered combining marks make the ends of a range not its extremes.
  ByteRange result = origin_[range.begin];
  for (uint32_t i = range.begin; i < range.end; ++i) {
    result.begin = std::min(result.begin, origin_[i].begin);
    result.end = std::max(result.end, origin_[i].end);
  }
  return result;
}

MappedText MappedText::Slice(ByteRange range) const {
  MappedText result(text_.substr(range.begin, range.size()), track_, at_start_ && range.begin == 0);
  result.offset_ = offset_ + range.begin;
  if (!origin_.empty()) {
    result.origin_.assign(origin_.begin() + range.begin, origin_.begin() + range.end);
  }
  return result;
}

TextRewriter::TextRewriter(const MappedText& source) : source_(source) {
  text_.reserve(source.text_.size() + source.text_.size() / 4 + 8);
  if (source.track_) origin_.reserve(text_.capacity());
}

void TextRewriter::Keep(size_t begin, size_t end) {
  if (begin == end) return;
  if (text_.empty()) at_start_ = source_.at_start_ && begin == 0;
  text_.append(source_.text_, begin, end - begin);
  if (!source_.track_) return;
  if (!source_.origin_.empty()) {
    origin_.insert(origin_.end(), source_.origin_.begin() + static_cast<ptrdiff_t>(begin),
                   source_.origin_.begin() + static_cast<ptrdiff_t>(end));
    return;
  }
  for (size_t i = begin; i < end; ++i) {
    const uint32_t at = source_.offset_ + static_cast<uint32_t>(i);
    origin_.push_back({at, at + 1});
  }
}

void TextRewriter::Replace(size_t begin, size_t end, absl::string_view text) {
  if (text.empty()) return;
  if (text_.empty()) at_start_ = source_.at_start_ && begin == 0;
  text_.append(text.data(), text.size());
  if (!source_.track_) return;
  const ByteRange range =
      source_.OriginalOf({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
  origin_.insert(origin_.end(), text.size(), range);
}

bool TextRewriter::DropSuffix(absl::string_view suffix) {
  if (!absl::EndsWith(text_, suffix)) return false;
  text_.resize(text_.size() - suffix.size());
  if (source_.track_) origin_.resize(text_.size());
  return true;
}

MappedText TextRewriter::Finish() {
  MappedText result(std::move(text_), source_.track_, at_start_);
  result.offset_ = source_.offset_;
  result.origin_ = std::move(origin_);
  return result;
}

}  // namespace lorica
