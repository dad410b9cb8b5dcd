// Sums over tokens against the definition in gemm.h, bit by bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "lorica/tensor/cpu_backend.h"
#include "matrix.h"
#include "simd_targets.h"

namespace lorica {
namespace {

using test::Matrix;

template <typename T>
T MultiplyAdd(T a, T b, T sum, bool fused) {
  if (fused) return std::fma(a, b, sum);
  const T product = a * b;
  return product + sum;
}

// Blocks of kTokenBlock rows from the start of each sequence; in a block one chain from zero.
template <typename T>
void Reference(const Matrix& dy, const Matrix& x, const Sequences& sequences, double alpha,
               Matrix& acc) {
  const bool fused = test::TargetHasFma();
  for (int s = 0; s < sequences.groups(); ++s) {
    const int64_t end = sequences.begin(s) + sequences.size(s);
    for (int64_t row = sequences.begin(s); row < end; row += kTokenBlock) {
      for (int64_t m = 0; m < acc.rows(); ++m) {
        for (int64_t n = 0; n < acc.columns(); ++n) {
          T sum = 0;
          for (int64_t t = row; t < std::min(end, row + kTokenBlock); ++t) {
            sum = MultiplyAdd(static_cast<T>(dy.At(t, m)), static_cast<T>(x.At(t, n)), sum, fused);
          }
          acc.Set(m, n,
                  MultiplyAdd(static_cast<T>(alpha), sum, static_cast<T>(acc.At(m, n)), fused));
        }
      }
    }
  }
}

void TokenSum(Backend& backend, TensorView dy, TensorView x, const Sequences& sequences,
              double alpha, Matrix& acc) {
  const TokenSumDesc desc = {
      .tokens = dy.shape[0], .m = acc.rows(), .n = acc.columns(), .alpha = alpha};
  backend.TokenSum(desc, sequences, {dy, x, acc.view()});
}

struct Types {
  DType dy, x;
};

class TokenSumTest : public testing::Test {
 protected:
  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
};

TEST_F(TokenSumTest, EveryTypeShapeAndTargetMatchesTheDefinition) {
  const Sequences sequences{{0, 1, 1, 270, 300}};
  test::ForEachTarget([&] {
    const auto backend = MakeCpuBackend(pool_);
    for (const Types& types : {Types{DType::kF32, DType::kF32}, Types{DType::kBF16, DType::kBF16},
                               Types{DType::kF32, DType::kBF16}, Types{DType::kF64, DType::kF64}}) {
      for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 1},
                                 {16, 50},
                                 {50, 16},
                                 {3, 97},
                                 {97, 5},
                                 {48, 48},
                                 {60, 61}}) {
        const Matrix dy = Matrix::Random(300, m, types.dy, 1, 3);
        const Matrix x = Matrix::Random(300, n, types.x, 2, 1);
        const DType accumulator = AccumulatorOf(types.dy);
        for (double alpha : {1.0, 0.3}) {
          Matrix want = Matrix::Random(m, n, accumulator, 3);
          Matrix got = want;
          if (accumulator == DType::kF64) {
            Reference<double>(dy, x, sequences, alpha, want);
          } else {
            Reference<float>(dy, x, sequences, alpha, want);
          }
          TokenSum(*backend, dy.view(), x.view(), sequences, alpha, got);
          EXPECT_TRUE(got.SameBits(want))
              << types.dy << " " << types.x << " m=" << m << " n=" << n << " alpha=" << alpha;
        }
      }
    }
  });
}

TEST_F(TokenSumTest, MicroBatchesGiveTheBitsOfOneBatch) {
  const std::vector<int32_t> lengths = {5, 0, 300, 256, 1, 513};
  Sequences all;
  for (int32_t length : lengths) all.offsets.push_back(all.offsets.back() + length);
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{16, 70}, {70, 16}, {90, 90}}) {
    const Matrix dy = Matrix::Random(all.rows(), m, DType::kF32, 1);
    const Matrix x = Matrix::Random(all.rows(), n, DType::kF32, 2);
    Matrix whole(m, n, DType::kF32), split(m, n, DType::kF32);
    TokenSum(*backend_, dy.view(), x.view(), all, 0.5, whole);
    for (int s = 0; s < all.groups(); ++s) {
      TokenSum(*backend_, dy.Rows(all.begin(s), all.size(s)), x.Rows(all.begin(s), all.size(s)),
               Sequences::Single(all.size(s)), 0.5, split);
    }
    EXPECT_TRUE(whole.SameBits(split));
    // The sum over all rows at once, without regard to sequences, is another one.
    Matrix blind(m, n, DType::kF32);
    TokenSum(*backend_, dy.view(), x.view(), Sequences::Single(all.rows()), 0.5, blind);
    EXPECT_FALSE(whole.SameBits(blind));
  }
}

TEST_F(TokenSumTest, ThreadsChangeNoBit) {
  const Sequences sequences{{0, 100, 700}};
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{16, 576}, {576, 16}, {130, 200}}) {
    const Matrix dy = Matrix::Random(700, m, DType::kF32, 1);
    const Matrix x = Matrix::Random(700, n, DType::kF32, 2);
    Matrix want(m, n, DType::kF32);
    TokenSum(*backend_, dy.view(), x.view(), sequences, 1, want);
    for (int threads : {1, 3, 5}) {
      ThreadPool pool(threads);
      const auto backend = MakeCpuBackend(pool);
      Matrix got(m, n, DType::kF32);
      TokenSum(*backend, dy.view(), x.view(), sequences, 1, got);
      EXPECT_TRUE(got.SameBits(want)) << threads << " threads, m=" << m << " n=" << n;
    }
  }
}

TEST_F(TokenSumTest, NoTokensLeaveTheAccumulator) {
  const Matrix dy(0, 4, DType::kF32), x(0, 6, DType::kF32);
  Matrix acc = Matrix::Random(4, 6, DType::kF32, 1);
  const Matrix before = acc;
  TokenSum(*backend_, dy.view(), x.view(), Sequences(), 1, acc);
  EXPECT_TRUE(acc.SameBits(before));
}

}  // namespace
}  // namespace lorica
