// Matrix products against the definition in gemm.h, element by element and bit by bit.
#include "lorica/tensor/gemm.h"

#include "gemm_fixture.h"

namespace lorica {
namespace {

using test::ArgsOf;
using test::Case;
using test::Chain;
using test::ExpectSameBits;
using test::kTypes;
using test::MakeCase;
using test::Matrix;
using test::Product;
using test::Types;

class GemmTest : public test::GemmFixture {};

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

// -0 survives: a chain that starts from +0 gives +0 for a product of zeros of either sign.
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
