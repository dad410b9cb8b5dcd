// What a kernel sees of a tensor: a pointer, a shape, strides and a type. Trivially copyable, owns
// nothing, never stored.
#ifndef LORICA_TENSOR_VIEW_H_
#define LORICA_TENSOR_VIEW_H_

#include "lorica/tensor/dtype.h"
#include "lorica/tensor/shape.h"

namespace lorica {

struct TensorView {
  const void* data = nullptr;
  Shape shape;
  Shape strides;  // in elements
  DType dtype = DType::kF32;

  bool defined() const { return data != nullptr || shape.rank() > 0; }
  int64_t numel() const { return shape.numel(); }
  template <typename T>
  const T* as() const {
    LORICA_DCHECK(DTypeOf<T>::value == dtype);
    return static_cast<const T*>(data);
  }
};

struct MutableTensorView {
  void* data = nullptr;
  Shape shape;
  Shape strides;  // in elements
  DType dtype = DType::kF32;

  bool defined() const { return data != nullptr || shape.rank() > 0; }
  int64_t numel() const { return shape.numel(); }
  template <typename T>
  T* as() const {
    LORICA_DCHECK(DTypeOf<T>::value == dtype);
    return static_cast<T*>(data);
  }
  operator TensorView() const { return {data, shape, strides, dtype}; }
};

// Row-major without gaps.
inline bool IsContiguous(const Shape& shape, const Shape& strides) {
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

}  // namespace lorica

#endif  // LORICA_TENSOR_VIEW_H_
