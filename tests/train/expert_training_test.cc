// Fine-tuning of models with experts: loads, the balancing loss, trained routers, correction
// biases.
#include <cmath>
#include <filesystem>
#include <map>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "lorica/autograd/autograd.h"
#include "lorica/train/convert_adapter.h"
#include "lorica/train/exit_status.h"
#include "lorica/train/merge_model.h"
#include "train/sft_fixture.h"

namespace lorica {
namespace {

using ::testing::HasSubstr;

class ExpertTraining : public SftFixture {
 protected:
  // Latent attention, 2 layers of 8 experts of which a token takes 3, sigmoid routers with a
  // correction bias.
  SftOptions MoeOptions(const std::string& output) const {
    SftOptions options = Options(output);
    options.model = GoldenPath("deepseek_v3/model");
    options.target = {"*_proj", "*.experts"};
    options.lora_dropout = 0;
    return options;
  }

  static absl::Status Failed(const SftOptions& options) { return RunSft(options).status(); }

  // Routers of `model`, and tensors of adapters by key.
  static std::map<std::string, std::vector<double>> Tensors(const std::string& file) {
    absl::StatusOr<std::unique_ptr<TensorSource>> source = OpenSafetensorsSource(file);
    EXPECT_TRUE(source.ok()) << source.status();
    std::map<std::string, std::vector<double>> tensors;
    for (const std::string& key : (*source)->names()) {
      int64_t count = 1;
      for (const int64_t extent : (*source)->Find(key)->shape) count *= extent;
      tensors[key].resize(static_cast<size_t>(count));
      EXPECT_TRUE((*source)->ReadAll(key, DType::kF64, tensors[key].data()).ok());
    }
    return tensors;
  }
  static std::map<std::string, std::vector<double>> AdapterTensors(const SftOptions& options) {
    return Tensors(options.output + "/adapter/adapter_model.safetensors");
  }

  static MetricsLog Log(const SftOptions& options) {
    absl::StatusOr<MetricsLog> log = ReadMetrics(PosixFiles(), options.output + "/metrics.jsonl");
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }

