// Fine-tuning of models with experts: loads, the balancing loss, correction biases, names.
#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "lorica/train/exit_status.h"
#include "train/expert_training_fixture.h"

namespace lorica {
namespace {

using ::testing::HasSubstr;

TEST_F(ExpertTraining, LoadsSumToTokensTimesExpertsATokenWhateverThePasses) {
  std::vector<LayerLoad> first;  // of the last run's first step
  const auto run = [&](const std::string& name, int64_t rows, bool packing, bool recompute) {
    SftOptions options = MoeOptions(name);
    options.aux_loss = 0.01;
    options.micro_batch_size = rows;
    options.packing = packing;
    options.recompute = recompute ? "full" : "none";
    int64_t calls = 0;
    SftCallbacks callbacks;
    callbacks.on_step = [&](const StepMetrics& step, const SftProgress&) {
      ++calls;
      if (step.step == 1) first = step.loads;
      // The first of the three layers is dense.
      ASSERT_EQ(step.loads.size(), 2u);
      EXPECT_EQ(step.loads[0].path, "model.layers.1.mlp");
      EXPECT_GT(step.aux_loss, 0);
      for (const LayerLoad& layer : step.loads) {
        ASSERT_EQ(layer.load.size(), 8u);
        int64_t sum = 0;
        for (const int64_t tokens : layer.load) sum += tokens;
        EXPECT_EQ(sum, step.tokens * 3);
      }
    };
    MustRun(options, callbacks);
    EXPECT_EQ(calls, 6);
    return Log(options);
  };
  const MetricsLog one = run("one", 64, true, false);
  const std::vector<LayerLoad> in_one_pass = first;
  ASSERT_EQ(in_one_pass.size(), 2u);
  // Every second step is evaluated, and tells the load since the line before.
  ASSERT_EQ(one.steps.size(), 6u);
  int64_t told = 0, tokens = 0;
  for (const StepMetrics& step : one.steps) {
    EXPECT_EQ(step.loads.empty(), step.step % 2 != 0);
    EXPECT_GT(step.aux_loss, 0);
    tokens += step.tokens;
    for (const LayerLoad& layer : step.loads) {
      for (const int64_t count : layer.load) told += count;
    }
  }
  EXPECT_EQ(told, 2 * 3 * tokens);
  // The first step's loads don't depend on the passes; later ones see other weights, because the
  // balancing loss is over a pass.
  first.clear();
  run("apart", 1, false, false);
  EXPECT_EQ(first, in_one_pass);
  const MetricsLog again = run("again", 64, true, true);
  ASSERT_EQ(again.steps.size(), one.steps.size());
  for (size_t i = 0; i < one.steps.size(); ++i) {
    EXPECT_EQ(one.steps[i].loads, again.steps[i].loads) << i;
    EXPECT_EQ(one.steps[i].aux_loss, again.steps[i].aux_loss) << i;
    EXPECT_EQ(one.steps[i].loss, again.steps[i].loss) << i;
  }
  EXPECT_THAT(ReadText(folder_ / "one/report.html"), HasSubstr("Tokens of each expert"));
  EXPECT_THAT(ReadText(folder_ / "one/report.html"), HasSubstr("Balancing loss"));
}

TEST_F(ExpertTraining, WithoutABalancingLossLoadsAreThoseOfAnyPasses) {
  SftOptions options = MoeOptions("one");
  options.micro_batch_size = 64;
  MustRun(options);
  const MetricsLog one = Log(options);
  options = MoeOptions("apart");
  options.micro_batch_size = 1;
  options.packing = false;
  MustRun(options);
  const MetricsLog apart = Log(options);
  ASSERT_EQ(one.steps.size(), 6u);
  ASSERT_EQ(apart.steps.size(), one.steps.size());
  for (size_t i = 0; i < one.steps.size(); ++i) {
    EXPECT_EQ(one.steps[i].loads.size(), i % 2 == 0 ? 0u : 2u) << i;
    EXPECT_EQ(one.steps[i].loads, apart.steps[i].loads) << i;
    EXPECT_EQ(one.steps[i].aux_loss, 0);
  }
}

TEST_F(ExpertTraining, ABalancingLossAndMovedBiasesEvenTheLoad) {
  const auto imbalance = [&](const std::string& name, const std::string& model, double coefficient,
                             double rate) {
    SftOptions options = MoeOptions(name);
    options.model = GoldenPath(model + "/model");
    options.train_router = true;
    options.target = {"o_proj"};
    options.aux_loss = coefficient;
    options.router_bias_update = rate;
    options.epochs = 8;
    options.schedule = "constant";
    MustRun(options);
    const MetricsLog log = Log(options);
    ExpertLoads last;
    EXPECT_GE(log.steps.size(), 6u);
    for (size_t i = std::max(log.steps.size(), size_t{6}) - 6; i < log.steps.size(); ++i) {
      if (!log.steps[i].loads.empty()) AddLoads(log.steps[i].loads, last);
    }
    EXPECT_FALSE(last.empty());
    return WorstImbalance(last);
  };
  EXPECT_LT(imbalance("loss", "qwen3_moe", 1, 0), imbalance("free", "qwen3_moe", 0, 0) - 0.2);
  EXPECT_LT(imbalance("bias", "deepseek_v3", 0, 0.05),
            imbalance("still", "deepseek_v3", 0, 0) - 0.2);
}

TEST_F(ExpertTraining, CorrectionBiasesMoveByTheRateAgainstTheLoad) {
  SftOptions options = MoeOptions("run");
  options.max_steps = 1;
  options.router_bias_update = 0.25;
  std::vector<LayerLoad> loads;
  SftCallbacks callbacks;
  callbacks.on_step = [&](const StepMetrics& step, const SftProgress&) { loads = step.loads; };
  MustRun(options, callbacks);
  ASSERT_EQ(loads.size(), 2u);
  const auto tensors = AdapterTensors(options);
  const auto base = Tensors(GoldenPath("deepseek_v3/model/model.safetensors"));
  for (size_t l = 0; l < 2; ++l) {
    const std::string path = "model.layers." + std::to_string(l + 1) + ".mlp.gate.";
    const std::vector<double>& got =
        tensors.at("base_model.model." + path + "e_score_correction_bias");
    const std::vector<double>& had = base.at(path + "e_score_correction_bias");
    ASSERT_EQ(got.size(), 8u);
    ASSERT_EQ(had.size(), 8u);
    ASSERT_EQ(loads[l].load.size(), 8u);
    double sum = 0;
    for (const int64_t tokens : loads[l].load) sum += static_cast<double>(tokens);
    for (size_t e = 0; e < got.size(); ++e) {
      const double gap = sum / 8 - static_cast<double>(loads[l].load[e]);
      const double step = gap == 0 ? 0 : std::copysign(0.25, gap);
      EXPECT_NEAR(got[e], had[e] + step, 1e-6) << path << " " << e;
    }
    // The weights are there to make the router complete; they weren't trained.
    EXPECT_EQ(tensors.at("base_model.model." + path + "weight"), base.at(path + "weight"));
  }
}

TEST_F(ExpertTraining, FullTrainingWritesMovedBiasesIntoTheModel) {
  SftOptions options = MoeOptions("run");
  options.lora_rank = 0;
  options.target.clear();
  options.max_steps = 1;
  options.router_bias_update = 0.25;
  MustRun(options);
  const std::string name = "model.layers.1.mlp.gate.e_score_correction_bias";
  const std::vector<double> got = Tensors(options.output + "/model/model.safetensors").at(name);
  const std::vector<double> had =
      Tensors(GoldenPath("deepseek_v3/model/model.safetensors")).at(name);
  ASSERT_EQ(got.size(), 8u);
  ASSERT_EQ(had.size(), 8u);
  double moved = 0;
  for (size_t e = 0; e < got.size(); ++e) moved = std::max(moved, std::abs(got[e] - had[e]));
  EXPECT_NEAR(moved, 0.25, 1e-6);
}

// PEFT takes names such as gate_proj for parts of experts in every model that has some, so those of
// dense and shared MLPs are named as parameters, whatever else is adapted.
TEST_F(ExpertTraining, DenseModulesBesideExpertsAreNamedAsPeftReachesThem) {
  SftOptions options = MoeOptions("run");
  options.target = {"*_proj"};
  const SftResult result = MustRun(options);
  const std::string path = result.result_path + "/adapter_config.json";
  nlohmann::json config = nlohmann::json::parse(ReadText(path));
  const std::vector<std::string> parameters = config["target_parameters"];
  EXPECT_THAT(parameters, ::testing::Contains("model.layers.0.mlp.gate_proj.weight"));
  EXPECT_THAT(parameters,
              ::testing::Contains("model.layers.1.mlp.shared_experts.down_proj.weight"));
  EXPECT_FALSE(config["target_modules"].empty());
  for (const std::string name : config["target_modules"]) {
    EXPECT_FALSE(absl::EndsWith(name, "gate_proj")) << name;
  }
  GoldenModel base("deepseek_v3", DType::kF32);
  const auto load = [&] {
    return LoadPeftAdapter(result.result_path, *base.model, *base.backend, DType::kF32);
  };
  const absl::StatusOr<AdapterSet> set = load();
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->modules().size(), PlanSft(options)->modules.size());
  SftOptions second = MoeOptions("second");
  second.target.clear();
  second.lora_rank.reset();
  second.init_adapter = result.result_path;
  second.lr = 0;
  MustRun(second);
  EXPECT_EQ(AdapterTensors(options), AdapterTensors(second));

