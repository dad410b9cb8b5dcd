// The CPU backend's class. Each family is defined in the file of its name: elementwise.cc,
// reduce.cc, rows.cc (softmax, norm, SwiGLU), gather.cc, experts.cc, rope.cc, matmul.cc,
// token_sum.cc, attention.cc, choose_keys.cc, delta_rule.cc, cross_entropy.cc, adamw.cc. Those hold
// shapes, types and threads; the SIMD loops stand in *-inl.h files that foreach_target compiles
// once per instruction set.
#ifndef LORICA_TENSOR_CPU_CPU_BACKEND_IMPL_H_
#define LORICA_TENSOR_CPU_CPU_BACKEND_IMPL_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "lorica/tensor/backend.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/thread_pool.h"

namespace lorica::cpu {

// Grow-only scratch memory, one block per use, so that hot paths allocate nothing.
class Workspace {
 public:
  explicit Workspace(Allocator& allocator) : allocator_(allocator) {}
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // At least `bytes`, aligned to Allocator::kAlignment; the former contents may be lost.
  void* Reserve(size_t bytes);

 private:
  Allocator& allocator_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

class PackedCache;  // matmul.cc

class CpuBackend final : public Backend {
 public:
  CpuBackend(ThreadPool& pool, const CpuBackendOptions& options);
  ~CpuBackend() override;

  Device device() const override { return {}; }
  Allocator& allocator() override { return allocator_; }

  void Fill(MutableTensorView y, double value) override;
  void Copy(TensorView x, MutableTensorView y) override;
  void CopyFromHost(const void* values, MutableTensorView y) override;
  void CopyToHost(TensorView x, void* values) override;
  void Unary(UnaryOp op, TensorView x, MutableTensorView y) override;
  void UnaryGrad(UnaryOp op, TensorView x, TensorView dy, MutableTensorView dx) override;
  void Binary(BinaryOp op, TensorView a, TensorView b, MutableTensorView y) override;
  void Affine(TensorView x, double factor, double bias, MutableTensorView y) override;
  void Dropout(TensorView x, const DropoutMask& mask, MutableTensorView y) override;
  void ScaleRows(TensorView x, TensorView factor, MutableTensorView y) override;
  void SumTo(TensorView x, MutableTensorView y) override;
  double SumSquares(TensorView x) override;
  void ColumnSum(TensorView dy, const Sequences& sequences, double alpha,
                 MutableTensorView acc) override;
  void Softmax(TensorView x, bool log, MutableTensorView y) override;
  void SoftmaxGrad(TensorView y, TensorView dy, bool log, MutableTensorView dx) override;
  void RmsNorm(TensorView x, TensorView weight, double eps, MutableTensorView y,
               MutableTensorView rstd) override;
  void RmsNormGrad(TensorView x, TensorView weight, TensorView rstd, TensorView dy,
                   MutableTensorView dx) override;
  void RmsNormWeightGrad(TensorView x, TensorView rstd, TensorView dy, const Sequences& sequences,
                         MutableTensorView acc) override;
  void SwiGlu(TensorView gate, TensorView up, MutableTensorView y) override;
  void SwiGluGrad(TensorView gate, TensorView up, TensorView dy, MutableTensorView dgate,
                  MutableTensorView dup) override;
  void GatedActivationForward(const GatedActivationArgs& args) override;
  void GatedActivationGrad(const GatedActivationGradArgs& args) override;
  void CombineRows(const CombineRowsArgs& args) override;
  void Gather(TensorView table, absl::Span<const int32_t> ids, MutableTensorView y) override;
  void ScatterAdd(absl::Span<const int32_t> ids, TensorView dy, double alpha,
                  MutableTensorView acc) override;
  void Rope(const RopeArgs& args) override;
  void Gemm(const GemmDesc& desc, const GemmArgs& args) override;
  void TokenSum(const TokenSumDesc& desc, const Sequences& sequences,
                const TokenSumArgs& args) override;
  void Attention(const AttentionArgs& args) override;
  void AttentionGrad(const AttentionGradArgs& args) override;
  void ChooseKeys(const ChooseKeysArgs& args) override;
  void DeltaRule(const DeltaRuleArgs& args) override;
  void DeltaRuleGrad(const DeltaRuleGradArgs& args) override;
  void CrossEntropy(const CrossEntropyArgs& args) override;
  void CrossEntropyGrad(const CrossEntropyGradArgs& args) override;
  void AdamWStep(const AdamWArgs& args) override;

 private:
  // Runs body(begin, end, thread) over [0, count) in ranges of `grain`. Denormals are flushed
  // unless `exact` (f64).
  template <typename Body>
  void ParallelRanges(int64_t count, int64_t grain, bool exact, const Body& body) {
    const int64_t tasks = (count + grain - 1) / grain;
    pool_.Run(
        tasks,
        [&](int64_t task, int thread) {
          const int64_t begin = task * grain;
          const int64_t end = begin + grain < count ? begin + grain : count;
          body(begin, end, thread);
        },
        !exact);
  }

  ThreadPool& pool_;
  CpuBackendOptions options_;
  CachingAllocator allocator_;
  // Scratch of products: packed panels shared by the threads, and one block per thread.
  Workspace packed_{allocator_};
  std::vector<std::unique_ptr<Workspace>> thread_scratch_;
  std::unique_ptr<PackedCache> packed_cache_;
};

}  // namespace lorica::cpu

#endif  // LORICA_TENSOR_CPU_CPU_BACKEND_IMPL_H_
