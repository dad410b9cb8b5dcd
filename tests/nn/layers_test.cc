#include <cmath>

#include "lorica/nn/grouped_linear.h"
#include "lorica/nn/rope.h"
#include "nn/nn_fixture.h"

namespace lorica {
namespace {

using ::lorica::testing::Near;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using LayersTest = NnTest;

Tensor Values(Backend& backend, const Shape& shape, double start) {
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(start + 0.7 * double(i));
  return Tensor::FromHost<double>(backend, shape, values);
}

TEST_F(LayersTest, LinearIsXTimesWeightTransposedPlusBias) {
  nn::Linear linear(Tensor::FromHost<double>(backend_, {2, 3}, {1, 2, 3, 4, 5, 6}),
                    Tensor::FromHost<double>(backend_, {2}, {10, 20}));
  const Tensor x = Tensor::FromHost<double>(backend_, {1, 3}, {1, 0, -1});
  EXPECT_THAT(linear.Forward(x, ContextOf({1})).ToDoubles(), ElementsAre(8, 18));
}

TEST_F(LayersTest, LinearChecksItsShapes) {
  EXPECT_THROW(nn::Linear(Parameter::Declare({3}, DType::kF32)), Error);
  EXPECT_THROW(
      nn::Linear(Parameter::Declare({3, 2}, DType::kF32), Parameter::Declare({2}, DType::kF32)),
      Error);
}

// Says how often and with what it is asked.
class FakeAdapter final : public LinearAdapter {
 public:
  explicit FakeAdapter(std::vector<LoraBranch> branches) : branches_(std::move(branches)) {}
  absl::Span<const LoraBranch> Branches(DType compute, bool training) override {
    ++calls;
    last_type = compute;
    last_training = training;
    return branches_;
  }
  int calls = 0;
  DType last_type = DType::kF32;
  bool last_training = false;

