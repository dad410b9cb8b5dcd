// Injection, start values, compute copies, merging.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lorica/nn/forward_context.h"
#include "lorica/peft/adapter_set.h"
#include "lorica/peft/merge.h"
#include "lorica/tensor/cpu_backend.h"
#include "support/tensor_matchers.h"
#include "toy_model.h"

namespace lorica {
namespace {

using ::testing::HasSubstr;
using testing::Near;
using testing::RandomTensor;
using testing::SameBits;
using testing::ToyModel;

class LoraTest : public ::testing::Test {
 protected:
  AdapterSet Inject(ToyModel& model, const LoraConfig& config, DType dtype = DType::kF32) {
    auto set = InjectLora(model, *backend_, dtype, config);
    EXPECT_TRUE(set.ok()) << set.status();
    return *std::move(set);
  }
  std::string ErrorOf(LoraConfig config) {
    ToyModel model(*backend_, DType::kF32);
    return std::string(InjectLora(model, *backend_, DType::kF32, config).status().message());
  }
  void Randomise(const AdapterSet& set) {
    uint64_t seed = 1;
    set.ForEachFactor(0, [&](const std::string&, Tensor& master) {
      const Tensor values = RandomTensor(*backend_, master.shape(), master.dtype(), ++seed);
      backend_->Copy(values.view(), master.mutable_view());
    });
  }

  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
};

TEST_F(LoraTest, RankAndAlphaPatternsTakeTheFirstMatch) {
  ToyModel model(*backend_, DType::kF32);
  const AdapterSet set = Inject(model, {.rank = 4,
                                        .alpha = 8,
                                        .targets = {"q_proj", "*.mlp.up_proj"},
                                        .rank_pattern = {{"layers.1.*", 2}, {"q_proj", 3}},
                                        .alpha_pattern = {{"up_proj", 5}}});
  for (const AdaptedModule& module : set.modules()) {
    const LoraFactors& f = module.adapter->factors(0);
    const bool q = module.path.find("q_proj") != std::string::npos;
    const bool first = module.path.rfind("layers.1.", 0) == 0;
    EXPECT_EQ(f.rank(), first ? 2 : q ? 3 : 4) << module.path;
    EXPECT_EQ(f.alpha, q ? 8 : 5) << module.path;
    EXPECT_EQ(f.scale(), f.alpha / static_cast<double>(f.rank()));
  }
}

TEST_F(LoraTest, ScalesAreAsDocumented) {
  EXPECT_EQ(LoraScale(LoraScaling::kStandard, 8, 16), 2);
  EXPECT_EQ(LoraScale(LoraScaling::kRsLora, 16, 16), 4);
}

TEST_F(LoraTest, StartValuesHaveTheirDistribution) {
  for (const LoraInit init : {LoraInit::kKaiming, LoraInit::kXavier, LoraInit::kGaussian}) {
    LoraConfig config{.init = init, .seed = 3};
    const LoraFactors f = InitLoraFactors(*backend_, DType::kF32, AdapterHost::Kind::kLinear,
                                          {10, 400}, "p", config, 16, 32);
    double sum = 0, squares = 0, largest = 0;
    const std::vector<double> a = f.a.ToDoubles();
    for (double v : a) {
      sum += v;
      squares += v * v;
      largest = std::max(largest, std::abs(v));
    }
    const double n = static_cast<double>(a.size()), std = std::sqrt(squares / n);
    const double want = init == LoraInit::kKaiming  ? 1 / std::sqrt(400.0) / std::sqrt(3.0)
                        : init == LoraInit::kXavier ? std::sqrt(2.0 / 416)
                                                    : 1.0 / 16;
    EXPECT_NEAR(std / want, 1, 0.05) << Name(init);
    EXPECT_LT(std::abs(sum / n), 4 * want / std::sqrt(n)) << Name(init);
    if (init == LoraInit::kKaiming) {
      EXPECT_LE(largest, 1 / std::sqrt(400.0));
    }
    EXPECT_TRUE(Near(f.b, std::vector<double>(160, 0.0), 0));
  }
  const LoraFactors e = InitLoraFactors(*backend_, DType::kF32, AdapterHost::Kind::kEmbedding,
                                        {30, 8}, "p", {}, 4, 8);
  EXPECT_EQ(e.a.shape(), Shape({30, 4}));
  EXPECT_TRUE(Near(e.a, std::vector<double>(120, 0.0), 0));
  EXPECT_GT(e.b.ToDoubles()[0] * e.b.ToDoubles()[0], 0);
}

TEST_F(LoraTest, StartValuesDependOnSeedAndPathAlone) {
  ToyModel one(*backend_, DType::kF32), two(*backend_, DType::kF32);
  const AdapterSet few = Inject(one, {.targets = {"layers.3.self_attn.q_proj"}, .seed = 7});
  const AdapterSet all = Inject(two, {.targets = {"*_proj"}, .seed = 7});
  for (const AdaptedModule& module : all.modules()) {
    const bool same = bool(
        SameBits(module.adapter->factors(0).a.WithShape({module.adapter->factors(0).a.numel()}),
                 few.modules()[0].adapter->factors(0).a.WithShape(
                     {few.modules()[0].adapter->factors(0).a.numel()})));
    EXPECT_EQ(same, module.path == "layers.3.self_attn.q_proj") << module.path;
  }
}

TEST_F(LoraTest, BaseIsFrozenAndKeepsItsStorage) {
  ToyModel model(*backend_, DType::kBF16);
  const auto storage = model.linear("layers.0.self_attn.q_proj").weight().value().storage();
  MakeTrainable(model);
  Freeze(model);
  const AdapterSet set = Inject(model, {}, DType::kBF16);
  ForEachParameter(
      model, [](const std::string& path, Parameter& p) { EXPECT_FALSE(p.trainable()) << path; });
  set.ForEachFactor(0, [](const std::string& name, Tensor& master) {
    EXPECT_EQ(master.dtype(), DType::kF32) << name;
    EXPECT_TRUE(RequiresGrad(master)) << name;
  });
}

TEST_F(LoraTest, ComputeCopiesFollowTheMasters) {
  ToyModel model(*backend_, DType::kBF16);
  const AdapterSet set =
      Inject(model, {.rank = 2, .alpha = 6, .targets = {"q_proj"}}, DType::kBF16);
  LoraAdapter& adapter = *set.modules()[0].adapter;
  const uint64_t id = adapter.Branches(DType::kBF16, true)[0].b.value.storage()->id();
  EXPECT_EQ(adapter.Branches(DType::kBF16, true)[0].b.value.storage()->id(), id);  // made once
  adapter.factors(0).b.mutable_data<float>()[0] = 0.7f;
  const LoraBranch& branch = adapter.Branches(DType::kBF16, true)[0];
  EXPECT_EQ(branch.b.value.ToDoubles()[0], float(BF16(0.7f * 3)));  // scaled, then rounded once
  EXPECT_EQ(branch.b.value.dtype(), DType::kBF16);
}

TEST_F(LoraTest, DropoutActsInTrainingOnly) {
  ToyModel model(*backend_, DType::kF32);
  const AdapterSet set = Inject(model, {.dropout = 0.5, .targets = {"q_proj"}});
  Randomise(set);
  LoraAdapter& adapter = *set.modules()[0].adapter;
  EXPECT_EQ(adapter.Branches(DType::kF32, true)[0].dropout, 0.5);
  EXPECT_EQ(adapter.Branches(DType::kF32, false)[0].dropout, 0);
}

TEST_F(LoraTest, RefusesWhatCannotBe) {
  EXPECT_THAT(ErrorOf({.rank = 0}), HasSubstr("rank"));
  EXPECT_THAT(ErrorOf({.rank = -3}), HasSubstr("-3"));
  EXPECT_THAT(ErrorOf({.alpha = std::numeric_limits<double>::quiet_NaN()}), HasSubstr("alpha"));
  EXPECT_THAT(ErrorOf({.dropout = 1}), HasSubstr("dropout"));
  EXPECT_THAT(ErrorOf({.rank_pattern = {{"nothing", 4}}}), HasSubstr("rank pattern \"nothing\""));
  EXPECT_THAT(ErrorOf({.alpha_pattern = {{"lm_head", 4}}}), HasSubstr("alpha pattern"));
  EXPECT_THAT(ErrorOf({.dropout = 0.1, .targets = {"embed_tokens"}}), HasSubstr("embed_tokens"));
}

TEST_F(LoraTest, MergedWeightsGiveTheAdaptersOutputAndUnmergeRestoresEveryBit) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    ToyModel model(*backend_, dtype, 2);
    const AdapterSet set = Inject(
        model, {.rank = 3, .alpha = 5, .targets = {"q_proj", "embed_tokens", "lm_head"}}, dtype);
    Randomise(set);
    nn::Linear& q = model.linear("layers.0.self_attn.q_proj");
    const ForwardContext context = ForwardContext::ForSequences(Sequences::Single(5));
    const Tensor x = RandomTensor(*backend_, {5, 6}, dtype, 42);
    const int32_t ids[] = {3, 0, 8, 8, 1};
    const Tensor base_q = q.weight().value(), base_e = model.embed().weight().value();
    const Tensor y = q.Forward(x, context), e = model.embed().Forward(ids, context);
    {
      auto merged = MergedWeights::Merge(model, set);
      ASSERT_TRUE(merged.ok()) << merged.status();
      EXPECT_EQ(q.adapter(), nullptr);
      const double unit = dtype == DType::kF64 ? 1e-14 : dtype == DType::kF32 ? 1e-6 : 0.03;
      EXPECT_TRUE(Near(q.Forward(x, context), y, unit));
      EXPECT_TRUE(Near(model.embed().Forward(ids, context), e, unit));
      EXPECT_FALSE(bool(SameBits(q.weight().value(), base_q)));
    }
    EXPECT_TRUE(SameBits(q.weight().value(), base_q));
    EXPECT_TRUE(SameBits(model.embed().weight().value(), base_e));
    EXPECT_TRUE(SameBits(q.Forward(x, context), y));
  }
}

TEST_F(LoraTest, MergingANonFiniteFactorChangesNothing) {
  ToyModel model(*backend_, DType::kF32, 2);
  const AdapterSet set = Inject(model, {.targets = {"q_proj", "lm_head"}});
  Randomise(set);
  set.modules().back().adapter->factors(0).b.mutable_data<float>()[3] =
      std::numeric_limits<float>::quiet_NaN();
  const Tensor before = raw::Clone(set.modules()[0].host->weight().value());
  const auto merged = MergedWeights::Merge(model, set);
  EXPECT_THAT(std::string(merged.status().message()), HasSubstr("lm_head"));
  EXPECT_TRUE(SameBits(set.modules()[0].host->weight().value(), before));
  EXPECT_NE(set.modules()[0].host->adapter(), nullptr);
}

}  // namespace
}  // namespace lorica
