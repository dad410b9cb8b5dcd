// LoRA on stacked experts: targets, start values, copies, merging.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lorica/autograd/autograd.h"
#include "lorica/nn/moe.h"
#include "lorica/peft/adapter_set.h"
#include "lorica/peft/merge.h"
#include "lorica/tensor/cpu_backend.h"
#include "support/tensor_matchers.h"
#include "toy_model.h"

namespace lorica {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Near;
using testing::RandomTensor;
using testing::SameBits;

// layers.0.mlp and layers.1.mlp.
class MoeModel : public Module {
 public:
  MoeModel(Backend& backend, const nn::MoeConfig& config, DType dtype) {
    for (int i = 0; i < 2; ++i) layers_.push_back(std::make_unique<nn::Moe>(config, dtype));
    uint64_t seed = 7;
    ForEachParameter(*this, [&](const std::string&, Parameter& p) {
      p.Assign(RandomTensor(backend, p.shape(), p.compute_dtype(), ++seed));
    });
  }
  Tensor Forward(const Tensor& x, const ForwardContext& context) {
    return layers_[1]->Forward(layers_[0]->Forward(x, context), context);
  }
  void Visit(ModuleVisitor& visitor) override {
    for (size_t i = 0; i < layers_.size(); ++i) {
      visitor.OnChild("layers." + std::to_string(i) + ".mlp", *layers_[i]);
    }
  }
  nn::Moe& layer(size_t i) { return *layers_[i]; }

