// Matrices of test values, with gaps between rows that must stay as they are.
#ifndef LORICA_TESTS_TENSOR_MATRIX_H_
#define LORICA_TESTS_TENSOR_MATRIX_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "lorica/tensor/dtype.h"
#include "lorica/tensor/random.h"
#include "lorica/tensor/view.h"

namespace lorica::test {

class Matrix {
 public:
  Matrix() = default;
  // Zeros; rows are `gap` elements longer than they need be, filled with a pattern.
  Matrix(int64_t rows, int64_t columns, DType dtype, int64_t gap = 0)
      : rows_(rows),
        columns_(columns),
        stride_(columns + gap),
        dtype_(dtype),
        bytes_(static_cast<size_t>(rows * (columns + gap)) * SizeOf(dtype) + 64, kGap) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) Set(r, c, 0);
    }
  }

  // Standard normal values, rounded to `dtype`.
  static Matrix Random(int64_t rows, int64_t columns, DType dtype, uint64_t seed, int64_t gap = 0) {
    Matrix matrix(rows, columns, dtype, gap);
    RandomStream stream(seed, 0);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) matrix.Set(r, c, stream.Normal());
    }
    return matrix;
  }

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  DType dtype() const { return dtype_; }

  double At(int64_t row, int64_t column) const {
    const char* p = bytes_.data() + Offset(row, column);
    if (dtype_ == DType::kF64) return Load<double>(p);
    if (dtype_ == DType::kBF16) return static_cast<float>(Load<BF16>(p));
    return Load<float>(p);
  }
  void Set(int64_t row, int64_t column, double value) {
    char* p = bytes_.data() + Offset(row, column);
    if (dtype_ == DType::kF64) {
      Store(p, value);
    } else if (dtype_ == DType::kBF16) {
      Store(p, BF16(static_cast<float>(value)));
    } else {
      Store(p, static_cast<float>(value));
    }
  }

  TensorView view() const { return {bytes_.data(), {rows_, columns_}, {stride_, 1}, dtype_}; }
  MutableTensorView view() { return {bytes_.data(), {rows_, columns_}, {stride_, 1}, dtype_}; }
  // Rows [begin, begin + count).
  TensorView Rows(int64_t begin, int64_t count) const {
    return {bytes_.data() + Offset(begin, 0), {count, columns_}, {stride_, 1}, dtype_};
  }
  MutableTensorView Rows(int64_t begin, int64_t count) {
    return {bytes_.data() + Offset(begin, 0), {count, columns_}, {stride_, 1}, dtype_};
  }
  // The only row as a vector.
  TensorView AsVector() const { return {bytes_.data(), {columns_}, {1}, dtype_}; }
  MutableTensorView AsVector() { return {bytes_.data(), {columns_}, {1}, dtype_}; }

  // Same extents and the same bits everywhere, gaps included.
  bool SameBits(const Matrix& other) const {
    return rows_ == other.rows_ && columns_ == other.columns_ && bytes_ == other.bytes_;
  }
  bool SameBits(int64_t row, const Matrix& other, int64_t other_row) const {
    return std::memcmp(bytes_.data() + Offset(row, 0),
                       other.bytes_.data() + other.Offset(other_row, 0),
                       static_cast<size_t>(columns_) * SizeOf(dtype_)) == 0;
  }

 private:
  static constexpr char kGap = 0x5A;

  size_t Offset(int64_t row, int64_t column) const {
    return static_cast<size_t>(row * stride_ + column) * SizeOf(dtype_);
  }
  template <typename T>
  static T Load(const char* p) {
    T value;
    std::memcpy(&value, p, sizeof(T));
    return value;
  }
  template <typename T>
  static void Store(char* p, T value) {
    std::memcpy(p, &value, sizeof(T));
  }

  int64_t rows_ = 0, columns_ = 0, stride_ = 0;
  DType dtype_ = DType::kF32;
  std::vector<char> bytes_;
};

}  // namespace lorica::test

#endif  // LORICA_TESTS_TENSOR_MATRIX_H_
