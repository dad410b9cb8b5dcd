// Attention forward: tasks and threads.
#include "lorica/tensor/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/tensor/cpu/attention.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "hwy/highway.h"
#include "lorica/tensor/cpu/attention-inl.h"

#if HWY_ONCE
#include <vector>

#include "lorica/tensor/cpu/cpu_backend_impl.h"

namespace lorica::cpu {
HWY_EXPORT(RunAttentionTask);
HWY_EXPORT(AttentionScratchBytes);

void CpuBackend::Attention(const AttentionArgs& args) {
  // Rows per task: enough that packing a block of keys is a hundredth of its use, few enough that
  // queries and outputs (100 KB each for 64 channels) stay in the second-level cache and that there
  // are tasks to share out.
  constexpr int64_t kRowsPerTask = 384;
  const int64_t kv_heads = args.k.shape[1];
  if (kv_heads == 0) return;
  const int64_t group = args.q.shape[1] / kv_heads;
  std::vector<AttentionTask> tasks;
  int64_t most_rows = 0;
  for (size_t s = 0; s < args.spans.size(); ++s) {
    const int64_t rows = args.spans[s].q_length * group;
    most_rows = std::max(most_rows, std::min(rows, kRowsPerTask));
    for (int64_t kv_head = 0; kv_head < kv_heads; ++kv_head) {
      for (int64_t r = 0; r < rows; r += kRowsPerTask) {
        tasks.push_back({static_cast<int64_t>(s), kv_head, r, std::min(r + kRowsPerTask, rows)});
      }
    }
  }
  const size_t bytes = HWY_DYNAMIC_DISPATCH(AttentionScratchBytes)(
      args.q.dtype, most_rows, args.q.shape[2], args.v.shape[2]);
  ParallelRanges(static_cast<int64_t>(tasks.size()), 1, args.q.dtype == DType::kF64,
                 [&](int64_t begin, int64_t, int thread) {
                   void* scratch = thread_scratch_[static_cast<size_t>(thread)]->Reserve(bytes);
                   HWY_DYNAMIC_DISPATCH(RunAttentionTask)
                   (args, tasks[static_cast<size_t>(begin)], scratch);
                 });
}

}  // namespace lorica::cpu
#endif  // HWY_ONCE
