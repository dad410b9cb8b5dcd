#include "lorica/io/quoted.h"

#include <algorithm>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace lorica {
namespace {

constexpr size_t kLongestQuote = 120;

// Number of insertions, removals and replacements that turn `a` into `b`.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string Quoted(absl::string_view text) {
  const bool cut = text.size() > kLongestQuote;
  // Escaping all bytes beyond ASCII would make names in other scripts unreadable, so valid UTF-8
  // stays; a sequence that the cut splits is dropped.
  size_t length = cut ? kLongestQuote : text.size();
  while (cut && length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  const absl::string_view shown = text.substr(0, length);
  // Single quotes need no escape between double ones.
  const std::string escaped = absl::StrReplaceAll(
      IsUtf8(shown) ? absl::Utf8SafeCEscape(shown) : absl::CHexEscape(shown), {{"\\'", "'"}});
  return absl::StrCat("\"", escaped, cut ? "...\"" : "\"");
}

// The table of well-formed byte sequences of the Unicode standard (3.9, table 3-7).
bool IsUtf8(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const unsigned char lead = byte(i++);
    if (lead < 0x80) continue;
    if (lead < 0xC2 || lead > 0xF4) return false;
    const size_t tail = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    if (tail > text.size() - i) return false;
    const unsigned char least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(i) < least || byte(i) > most) return false;
    for (size_t k = 1; k < tail; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
    }
    i += tail;
  }
  return true;
}

std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

std::string NearestName(absl::string_view name, absl::Span<const std::string> candidates) {
  constexpr size_t kLongest = 256;  // the distance costs a product of lengths
  constexpr size_t kMost = 4096;
  if (name.size() > kLongest) return "";
  std::string best;
  size_t best_distance = name.size() / 4 + 2;
  for (const std::string& candidate : candidates.subspan(0, std::min(kMost, candidates.size()))) {
    if (candidate.size() > name.size() + best_distance ||
        name.size() > candidate.size() + best_distance) {
      continue;
    }
    const size_t distance = EditDistance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace lorica
