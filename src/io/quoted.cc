#include "lorica/io/quoted.h"

#include <algorithm>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

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
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text.substr(0, length)), cut ? "...\"" : "\"");
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
