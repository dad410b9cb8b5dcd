// Shapes and strides: short lists of int64, held in place.
#ifndef LORICA_TENSOR_SHAPE_H_
#define LORICA_TENSOR_SHAPE_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>

#include "absl/types/span.h"
#include "lorica/tensor/check.h"

namespace lorica {

// More axes than any tensor of ours has ([B, H, T, D] plus room for groups).
inline constexpr int kMaxRank = 6;

// A list of at most kMaxRank extents (or strides), outermost first.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims)
      : Shape(absl::Span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(absl::Span<const int64_t> dims);

  int rank() const { return rank_; }
  // Negative axes count from the end: dim(-1) is the innermost extent.
  int64_t dim(int axis) const { return dims_[Index(axis)]; }
  int64_t& dim(int axis) { return dims_[Index(axis)]; }
  int64_t operator[](int axis) const { return dim(axis); }
  int64_t& operator[](int axis) { return dim(axis); }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }

  // Product of the extents; 1 for rank 0.
  int64_t numel() const;
  // Product of all extents but the last; the number of rows of a row-wise op. 1 for rank 0.
  int64_t rows() const;

  bool operator==(const Shape& other) const;
  std::string ToString() const;  // "[8, 512]"

 private:
  int Index(int axis) const;

  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape);

// Strides of a contiguous row-major tensor of `shape`, in elements.
Shape ContiguousStrides(const Shape& shape);

// The shape that `a` and `b` broadcast to by NumPy's rule; throws Error naming `op` when they
// don't.
Shape BroadcastShapes(const char* op, const Shape& a, const Shape& b);

}  // namespace lorica

#endif  // LORICA_TENSOR_SHAPE_H_
