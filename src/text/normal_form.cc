// Unicode normal forms (Unicode Standard Annex 15, https://unicode.org/reports/tr15/).
#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lorica/text/normalizer.h"
#include "lorica/text/unicode_additions.h"
#include "lorica/text/utf8.h"

namespace lorica {
namespace {

struct Range {
  uint32_t first;
  uint32_t last;
};

// Characters with a combining class or a decomposition that came with Unicode 10 to 14. Hugging
// Face's tokenizers normalize as Unicode 9 does, so to them these are strangers that neither move
// nor change; Unicode 15 and 16 are in unicode_additions.h. (Found by comparing with their output
// for each code point.)
constexpr Range kStrangers[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},
    {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x10781, 0x10785}, {0x10787, 0x107B0},
    {0x107B2, 0x107BA}, {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E},
    {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11935, 0x11935}, {0x11938, 0x11938},
    {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34},
    {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45},
    {0x11D97, 0x11D97}, {0x16FF0, 0x16FF1}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
};

bool IsStranger(uint32_t c) {
  const Range* end = std::end(kStrangers);
  const Range* row = std::partition_point(std::begin(kStrangers), end,
                                          [c](const Range& range) { return range.last < c; });
  if (row != end && row->first <= c) return true;
  const absl::Span<const UnicodeAddition> additions = UnicodeAdditions();
  const auto addition = std::partition_point(additions.begin(), additions.end(),
                                             [c](const UnicodeAddition& a) { return a.last < c; });
  return addition != additions.end() && addition->first <= c;
}

// Ranges, the most frequent ones, in which no character combines with one before it or changes
// places with it.
bool StandsAlone(uint32_t c) {
  return c < 0x300 || (c >= 0x370 && c < 0x483) || (c >= 0x3041 && c <= 0x3096) ||
         (c >= 0x30A1 && c <= 0x30FA) || (c >= 0x4E00 && c <= 0x9FFF) ||
         (c >= 0xAC00 && c <= 0xD7A3);
}

// Whether normalization may start anew at `c`. It may say no too often, which makes segments
// longer.
bool StartsSegment(uint32_t c) { return StandsAlone(c) || IsStranger(c); }

int CombiningClass(int32_t c) { return utf8proc_get_property(c)->combining_class; }

class UnicodeNormalizer : public Normalizer {
 public:
  explicit UnicodeNormalizer(NormalForm form)
      : compose_(form == NormalForm::kNfc || form == NormalForm::kNfkc),
        options_(static_cast<utf8proc_option_t>(
            UTF8PROC_DECOMPOSE |
            (form == NormalForm::kNfkc || form == NormalForm::kNfkd ? UTF8PROC_COMPAT : 0))) {}

  absl::Status Apply(MappedText* text, Regex::Scratch*) const override {
    const absl::string_view source = text->text();
    TextRewriter out(*text);
    std::vector<utf8proc_int32_t> points;
    std::string normalized;
    size_t kept = 0;
    for (size_t begin = 0; begin < source.size();) {
      size_t end = begin + Utf8Length(source[begin]);
      const bool ascii = end == begin + 1;
      while (end < source.size() && !StartsSegment(DecodeUtf8(source, end))) {
        end += Utf8Length(source[end]);
      }
      if (ascii && end == begin + 1) {  // ASCII alone never changes
        begin = end;
        continue;
      }
      const absl::string_view segment = source.substr(begin, end - begin);
      Normalize(segment, &points, &normalized);
      if (normalized != segment) {
        out.Keep(kept, begin);
        out.Replace(begin, end, normalized);
        kept = end;
      }
      begin = end;
    }
    if (kept == 0) return absl::OkStatus();
    out.Keep(kept, source.size());
    *text = out.Finish();
    return absl::OkStatus();
  }

 private:
  void Normalize(absl::string_view segment, std::vector<utf8proc_int32_t>* points,
                 std::string* normalized) const {
    points->clear();
    normalized->clear();
    size_t begin = 0;
    if (const uint32_t first = DecodeUtf8(segment, 0); !StandsAlone(first) && IsStranger(first)) {
      AppendUtf8(first, normalized);
      begin = normalized->size();
    }
    for (size_t i = begin; i < segment.size(); i += Utf8Length(segment[i])) {
      const auto c = static_cast<utf8proc_int32_t>(DecodeUtf8(segment, i));
      constexpr size_t kLongestDecomposition = 18;  // U+FDFA
      const size_t before = points->size();
      points->resize(before + kLongestDecomposition);
      int last_class = 0;
      const utf8proc_ssize_t count = utf8proc_decompose_char(
          c, points->data() + before, kLongestDecomposition, options_, &last_class);
      if (count < 0 || count > static_cast<utf8proc_ssize_t>(kLongestDecomposition)) {
        points->resize(before);
        points->push_back(c);
      } else {
        points->resize(before + static_cast<size_t>(count));
      }
    }
    // Canonical order. utf8proc would swap neighbours, which is quadratic on a long run of marks.
    for (auto run = points->begin(); run != points->end();) {
      if (CombiningClass(*run) == 0) {
        ++run;
        continue;
      }
      const auto run_end =
          std::find_if(run, points->end(), [](int32_t c) { return CombiningClass(c) == 0; });
      std::stable_sort(run, run_end,
                       [](int32_t a, int32_t b) { return CombiningClass(a) < CombiningClass(b); });
      run = run_end;
    }
    if (compose_) {
      const utf8proc_ssize_t count = utf8proc_normalize_utf32(
          points->data(), static_cast<utf8proc_ssize_t>(points->size()),
          static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
      points->resize(static_cast<size_t>(count));
    }
    for (const utf8proc_int32_t c : *points) AppendUtf8(static_cast<uint32_t>(c), normalized);
  }

  bool compose_;
  utf8proc_option_t options_;
};

}  // namespace

std::unique_ptr<Normalizer> MakeUnicodeNormalizer(NormalForm form) {
  return std::make_unique<UnicodeNormalizer>(form);
}

}  // namespace lorica
