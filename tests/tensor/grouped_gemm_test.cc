#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "lorica/tensor/cpu_backend.h"
#include "matrix.h"

namespace lorica {
namespace {

using test::Matrix;

// [G, N, K] or [G, K, N] over a matrix of G * rows rows.
TensorView Stack(const Matrix& matrix, int64_t groups) {
  TensorView view = matrix.view();
  const int64_t rows = matrix.rows() / groups, stride = view.strides[0];
  view.shape = {groups, rows, matrix.columns()};
  view.strides = {rows * stride, stride, 1};
  return view;
}

TEST(GroupedGemmTest, EveryGroupIsItsOwnProduct) {
  ThreadPool pool(2);
  const auto backend = MakeCpuBackend(pool);
  constexpr int64_t kN = 37, kK = 20;
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    for (GemmLayout layout : {GemmLayout::kNT, GemmLayout::kNN}) {
      GroupedGemmDesc desc;
      desc.offsets.offsets = {0, 0, 5, 6, 6, 40, 40};
      desc.m = 40;
      desc.n = kN;
      desc.k = kK;
      desc.layout = layout;
      desc.a_type = desc.b_type = desc.y_type = dtype;
      const int groups = desc.offsets.groups();
      const Matrix a = Matrix::Random(desc.m, kK, dtype, 1, 2);
      const bool nt = layout == GemmLayout::kNT;
      const Matrix b = Matrix::Random(groups * (nt ? kN : kK), nt ? kK : kN, dtype, 2, 3);
      Matrix y(desc.m, kN, dtype, 1);
      backend->GroupedGemm(desc, {a.view(), Stack(b, groups), y.view()});
      Matrix want(desc.m, kN, dtype, 1);
      for (int g = 0; g < groups; ++g) {
        GemmDesc gemm;
        gemm.m = desc.offsets.size(g);
        gemm.n = kN;
        gemm.k = kK;
        gemm.layout = layout;
        gemm.a_type = gemm.b_type = gemm.y_type = dtype;
        GemmArgs args;
        args.a = a.Rows(desc.offsets.begin(g), gemm.m);
        args.b = b.Rows(g * (nt ? kN : kK), nt ? kN : kK);
        args.y = want.Rows(desc.offsets.begin(g), gemm.m);
        backend->Gemm(gemm, args);
      }
      EXPECT_TRUE(y.SameBits(want)) << desc.ToString();
    }
  }
}

TEST(GroupedGemmTest, GroupsShareMatricesAndHaveBranchesOfTheirOwn) {
  ThreadPool pool(2);
  const auto backend = MakeCpuBackend(pool);
  constexpr int64_t kN = 21, kK = 18, kR = 3;
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    GroupedGemmDesc desc;
    desc.offsets.offsets = {0, 4, 4, 9, 15, 20};
    desc.m = 20;
    desc.n = kN;
    desc.k = kK;
    desc.a_type = desc.b_type = desc.y_type = dtype;
    desc.prefix_k = kR;
    desc.has_bias = desc.has_addend = true;
    const std::vector<int32_t> b_of_group = {1, 0, 1, -1, 0}, prefix_of_group = {2, 0, -1, 1, 0};
    const Matrix a = Matrix::Random(20, kK, dtype, 1), t = Matrix::Random(20, kR, dtype, 2);
    const Matrix b = Matrix::Random(2 * kN, kK, dtype, 3, 2);
    const Matrix low = Matrix::Random(3 * kN, kR, dtype, 4), bias = Matrix::Random(2, kN, dtype, 5);
    const Matrix addend = Matrix::Random(20, kN, dtype, 6);
    Matrix y(20, kN, dtype, 1), want(20, kN, dtype, 1);
    GroupedGemmArgs args;
    args.a = a.view();
    args.b = Stack(b, 2);
    args.y = y.view();
    args.prefix_a = t.view();
    args.prefix_b = Stack(low, 3);
    args.bias = bias.view();
    args.addend = addend.view();
    args.b_of_group = b_of_group;
    args.prefix_of_group = prefix_of_group;
    backend->GroupedGemm(desc, args);
    for (size_t g = 0; g < b_of_group.size(); ++g) {
      if (b_of_group[g] < 0) continue;
      const int64_t begin = desc.offsets.begin(static_cast<int>(g));
      GemmDesc gemm;
      gemm.m = desc.offsets.size(static_cast<int>(g));
      gemm.n = kN;
      gemm.k = kK;
      gemm.a_type = gemm.b_type = gemm.y_type = dtype;
      gemm.has_bias = gemm.has_addend = true;
      GemmArgs one;
      one.a = a.Rows(begin, gemm.m);
      one.b = b.Rows(b_of_group[g] * kN, kN);
      one.y = want.Rows(begin, gemm.m);
      one.bias = bias.Rows(b_of_group[g], 1);
      one.bias.shape = {kN};
      one.bias.strides = {1};
      one.addend = addend.Rows(begin, gemm.m);
      if (prefix_of_group[g] >= 0) {
        gemm.prefix_k = kR;
        one.prefix_a = t.Rows(begin, gemm.m);
        one.prefix_b = low.Rows(prefix_of_group[g] * kN, kN);
      }
      backend->Gemm(gemm, one);
    }
    EXPECT_TRUE(y.SameBits(want)) << desc.ToString();
  }
}

TEST(GroupedGemmTest, OneGroupIsAPlainProduct) {
  ThreadPool pool(1);
  const auto backend = MakeCpuBackend(pool);
  const Matrix a = Matrix::Random(9, 8, DType::kF32, 1), b = Matrix::Random(6, 8, DType::kF32, 2);
  GroupedGemmDesc desc;
  desc.offsets = RowOffsets::Single(9);
  desc.m = 9;
  desc.n = 6;
  desc.k = 8;
  Matrix y(9, 6, DType::kF32), want(9, 6, DType::kF32);
  backend->GroupedGemm(desc, {a.view(), Stack(b, 1), y.view()});
  GemmDesc gemm;
  gemm.m = 9;
  gemm.n = 6;
  gemm.k = 8;
  GemmArgs args;
  args.a = a.view();
  args.b = b.view();
  args.y = want.view();
  backend->Gemm(gemm, args);
  EXPECT_TRUE(y.SameBits(want));
  EXPECT_EQ(desc.ToString(), "grouped_gemm_nt groups=1 m=9 n=6 k=8 f32*f32->f32");
}

}  // namespace
}  // namespace lorica
