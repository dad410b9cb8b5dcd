#include "lorica/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/text/utf8.h"
#include "lorica/text/vocabulary.h"

namespace lorica {
namespace {

// Where the white space that ends at `end` begins.
uint32_t SpaceBefore(absl::string_view text, uint32_t end) {
  while (end > 0) {
    const size_t begin = PreviousUtf8(text, end);
    if (!IsWhiteSpace(DecodeUtf8(text, begin))) break;
    end = static_cast<uint32_t>(begin);
  }
  return end;
}

// Where the white space that begins at `begin` ends.
uint32_t SpaceBehind(absl::string_view text, uint32_t begin) {
  while (begin < text.size() && IsWhiteSpace(DecodeUtf8(text, begin))) {
    begin += static_cast<uint32_t>(Utf8Length(text[begin]));
  }
  return begin;
}

bool StandsAlone(absl::string_view text, ByteRange range) {
  if (range.begin > 0 && IsWordCharacter(DecodeUtf8(text, PreviousUtf8(text, range.begin)))) {
    return false;
  }
  return range.end == text.size() || !IsWordCharacter(DecodeUtf8(text, range.end));
}

}  // namespace

absl::Status AddedTokens::Add(AddedToken token) {
  if (token.id < 0 || token.id > Vocabulary::kLargestId) {
    return absl::InvalidArgumentError(absl::StrCat("added token ", Quoted(token.content),
                                                   " has id ", token.id, ", which is outside 0 to ",
                                                   Vocabulary::kLargestId));
  }
  if (token.content.size() > kLongestContent) {
    return absl::InvalidArgumentError(absl::StrCat("an added token of ", token.content.size(),
                                                   " bytes is longer than ", kLongestContent));
  }
  if (FirstInvalidUtf8(token.content) != token.content.size()) {
    return absl::InvalidArgumentError(absl::StrCat("added token ", token.id, " isn't valid UTF-8"));
  }
  const auto same_id = by_id_.find(token.id);
  if (same_id != by_id_.end() && tokens_[same_id->second].content != token.content) {
    return absl::InvalidArgumentError(
        absl::StrCat("added tokens ", Quoted(tokens_[same_id->second].content), " and ",
                     Quoted(token.content), " both have id ", token.id));
  }
  const auto [same, is_new] = by_content_.emplace(token.content, tokens_.size());
  if (is_new) {
    by_id_.emplace(token.id, tokens_.size());
    tokens_.push_back(std::move(token));
    return absl::OkStatus();
  }
  AddedToken& old = tokens_[same->second];
  if (old.id != token.id) {
    return absl::InvalidArgumentError(absl::StrCat("added token ", Quoted(token.content),
                                                   " has two ids, ", old.id, " and ", token.id));
  }
  old = std::move(token);
  return absl::OkStatus();
}

void AddedTokens::Cut(absl::string_view text, bool normalized, bool parse_special,
                      std::vector<Part>* parts) const {
  parts->clear();
  const StringFinder& finder = normalized ? normalized_ : plain_;
  const auto size = static_cast<uint32_t>(text.size());
  uint32_t end = 0;  // of what is cut already
  if (!finder.empty()) {
    for (uint32_t from = 0; from < size;) {
      const StringFinder::Match match = finder.Find(text, from);
      if (match.value < 0) break;
      from = match.end;
      const AddedToken& token = tokens_[match.value];
      ByteRange range = {match.begin, match.end};
      if (token.special && !parse_special) continue;
      if (token.single_word && !StandsAlone(text, range)) continue;
      if (token.lstrip) range.begin = std::max(SpaceBefore(text, range.begin), end);
      if (token.rstrip) range.end = SpaceBehind(text, range.end);
      if (range.begin == range.end) continue;  // white space that the last one has taken
      if (end < range.begin) parts->push_back({nullptr, {end, range.begin}});
      parts->push_back({&token, range});
      end = range.end;
    }
  }
  if (end < size) parts->push_back({nullptr, {end, size}});
}

const AddedToken* AddedTokens::Find(absl::string_view content) const {
  const auto it = by_content_.find(std::string(content));
  return it == by_content_.end() ? nullptr : &tokens_[it->second];
}

const AddedToken* AddedTokens::Find(int64_t id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &tokens_[it->second];
}

}  // namespace lorica
