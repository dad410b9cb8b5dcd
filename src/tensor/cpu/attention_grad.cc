// Attention backward: tasks and threads.
#include "lorica/tensor/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/tensor/cpu/attention_grad.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "hwy/highway.h"
#include "lorica/tensor/cpu/attention_grad-inl.h"

#if HWY_ONCE
#include <algorithm>
#include <vector>

#include "lorica/tensor/cpu/cpu_backend_impl.h"

namespace lorica::cpu {
HWY_EXPORT(RunAttentionGradTask);
HWY_EXPORT(AttentionGradScratchBytes);

namespace {

// One task per (sequence, key/value head) computes every score once: 5 products. Where that leaves
// threads idle (a long sequence, few heads), dq by blocks of rows and dk, dv by blocks of keys are
// tasks of their own, 7 products in all, with the same bits.
bool WholeHeadsBalance(const AttentionGradArgs& args, int64_t kv_heads, int threads) {
  double total = 0, most = 0;
  for (const AttentionSpan& span : args.spans) {
    const double work = static_cast<double>(span.q_length) * static_cast<double>(span.k_length);
    total += work * static_cast<double>(kv_heads);
    most = std::max(most, work);
  }
  // Whoever comes last begins no later than when all threads have done their share.
  const double share = total / threads;
  return share + most * (1.0 - 1.0 / threads) <= 1.4 * share;
}

}  // namespace

void CpuBackend::AttentionGrad(const AttentionGradArgs& args) {
  constexpr int64_t kRowsPerTask = 384;
  const int64_t kv_heads = args.k.shape[1];
  if (kv_heads == 0) return;
  const int64_t group = args.q.shape[1] / kv_heads;
  const bool whole = WholeHeadsBalance(args, kv_heads, pool_.threads());
  std::vector<AttentionGradTask> tasks;
  int64_t most_rows = 0;
  for (size_t s = 0; s < args.spans.size(); ++s) {
    const AttentionSpan& span = args.spans[s];
    const int64_t rows = span.q_length * group;
    most_rows = std::max(most_rows, rows);
    for (int64_t head = 0; head < kv_heads; ++head) {
      const int64_t index = static_cast<int64_t>(s);
      if (whole) {
        tasks.push_back({index, head, 0, rows, 0, span.k_length, true, true});
        continue;
      }
      for (int64_t r = 0; r < rows; r += kRowsPerTask) {
        const int64_t end = std::min(r + kRowsPerTask, rows);
        tasks.push_back({index, head, r, end, 0, span.k_length, true, false});
      }
      for (int64_t k = 0; k < span.k_length; k += kKeyBlock) {
        const int64_t end = std::min(k + kKeyBlock, span.k_length);
        tasks.push_back({index, head, 0, rows, k, end, false, true});
      }
    }
  }
  const size_t bytes = HWY_DYNAMIC_DISPATCH(AttentionGradScratchBytes)(
      args.q.dtype, most_rows, args.q.shape[2], args.v.shape[2]);
  ParallelRanges(static_cast<int64_t>(tasks.size()), 1, args.q.dtype == DType::kF64,
                 [&](int64_t begin, int64_t, int thread) {
                   void* scratch = thread_scratch_[static_cast<size_t>(thread)]->Reserve(bytes);
                   HWY_DYNAMIC_DISPATCH(RunAttentionGradTask)
                   (args, tasks[static_cast<size_t>(begin)], scratch);
                 });
}

}  // namespace lorica::cpu
#endif  // HWY_ONCE
