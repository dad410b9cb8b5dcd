#include "lorica/autograd/weight.h"

#include <algorithm>

namespace lorica {

AdapterSpans::AdapterSpans(std::vector<AdapterSpan> spans, int64_t rows)
    : spans_(std::move(spans)) {
  int64_t next = 0;
  for (const AdapterSpan& span : spans_) {
    LORICA_CHECK(span.begin == next && span.end >= span.begin && span.slot >= -1,
                 "[adapter_spans] slot ", span.slot, " covers rows [", span.begin, ", ", span.end,
                 "), expected a span that begins at ", next);
    next = span.end;
  }
  LORICA_CHECK(next == rows, "[adapter_spans] spans end at row ", next, " of ", rows);
}

AdapterSpans AdapterSpans::Single(int slot, int64_t rows) {
  return AdapterSpans({{slot, 0, rows}}, rows);
}

AdapterSpans AdapterSpans::Narrow(int64_t begin, int64_t end) const {
  LORICA_CHECK(begin >= 0 && begin <= end && end <= rows(), "[adapter_spans] rows [", begin, ", ",
               end, ") of ", rows());
  std::vector<AdapterSpan> kept;
  for (const AdapterSpan& span : spans_) {
    const int64_t from = std::max(span.begin, begin), to = std::min(span.end, end);
    if (from < to) kept.push_back({span.slot, from - begin, to - begin});
  }
  return AdapterSpans(std::move(kept), end - begin);
}

AdapterSpans AdapterSpans::Permute(absl::Span<const int32_t> order) const {
  std::vector<AdapterSpan> result;
  for (int64_t row = 0; row < static_cast<int64_t>(order.size()); ++row) {
    const int64_t old = order[row];
    // The first span that ends behind the old row holds it.
    const auto it =
        std::upper_bound(spans_.begin(), spans_.end(), old,
                         [](int64_t r, const AdapterSpan& span) { return r < span.end; });
    LORICA_CHECK(old >= 0 && it != spans_.end(), "[adapter_spans] row ", old, " of ", rows());
    if (!result.empty() && result.back().slot == it->slot) {
      result.back().end = row + 1;
    } else {
      result.push_back({it->slot, row, row + 1});
    }
  }
  return AdapterSpans(std::move(result), static_cast<int64_t>(order.size()));
}

}  // namespace lorica
