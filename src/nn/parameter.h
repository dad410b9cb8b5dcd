// Parameter: a named weight of a module.
#ifndef LORICA_NN_PARAMETER_H_
#define LORICA_NN_PARAMETER_H_

#include <cstdint>

#include "lorica/autograd/weight.h"
#include "lorica/tensor/tensor.h"

namespace lorica {

// A parameter is born in two steps: declared (shape and type are known, no memory is taken), then
// given its values by a loader or an initialiser. So a model's tree, its paths and its size are
// known from the configuration alone.
//
// A frozen parameter holds its values in the compute type. A trainable one holds an f32 master (f64
// in f64 mode), which optimizers write, and values in the compute type that are made anew when the
// master has changed; where both types agree they are the same bytes. One thread at a time.
class Parameter {
 public:
  // Absent: a linear without bias has one.
  Parameter() = default;
  static Parameter Declare(const Shape& shape, DType compute);
  // Never trained: part of the model and of its files, but of no gradient (a router's correction
  // bias).
  static Parameter DeclareBuffer(const Shape& shape, DType compute);
  // Never trained, as no gradient reaches it, but a parameter of the model all the same (of an
  // indexer, whose choice of keys has no gradient).
  static Parameter DeclareFrozen(const Shape& shape, DType compute);
  // `values` in the compute type, contiguous, frozen. An undefined tensor makes an absent
  // parameter.
  explicit Parameter(Tensor values);

  bool defined() const { return defined_; }  // declared, with or without values
  bool has_values() const { return value_.defined() || master_.defined(); }
  const Shape& shape() const { return shape_; }
  int64_t numel() const { return defined_ ? shape_.numel() : 0; }
  DType compute_dtype() const { return compute_; }

  bool trainable() const { return master_.defined(); }
  bool buffer() const { return buffer_; }
  // A gradient can reach it.
  bool differentiable() const { return differentiable_; }
  // Makes the master, a leaf that needs a gradient, from the values. No effect when trainable, or
  // where no gradient can reach it.
  void MakeTrainable();
  // Rounds the master to the compute type and drops it with its gradient. No effect when frozen.
  void Freeze();

  // The leaf: read and written (in place, never replaced) by optimizers and checkpoints; undefined
  // when frozen.
  const Tensor& master() const { return master_; }
  Tensor& mutable_master() { return master_; }
  // Values in the compute type, without autograd slot. Throws Error when only declared.
  const Tensor& value() const;
  // What ops take.
  Weight weight() const { return Weight(value(), master_); }
  // Takes `values` (loading, merging): the parameter's shape and compute type, contiguous. A frozen
  // parameter shares the bytes from then on; a trainable one copies them into its master.
  void Assign(const Tensor& values);

 private:
  bool defined_ = false;
  bool buffer_ = false;
  bool differentiable_ = true;
  Shape shape_;
  DType compute_ = DType::kF32;
  mutable Tensor value_;                // compute type; for a trainable parameter derived
  mutable uint64_t value_version_ = 0;  // the master's version that value_ was made from
  Tensor master_;
};

}  // namespace lorica

#endif  // LORICA_NN_PARAMETER_H_
