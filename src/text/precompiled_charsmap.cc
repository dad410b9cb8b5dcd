#include "lorica/text/precompiled_charsmap.h"

#include <utf8proc.h>

#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/tensor/status.h"
#include "lorica/text/normalizer.h"
#include "lorica/text/utf8.h"

namespace lorica {
namespace {

// Fields of a unit of the double array.
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t ValueOf(uint32_t unit) { return unit & 0x7FFFFFFFu; }
uint32_t LabelOf(uint32_t unit) { return unit & 0x800000FFu; }
uint32_t OffsetOf(uint32_t unit) { return unit >> 10 << ((unit & 0x200u) >> 6); }

class Precompiled : public Normalizer {
 public:
  Precompiled(PrecompiledCharsmap rules, bool by_grapheme)
      : rules_(std::move(rules)), by_grapheme_(by_grapheme) {}

  absl::Status Apply(MappedText* text, Regex::Scratch*) const override {
    const absl::string_view source = text->text();
    TextRewriter out(*text);
    size_t kept = 0;
    const auto replace = [&](size_t begin, size_t end, absl::string_view replacement) {
      out.Keep(kept, begin);
      out.Replace(begin, end, replacement);
      kept = end;
    };
    for (size_t begin = 0; begin < source.size();) {
      if (!by_grapheme_) {
        const auto rule = rules_.Longest(source.substr(begin));
        if (rule.size > 0) replace(begin, begin + rule.size, rule.replacement);
        begin += rule.size > 0 ? rule.size : Utf8Length(source[begin]);
        continue;
      }
      // Hugging Face looks up short graphemes whole, then the characters of all; the first rule
      // found, the one of the shortest prefix, replaces what was looked up.
      constexpr size_t kLongGrapheme = 6;
      const size_t end = GraphemeEnd(source, begin);
      if (end - begin < kLongGrapheme) {
        const auto rule = rules_.Shortest(source.substr(begin, end - begin));
        if (rule.size > 0) {
          replace(begin, end, rule.replacement);
          begin = end;
          continue;
        }
      }
      while (begin < end) {
        const size_t length = Utf8Length(source[begin]);
        const auto rule = rules_.Shortest(source.substr(begin, length));
        if (rule.size > 0) replace(begin, begin + length, rule.replacement);
        begin += length;
      }
    }
    if (kept == 0) return absl::OkStatus();
    out.Keep(kept, source.size());
    *text = out.Finish();
    return absl::OkStatus();
  }

 private:
  static size_t GraphemeEnd(absl::string_view text, size_t begin) {
    utf8proc_int32_t state = 0;
    auto last = static_cast<utf8proc_int32_t>(DecodeUtf8(text, begin));
    size_t end = begin + Utf8Length(text[begin]);
    while (end < text.size()) {
      const auto next = static_cast<utf8proc_int32_t>(DecodeUtf8(text, end));
      if (utf8proc_grapheme_break_stateful(last, next, &state)) break;
      last = next;
      end += Utf8Length(text[end]);
    }
    return end;
  }

  PrecompiledCharsmap rules_;
  bool by_grapheme_;
};

}  // namespace

absl::StatusOr<PrecompiledCharsmap> PrecompiledCharsmap::Parse(absl::string_view bytes) {
  uint32_t trie_bytes = 0;
  if (bytes.size() >= sizeof(trie_bytes)) {
    std::memcpy(&trie_bytes, bytes.data(), sizeof(trie_bytes));
  }
  const size_t rest = bytes.size() < sizeof(trie_bytes) ? 0 : bytes.size() - sizeof(trie_bytes);
  if (trie_bytes == 0 || trie_bytes % sizeof(uint32_t) != 0 || trie_bytes > rest) {
    return absl::InvalidArgumentError(absl::StrCat("a precompiled_charsmap of ", bytes.size(),
                                                   " bytes names a trie of ", trie_bytes));
  }
  PrecompiledCharsmap result;
  result.units_.resize(trie_bytes / sizeof(uint32_t));
  std::memcpy(result.units_.data(), bytes.data() + sizeof(trie_bytes), trie_bytes);
  result.replacements_ = std::string(bytes.substr(sizeof(trie_bytes) + trie_bytes));
  if (FirstInvalidUtf8(result.replacements_) != result.replacements_.size()) {
    return absl::InvalidArgumentError("the replacements of a precompiled_charsmap aren't UTF-8");
  }
  return result;
}

PrecompiledCharsmap::Rule PrecompiledCharsmap::Search(absl::string_view text, bool shortest) const {
  Rule rule;
  uint32_t node = OffsetOf(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const uint32_t byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) break;
    node ^= byte;
    if (node >= units_.size() || LabelOf(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= OffsetOf(unit);
    if (!HasLeaf(unit)) continue;
    // Only rules for whole characters that name a whole replacement count.
    const uint32_t value = node < units_.size() ? ValueOf(units_[node]) : UINT32_MAX;
    const bool whole =
        i + 1 == text.size() || (static_cast<unsigned char>(text[i + 1]) & 0xC0) != 0x80;
    if (value >= replacements_.size() || !whole ||
        (static_cast<unsigned char>(replacements_[value]) & 0xC0) == 0x80) {
      continue;
    }
    rule.size = i + 1;
    rule.replacement = absl::string_view(replacements_).substr(value);
    rule.replacement = rule.replacement.substr(0, rule.replacement.find('\0'));
    if (shortest) break;
  }
  return rule;
}

absl::StatusOr<std::unique_ptr<Normalizer>> MakePrecompiled(std::string charsmap,
                                                            bool by_grapheme) {
  LORICA_ASSIGN_OR_RETURN(PrecompiledCharsmap rules, PrecompiledCharsmap::Parse(charsmap));
  return std::make_unique<Precompiled>(std::move(rules), by_grapheme);
}

}  // namespace lorica
