// The promises of Linear with adapters: zero branches change no bit, saved bytes, independence of
// micro-batching.
#include <gtest/gtest.h>

#include <cmath>

#include "lorica/autograd/ops.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/random.h"
#include "support/tensor_matchers.h"

namespace lorica {
namespace {

using testing::SameBits;

class LinearTest : public ::testing::TestWithParam<DType> {
 protected:
  Tensor Random(const Shape& shape, uint64_t seed, double scale = 1) {
    RandomStream random(seed, 5);
    std::vector<double> values(static_cast<size_t>(shape.numel()));
    for (double& v : values) v = scale * random.Normal();
    return raw::Cast(Tensor::FromHost<double>(*backend_, shape, values), GetParam());
  }
  Tensor Leaf(Tensor x) {
    SetRequiresGrad(x, true);
    return x;
  }
  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
};

TEST_P(LinearTest, ZeroBranchChangesNoBitAndASmallOneDoes) {
  const Tensor x = Random({37, 65}, 1), w = Random({43, 65}, 2), a = Random({5, 65}, 3);
  const Tensor base = Linear(x, {.weight = Weight(w, Tensor())});
  for (const double b_value : {0.0, -0.0, 1e-3}) {
    LoraBranch branch{.a = a, .b = Tensor::Full(*backend_, {43, 5}, GetParam(), b_value)};
    const Tensor y = Linear(x, {.weight = Weight(w, Tensor()), .branches = {&branch, 1}});
    EXPECT_EQ(bool(SameBits(y, base)), b_value == 0) << "B = " << b_value;
  }
}

TEST_P(LinearTest, AccumulatorOutputIsTheResultBeforeItsRounding) {
  const Tensor x = Random({37, 65}, 1), w = Random({43, 65}, 2);
  LoraBranch branch{.a = Random({5, 65}, 3), .b = Random({43, 5}, 4)};
  LinearArgs args{.weight = Weight(w, Tensor()), .branches = {&branch, 1}};
  const Tensor rounded = Linear(x, args);
  args.accumulator_output = true;
  EXPECT_THROW(Linear(x, args), Error);  // no gradient could be taken
  const NoGrad no_grad;
  const Tensor wide = Linear(x, args);
  EXPECT_EQ(wide.dtype(), AccumulatorOf(GetParam()));
  EXPECT_TRUE(SameBits(raw::Cast(wide, GetParam()), rounded));
  EXPECT_EQ(bool(SameBits(wide, raw::Cast(rounded, wide.dtype()))), GetParam() != DType::kBF16);
}

TEST_P(LinearTest, SavesNothingWhenFrozenAndXAndTWithABranch) {
  const size_t width = SizeOf(GetParam());
  const Tensor w = Random({8, 6}, 2), frozen_x = Random({10, 6}, 1);
  const Weight frozen(w, Tensor());
  EXPECT_FALSE(RequiresGrad(Linear(frozen_x, {.weight = frozen})));
  // A frozen linear between trained layers keeps no input; its own weight isn't counted twice
  // below.
  const Tensor x = Leaf(Random({10, 6}, 1));
  EXPECT_EQ(SavedBytes(Linear(x, {.weight = frozen})), 8 * 6 * width);
  // q, k and v share one x.
  LoraBranch branch{.a = Leaf(Random({2, 6}, 3)), .b = Leaf(Random({8, 2}, 4))};
  const LinearArgs args{.weight = frozen, .branches = {&branch, 1}};
  const Tensor q = Linear(frozen_x, args), k = Linear(frozen_x, args);
  EXPECT_EQ(SavedBytes(Add(q, k)), (10 * 6 + 2 * 10 * 2) * width);
}

// Sequences run alone, or all at once: the accumulators hold the same bits.
TEST_P(LinearTest, AdapterGradientsDontDependOnMicroBatches) {
  const std::vector<int32_t> cu = {0, 3, 3, 300, 900, 907};
  const Tensor x = Random({907, 20}, 1), w = Random({12, 20}, 2), dy = Random({907, 12}, 6);
  const auto run = [&](const std::vector<std::pair<int, int>>& batches) {
    LoraBranch branch{.a = Leaf(Random({3, 20}, 3)),
                      .b = Leaf(Random({12, 3}, 4)),
                      .scale = 2,
                      .dropout = 0.3,
                      .dropout_key = 8};
    Tensor bias = Leaf(Random({12}, 9));
    std::vector<Tensor> dx;
    for (const auto& [from, to] : batches) {
      const int64_t begin = cu[from], rows = cu[to] - cu[from];
      Sequences sequences;
      for (int s = from; s < to; ++s) sequences.offsets.push_back(cu[s + 1] - cu[from]);
      auto keys = std::make_shared<std::vector<uint64_t>>();
      for (int64_t i = 0; i < rows; ++i) keys->push_back(1000 + begin + i);
      const Tensor part = Leaf(raw::Clone(x.Narrow(0, begin, rows)));
      const Tensor y = Linear(part, {.weight = Weight(w, Tensor()),
                                     .bias = bias,
                                     .branches = {&branch, 1},
                                     .sequences = &sequences,
                                     .row_keys = keys});
      Backward(y, raw::Clone(dy.Narrow(0, begin, rows)));
    }
    return std::vector<Tensor>{Grad(branch.a.leaf), Grad(branch.b.leaf), Grad(bias)};
  };
  const auto whole = run({{0, 5}});
  const auto alone = run({{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}});
  const auto pairs = run({{0, 2}, {2, 4}, {4, 5}});
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_TRUE(SameBits(alone[i], whole[i])) << i;
    EXPECT_TRUE(SameBits(pairs[i], whole[i])) << i;
  }
}

TEST_P(LinearTest, FrozenHeadEqualsTheComposition) {
  const Tensor x = Random({9, 16}, 1), w = Random({50, 16}, 2, 0.3);
  const int32_t targets[] = {3, 49, -1, 0, 7, -5, 21, 33, 48};
  const Tensor x1 = Leaf(raw::Clone(x)), x2 = Leaf(raw::Clone(x));
  const Weight frozen(w, Tensor());
  const Tensor fused = LinearCrossEntropy(x1, {.weight = frozen}, targets);
  const Tensor composed = CrossEntropy(Linear(x2, {.weight = frozen}), targets);
  const double unit = GetParam() == DType::kBF16 ? 0x1.0p-8 : 0x1.0p-22;
  EXPECT_TRUE(testing::Near(fused, composed, 4 * unit));
  Backward(fused);
  Backward(composed);
  EXPECT_TRUE(testing::Near(Grad(x1), Grad(x2), 16 * unit));
}

INSTANTIATE_TEST_SUITE_P(Types, LinearTest, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& row) { return std::string(Name(row.param)); });

