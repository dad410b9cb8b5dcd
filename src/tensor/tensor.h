// Tensor: a value handle on a strided region of a storage.
//
// Copies are cheap and share the storage. There is no arithmetic here: ops are free functions
// (autograd/ops.h), so this class stays closed while ops stay open.
#ifndef LORICA_TENSOR_TENSOR_H_
#define LORICA_TENSOR_TENSOR_H_

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "lorica/tensor/dtype.h"
#include "lorica/tensor/placement.h"
#include "lorica/tensor/shape.h"
#include "lorica/tensor/storage.h"
#include "lorica/tensor/view.h"

namespace lorica {

// What the autograd floor hangs on a tensor; opaque here.
class AutogradSlot {
 public:
  virtual ~AutogradSlot() = default;
};

class Tensor {
 public:
  // The undefined tensor: no storage, defined() is false.
  Tensor() = default;
  Tensor(std::shared_ptr<Storage> storage, Shape shape, Shape strides, int64_t offset, DType dtype)
      : storage_(std::move(storage)),
        shape_(shape),
        strides_(strides),
        offset_(offset),
        dtype_(dtype) {}

  // Fresh contiguous tensors on `backend`, which must outlive them.
  static Tensor Empty(Backend& backend, const Shape& shape, DType dtype);  // uninitialised
  static Tensor Zeros(Backend& backend, const Shape& shape, DType dtype);
  static Tensor Full(Backend& backend, const Shape& shape, DType dtype, double value);
  // A copy of host values of type T; their number must be shape.numel().
  template <typename T>
  static Tensor FromHost(Backend& backend, const Shape& shape, absl::Span<const T> values) {
    return FromHostBytes(backend, shape, DTypeOf<T>::value, values.data(), values.size());
  }

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int axis) const { return shape_.dim(axis); }
  int64_t numel() const { return shape_.numel(); }
  int64_t offset() const { return offset_; }  // in elements
  DType dtype() const { return dtype_; }
  size_t bytes() const { return static_cast<size_t>(numel()) * SizeOf(dtype_); }
  Backend& backend() const { return storage_->backend(); }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  bool is_contiguous() const { return IsContiguous(shape_, strides_); }

  // How this tensor's value is spread over the ranks of its group; Replicate on one rank.
  const Placement& placement() const { return placement_; }
  void set_placement(const Placement& placement) { placement_ = placement; }

  // For kernels. mutable_view counts the storage's version up.
  TensorView view() const;
  MutableTensorView mutable_view();

  // Host access; CPU tensors only. `T` must match dtype() (uint16_t also reads bf16 and f16 bits).
  template <typename T>
  const T* data() const {
    return static_cast<const T*>(view().data);
  }
  template <typename T>
  T* mutable_data() {
    return static_cast<T*>(mutable_view().data);
  }
  // All elements in row-major order as double (any dtype but bool and u8 included), copied to the
  // host.
  std::vector<double> ToDoubles() const;
  // The only element.
  double item() const;

  // Views without autograd (ops.h has those that differentiate). WithShape needs a contiguous
  // tensor.
  Tensor WithShape(const Shape& shape) const;
  Tensor Narrow(int axis, int64_t begin, int64_t length) const;
  Tensor Transpose(int axis_a, int axis_b) const;
  // The same values without the autograd slot.
  Tensor Detach() const;

  const std::shared_ptr<AutogradSlot>& autograd() const { return autograd_; }
  void set_autograd(std::shared_ptr<AutogradSlot> slot) { autograd_ = std::move(slot); }

 private:
  static Tensor FromHostBytes(Backend& backend, const Shape& shape, DType dtype, const void* values,
                              size_t count);

  std::shared_ptr<Storage> storage_;
  Shape shape_;
  Shape strides_;
  int64_t offset_ = 0;
  DType dtype_ = DType::kF32;
  Placement placement_;
  std::shared_ptr<AutogradSlot> autograd_;
};

namespace raw {
// Ops on plain tensors, no autograd: each allocates its result on the backend of its input.

// `x` itself when contiguous, else a contiguous copy.
Tensor Contiguous(const Tensor& x);
// `x` itself when it has `dtype`, else a converted copy (to nearest, ties to even).
Tensor Cast(const Tensor& x, DType dtype);
Tensor Clone(const Tensor& x);
}  // namespace raw

}  // namespace lorica

#endif  // LORICA_TENSOR_TENSOR_H_
