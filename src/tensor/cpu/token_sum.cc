// Sums over tokens: which operand is broadcast, and how the outputs are spread over the threads.
#include <algorithm>

#include "lorica/tensor/cpu/cpu_backend_impl.h"
#include "lorica/tensor/cpu/token_sum_kernel.h"

namespace lorica::cpu {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Panels of the wide operand per task: a block of its tokens (12 x 48 columns of f32: 590 KB) stays
// in the second-level cache while the narrow one streams by, so that both are read once per task.
constexpr int64_t kTaskPanels = 12;

TokenOperand Columns(const TensorView& view, int64_t begin, int64_t count) {
  const char* data =
      static_cast<const char*>(view.data) + begin * static_cast<int64_t>(SizeOf(view.dtype));
  return {data, view.dtype, view.strides[0], count};
}

template <typename T>
void RunTokenSum(ThreadPool& pool, const std::vector<std::unique_ptr<Workspace>>& scratch,
                 const TokenSumDesc& desc, const Sequences& sequences, const TokenSumArgs& args) {
  const TokenSumKernels<T>& kernels = TokenSumKernelsFor<T>();
  // Vectors run along the longer side.
  const bool transposed = desc.m > desc.n;
  const TensorView& narrow = transposed ? args.x : args.dy;
  const TensorView& wide = transposed ? args.dy : args.x;
  const int64_t narrow_columns = transposed ? desc.n : desc.m;
  const int64_t wide_columns = transposed ? desc.m : desc.n;

  // Two tasks a thread where the outputs are many enough: first fewer panels, then strips apart.
  const int64_t wanted = pool.threads() == 1 ? 1 : 2 * pool.threads();
  const int64_t panels = CeilDiv(wide_columns, kernels.wide_unit);
  const int64_t strips = CeilDiv(narrow_columns, kernels.narrow_unit);
  const int64_t group = std::clamp<int64_t>(panels / wanted, 1, kTaskPanels);
  const int64_t groups = CeilDiv(panels, group);
  const int64_t strip_groups = std::clamp<int64_t>(CeilDiv(wanted, groups), 1, strips);
  const int64_t strip_group = CeilDiv(strips, strip_groups);
  const int64_t task_wide = group * kernels.wide_unit;
  const int64_t task_narrow = strip_group * kernels.narrow_unit;
  const int64_t narrow_tasks = CeilDiv(narrow_columns, task_narrow);

  const size_t bytes = static_cast<size_t>(kernels.ScratchSize(task_wide)) * sizeof(T);
  for (const auto& workspace : scratch) workspace->Reserve(bytes);
  pool.Run(
      groups * narrow_tasks,
      [&](int64_t task, int thread) {
        const int64_t i = task % narrow_tasks * task_narrow;
        const int64_t j = task / narrow_tasks * task_wide;
        TokenSumBlock<T> block;
        block.narrow = Columns(narrow, i, std::min(task_narrow, narrow_columns - i));
        block.wide = Columns(wide, j, std::min(task_wide, wide_columns - j));
        block.sequences = &sequences;
        block.alpha = static_cast<T>(desc.alpha);
        block.acc_stride = desc.n;
        block.transposed = transposed;
        block.acc = static_cast<T*>(args.acc.data) +
                    (transposed ? j * block.acc_stride + i : i * block.acc_stride + j);
        block.scratch = static_cast<T*>(scratch[static_cast<size_t>(thread)]->Reserve(bytes));
        kernels.accumulate(block);
      },
      std::is_same_v<T, float>);
}

}  // namespace

void CpuBackend::TokenSum(const TokenSumDesc& desc, const Sequences& sequences,
                          const TokenSumArgs& args) {
  if (desc.m == 0 || desc.n == 0 || desc.tokens == 0) return;
  if (args.acc.dtype == DType::kF64) {
    RunTokenSum<double>(pool_, thread_scratch_, desc, sequences, args);
  } else {
    RunTokenSum<float>(pool_, thread_scratch_, desc, sequences, args);
  }
}

}  // namespace lorica::cpu