 private:
  std::vector<LoraBranch> branches_;
};

TEST_F(LayersTest, AdapterBranchReachesTheProduct) {
  const Tensor w = Values(backend_, {4, 3}, 1), a = Values(backend_, {2, 3}, 2),
               b = Values(backend_, {4, 2}, 3), x = Values(backend_, {5, 3}, 4);
  nn::Linear linear(w);
  ForwardContext context = ContextOf({2, 3});
  context.training = true;
  const std::vector<double> base = linear.Forward(x, context).ToDoubles();
  LoraBranch branch;
  branch.a = a;
  branch.b = b;
  const auto adapter = std::make_shared<FakeAdapter>(std::vector<LoraBranch>{branch});
  linear.set_adapter(adapter);
  std::vector<double> want = base;
  const auto xs = x.ToDoubles(), as = a.ToDoubles(), bs = b.ToDoubles();
  for (int t = 0; t < 5; ++t)
    for (int o = 0; o < 4; ++o)
      for (int r = 0; r < 2; ++r)
        for (int i = 0; i < 3; ++i)
          want[t * 4 + o] += bs[o * 2 + r] * as[r * 3 + i] * xs[t * 3 + i];
  EXPECT_TRUE(Near(linear.Forward(x, context), want, 1e-13));
  EXPECT_EQ(adapter->calls, 1);
  EXPECT_EQ(adapter->last_type, DType::kF64);
  EXPECT_TRUE(adapter->last_training);

  // Rows 2 to 4 by the base alone.
  context.spans = AdapterSpans({{0, 0, 2}, {-1, 2, 5}}, 5);
  const std::vector<double> mixed = linear.Forward(x, context).ToDoubles();
  EXPECT_NE(mixed[0], base[0]);
  EXPECT_EQ(std::vector<double>(mixed.begin() + 8, mixed.end()),
            std::vector<double>(base.begin() + 8, base.end()));
}

TEST_F(LayersTest, GroupedLinearTakesARowGroupPerWeight) {
  const Tensor w = Values(backend_, {3, 4, 5}, 1), x = Values(backend_, {6, 5}, 2);
  nn::GroupedLinear grouped{Parameter(w)};
  const RowOffsets offsets{{0, 2, 2, 6}};
  const Tensor y = grouped.Forward(x, offsets, ContextOf({6}));
  for (int g : {0, 2}) {
    nn::Linear one(raw::Clone(w.Narrow(0, g, 1)).WithShape({4, 5}));
    const int64_t begin = offsets.begin(g), size = offsets.size(g);
    EXPECT_TRUE(Near(y.Narrow(0, begin, size),
                     one.Forward(x.Narrow(0, begin, size), ContextOf({size})), 1e-13));
  }
}

TEST_F(LayersTest, GroupedLinearRefusesAnAdapter) {
  nn::GroupedLinear grouped{Parameter(Values(backend_, {1, 4, 5}, 1))};
  grouped.set_adapter(std::make_shared<FakeAdapter>(std::vector<LoraBranch>{}));
  EXPECT_THROW(grouped.Forward(Values(backend_, {2, 5}, 1), RowOffsets::Single(2), ContextOf({2})),
               Error);
}

TEST(RopeTest, DefaultFrequenciesFallGeometrically) {
  RopeConfig config;
  config.theta = 10000;
  config.channels = 4;
  EXPECT_THAT(InverseFrequencies(config, 1), ElementsAre(1.0, 0.01));
}

TEST_F(LayersTest, RotaryTableGrowsWithoutChangingItsStart) {
  RopeConfig config;
  config.channels = 6;
  Rotary rotary(config);
  const Tensor small = rotary.Table(backend_, DType::kF64, 3).cos;
  const int64_t rows = small.dim(0);
  ASSERT_GE(rows, 3);
  const RopeTable& large = rotary.Table(backend_, DType::kF64, rows + 1);
  ASSERT_GT(large.cos.dim(0), rows);
  EXPECT_TRUE(testing::SameBits(large.cos.Narrow(0, 0, rows), small));
  EXPECT_EQ(large.sin.ToDoubles()[3 * 2 + 1], std::sin(2 * std::pow(10000.0, -2.0 / 6)));
  EXPECT_EQ(rotary.Table(backend_, DType::kBF16, 3).cos.dtype(), DType::kF32);
}

TEST(ForwardContextTest, PositionsRestartWithEachSequence) {
  const ForwardContext context = ForwardContext::ForSequences({{0, 2, 2, 5}}, {7, 8, 9});
  EXPECT_THAT(context.positions, ElementsAre(0, 1, 0, 1, 2));
  ASSERT_EQ(context.row_keys->size(), 5u);
  // Keys depend on the sample and the position in it, not on the place in the batch.
  const ForwardContext alone = ForwardContext::ForSequences({{0, 3}}, {9});
  for (int i = 0; i < 3; ++i) EXPECT_EQ((*context.row_keys)[2 + i], (*alone.row_keys)[i]);
  EXPECT_NE((*context.row_keys)[0], (*context.row_keys)[2]);
}

TEST(ForwardContextTest, SelectKeepsSequencesSpansAndKeys) {
  ForwardContext context = ForwardContext::ForSequences({{0, 3, 5, 8}}, {1, 2, 3});
  context.spans = AdapterSpans({{0, 0, 5}, {1, 5, 8}}, 8);
  context.training = true;
  const ForwardContext selected = context.Select({1, 2, 6});
  EXPECT_THAT(selected.sequences.offsets, ElementsAre(0, 2, 2, 3));
  EXPECT_THAT(selected.positions, ElementsAre(1, 2, 1));
  EXPECT_EQ((*selected.row_keys)[2], (*context.row_keys)[6]);
  EXPECT_TRUE(selected.training);
  EXPECT_THAT(selected.spans.spans(), ElementsAre(AdapterSpan{0, 0, 2}, AdapterSpan{1, 2, 3}));
  EXPECT_THROW(context.Select({2, 1}), Error);
  EXPECT_THROW(context.Select({8}), Error);
}

TEST_F(LayersTest, ModelRefusesForeignIds) {
  auto model = TinyModel(backend_, DType::kF32);
  EXPECT_THROW(model->Hidden({1, 53}, ContextOf({2})), Error);
  EXPECT_THROW(model->Hidden({1, -1}, ContextOf({2})), Error);
  EXPECT_THROW(model->Hidden({1, 2, 3}, ContextOf({2})), Error);
}

TEST_F(LayersTest, RandomInitIsKeyedByPathAndSeed) {
  const ModelConfig config = TinyConfig();
  CausalLm a(config, DType::kF32), b(config, DType::kF32), c(config, DType::kF32);
  InitializeRandom(a, backend_, {.seed = 1});
  InitializeRandom(b, backend_, {.seed = 1});
  InitializeRandom(c, backend_, {.seed = 2});
  const auto table = [](CausalLm& model) {
    return model.model().embed_tokens().weight().value().ToDoubles();
  };
  EXPECT_EQ(table(a), table(b));
  EXPECT_NE(table(a), table(c));
  EXPECT_NE(table(a), a.lm_head().weight().value().ToDoubles());
  double squares = 0;
  for (double value : table(a)) squares += value * value;
  EXPECT_NEAR(std::sqrt(squares / double(table(a).size())), 0.02, 0.002);
  ForEachParameter(a, [](const std::string& path, Parameter& parameter) {
    if (parameter.shape().rank() != 1) return;
    const double want = path.find("norm") != std::string::npos ? 1 : 0;
    EXPECT_EQ(parameter.value().ToDoubles()[0], want) << path;
  });
}

}  // namespace
}  // namespace lorica