  config["target_parameters"].push_back("model.layers.7.mlp.up_proj.weight");
  WriteText(path, config.dump());
  EXPECT_THAT(std::string(load().status().message()), HasSubstr("model.layers.7.mlp.up_proj"));
}

TEST_F(ExpertTraining, OptionsThatWouldHaveNoEffectAreRefused) {
  const auto message = [&](const SftOptions& options) {
    const absl::Status status = Failed(options);
    EXPECT_EQ(ExitStatus(status), kExitUsage) << status;
    return std::string(status.message());
  };
  SftOptions dense = Options("dense");
  dense.train_router = true;
  EXPECT_THAT(message(dense), HasSubstr("--train-router: expected a model with experts"));
  dense = Options("dense");
  dense.router_bias_update = 0.001;
  EXPECT_THAT(message(dense), HasSubstr("--router-bias-update: expected a model with experts"));
  dense = Options("dense");
  dense.numerics = "automodel";
  EXPECT_THAT(message(dense), HasSubstr("--numerics: expected a model with experts"));

  SftOptions softmax = MoeOptions("softmax");
  softmax.model = GoldenPath("qwen3_moe/model");
  softmax.router_bias_update = 0.001;
  EXPECT_THAT(message(softmax), HasSubstr("whose routers have a correction bias"));

  SftOptions moe = MoeOptions("moe");
  moe.train_router = true;
  moe.target.push_back("*.mlp.gate");
  EXPECT_THAT(message(moe), HasSubstr("has an adapter by --target already"));
  moe = MoeOptions("moe");
  moe.train_router = true;
  moe.exclude = {"*.layers.2.mlp.gate"};
  EXPECT_THAT(message(moe), HasSubstr("leaves out the router model.layers.2.mlp.gate"));
  for (const double rate : {-1.0, 2.0, 1e300}) {
    moe = MoeOptions("moe");
    moe.router_bias_update = rate;
    EXPECT_THAT(message(moe), HasSubstr("--router-bias-update"));
  }
  for (const char* behind : {"lm_head", "*.layers.2.mlp.experts"}) {
    moe = MoeOptions("moe");
    moe.target = {behind};
    moe.aux_loss = 0.01;
    EXPECT_THAT(message(moe), HasSubstr("--aux-loss: expected something that trains")) << behind;
  }
  moe = MoeOptions("moe");
  moe.lora_rank = 0;
  moe.target.clear();
  moe.train_router = true;
  EXPECT_THAT(message(moe), HasSubstr("--train-router has no meaning with --lora-rank 0"));

  SftOptions first = MoeOptions("first");
  first.max_steps = 1;
  first.lora_rank = 6;
  first.moe_rank_scaling = true;
  MustRun(first);
  SftOptions second = MoeOptions("second");
  second.init_adapter = first.output + "/adapter";
  second.target.clear();
  second.moe_rank_scaling = true;
  second.lora_rank.reset();
  EXPECT_THAT(message(second), HasSubstr("--moe-rank-scaling with --init-adapter"));
  second.lora_rank = 6;
  second.max_steps = 1;
  MustRun(second);
}

TEST_F(ExpertTraining, APlanCountsRouters) {
  SftOptions options = MoeOptions("run");
  const absl::StatusOr<SftPlan> without = PlanSft(options);
  ASSERT_TRUE(without.ok()) << without.status();
  options.train_router = true;
  const absl::StatusOr<SftPlan> with = PlanSft(options);
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_EQ(with->router_parameters, 2 * 8 * 21);
  EXPECT_EQ(with->trainable_parameters, without->trainable_parameters + with->router_parameters);
  std::optional<SftPlan> real;
  SftCallbacks callbacks;
  callbacks.on_plan = [&](const SftPlan& plan) { real = plan; };
  MustRun(options, callbacks);
  EXPECT_EQ(real->trainable_parameters, with->trainable_parameters);
}

}  // namespace
}  // namespace lorica