  static std::vector<double> Logits(CausalLm& model) {
    const NoGrad no_grad;
    const std::vector<int32_t> ids = {3, 1, 4, 1, 5, 9, 2, 6, 5};
    const ForwardContext context =
        ForwardContext::ForSequences(Sequences::Single(static_cast<int64_t>(ids.size())));
    return model.Logits(model.Hidden(ids, context), context).ToDoubles();
  }
};

constexpr char kGate1[] = "base_model.model.model.layers.1.mlp.gate.";
constexpr char kGate2[] = "base_model.model.model.layers.2.mlp.gate.";

TEST_F(ExpertTraining, LoadsSumToTokensTimesExpertsATokenWhateverThePasses) {
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
  run("apart", 1, false, false);
  const MetricsLog again = run("again", 64, true, true);
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
  for (size_t i = 0; i < one.steps.size(); ++i) {
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
    for (size_t i = log.steps.size() - 6; i < log.steps.size(); ++i) {
      if (!log.steps[i].loads.empty()) AddLoads(log.steps[i].loads, last);
    }
    return WorstImbalance(last);
  };
  EXPECT_LT(imbalance("loss", "qwen3_moe", 1, 0), imbalance("free", "qwen3_moe", 0, 0) - 0.2);
  EXPECT_LT(imbalance("bias", "deepseek_v3", 0, 0.05),
            imbalance("still", "deepseek_v3", 0, 0) - 0.2);
}

TEST_F(ExpertTraining, TrainedRoutersStandInTheAdapterAndComeBackWithIt) {
  SftOptions options = MoeOptions("run");
  options.train_router = true;
  const SftResult result = MustRun(options);
  const auto tensors = AdapterTensors(options);
  ASSERT_EQ(tensors.count(std::string(kGate1) + "weight"), 1u);
  ASSERT_EQ(tensors.count(std::string(kGate2) + "e_score_correction_bias"), 1u);
  const nlohmann::json config =
      nlohmann::json::parse(ReadText(options.output + "/adapter/adapter_config.json"));
  EXPECT_EQ(config["modules_to_save"],
            (nlohmann::json{"model.layers.1.mlp.gate", "model.layers.2.mlp.gate"}));

  GoldenModel base("deepseek_v3", DType::kF32);
  const std::vector<double> before = Logits(*base.model);
  const absl::StatusOr<AdapterSet> set =
      LoadPeftAdapter(result.result_path, *base.model, *base.backend, DType::kF32);
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_EQ(set->routers().size(), 2u);
  nn::Router& router = *set->routers()[0].router;
  const std::vector<double> own = set->routers()[0].originals[0].ToDoubles();
  EXPECT_EQ(router.weight().value().ToDoubles(), tensors.at(std::string(kGate1) + "weight"));
  EXPECT_NE(router.weight().value().ToDoubles(), own);
  EXPECT_NE(Logits(*base.model), before);
  set->Detach();
  EXPECT_EQ(router.weight().value().ToDoubles(), own);
  EXPECT_EQ(Logits(*base.model), before);
}

TEST_F(ExpertTraining, TrainedRoutersDependOnNoPassThreadOrRecompute) {
  SftOptions options = MoeOptions("one");
  options.train_router = true;
  options.router_bias_update = 0.01;
  options.micro_batch_size = 64;
  MustRun(options);
  SftOptions other = MoeOptions("other");
  other.train_router = true;
  other.router_bias_update = 0.01;
  other.micro_batch_size = 1;
  other.threads = 2;
  other.recompute = "full";
  other.packing = false;
  MustRun(other);
  EXPECT_EQ(ReadText(options.output + "/adapter/adapter_model.safetensors"),
            ReadText(other.output + "/adapter/adapter_model.safetensors"));
}

TEST_F(ExpertTraining, RoutersAndBiasesResumeExactly) {
  SftOptions options = MoeOptions("whole");
  options.train_router = true;
  options.router_bias_update = 0.01;
  options.aux_loss = 0.01;
  options.keep_best = true;
  options.eval_every = 3;
  options.keep = 10;
  MustRun(options);
  SftOptions parts = options;
  parts.output = folder_ / "parts";
  for (const int64_t stop : {2, 5}) {  // in between two lines that tell loads
    bool stopped = false;
    SftCallbacks callbacks;
    callbacks.on_step = [&](const StepMetrics& step, const SftProgress&) {
      stopped = stopped || step.step == stop;
    };
    callbacks.cancelled = [&] { return stopped; };
    EXPECT_TRUE(absl::IsCancelled(RunSft(parts, callbacks).status()));
  }
  MustRun(parts);
  ExpectSameRun(options.output, parts.output);
}

TEST_F(ExpertTraining, CorrectionBiasesMoveByTheRateAgainstTheLoad) {
  SftOptions options = MoeOptions("run");
  options.max_steps = 1;
  options.router_bias_update = 0.25;
  std::vector<LayerLoad> loads;
  SftCallbacks callbacks;
  callbacks.on_step = [&](const StepMetrics& step, const SftProgress&) { loads = step.loads; };
  MustRun(options, callbacks);
  const auto tensors = AdapterTensors(options);
  const auto base = Tensors(GoldenPath("deepseek_v3/model/model.safetensors"));
  for (size_t l = 0; l < 2; ++l) {
    const std::string path = "model.layers." + std::to_string(l + 1) + ".mlp.gate.";
    const std::vector<double>& got =
        tensors.at("base_model.model." + path + "e_score_correction_bias");
    const std::vector<double>& had = base.at(path + "e_score_correction_bias");
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
  ASSERT_EQ(got.size(), had.size());
  double moved = 0;
  for (size_t e = 0; e < got.size(); ++e) moved = std::max(moved, std::abs(got[e] - had[e]));
  EXPECT_NEAR(moved, 0.25, 1e-6);
}

TEST_F(ExpertTraining, InitAdapterTrainsOnFromItsRouters) {
  SftOptions first = MoeOptions("first");
  first.train_router = true;
  first.target = {"o_proj"};  // the folder of adapters without experts
  MustRun(first);
  SftOptions options = MoeOptions("second");
  options.target.clear();
  options.init_adapter = first.output + "/adapter";
  options.lora_rank.reset();
  options.lr = 0;
  const absl::Status refused = Failed(options);
  EXPECT_EQ(ExitStatus(refused), kExitUsage);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--train-router trains on from it"));
  options.train_router = true;
  MustRun(options);
  EXPECT_EQ(ReadText(first.output + "/adapter/adapter_model.safetensors"),
            ReadText(options.output + "/adapter/adapter_model.safetensors"));
  EXPECT_NE(AdapterTensors(options).at(std::string(kGate1) + "weight"),
            Tensors(GoldenPath("deepseek_v3/model/model.safetensors"))
                .at("model.layers.1.mlp.gate.weight"));
}

TEST_F(ExpertTraining, MergingAndConvertingKeepRouters) {
  SftOptions options = MoeOptions("run");
  options.train_router = true;
  options.router_bias_update = 0.01;
  const SftResult result = MustRun(options);
  ThreadPool pool(1);
  const auto backend = MakeCpuBackend(pool);
  const absl::StatusOr<MergeSummary> merged = MergeModel(
      {.model = options.model, .adapter = result.result_path, .output = folder_ / "merged"},
      *backend);
  ASSERT_TRUE(merged.ok()) << merged.status();
  const auto model = Tensors(folder_ / "merged/model.safetensors");
  const auto adapter = AdapterTensors(options);
  EXPECT_EQ(model.at("model.layers.1.mlp.gate.weight"), adapter.at(std::string(kGate1) + "weight"));
  EXPECT_EQ(model.at("model.layers.2.mlp.gate.e_score_correction_bias"),
            adapter.at(std::string(kGate2) + "e_score_correction_bias"));

  ConvertOptions convert;
  convert.adapter = result.result_path;
  convert.to = "peft-3d";
  convert.output = folder_ / "stacked";
  const absl::StatusOr<ConvertSummary> converted = ConvertAdapter(convert, *backend);
  ASSERT_TRUE(converted.ok()) << converted.status();
  EXPECT_EQ(
      Tensors(convert.output + "/adapter_model.safetensors").at(std::string(kGate1) + "weight"),
      adapter.at(std::string(kGate1) + "weight"));
  convert.to = "mlx";
  convert.output = folder_ / "mlx";
  EXPECT_THAT(std::string(ConvertAdapter(convert, *backend).status().message()),
              HasSubstr("brings in full"));
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

TEST_F(ExpertTraining, AnAdapterThatLacksAPartOfARouterIsRefused) {
  SftOptions options = MoeOptions("run");
  options.train_router = true;
  options.target = {"o_proj"};
  options.max_steps = 1;
  const SftResult result = MustRun(options);
  const std::string path = result.result_path + "/adapter_config.json";
  nlohmann::json config = nlohmann::json::parse(ReadText(path));
  config["modules_to_save"] = {"model.layers.1.mlp.gate"};
  WriteText(path, config.dump());
  GoldenModel base("deepseek_v3", DType::kF32);
  // Layer 2's tensors now belong to nothing.
  EXPECT_FALSE(LoadPeftAdapter(result.result_path, *base.model, *base.backend, DType::kF32).ok());
  config["modules_to_save"] = {"gate", "no_such"};
  WriteText(path, config.dump());
  EXPECT_FALSE(LoadPeftAdapter(result.result_path, *base.model, *base.backend, DType::kF32).ok());
  config["modules_to_save"] = {"gate"};
  WriteText(path, config.dump());
  const absl::StatusOr<AdapterSet> set =
      LoadPeftAdapter(result.result_path, *base.model, *base.backend, DType::kF32);
  EXPECT_TRUE(set.ok()) << set.status();
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
