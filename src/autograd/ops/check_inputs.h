// Checks that ops share.
#ifndef LORICA_AUTOGRAD_OPS_CHECK_INPUTS_H_
#define LORICA_AUTOGRAD_OPS_CHECK_INPUTS_H_

#include "lorica/autograd/op.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/tensor.h"

namespace lorica::ops {

inline void CheckCompute(const char* op, const Tensor& x) {
  LORICA_CHECK(x.defined(), "[", op, "] an input is undefined");
  LORICA_CHECK(IsCompute(x.dtype()), "[", op, "] needs f32, bf16 or f64, found ", x.dtype());
}

// Same backend and placement; same type, or f32 for `a` where `b` is bf16.
inline void CheckSameOrWider(const char* op, const Tensor& a, const Tensor& b) {
  CheckCompute(op, a);
  CheckCompute(op, b);
  LORICA_CHECK(a.dtype() == b.dtype() || a.dtype() == AccumulatorOf(b.dtype()), "[", op,
               "] types differ: ", a.dtype(), " ", a.shape(), " and ", b.dtype(), " ", b.shape());
  LORICA_CHECK(&a.backend() == &b.backend(), "[", op, "] inputs live on different backends");
  LORICA_CHECK(a.placement() == b.placement(), "[", op, "] placements differ: ", a.placement(),
               " and ", b.placement());
}

// Same type, backend and placement.
inline void CheckSame(const char* op, const Tensor& a, const Tensor& b) {
  CheckSameOrWider(op, a, b);
  LORICA_CHECK(a.dtype() == b.dtype(), "[", op, "] types differ: ", a.dtype(), " ", a.shape(),
               " and ", b.dtype(), " ", b.shape());
}

// x as a contiguous matrix [rows, last axis].
inline Tensor AsMatrix(const Tensor& x) {
  return raw::Contiguous(x).WithShape({x.shape().rows(), x.dim(-1)});
}

// The sequences of `rows` rows: those given, or one of all rows.
inline Sequences SequencesOrSingle(const char* op, const Sequences* sequences, int64_t rows) {
  if (sequences == nullptr) return Sequences::Single(rows);
  sequences->Check(op, rows);
  return *sequences;
}

// Where an op adds the gradient of a weight: straight into the accumulator of a leaf (in the order
// of the blocks, which is what makes results independent of micro-batching), or into fresh zeros
// when the weight is itself a result.
class WeightGradient {
 public:
  explicit WeightGradient(const Tensor& leaf)
      : is_leaf_(IsLeaf(leaf)),
        sum_(is_leaf_ ? GradAccumulator(leaf)
                      : Tensor::Zeros(leaf.backend(), leaf.shape(), AccumulatorOf(leaf.dtype()))) {}
  MutableTensorView view() { return sum_.mutable_view(); }
  // What Backward returns for this input.
  Tensor Result() const { return is_leaf_ ? Tensor() : sum_; }

 private:
  static bool IsLeaf(const Tensor& leaf) {
    const auto meta = MetaOf(leaf);
    return meta != nullptr && meta->producer == nullptr;
  }

  bool is_leaf_;
  Tensor sum_;
};

}  // namespace lorica::ops

#endif  // LORICA_AUTOGRAD_OPS_CHECK_INPUTS_H_