TEST(AdapterSpansTest, NarrowCutsAndCounts) {
  const AdapterSpans spans({{0, 0, 10}, {1, 10, 64}}, 64);
  EXPECT_EQ(spans.Narrow(0, 16).spans(), (std::vector<AdapterSpan>{{0, 0, 10}, {1, 10, 16}}));
  EXPECT_EQ(spans.Narrow(16, 32).spans(), (std::vector<AdapterSpan>{{1, 0, 16}}));
  EXPECT_EQ(spans.Narrow(0, 64).spans(), spans.spans());
  EXPECT_THROW(spans.Narrow(3, 65), Error);
}

TEST(AdapterSpansTest, PermuteFollowsRows) {
  const AdapterSpans spans({{0, 0, 2}, {-1, 2, 3}, {1, 3, 4}}, 4);
  const int32_t order[] = {3, 0, 1, 2};
  EXPECT_EQ(spans.Permute(order).spans(),
            (std::vector<AdapterSpan>{{1, 0, 1}, {0, 1, 3}, {-1, 3, 4}}));
}

TEST(AdapterSpansTest, GapsAreRefused) {
  EXPECT_THROW(AdapterSpans({{0, 0, 2}, {1, 3, 4}}, 4), Error);
  EXPECT_THROW(AdapterSpans({{0, 0, 2}}, 3), Error);
}

}  // namespace
}  // namespace lorica
