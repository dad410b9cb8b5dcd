// Unicode normal forms (Unicode Standard Annex 15, https://unicode.org/reports/tr15/).
#include <utf8proc.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lorica/text/normalizer.h"
#include "lorica/text/utf8.h"

namespace lorica {
namespace {

// Whether nothing before `c` can combine with it or change places with it, so that normalization may start anew there. It
// may say no too often, which makes segments longer.
bool StartsSegment(uint32_t c) {
  return c < 0x300 || (c >= 0x370 && c < 0x483) || (c >= 0x3041 && c <= 0x3096) ||
         (c >= 0x30A1 && c <= 0x30FA) || (c >= 0x4E00 && c <= 0x9FFF) ||
         (c >= 0xAC00 && c <= 0xD7A3);
}

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
    for (size_t i = 0; i < segment.size(); i += Utf8Length(segment[i])) {
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
      std::stable_sort(run, run_end, [](int32_t a, int32_t b) {
        return CombiningClass(a) < CombiningClass(b);
      });
      run = run_end;
    }
    if (compose_) {
      const utf8proc_ssize_t count = utf8proc_normalize_utf32(
          points->data(), static_cast<utf8proc_ssize_t>(points->size()),
          static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
      points->resize(static_cast<size_t>(count));
    }
    normalized->clear();
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