 private:
  std::vector<std::unique_ptr<nn::Moe>> layers_;
};

nn::MoeConfig SmallMoe() {
  nn::MoeConfig config;
  config.hidden = 6;
  config.experts = 4;
  config.expert_width = 5;
  config.router.top_k = 2;
  config.shared_width = 3;
  return config;
}

class ExpertLoraTest : public ::testing::Test {
 protected:
  AdapterSet Inject(Module& model, const LoraConfig& config, DType dtype = DType::kF64) {
    auto set = InjectLora(model, *backend_, dtype, config);
    EXPECT_TRUE(set.ok()) << set.status();
    return set.ok() ? *std::move(set) : AdapterSet();
  }
  std::string ErrorOf(LoraConfig config) {
    MoeModel model(*backend_, SmallMoe(), DType::kF32);
    return std::string(InjectLora(model, *backend_, DType::kF32, config).status().message());
  }
  void Randomise(const AdapterSet& set) {
    uint64_t seed = 1;
    set.ForEachFactor(0, [&](const std::string&, Tensor& master) {
      const Tensor values = RandomTensor(*backend_, master.shape(), master.dtype(), ++seed);
      backend_->Copy(values.view(), master.mutable_view());
    });
  }
  static std::vector<std::string> Names(const AdapterSet& set) {
    std::vector<std::string> names;
    for (const AdaptedModule& module : set.modules()) names.push_back(module.path);
    return names;
  }
  static ForwardContext Context(int64_t tokens) {
    return ForwardContext::ForSequences(Sequences::Single(tokens));
  }

  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
};

constexpr ExpertLoraKind kKinds[] = {ExpertLoraKind::kFused, ExpertLoraKind::kSplit,
                                     ExpertLoraKind::kSharedOuter};

TEST_F(ExpertLoraTest, TheMergedModelIsTheAdaptedOne) {
  std::vector<GatedActivation> activations = {
      {},
      {.slope = 1.702, .offset = 1, .limit = 0.6, .interleaved = true},
      {.kind = GatedActivation::Kind::kGeluTanh},
      {.kind = GatedActivation::Kind::kRelu2}};
  for (const GatedActivation& activation : activations) {
    for (RouterWeightPlacement placement :
         {RouterWeightPlacement::kBeforeDown, RouterWeightPlacement::kAfterDown}) {
      for (ExpertNumerics numerics : {ExpertNumerics::kFast, ExpertNumerics::kAutomodel}) {
        for (ExpertLoraKind kind : kKinds) {
          nn::MoeConfig moe = SmallMoe();
          moe.activation = activation;
          moe.placement = placement;
          moe.numerics = numerics;
          moe.expert_bias = true;
          MoeModel model(*backend_, moe, DType::kF64);
          const AdapterSet set = Inject(
              model,
              {.rank = 3, .alpha = 7, .targets = {"*.experts", "*_proj"}, .expert_kind = kind});
          Randomise(set);
          std::vector<Tensor> outputs, grads, weights;
          for (int pass = 0; pass < 3; ++pass) {
            std::optional<MergedWeights> merged;
            if (pass == 1) {
              auto result = MergedWeights::Merge(model, set);
              ASSERT_TRUE(result.ok()) << result.status();
              merged.emplace(*std::move(result));
            }
            Tensor x = RandomTensor(*backend_, {9, 6}, DType::kF64, 5);
            SetRequiresGrad(x, true);
            outputs.push_back(model.Forward(x, Context(9)));
            Backward(outputs.back());
            grads.push_back(Grad(x));
            weights.push_back(model.layer(0).experts().gate_up().weight().value());
          }
          EXPECT_TRUE(Near(outputs[1], outputs[0], 1e-10));
          EXPECT_TRUE(Near(grads[1], grads[0], 1e-10));
          EXPECT_FALSE(SameBits(weights[1], weights[0]));
          EXPECT_TRUE(SameBits(weights[2], weights[0]));
          EXPECT_TRUE(SameBits(outputs[2], outputs[0]));
        }
      }
    }
  }
}

TEST_F(ExpertLoraTest, AWildcardDoesntCrossIntoExpertsNorTheNameIntoSharedOnes) {
  MoeModel model(*backend_, SmallMoe(), DType::kF64);
  for (const std::string& name : Names(Inject(model, {.targets = {"*_proj"}}))) {
    EXPECT_THAT(name, HasSubstr("shared_experts"));
  }
  EXPECT_THAT(Names(Inject(model, {.targets = {"*.experts"}})),
              ElementsAre("layers.0.mlp.experts.gate_up_proj", "layers.0.mlp.experts.down_proj",
                          "layers.1.mlp.experts.gate_up_proj", "layers.1.mlp.experts.down_proj"));
  EXPECT_THAT(Names(Inject(model, {.targets = {"layers.1.*.experts"}})),
              ElementsAre("layers.1.mlp.experts.gate_up_proj", "layers.1.mlp.experts.down_proj"));
  EXPECT_THAT(Names(Inject(model, {.targets = {"experts.down_proj"}})),
              ElementsAre("layers.0.mlp.experts.down_proj", "layers.1.mlp.experts.down_proj"));
  EXPECT_THAT(Names(Inject(model, {.targets = {"layers.0.mlp.experts"},
                                   .expert_kind = ExpertLoraKind::kSplit})),
              ElementsAre("layers.0.mlp.experts.gate_proj", "layers.0.mlp.experts.up_proj",
                          "layers.0.mlp.experts.down_proj"));
}

TEST_F(ExpertLoraTest, ANameOfTheOtherKindSaysSo) {
  EXPECT_THAT(ErrorOf({.targets = {"experts.gate_proj"}}),
              HasSubstr("fused adapters have one gate_up_proj, the kind split has gate_proj"));
  EXPECT_THAT(ErrorOf({.targets = {"experts.gate_up_proj"}, .expert_kind = ExpertLoraKind::kSplit}),
              HasSubstr("split adapters have gate_proj and up_proj instead"));
}

TEST_F(ExpertLoraTest, OnePartAloneIsEnough) {
  for (const char* target : {"experts.up_proj", "experts.gate_proj", "experts.down_proj"}) {
    MoeModel model(*backend_, SmallMoe(), DType::kF64);
    const AdapterSet set =
        Inject(model, {.rank = 2, .targets = {target}, .expert_kind = ExpertLoraKind::kSplit});
    Randomise(set);
    const Tensor x = RandomTensor(*backend_, {7, 6}, DType::kF64, 5);
    const Tensor y = model.Forward(x, Context(7));
    Backward(y);
    for (const AdaptedModule& module : set.modules()) {
      const LoraFactors& f = module.adapter->factors(0);
      EXPECT_TRUE(Grad(f.a).defined() && Grad(f.b).defined()) << module.path;
    }
    const auto merged = MergedWeights::Merge(model, set);
    ASSERT_TRUE(merged.ok());
    EXPECT_TRUE(Near(model.Forward(x, Context(7)), y.ToDoubles(), 1e-10)) << target;
  }
}

TEST_F(ExpertLoraTest, FactorsHaveTheShapesOfTheirKind) {
  const std::vector<std::vector<Shape>> want = {
      {{4, 3, 6}, {4, 10, 3}, {4, 3, 5}, {4, 6, 3}},
      {{4, 3, 6}, {4, 5, 3}, {4, 3, 6}, {4, 5, 3}, {4, 3, 5}, {4, 6, 3}},
      {{1, 3, 6}, {4, 10, 3}, {4, 3, 5}, {1, 6, 3}}};
  for (ExpertLoraKind kind : kKinds) {
    MoeModel model(*backend_, SmallMoe(), DType::kF32);
    const AdapterSet set = Inject(
        model, {.rank = 3, .targets = {"layers.0.mlp.experts"}, .expert_kind = kind}, DType::kF32);
    std::vector<Shape> shapes;
    set.ForEachFactor(0, [&](const std::string& name, Tensor& master) {
      shapes.push_back(master.shape());
      EXPECT_TRUE(RequiresGrad(master));
      double largest = 0;
      for (double v : master.ToDoubles()) largest = std::max(largest, std::abs(v));
      // +-1 / sqrt(in) of one expert's A, whatever the number of experts.
      const bool is_a = name.back() == 'A';
      EXPECT_EQ(largest > 0, is_a) << name;
      if (is_a) {
        EXPECT_LE(largest, 1 / std::sqrt(static_cast<double>(master.dim(2))));
        EXPECT_GT(largest, 0.8 / std::sqrt(static_cast<double>(master.dim(2))));
      }
    });
    EXPECT_EQ(shapes, want[static_cast<size_t>(kind)]);
  }
}

TEST_F(ExpertLoraTest, AnExpertsStartDoesntDependOnHowManyThereAre) {
  std::vector<Tensor> starts;
  for (int64_t experts : {4, 8}) {
    nn::MoeConfig config = SmallMoe();
    config.experts = experts;
    MoeModel model(*backend_, config, DType::kF32);
    const AdapterSet set = Inject(model, {.rank = 3, .targets = {"*.experts"}}, DType::kF32);
    starts.push_back(raw::Clone(set.modules()[0].adapter->factors(0).a.Narrow(0, 0, 4)));
  }
  EXPECT_TRUE(SameBits(starts[1].Detach(), starts[0].Detach()));
  const Tensor first = raw::Clone(starts[0].Narrow(0, 0, 1)), second = starts[0].Narrow(0, 1, 1);
  EXPECT_FALSE(SameBits(first, raw::Clone(second)));
}

TEST_F(ExpertLoraTest, RanksOfExpertsAreDivided) {
  MoeModel model(*backend_, SmallMoe(), DType::kF32);
  const AdapterSet set = Inject(
      model,
      {.rank = 16, .alpha = 32, .targets = {"*.experts", "*_proj"}, .expert_rank_divisor = 3},
      DType::kF32);
  for (const AdaptedModule& module : set.modules()) {
    const bool expert = module.host->kind() == AdapterHost::Kind::kGroupedLinear;
    EXPECT_EQ(module.adapter->factors(0).rank(), expert ? 5 : 16) << module.path;
    EXPECT_EQ(module.adapter->factors(0).alpha, 32);
  }
  EXPECT_THAT(set.notes(), ElementsAre(HasSubstr("rounded down to 5")));
  EXPECT_THAT(ErrorOf({.rank = 1, .targets = {"*.experts"}, .expert_rank_divisor = 2}),
              HasSubstr("the rank of layers.0.mlp.experts.gate_up_proj divided by 2"));
}

TEST_F(ExpertLoraTest, CopiesFollowTheirMasters) {
  MoeModel model(*backend_, SmallMoe(), DType::kBF16);
  const AdapterSet set = Inject(model, {.rank = 3, .targets = {"*.experts"}}, DType::kBF16);
  const Tensor x = RandomTensor(*backend_, {7, 6}, DType::kBF16, 5);
  const Tensor base = model.Forward(x, Context(7));
  nn::GroupedLinear& host = model.layer(0).experts().gate_up();
  const GroupedBranch& branch = host.adapter()->Grouped(DType::kBF16, true, true);
  const Tensor a = branch.a, b = branch.b;
  EXPECT_EQ(a.shape(), Shape({4, 8, 6}));  // the rank padded to 16 bytes
  EXPECT_EQ(host.adapter()->Grouped(DType::kBF16, true, true).b.storage(), b.storage());
  Tensor& master = set.modules()[0].adapter->factors(0).b;
  backend_->Fill(master.mutable_view(), 0.25);
  EXPECT_NE(host.adapter()->Grouped(DType::kBF16, true, true).b.storage(), b.storage());
  EXPECT_FALSE(SameBits(model.Forward(x, Context(7)), base));
}

TEST_F(ExpertLoraTest, AFactorThatIsntFiniteIsNotMerged) {
  MoeModel model(*backend_, SmallMoe(), DType::kF32);
  const AdapterSet set =
      Inject(model, {.rank = 2, .targets = {"*.experts"}, .expert_kind = ExpertLoraKind::kSplit},
             DType::kF32);
  const Tensor before = raw::Clone(model.layer(1).experts().gate_up().weight().value());
  set.modules()[4].adapter->factors(0).b.mutable_data<float>()[1] = NAN;
  EXPECT_THAT(std::string(MergedWeights::Merge(model, set).status().message()),
              HasSubstr("layers.1.mlp.experts.up_proj"));
  EXPECT_TRUE(SameBits(model.layer(1).experts().gate_up().weight().value(), before));
}

}  // namespace
}  // namespace lorica
