// The choice of sparse attention: tasks, threads, and the greatest scores of a query.
#include "lorica/tensor/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/tensor/cpu/choose_keys.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "hwy/highway.h"
#include "lorica/tensor/cpu/choose_keys-inl.h"

#if HWY_ONCE
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "lorica/tensor/cpu/cpu_backend_impl.h"

namespace lorica::cpu {
HWY_EXPORT(ScoreKeys);
HWY_EXPORT(PlanKeyScores);

namespace {

void SetBit(int64_t* words, int64_t key) {
  words[key / kKeyBlock] |= static_cast<int64_t>(uint64_t{1} << (key % kKeyBlock));
}

// Bits of the `top_k` greatest of `count` scores, more than those; `sorted` is scratch of that
// size.
template <typename A>
void ChooseGreatest(A* scores, int64_t count, int64_t top_k, A* sorted, int64_t* words) {
  for (int64_t i = 0; i < count; ++i) {
    if (std::isnan(scores[i])) scores[i] = std::numeric_limits<A>::infinity();
  }
  std::copy(scores, scores + count, sorted);
  std::nth_element(sorted, sorted + top_k - 1, sorted + count, std::greater<A>());
  const A least = sorted[top_k - 1];
  int64_t equal = top_k - std::count_if(scores, scores + count, [&](A s) { return s > least; });
  for (int64_t i = 0; i < count; ++i) {
    if (scores[i] > least || (scores[i] == least && equal-- > 0)) SetBit(words, i);
  }
}

template <typename A>
void RunChooseTask(const ChooseKeysArgs& args, const ChooseTask& task, int64_t stride,
                   void* memory) {
  const AttentionSpan& span = args.spans[static_cast<size_t>(task.span)];
  ScratchPlan plan(memory);
  A* scores = plan.Take<A>((task.end - task.begin) * stride);
  A* sorted = plan.Take<A>(stride);
  const int64_t before = span.k_length - span.q_length;  // keys before the span's first query
  if (before + task.end > args.top_k) {
    HWY_DYNAMIC_DISPATCH(ScoreKeys)(args, task, scores, stride, plan);
  }
  for (int64_t i = task.begin; i < task.end; ++i) {
    int64_t* words = args.chosen.as<int64_t>() + (span.q_begin + i) * args.chosen.strides[0];
    std::fill_n(words, args.chosen.shape[1], 0);
    const int64_t seen = before + i + 1;
    if (seen > args.top_k) {
      ChooseGreatest(scores + (i - task.begin) * stride, seen, args.top_k, sorted, words);
    } else {
      for (int64_t key = 0; key < seen; ++key) SetBit(words, key);
    }
  }
}

}  // namespace

void CpuBackend::ChooseKeys(const ChooseKeysArgs& args) {
  // Rows (heads of queries) per task, as in attention: packing a block of keys is a hundredth of
  // its use, and packed queries stay in the second-level cache.
  constexpr int64_t kRowsPerTask = 384;
  const int64_t heads = args.q.shape[1];
  const int64_t most = std::max<int64_t>(1, kRowsPerTask / std::max<int64_t>(heads, 1));
  std::vector<ChooseTask> tasks;
  int64_t longest = 0, queries = 0;
  for (size_t s = 0; s < args.spans.size(); ++s) {
    const AttentionSpan& span = args.spans[s];
    longest = std::max(longest, span.k_length);
    queries = std::max(queries, std::min(most, span.q_length));
    for (int64_t i = 0; i < span.q_length; i += most) {
      tasks.push_back({static_cast<int64_t>(s), i, std::min(i + most, span.q_length)});
    }
  }
  const int64_t stride = (longest + kKeyBlock - 1) / kKeyBlock * kKeyBlock;
  const bool exact = args.q.dtype == DType::kF64;
  ScratchPlan plan(nullptr);
  for (const int64_t count : {queries * stride, stride}) {
    exact ? static_cast<void>(plan.Take<double>(count))
          : static_cast<void>(plan.Take<float>(count));
  }
  HWY_DYNAMIC_DISPATCH(PlanKeyScores)(args.q.dtype, queries * heads, args.q.shape[2], plan);
  ParallelRanges(
      static_cast<int64_t>(tasks.size()), 1, exact, [&](int64_t begin, int64_t, int thread) {
        const ChooseTask& task = tasks[static_cast<size_t>(begin)];
        void* memory = thread_scratch_[static_cast<size_t>(thread)]->Reserve(plan.bytes());
        if (exact) {
          RunChooseTask<double>(args, task, stride, memory);
        } else {
          RunChooseTask<float>(args, task, stride, memory);
        }
      });
}

}  // namespace lorica::cpu
#endif  // HWY_ONCE
