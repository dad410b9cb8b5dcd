// Matrix products against the definition in gemm.h, element by element and bit by bit.
#include "lorica/tensor/gemm.h"

#include <gtest/gtest.h>

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

struct Case {
  GemmDesc desc;
  Matrix a, b, prefix_a, prefix_b, bias, addend;
  int64_t y_gap = 3;
};

Matrix RightOperand(GemmLayout layout, int64_t n, int64_t k, DType dtype, uint64_t seed) {
  return layout == GemmLayout::kNT ? Matrix::Random(n, k, dtype, seed, 5)
                                   : Matrix::Random(k, n, dtype, seed, 2);
}

Case MakeCase(const GemmDesc& desc) {
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

GemmArgs ArgsOf(const Case& c, MutableTensorView y) {
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

Matrix Product(Backend& backend, const Case& c, uint64_t storage_id = 0) {
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

Matrix Chain(const Case& c, int64_t row_step = 1) {
  return c.desc.y_type == DType::kF64 ? Chain<double>(c, test::TargetHasFma(), row_step)
                                      : Chain<float>(c, test::TargetHasFma(), row_step);
}

void ExpectSameBits(const Matrix& got, const Matrix& want, const std::string& what) {
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

struct Types {
  DType a, b, y;
};
constexpr Types kTypes[] = {
    {DType::kF32, DType::kF32, DType::kF32},   {DType::kBF16, DType::kBF16, DType::kBF16},
    {DType::kBF16, DType::kBF16, DType::kF32}, {DType::kF32, DType::kBF16, DType::kF32},
    {DType::kBF16, DType::kF32, DType::kBF16}, {DType::kF64, DType::kF64, DType::kF64},
};

class GemmTest : public testing::Test {
 protected:
  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
};

TEST_F(GemmTest, EveryTypeAndLayoutIsOneChainOverK) {
  for (const Types& types : kTypes) {
    for (GemmLayout layout : {GemmLayout::kNT, GemmLayout::kNN}) {
      for (GemmLayout prefix_layout : {GemmLayout::kNT, GemmLayout::kNN}) {
        for (int variant = 0; variant < 4; ++variant) {
          GemmDesc desc;
          desc.m = 29;
          desc.n = 83;
          desc.k = 37;
          desc.layout = layout;
          desc.prefix_layout = prefix_layout;
          desc.prefix_k = variant == 1 || variant == 3 ? 7 : 0;
          desc.a_type = types.a;
          desc.b_type = types.b;
          desc.y_type = types.y;
          desc.has_bias = variant >= 2;
          desc.has_addend = variant >= 2;
          const Case c = MakeCase(desc);
          ExpectSameBits(Product(*backend_, c), Chain(c), desc.ToString());
        }
      }
    }
  }
}

TEST_F(GemmTest, EverySmallSizeIsOneChainOverK) {
  for (int64_t m = 1; m <= 26; m += m < 14 ? 1 : 3) {
    for (int64_t n = 1; n <= 140; n += n < 20 ? 1 : 7) {
      GemmDesc desc;
      desc.m = m;
      desc.n = n;
      desc.k = (m * 5 + n) % 23 + 1;
      desc.layout = (m + n) % 2 == 0 ? GemmLayout::kNT : GemmLayout::kNN;
      const Case c = MakeCase(desc);
      ExpectSameBits(Product(*backend_, c), Chain(c), desc.ToString());
    }
  }
}

TEST_F(GemmTest, LongSumsAreOneChainOverK) {
  for (const Types& types : kTypes) {
    for (int64_t k : {1, 3, 576, 767, 768, 769, 5000}) {
      for (GemmLayout layout : {GemmLayout::kNT, GemmLayout::kNN}) {
        GemmDesc desc;
        desc.m = 14;
        desc.n = 70;
        desc.k = k;
        desc.layout = layout;
        desc.a_type = types.a;
        desc.b_type = types.b;
        desc.y_type = types.y;
        desc.prefix_k = 4;
        desc.has_addend = k % 2 == 1;
        const Case c = MakeCase(desc);
        ExpectSameBits(Product(*backend_, c), Chain(c), desc.ToString());
      }
    }
  }
}

// Sums that don't fit the packing scratch at once, many rows, sums kept in y and beside it.
TEST_F(GemmTest, ChunksOfKAndOfColumnsAreOneChain) {
  for (const Types& types : {kTypes[0], kTypes[1]}) {
    for (GemmLayout layout : {GemmLayout::kNT, GemmLayout::kNN}) {
      GemmDesc desc;
      desc.m = 53;
      desc.n = 200;
      desc.k = 30000;
      desc.layout = layout;
      desc.a_type = types.a;
      desc.b_type = types.b;
      desc.y_type = types.y;
      const Case c = MakeCase(desc);
      const Matrix y = Product(*backend_, c), want = Chain(c, 13);
      for (int64_t m = 0; m < desc.m; m += 13) {
        ASSERT_TRUE(y.SameBits(m, want, m)) << desc.ToString() << " row " << m;
      }
    }
  }
}

TEST_F(GemmTest, AddendMayBeTheResult) {
  for (int64_t k : {20, 1600}) {
    GemmDesc desc;
    desc.m = 61;
    desc.n = 75;
    desc.k = k;
    desc.has_addend = true;
    Case c = MakeCase(desc);
    c.addend = Matrix::Random(desc.m, desc.n, DType::kF32, 9, c.y_gap);
    const Matrix want = Chain(c);
    Matrix y = c.addend;
    GemmArgs args = ArgsOf(c, y.view());
    args.addend = y.view();
    backend_->Gemm(desc, args);
    ExpectSameBits(y, want, desc.ToString());
  }
}

TEST_F(GemmTest, AddendMayBeOfTheAccumulatorType) {
  GemmDesc desc;
  desc.m = 9;
  desc.n = 33;
  desc.k = 5;
  desc.a_type = desc.b_type = desc.y_type = DType::kBF16;
  desc.has_addend = true;
  Case c = MakeCase(desc);
  c.addend = Matrix::Random(desc.m, desc.n, DType::kF32, 9, 1);
  ExpectSameBits(Product(*backend_, c), Chain(c), desc.ToString());
}

// Rounding errors of a chain of K operations are at most K units of rounding of sum |a| |b|.
TEST_F(GemmTest, ErrorStaysWithinTheBoundOfAChain) {
  test::ForEachTarget([&] {
    const auto backend = MakeCpuBackend(pool_);
    GemmDesc desc;
    desc.m = 23;
    desc.n = 67;
    desc.k = 576;
    desc.prefix_k = 16;
    const Case c = MakeCase(desc);
    const Matrix y = Product(*backend, c);
    for (int64_t m = 0; m < desc.m; ++m) {
      for (int64_t n = 0; n < desc.n; ++n) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < desc.prefix_k; ++k) {
          const double term = c.prefix_a.At(m, k) * c.prefix_b.At(n, k);
          sum += term;
          magnitude += std::abs(term);
        }
        for (int64_t k = 0; k < desc.k; ++k) {
          const double term = c.a.At(m, k) * c.b.At(n, k);
          sum += term;
          magnitude += std::abs(term);
        }
        // Two roundings a term where multiplication and addition aren't fused.
        const double bound = 2 * double(desc.k + desc.prefix_k) * 0x1p-24 * magnitude;
        ASSERT_NEAR(y.At(m, n), sum, bound) << m << ", " << n;
      }
    }
  });
}

TEST_F(GemmTest, EveryInstructionSetIsOneChainOverK) {
  test::ForEachTarget([&] {
    const auto backend = MakeCpuBackend(pool_);
    for (const Types& types : kTypes) {
      for (GemmLayout layout : {GemmLayout::kNT, GemmLayout::kNN}) {
        for (int64_t n : {3, 16, 37, 64, 129}) {
          GemmDesc desc;
          desc.m = 27;
          desc.n = n;
          desc.k = 50;
          desc.layout = layout;
          desc.a_type = types.a;
          desc.b_type = types.b;
          desc.y_type = types.y;
          desc.prefix_k = 9;
          desc.has_bias = n % 2 == 1;
          const Case c = MakeCase(desc);
          ExpectSameBits(Product(*backend, c), Chain(c), desc.ToString());
        }
      }
    }
  });
}

TEST_F(GemmTest, RowsDoNotDependOnTheirBatch) {
  for (const Types& types : {kTypes[0], kTypes[1]}) {
    GemmDesc desc;
    desc.m = 200;
    desc.n = 90;
    desc.k = 900;
    desc.a_type = types.a;
    desc.b_type = types.b;
    desc.y_type = types.y;
    const Case c = MakeCase(desc);
    const Matrix whole = Product(*backend_, c);
    for (int64_t rows : {1, 2, 5, 6, 7, 12, 50, 199}) {
      Matrix part(rows, desc.n, desc.y_type);
      GemmDesc part_desc = desc;
      part_desc.m = rows;
      GemmArgs args = ArgsOf(c, part.view());
      const int64_t begin = desc.m - rows;
      args.a = c.a.Rows(begin, rows);
      backend_->Gemm(part_desc, args);
      for (int64_t r = 0; r < rows; ++r) {
        ASSERT_TRUE(part.SameBits(r, whole, begin + r)) << rows << " rows, row " << r;
      }
    }
  }
}

TEST_F(GemmTest, ThreadsAndPackedCacheChangeNoBit) {
  for (const Types& types : kTypes) {
    for (int64_t m : {1, 4, 130}) {
      GemmDesc desc;
      desc.m = m;
      desc.n = 250;
      desc.k = 800;
      desc.a_type = types.a;
      desc.b_type = types.b;
      desc.y_type = types.y;
      desc.prefix_k = 5;
      const Case c = MakeCase(desc);
      const Matrix want = Product(*backend_, c);
      for (int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        for (size_t cache : {size_t{0}, size_t{1} << 12, size_t{64} << 20}) {
          const auto backend = MakeCpuBackend(pool, {.packed_cache_bytes = cache});
          for (int call = 0; call < 3; ++call) {
            ExpectSameBits(Product(*backend, c, 77), want,
                           desc.ToString() + " threads " + std::to_string(threads) + " cache " +
                               std::to_string(cache));
          }
        }
      }
    }
  }
}

TEST_F(GemmTest, PackedCacheFollowsVersions) {
  const auto backend = MakeCpuBackend(pool_, {.packed_cache_bytes = 64 << 20});
  GemmDesc desc;
  desc.m = 3;
  desc.n = 65;
  desc.k = 40;
  Case c = MakeCase(desc);
  Matrix y(desc.m, desc.n, desc.y_type, c.y_gap);
  for (uint64_t version = 0; version < 3; ++version) {
    c.b.Set(7, 11, double(version) + 0.5);
    GemmArgs args = ArgsOf(c, y.view());
    args.b_storage_id = 5;
    args.b_storage_version = version;
    backend->Gemm(desc, args);
    ExpectSameBits(y, Chain(c), "version " + std::to_string(version));
  }
}

TEST_F(GemmTest, ZeroPrefixChangesNoBit) {
  for (const Types& types : kTypes) {
    GemmDesc desc;
    desc.m = 40;
    desc.n = 100;
    desc.k = 64;
    desc.a_type = types.a;
    desc.b_type = types.b;
    desc.y_type = types.y;
    const Case plain = MakeCase(desc);
    desc.prefix_k = 16;
    Case with_prefix = MakeCase(desc);
    const Matrix moved = Product(*backend_, with_prefix);
    with_prefix.prefix_b = Matrix(desc.n, desc.prefix_k, desc.b_type, 1);
    ExpectSameBits(Product(*backend_, with_prefix), Product(*backend_, plain), desc.ToString());
    EXPECT_FALSE(moved.SameBits(Product(*backend_, plain)));
  }
}

// -0 survives: a chain that starts from +0 gives +0 for a product of zeros of either sign.
TEST_F(GemmTest, ZeroPrefixKeepsTheSignOfZero) {
  GemmDesc desc;
  desc.m = 7;
  desc.n = 20;
  desc.k = 3;
  Case plain = MakeCase(desc);
  plain.a = Matrix(desc.m, desc.k, DType::kF32, 1);
  plain.b = Matrix(desc.n, desc.k, DType::kF32, 5);
  for (int64_t n = 0; n < desc.n; ++n) plain.b.Set(n, 0, -1);
  Case prefixed = plain;
  prefixed.desc.prefix_k = 2;
  prefixed.prefix_a = Matrix::Random(desc.m, 2, DType::kF32, 8);
  prefixed.prefix_b = Matrix(desc.n, 2, DType::kF32);
  ExpectSameBits(Product(*backend_, prefixed), Product(*backend_, plain), "zeros");
}

TEST_F(GemmTest, EmptyExtents) {
  GemmDesc desc;
  desc.n = 5;
  desc.k = 4;
  Product(*backend_, MakeCase(desc));  // no rows
  desc.m = 3;
  desc.n = 0;
  Product(*backend_, MakeCase(desc));  // no columns
  for (int64_t m : {3, 100}) {
    desc.m = m;
    desc.n = 5;
    desc.k = 0;
    desc.prefix_k = 0;
    const Case zero = MakeCase(desc);
    ExpectSameBits(Product(*backend_, zero), Chain(zero), "k = 0");
    desc.prefix_k = 6;
    desc.has_bias = true;
    const Case only_prefix = MakeCase(desc);
    ExpectSameBits(Product(*backend_, only_prefix), Chain(only_prefix), "only a prefix");
  }
}

TEST_F(GemmTest, NanAndInfinityPassThrough) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    GemmDesc desc;
    desc.m = 8;
    desc.n = 40;
    desc.k = 6;
    desc.a_type = desc.b_type = desc.y_type = dtype;
    Case c = MakeCase(desc);
    c.a.Set(2, 1, NAN);
    c.a.Set(5, 0, INFINITY);
    const Matrix y = Product(*backend_, c);
    for (int64_t n = 0; n < desc.n; ++n) {
      EXPECT_TRUE(std::isnan(y.At(2, n)));
      EXPECT_TRUE(std::isinf(y.At(5, n)));
      EXPECT_TRUE(std::isfinite(y.At(4, n)));
    }
  }
}

