#include "lorica/text/pretokenizer.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "lorica/tensor/status.h"
#include "lorica/text/byte_alphabet.h"
#include "lorica/text/utf8.h"

namespace lorica {
namespace {

constexpr char kGpt2Expression[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Cuts `piece` at `matches`, offsets relative to its beginning, and appends what remains to `*out`.
class Cutter {
 public:
  Cutter(SplitBehavior behavior, bool invert, std::vector<ByteRange>* out)
      : behavior_(behavior), invert_(invert), out_(out) {}

  void Cut(ByteRange piece, const std::vector<ByteRange>& matches) {
    parts_.clear();
    uint32_t end = 0;
    for (const ByteRange& match : matches) {
      if (match.begin > end) Part(piece, {end, match.begin}, false);
      Part(piece, match, true);
      end = match.end;
    }
    if (end < piece.size()) Part(piece, {end, piece.size()}, false);
    Merge();
    for (const ByteRange& part : parts_) {
      if (part.size() > 0) out_->push_back(part);
    }
  }

 private:
  void Part(ByteRange piece, ByteRange part, bool is_match) {
    is_match = is_match != invert_;
    if (is_match && behavior_ == SplitBehavior::kRemoved) return;
    parts_.push_back({piece.begin + part.begin, piece.begin + part.end});
    is_match_.resize(parts_.size());
    is_match_.back() = is_match;
  }

  void Merge() {
    if (behavior_ == SplitBehavior::kIsolated || behavior_ == SplitBehavior::kRemoved) return;
    const bool backwards = behavior_ == SplitBehavior::kMergedWithNext;
    if (backwards) Reverse();
    bool previous = false;
    size_t count = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const bool is_match = is_match_[i];
      const bool join =
          behavior_ == SplitBehavior::kContiguous ? is_match == previous : is_match && !previous;
      previous = is_match;
      if (join && count > 0) {
        ByteRange& last = parts_[count - 1];
        last = {std::min(last.begin, parts_[i].begin), std::max(last.end, parts_[i].end)};
      } else {
        parts_[count++] = parts_[i];
      }
    }
    parts_.resize(count);
    if (backwards) std::reverse(parts_.begin(), parts_.end());
  }

  void Reverse() {
    is_match_.resize(parts_.size());
    std::reverse(parts_.begin(), parts_.end());
    std::reverse(is_match_.begin(), is_match_.end());
  }

  SplitBehavior behavior_;
  bool invert_;
  std::vector<ByteRange>* out_;
  std::vector<ByteRange> parts_;
  std::vector<bool> is_match_;
};

class Split : public PreTokenizer {
 public:
  Split(TextPattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  absl::Status Apply(Pieces* pieces, Regex::Scratch* scratch) const override {
    std::vector<ByteRange> result, matches;
    result.reserve(pieces->ranges.size());
    Cutter cutter(behavior_, invert_, &result);
    for (const ByteRange& piece : pieces->ranges) {
      LORICA_RETURN_IF_ERROR(pattern_.FindAll(pieces->text.text().substr(piece.begin, piece.size()),
                                              scratch, &matches));
      if (matches.empty() && !invert_) {
        result.push_back(piece);
      } else {
        cutter.Cut(piece, matches);
      }
    }
    pieces->ranges = std::move(result);
    return absl::OkStatus();
  }

 private:
  TextPattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class CharacterSplit : public PreTokenizer {
 public:
  CharacterSplit(bool (*matches)(uint32_t), SplitBehavior behavior)
      : matches_(matches), behavior_(behavior) {}

  absl::Status Apply(Pieces* pieces, Regex::Scratch*) const override {
    const absl::string_view text = pieces->text.text();
    std::vector<ByteRange> result, matches;
    result.reserve(pieces->ranges.size());
    Cutter cutter(behavior_, false, &result);
    for (const ByteRange& piece : pieces->ranges) {
      matches.clear();
      for (uint32_t i = piece.begin; i < piece.end;) {
        const auto end = i + static_cast<uint32_t>(Utf8Length(text[i]));
        if (matches_(DecodeUtf8(text, i))) {
          matches.push_back({i - piece.begin, end - piece.begin});
        }
        i = end;
      }
      if (matches.empty()) {
        result.push_back(piece);
      } else {
        cutter.Cut(piece, matches);
      }
    }
    pieces->ranges = std::move(result);
    return absl::OkStatus();
  }

 private:
  bool (*matches_)(uint32_t);
  SplitBehavior behavior_;
};

class Whitespace : public PreTokenizer {
 public:
  absl::Status Apply(Pieces* pieces, Regex::Scratch*) const override {
    const absl::string_view text = pieces->text.text();
    std::vector<ByteRange> result;
    for (const ByteRange& piece : pieces->ranges) {
      int open = kSpace;  // the kind of the character before
      for (uint32_t i = piece.begin; i < piece.end;) {
        const auto end = i + static_cast<uint32_t>(Utf8Length(text[i]));
        const uint32_t c = DecodeUtf8(text, i);
        const int kind = IsWordCharacter(c) ? kWord : IsWhiteSpace(c) ? kSpace : kOther;
        if (kind != kSpace && kind == open) {
          result.back().end = end;
        } else if (kind != kSpace) {
          result.push_back({i, end});
        }
        open = kind;
        i = end;
      }
    }
    pieces->ranges = std::move(result);
    return absl::OkStatus();
  }

 private:
  enum Kind { kSpace, kWord, kOther };
};

// Copies the pieces one behind the other, `prefix` before those for which `wanted(index, piece)`
// holds.
template <typename Wanted>
void PrefixPieces(Pieces* pieces, absl::string_view prefix, const Wanted& wanted) {
  TextRewriter out(pieces->text);
  const absl::string_view text = pieces->text.text();
  bool changed = false;
  std::vector<ByteRange> result;
  result.reserve(pieces->ranges.size());
  for (const ByteRange& piece : pieces->ranges) {
    const auto begin = static_cast<uint32_t>(out.size());
    if (wanted(piece, text.substr(piece.begin, piece.size()))) {
      out.Replace(piece.begin, piece.begin, prefix);
      changed = true;
    }
    out.Keep(piece.begin, piece.end);
    result.push_back({begin, static_cast<uint32_t>(out.size())});
  }
  if (!changed) return;
  pieces->text = out.Finish();
  pieces->ranges = std::move(result);
}

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, std::unique_ptr<PreTokenizer> split)
      : add_prefix_space_(add_prefix_space), split_(std::move(split)) {}

