// Products of random operands, run and defined.
#ifndef LORICA_TESTS_TENSOR_GEMM_FIXTURE_H_
#define LORICA_TESTS_TENSOR_GEMM_FIXTURE_H_

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/gemm.h"
#include "matrix.h"
#include "simd_targets.h"

namespace lorica::test {

// A product and its operands.
struct Case {
  GemmDesc desc;
  Matrix a, b, prefix_a, prefix_b, bias, addend;
  int64_t y_gap = 3;
};

inline Matrix RightOperand(GemmLayout layout, int64_t n, int64_t k, DType dtype, uint64_t seed) {
  return layout == GemmLayout::kNT ? Matrix::Random(n, k, dtype, seed, 5)
                                   : Matrix::Random(k, n, dtype, seed, 2);
}

inline Case MakeCase(const GemmDesc& desc) {
  Case c;
  c.desc = desc;
  c.a = Matrix::Random(desc.m, desc.k, desc.a_type, 1, 1);
  c.b = RightOperand(desc.layout, desc.n, desc.k, desc.b_type, 2);
  if (desc.prefix_k > 0) {
    c.prefix_a = Matrix::Random(desc.m, desc.prefix_k, desc.a_type, 3, 2);
    c.prefix_b = RightOperand(desc.prefix_layout, desc.n, desc.prefix_k, desc.b_type, 4);
  }
  if (desc.has_bias) c.bias = Matrix::Random(1, desc.n, desc.b_type, 5);
  if (desc.has_addend) c.addend = Matrix::Random(desc.m, desc.n, desc.y_type, 6, 4);
  return c;
}

inline GemmArgs ArgsOf(const Case& c, MutableTensorView y) {
  GemmArgs args;
  args.a = c.a.view();
  args.b = c.b.view();
  if (c.desc.prefix_k > 0) {
    args.prefix_a = c.prefix_a.view();
    args.prefix_b = c.prefix_b.view();
  }
  if (c.desc.has_bias) args.bias = c.bias.AsVector();
  if (c.desc.has_addend) args.addend = c.addend.view();
  args.y = y;
  return args;
}

inline Matrix Product(Backend& backend, const Case& c, uint64_t storage_id = 0) {
  Matrix y(c.desc.m, c.desc.n, c.desc.y_type, c.y_gap);
  GemmArgs args = ArgsOf(c, y.view());
  args.b_storage_id = storage_id;
  backend.Gemm(c.desc, args);
  return y;
}

template <typename T>
std::vector<T> ValuesOf(const Matrix& matrix, bool transposed = false) {
  std::vector<T> values;
  const int64_t rows = transposed ? matrix.columns() : matrix.rows();
  const int64_t columns = transposed ? matrix.rows() : matrix.columns();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      values.push_back(static_cast<T>(transposed ? matrix.At(c, r) : matrix.At(r, c)));
    }
  }
  return values;
}

// One chain over k in T.
template <typename T>
T AddProducts(const T* a, const T* b, int64_t k, bool fused, T sum) {
  for (int64_t i = 0; i < k; ++i) {
    if (fused) {
      sum = std::fma(a[i], b[i], sum);
    } else {
      const T product = a[i] * b[i];
      sum += product;
    }
  }
  return sum;
}

// The product as defined: prefix first, then the rest, bias, addend, one rounding. Every
// `row_step`th row only; the others stay zero.
template <typename T>
Matrix Chain(const Case& c, bool fused, int64_t row_step) {
  const GemmDesc& d = c.desc;
  Matrix y(d.m, d.n, d.y_type, c.y_gap);
  const auto a = ValuesOf<T>(c.a), prefix_a = ValuesOf<T>(c.prefix_a);
  const auto b = ValuesOf<T>(c.b, d.layout == GemmLayout::kNN);
  const auto prefix_b = ValuesOf<T>(c.prefix_b, d.prefix_layout == GemmLayout::kNN);
  for (int64_t m = 0; m < d.m; m += row_step) {
    for (int64_t n = 0; n < d.n; ++n) {
      T sum = AddProducts(prefix_a.data() + m * d.prefix_k, prefix_b.data() + n * d.prefix_k,
                          d.prefix_k, fused, T{0});
      sum = AddProducts(a.data() + m * d.k, b.data() + n * d.k, d.k, fused, sum);
      if (d.has_bias) sum += static_cast<T>(c.bias.At(0, n));
      if (d.has_addend) sum += static_cast<T>(c.addend.At(m, n));
      y.Set(m, n, sum);
    }
  }
  return y;
}

inline Matrix Chain(const Case& c, int64_t row_step = 1) {
  return c.desc.y_type == DType::kF64 ? Chain<double>(c, TargetHasFma(), row_step)
                                      : Chain<float>(c, TargetHasFma(), row_step);
}

inline void ExpectSameBits(const Matrix& got, const Matrix& want, const std::string& what) {
  if (got.SameBits(want)) return;
  for (int64_t m = 0; m < want.rows(); ++m) {
    for (int64_t n = 0; n < want.columns(); ++n) {
      if (got.At(m, n) != want.At(m, n)) {
        FAIL() << what << ": at [" << m << ", " << n << "] " << got.At(m, n) << ", expected "
               << want.At(m, n);
      }
    }
  }
  FAIL() << what << ": bits differ, or something outside of y was written";
}

// Types of a, b and y.
struct Types {
  DType a, b, y;
};
inline constexpr Types kTypes[] = {
    {DType::kF32, DType::kF32, DType::kF32},   {DType::kBF16, DType::kBF16, DType::kBF16},
    {DType::kBF16, DType::kBF16, DType::kF32}, {DType::kF32, DType::kBF16, DType::kF32},
    {DType::kBF16, DType::kF32, DType::kBF16}, {DType::kF64, DType::kF64, DType::kF64},
};

class GemmFixture : public testing::Test {
 protected:
  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
};

}  // namespace lorica::test

#endif  // LORICA_TESTS_TENSOR_GEMM_FIXTURE_H_