TEST_F(GemmTest, DenormalsAreFlushedInF32AndKeptInF64) {
  for (DType dtype : {DType::kF32, DType::kF64}) {
    GemmDesc desc;
    desc.m = desc.n = desc.k = 1;
    desc.a_type = desc.b_type = desc.y_type = dtype;
    Case c = MakeCase(desc);
    const double tiny = dtype == DType::kF32 ? 0x1p-100 : 0x1p-530;
    c.a.Set(0, 0, tiny);
    c.b.Set(0, 0, dtype == DType::kF32 ? 0x1p-40 : tiny);
    const double y = Product(*backend_, c).At(0, 0);
    if (dtype == DType::kF64) {
      EXPECT_GT(y, 0);
    } else {
      EXPECT_EQ(y, 0);
    }
  }
}

TEST(GemmDescTest, TextNamesTheProduct) {
  GemmDesc desc;
  desc.m = 8;
  desc.n = 16;
  desc.k = 4;
  EXPECT_EQ(desc.ToString(), "gemm_nt m=8 n=16 k=4 f32*f32->f32");
  desc.layout = GemmLayout::kNN;
  desc.prefix_k = 2;
  desc.y_type = DType::kBF16;
  desc.has_bias = true;
  EXPECT_EQ(desc.ToString(), "gemm_nn m=8 n=16 k=4 f32*f32->bf16 prefix_nt k=2 bias");
}

}  // namespace
}  // namespace lorica
