// What must not change a bit of a product: its batch, threads, caches, a branch that is zero.
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

class GemmBitsTest : public test::GemmFixture {};

TEST_F(GemmBitsTest, RowsDoNotDependOnTheirBatch) {
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

TEST_F(GemmBitsTest, ThreadsAndPackedCacheChangeNoBit) {
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

TEST_F(GemmBitsTest, PackedCacheFollowsVersions) {
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

TEST_F(GemmBitsTest, ZeroPrefixChangesNoBit) {
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

TEST_F(GemmBitsTest, ZeroPrefixKeepsTheSignOfZero) {
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

}  // namespace
}  // namespace lorica
