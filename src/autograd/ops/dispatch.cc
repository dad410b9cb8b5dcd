#include "lorica/autograd/dispatch.h"

#include <algorithm>
#include <limits>

#include "lorica/tensor/check.h"

namespace lorica {

DispatchPlan MakeDispatchPlan(absl::Span<const int32_t> choices, int64_t tokens, int64_t top_k,
                              int64_t experts, absl::Span<const uint8_t> valid,
                              int64_t first_expert) {
  LORICA_CHECK(tokens >= 0 && top_k >= 1 && experts >= 0 && first_expert >= 0 &&
                   static_cast<int64_t>(choices.size()) == tokens * top_k &&
                   tokens * top_k < std::numeric_limits<int32_t>::max(),
               "[dispatch] ", choices.size(), " choices for ", tokens, " tokens with ", top_k,
               " each");
  LORICA_CHECK(valid.empty() || static_cast<int64_t>(valid.size()) == tokens, "[dispatch] ",
               valid.size(), " marks for ", tokens, " tokens");
  DispatchPlan plan;
  plan.tokens = tokens;
  plan.top_k = top_k;
  plan.first_expert = first_expert;
  const size_t count = choices.size(), groups = static_cast<size_t>(experts);
  // The group of a choice, or -1.
  const auto group_of = [&](size_t i) -> int64_t {
    if (!valid.empty() && valid[i / static_cast<size_t>(top_k)] == 0) return -1;
    const int64_t group = int64_t{choices[i]} - first_expert;
    return group >= 0 && group < experts ? group : -1;
  };
  std::vector<int32_t>& offsets = plan.offsets.offsets;
  offsets.assign(groups + 1, 0);
  for (size_t i = 0; i < count; ++i) {
    if (const int64_t g = group_of(i); g >= 0) ++offsets[static_cast<size_t>(g) + 1];
  }
  for (size_t g = 0; g < groups; ++g) offsets[g + 1] += offsets[g];
  std::vector<int32_t> next(offsets.begin(), offsets.end() - 1);
  plan.token_of_row.resize(static_cast<size_t>(plan.rows()));
  plan.choice_of_row.resize(plan.token_of_row.size());
  plan.rows_in_slots.assign(count, -1);
  for (size_t i = 0; i < count; ++i) {
    const int64_t g = group_of(i);
    if (g < 0) continue;
    const int32_t row = next[static_cast<size_t>(g)]++;
    plan.token_of_row[static_cast<size_t>(row)] =
        static_cast<int32_t>(i) / static_cast<int32_t>(top_k);
    plan.choice_of_row[static_cast<size_t>(row)] = static_cast<int32_t>(i);
    plan.rows_in_slots[i] = row;
  }
  // Rows ascend with the expert; -1 goes last.
  plan.rows_by_expert = plan.rows_in_slots;
  for (int64_t t = 0; t < tokens; ++t) {
    auto begin = plan.rows_by_expert.begin() + t * top_k;
    std::sort(begin, begin + top_k, [](int32_t a, int32_t b) {
      return static_cast<uint32_t>(a) < static_cast<uint32_t>(b);
    });
  }
  return plan;
}

}  // namespace lorica