  absl::Status Apply(Pieces* pieces, Regex::Scratch* scratch) const override {
    if (add_prefix_space_) {
      PrefixPieces(pieces, " ",
                   [](ByteRange, absl::string_view piece) { return piece.front() != ' '; });
    }
    if (split_ != nullptr) LORICA_RETURN_IF_ERROR(split_->Apply(pieces, scratch));
    SpellInAlphabet(&pieces->text, &pieces->ranges);
    return absl::OkStatus();
  }

 private:
  bool add_prefix_space_;
  std::unique_ptr<PreTokenizer> split_;  // null: none
};

class Metaspace : public PreTokenizer {
 public:
  Metaspace(absl::string_view replacement, PrependScheme scheme, bool split)
      : replacement_(replacement), scheme_(scheme), split_(split) {}

  absl::Status Apply(Pieces* pieces, Regex::Scratch*) const override {
    ReplaceSpaces(pieces);
    if (scheme_ != PrependScheme::kNever) {
      const bool at_start = pieces->text.at_start();
      PrefixPieces(pieces, replacement_, [&](ByteRange range, absl::string_view piece) {
        return (scheme_ == PrependScheme::kAlways || (at_start && range.begin == 0)) &&
               !absl::StartsWith(piece, replacement_);
      });
    }
    if (split_) CutBeforeMarks(pieces);
    return absl::OkStatus();
  }

 private:
  void ReplaceSpaces(Pieces* pieces) const {
    const absl::string_view text = pieces->text.text();
    TextRewriter out(pieces->text);
    for (ByteRange& piece : pieces->ranges) {
      const auto begin = static_cast<uint32_t>(out.size());
      uint32_t kept = piece.begin;
      for (uint32_t i = piece.begin; i < piece.end; ++i) {
        if (text[i] != ' ') continue;
        out.Keep(kept, i);
        out.Replace(i, i + 1, replacement_);
        kept = i + 1;
      }
      out.Keep(kept, piece.end);
      piece = {begin, static_cast<uint32_t>(out.size())};
    }
    pieces->text = out.Finish();
  }

  void CutBeforeMarks(Pieces* pieces) const {
    const absl::string_view text = pieces->text.text();
    std::vector<ByteRange> result;
    for (const ByteRange& piece : pieces->ranges) {
      uint32_t begin = piece.begin;
      while (true) {
        const size_t mark = text.substr(0, piece.end).find(replacement_, begin + 1);
        if (mark == absl::string_view::npos) break;
        result.push_back({begin, static_cast<uint32_t>(mark)});
        begin = static_cast<uint32_t>(mark);
      }
      result.push_back({begin, piece.end});
    }
    pieces->ranges = std::move(result);
  }

  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

}  // namespace

std::unique_ptr<PreTokenizer> MakeSplit(TextPattern pattern, SplitBehavior behavior, bool invert) {
  return std::make_unique<Split>(std::move(pattern), behavior, invert);
}

std::unique_ptr<PreTokenizer> MakeCharacterSplit(bool (*matches)(uint32_t),
                                                 SplitBehavior behavior) {
  return std::make_unique<CharacterSplit>(matches, behavior);
}

std::unique_ptr<PreTokenizer> MakeDigits(bool individual) {
  return MakeCharacterSplit(IsNumeric,
                            individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
}

std::unique_ptr<PreTokenizer> MakeWhitespace() { return std::make_unique<Whitespace>(); }

absl::StatusOr<std::unique_ptr<PreTokenizer>> MakeByteLevel(bool add_prefix_space, bool use_regex) {
  std::unique_ptr<PreTokenizer> split;
  if (use_regex) {
    LORICA_ASSIGN_OR_RETURN(TextPattern pattern, TextPattern::Expression(kGpt2Expression));
    split = MakeSplit(std::move(pattern), SplitBehavior::kIsolated, false);
  }
  return std::make_unique<ByteLevel>(add_prefix_space, std::move(split));
}

std::unique_ptr<PreTokenizer> MakeMetaspace(absl::string_view replacement, PrependScheme scheme,
                                            bool split) {
  return std::make_unique<Metaspace>(replacement, scheme, split);
}

}  // namespace lorica
