#include "lorica/train/trainer.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "lorica/autograd/autograd.h"
#include "lorica/peft/expert_files.h"
#include "lorica/peft/layouts/base_facts.h"
#include "lorica/train/evaluate.h"
#include "support/tensor_matchers.h"
#include "train/golden_run.h"

namespace lorica {
namespace {

// Steps, losses and norms of one run; `parameters` is what is trained.
void FollowTrajectory(CausalLm& model, ParameterGroup parameters, const nlohmann::json& run,
                      const std::string& name, double tolerance) {
  const MemorySource source = GoldenRecords(name, run["records"]);
  Trainer trainer(model, std::move(parameters), source, GoldenOptions(run));
  for (const nlohmann::json& step : run["steps"]) {
    const absl::StatusOr<StepMetrics> metrics = trainer.Step();
    ASSERT_TRUE(metrics.ok()) << metrics.status();
    EXPECT_NEAR(metrics->loss / step["loss"].get<double>(), 1, tolerance) << step["step"];
    EXPECT_NEAR(metrics->grad_norm / step["grad_norm"].get<double>(), 1, 10 * tolerance)
        << step["step"];
    EXPECT_NEAR(metrics->lr, step["lr"], 1e-17) << step["step"];
    EXPECT_EQ(metrics->step, step["step"].get<int64_t>() + 1);
  }
  EXPECT_TRUE(trainer.done());
  const absl::StatusOr<Evaluation> after = Evaluate(model, source, {});
  ASSERT_TRUE(after.ok());
  EXPECT_NEAR(after->loss() / run["loss_after_last_step"].get<double>(), 1, tolerance);
}

// The factors as PEFT's files have them, experts folded.
std::vector<std::pair<std::string, Tensor>> FileTensors(const AdaptedModule& module,
                                                        const ModelConfig& config) {
  const LoraFactors& factors = module.adapter->factors(0);
  if (module.host->kind() == AdapterHost::Kind::kGroupedLinear) {
    return ExpertTensors(module, factors.a, factors.b, AdapterLayout::kPeft3d,
                         BaseFactsOf(config).form,
                         /*layer_parts=*/2);
  }
  return {{PeftKey(module, true), PeftTensor(module, factors.a, true)},
          {PeftKey(module, false), PeftTensor(module, factors.b, false)}};
}

class Trajectory : public ::testing::TestWithParam<std::tuple<const char*, const char*, DType>> {};

TEST_P(Trajectory, OfAnAdapterIsThatOfPeft) {
  const auto [name, kind, dtype] = GetParam();
  const std::string folder = name;
  GoldenModel golden(folder, dtype);
  const AdapterSet set = golden.LoadAdapter(folder + "/adapter");
  const nlohmann::json run = GoldenJson(folder + "/trajectory.json")[kind];
  const bool exact = dtype == DType::kF64;
  FollowTrajectory(*golden.model, ParametersOf(set), run, folder, exact ? 1e-9 : 1e-4);

  const bool clip = std::string(kind) == "clip";
  const auto want = GoldenTensors(folder + (clip ? "/adapter_final_clip" : "/adapter_final") +
                                  "/adapter_model.safetensors");
  size_t compared = 0;
  for (const AdaptedModule& module : set.modules()) {
    for (const auto& [key, tensor] : FileTensors(module, golden.model->config())) {
      ASSERT_EQ(want.count(key), 1u) << key;
      // AdamW divides by the root of the second moment, so in f32 rounding of small gradients shows
      // at the scale of the rate: 8 steps of 0.01.
      EXPECT_TRUE(testing::Near(tensor, want.at(key), exact ? 3e-7 : 2e-3)) << key;
      ++compared;
    }
  }
  EXPECT_EQ(compared, want.size());
}

INSTANTIATE_TEST_SUITE_P(Golden, Trajectory,
                         ::testing::Combine(::testing::Values("llama_gqa", "llama_mqa_bias_tied",
                                                              "qwen2_patterns", "llama_embed_head"),
                                            ::testing::Values("plain", "clip"),
                                            ::testing::Values(DType::kF64, DType::kF32)));
INSTANTIATE_TEST_SUITE_P(Families, Trajectory,
                         ::testing::Combine(::testing::Values("mistral", "qwen2_window", "qwen3",
                                                              "smollm3", "granite", "olmo2",
                                                              "gemma2", "gemma3_text", "phi3"),
                                            ::testing::Values("clip"),
                                            ::testing::Values(DType::kF64, DType::kF32)));
INSTANTIATE_TEST_SUITE_P(
    Experts, Trajectory,
    ::testing::Combine(::testing::Values("mixtral", "qwen2_moe", "qwen3_moe", "olmoe",
                                         "deepseek_v2", "deepseek_v2_lite", "deepseek_v3",
                                         "glm4_moe", "glm4_moe_lite", "deepseek_v32", "glm_moe_dsa",
                                         "gpt_oss", "minimax_m2", "qwen3_5_moe"),
                       ::testing::Values("clip"), ::testing::Values(DType::kF64, DType::kF32)));

class TrainedRouters : public ::testing::TestWithParam<std::tuple<const char*, DType>> {};

TEST_P(TrainedRouters, FollowTheTrajectoryOfPeftAndTransformers) {
  const auto [name, dtype] = GetParam();
  const std::string folder = name;
  GoldenModel golden(folder, dtype);
  const AdapterSet set = golden.LoadAdapter(folder + "/adapter");
  for (const SavedRouter& router : ListRouters(*golden.model)) {
    router.router->weight().MakeTrainable();
    if (router.router->bias().defined()) router.router->bias().MakeTrainable();
  }
  ParameterGroup parameters = ParametersOf(set);
  for (NamedParameter& router : ParametersOf(*golden.model)) parameters.push_back(router);
  const bool exact = dtype == DType::kF64;
  FollowTrajectory(*golden.model, parameters, GoldenJson("../trained_routers.json")[name], folder,
                   exact ? 1e-9 : 1e-4);
  const auto want = GoldenTensors("../trained_routers.safetensors");
  size_t compared = 0;
  for (const NamedParameter& router : ParametersOf(*golden.model)) {
    const auto it = want.find(folder + "." + router.path);
    ASSERT_NE(it, want.end()) << router.path;
    EXPECT_TRUE(testing::Near(router.master, it->second, exact ? 3e-7 : 2e-3)) << router.path;
    ++compared;
  }
  EXPECT_GE(compared, 2u);
}

INSTANTIATE_TEST_SUITE_P(Golden, TrainedRouters,
                         ::testing::Combine(::testing::Values("deepseek_v3", "qwen3_moe",
                                                              "gpt_oss"),
                                            ::testing::Values(DType::kF64, DType::kF32)));

class FullTrajectory : public ::testing::TestWithParam<std::tuple<const char*, DType>> {};

TEST_P(FullTrajectory, IsThatOfTransformers) {
  const auto [kind, dtype] = GetParam();
  GoldenModel golden("llama_full", dtype);
  MakeTrainable(*golden.model);
  const nlohmann::json run = GoldenJson("llama_full/full_trajectory.json")[kind];
  const bool exact = dtype == DType::kF64;
  FollowTrajectory(*golden.model, ParametersOf(*golden.model), run, "llama_full",
                   exact ? 1e-9 : 1e-4);
  const bool clip = std::string(kind) == "clip";
  const auto want = GoldenTensors(clip ? "llama_full/full_final_clip.safetensors"
                                       : "llama_full/full_final.safetensors");
  size_t compared = 0;
  ForEachParameter(*golden.model, [&](const std::string& path, Parameter& parameter) {
    ASSERT_EQ(want.count(path), 1u) << path;
    EXPECT_TRUE(testing::Near(parameter.master(), want.at(path), exact ? 3e-7 : 2e-3)) << path;
    ++compared;
  });
  EXPECT_EQ(compared, want.size());
}

INSTANTIATE_TEST_SUITE_P(Golden, FullTrajectory,
                         ::testing::Combine(::testing::Values("plain", "clip"),
                                            ::testing::Values(DType::kF64, DType::kF32)));

TEST(ParametersOf, AModelGivesEveryParameterARole) {
  GoldenModel golden("llama_embed_head", DType::kF32);
  EXPECT_TRUE(ParametersOf(*golden.model).empty());  // all frozen
  MakeTrainable(*golden.model);
  std::map<std::string, ParameterRole> roles;
  for (const NamedParameter& parameter : ParametersOf(*golden.model)) {
    roles[parameter.path] = parameter.role;
  }
  EXPECT_EQ(roles.at("model.embed_tokens.weight"), ParameterRole::kEmbedding);
  EXPECT_EQ(roles.at("lm_head.weight"), ParameterRole::kHead);
  EXPECT_EQ(roles.at("model.norm.weight"), ParameterRole::kVector);
  EXPECT_EQ(roles.at("model.layers.0.self_attn.q_proj.weight"), ParameterRole::kMatrix);
}

TEST(TotalSteps, CountsShortBatchesAndTheLimit) {
  TrainerOptions options;
  options.batch_size = 4;
  options.epochs = 3;
  EXPECT_EQ(TotalSteps(9, options), 9);
  EXPECT_EQ(TotalSteps(8, options), 6);
  options.max_steps = 5;
  EXPECT_EQ(TotalSteps(9, options), 5);
  options.max_steps = 50;
  EXPECT_EQ(TotalSteps(9, options), 9);
  options.mixture = {{0, 5, 0.4}, {5, 9, 2}};  // 2 and 8 records an epoch
  EXPECT_EQ(EpochRecords(9, options), 10);
  EXPECT_EQ(StepsPerEpoch(9, options), 3);
  EXPECT_EQ(TotalSteps(9, options), 9);
}

// Of one step at a rate of 0: the loss and the gradient of every factor.
std::pair<double, std::vector<std::vector<double>>> LossAndGradient(
    const std::vector<TrainingSequence>& sequences, int64_t rows = 0) {
  GoldenModel golden("llama_gqa", DType::kF64);
  const AdapterSet set = golden.LoadAdapter("llama_gqa/adapter");
  const MemorySource source(sequences);
  TrainerOptions options;
  options.optimizer.adamw = {.lr = 1, .beta1 = 0, .beta2 = 0, .eps = 1e6};
  options.max_grad_norm = 0;
  options.shuffle = false;
  options.batch = {.packing = false, .rows = rows};
  const ParameterGroup group = ParametersOf(set);
  std::vector<std::vector<double>> before, change;
  for (const NamedParameter& parameter : group) before.push_back(parameter.master.ToDoubles());
  Trainer trainer(*golden.model, group, source, options);
  const absl::StatusOr<StepMetrics> metrics = trainer.Step();
  EXPECT_TRUE(metrics.ok()) << metrics.status();
  // With such an eps a step of AdamW is the gradient over eps.
  for (size_t i = 0; i < before.size(); ++i) {
    change.push_back(group[i].master.ToDoubles());
    for (size_t j = 0; j < before[i].size(); ++j) change[i][j] -= before[i][j];
  }
  return {metrics->loss, std::move(change)};
}

TEST(Trainer, WeightsMultiplyLossesAndTheirSumDivides) {
  const std::vector<int32_t> a = {3, 9, 4, 7}, b = {5, 8, 2};
  GoldenModel golden("llama_gqa", DType::kF64);
  const AdapterSet set = golden.LoadAdapter("llama_gqa/adapter");
  const Batch batch =
      Batch::Of({TrainingSequence::FromLabels(a, a), TrainingSequence::FromLabels(b, b)}, {});
  const std::vector<double> losses =
      golden.model->Loss(batch.ids, batch.targets, batch.context).ToDoubles();
  // By hand: tokens 1 to 3 of a count 0.5, 0 and 3, token 1 of b counts 1 and token 2 isn't
  // trained.
  const std::vector<TrainingSequence> weighted = {
      TrainingSequence::FromLabels(a, a, {1, 0.5, 0, 3}),
      TrainingSequence::FromLabels(b, {5, 8, -100})};
  const double expected = (0.5 * losses[0] + 3 * losses[2] + losses[4]) / 4.5;
  const auto [loss, gradient] = LossAndGradient(weighted);
  EXPECT_NEAR(loss, expected, 1e-14);
  const MemorySource source(weighted);
  EXPECT_NEAR(Evaluate(*golden.model, source, {})->loss(), expected, 1e-14);

  // A weight of 2 is the same as coming twice.
  const TrainingSequence once = TrainingSequence::FromLabels(a, a);
  const TrainingSequence twice = TrainingSequence::FromLabels(a, a, {2, 2, 2, 2});
  const TrainingSequence other = TrainingSequence::FromLabels(b, b);
  const auto by_weight = LossAndGradient({twice, other});
  const auto by_number = LossAndGradient({once, once, other});
  EXPECT_NEAR(by_weight.first, by_number.first, 1e-14);
  double largest = 0;
  for (size_t i = 0; i < by_weight.second.size(); ++i) {
    EXPECT_TRUE(testing::Near(by_weight.second[i], by_number.second[i], 1e-7)) << i;
    for (const double value : by_weight.second[i]) largest = std::max(largest, std::abs(value));
  }
  EXPECT_GT(largest, 0);
  EXPECT_NE(LossAndGradient({once, other}).second, by_weight.second);
  // However the work is cut.
  EXPECT_EQ(LossAndGradient({twice, other}, 1), by_weight);
}

TEST(Trainer, CountsTokensEpochsAndPosition) {
  GoldenModel golden("llama_gqa", DType::kF32);
  const AdapterSet set = golden.LoadAdapter("llama_gqa/adapter");
  const MemorySource source = GoldenRecords("llama_gqa", {0, 1, 2, 3, 4});
  TrainerOptions options;
  options.batch_size = 2;
  options.epochs = 2;
  options.shuffle = false;
  Trainer trainer(*golden.model, ParametersOf(set), source, options);
  EXPECT_EQ(trainer.total_steps(), 6);
  const std::vector<int64_t> tokens = {11, 32, 2, 11, 32, 2};
  const std::vector<double> epochs = {0.4, 0.8, 1, 1.4, 1.8, 2};
  const std::vector<int64_t> positions = {2, 4, 5, 7, 9, 10};
  for (size_t i = 0; i < tokens.size(); ++i) {
    const absl::StatusOr<StepMetrics> metrics = trainer.Step();
    ASSERT_TRUE(metrics.ok()) << metrics.status();
    EXPECT_EQ(metrics->tokens, tokens[i]);
    EXPECT_DOUBLE_EQ(metrics->epoch, epochs[i]);
    EXPECT_EQ(trainer.position(), positions[i]);
    EXPECT_GT(metrics->peak_rss_bytes, 0);
  }
  EXPECT_TRUE(trainer.done());
}

TEST(Trainer, NamesAStepWithoutATrainedToken) {
  GoldenModel golden("llama_gqa", DType::kF32);
  const AdapterSet set = golden.LoadAdapter("llama_gqa/adapter");
  const MemorySource source({TrainingSequence::FromLabels({1, 2, 3}, {-100, 2, 3}),
                             TrainingSequence::FromLabels({1, 2, 3}, {-100, -100, -100}),
                             TrainingSequence::FromLabels({4, 2}, {4, -100})});
  TrainerOptions options;
  options.shuffle = false;
  options.batch_size = 3;
  EXPECT_TRUE(Trainer(*golden.model, ParametersOf(set), source, options).CheckSteps().ok());
  options.batch_size = 1;
  Trainer trainer(*golden.model, ParametersOf(set), source, options);
  EXPECT_EQ(trainer.CheckSteps().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(trainer.CheckSteps().message(),
            "expected a trained token in every step, found none in step 2, of record 2");
  ASSERT_TRUE(trainer.Step().ok());
  EXPECT_EQ(trainer.Step().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Trainer, StopsBeforeAStepThatIsNotFinite) {
  GoldenModel golden("llama_gqa", DType::kF32);
  const AdapterSet set = golden.LoadAdapter("llama_gqa/adapter");
  const MemorySource source = GoldenRecords("llama_gqa", {0, 1});
  ParameterGroup group = ParametersOf(set);
  Tensor first = group[0].master;
  first.mutable_data<float>()[0] = NAN;
  const std::vector<double> other = group[1].master.ToDoubles();
  Trainer trainer(*golden.model, group, source, {});
  const absl::StatusOr<StepMetrics> metrics = trainer.Step();
  EXPECT_EQ(metrics.status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(absl::StrContains(metrics.status().message(), "step 1: the loss isn't finite"))
      << metrics.status();
  EXPECT_EQ(trainer.step(), 0);
  EXPECT_EQ(group[1].master.ToDoubles(), other);
  EXPECT_FALSE(Grad(group[1].master).defined());
}

// --- Bits that don't depend on how the work is cut.

struct Cut {
  int threads = 1;
  bool packing = true;
  int64_t rows = 0;
  bool recompute = false;
  int64_t row_tokens = 2048, pass_tokens = 2048;
};

// All bytes of a LoRA run of several steps with dropout, shuffling and short batches, and its
// losses.
struct Outcome {
  std::vector<std::vector<double>> factors;
  std::vector<double> losses, norms;
  bool operator==(const Outcome&) const = default;
};

Outcome RunCut(const std::string& name, DType dtype, const Cut& cut) {
  GoldenModel golden(name, dtype, cut.threads);
  LoraConfig config;
  config.rank = 3;
  config.targets = {"all-linear"};
  if (name == "llama_embed_head") {
    config.targets = {"all-linear", "lm_head", "embed_tokens"};
  } else {
    config.dropout = 0.25;
  }
  config.seed = 7;
  absl::StatusOr<AdapterSet> set = InjectLora(*golden.model, *golden.backend, dtype, config);
  EXPECT_TRUE(set.ok()) << set.status();
  const MemorySource source = GoldenRecords(name, {0, 1, 2, 3, 4, 5, 1, 3, 5, 2, 0});
  TrainerOptions options;
  options.optimizer.adamw.lr = 0.02;
  options.batch_size = 8;
  options.epochs = 2;
  options.seed = 3;
  options.recompute = cut.recompute;
  options.batch = {.packing = cut.packing,
                   .row_tokens = cut.row_tokens,
                   .rows = cut.rows,
                   .pass_tokens = cut.pass_tokens};
  Trainer trainer(*golden.model, ParametersOf(*set), source, options);
  Outcome outcome;
  while (!trainer.done()) {
    const absl::StatusOr<StepMetrics> metrics = trainer.Step();
    EXPECT_TRUE(metrics.ok()) << metrics.status();
    if (!metrics.ok()) break;
    outcome.losses.push_back(metrics->loss);
    outcome.norms.push_back(metrics->grad_norm);
  }
  for (const NamedParameter& parameter : trainer.optimizer().parameters()) {
    outcome.factors.push_back(parameter.master.ToDoubles());
  }
  return outcome;
}

class Invariance : public ::testing::TestWithParam<std::tuple<const char*, DType>> {};

TEST_P(Invariance, ThreadsPackingPassesAndRecomputeChangeNoBit) {
  const auto [name, dtype] = GetParam();
  const Outcome reference = RunCut(name, dtype, {.packing = false, .rows = 1});
  ASSERT_EQ(reference.losses.size(), 4u);
  EXPECT_LT(reference.losses.back(), reference.losses.front());
  std::vector<Cut> cuts = {{.threads = 2},
                           {.threads = 3, .packing = false, .rows = 3, .recompute = true},
                           {.threads = 2, .recompute = true},
                           {.threads = 3, .rows = 1, .row_tokens = 24},
                           {.rows = 2, .row_tokens = 12},
                           {.threads = 2, .pass_tokens = 30},
                           {.packing = false, .recompute = true, .pass_tokens = 1}};
  for (int64_t rows = 2; rows <= 8; ++rows) {
    cuts.push_back(
        {.threads = static_cast<int>(1 + rows % 3), .packing = rows % 2 == 0, .rows = rows});
  }
  for (const Cut& cut : cuts) {
    SCOPED_TRACE(::testing::Message()
                 << "threads " << cut.threads << " packing " << cut.packing << " rows " << cut.rows
                 << " recompute " << cut.recompute << " row tokens " << cut.row_tokens
                 << " pass tokens " << cut.pass_tokens);
    EXPECT_TRUE(RunCut(name, dtype, cut) == reference);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Invariance,
                         ::testing::Combine(::testing::Values("llama_gqa", "qwen2_patterns",
                                                              "llama_embed_head"),
                                            ::testing::Values(DType::kF32, DType::kBF16)));

TEST(Trainer, FullTrainingDependsOnPassesWithinRoundingOnly) {
  std::vector<std::vector<double>> first;
  for (const int64_t rows : {1, 3, 8}) {
    GoldenModel golden("llama_full", DType::kF32);
    MakeTrainable(*golden.model);
    const MemorySource source = GoldenRecords("llama_full", {0, 1, 2, 3, 4, 5});
    TrainerOptions options;
    options.batch_size = 6;
    options.batch = {.packing = false, .rows = rows};
    Trainer trainer(*golden.model, ParametersOf(*golden.model), source, options);
    ASSERT_TRUE(trainer.Step().ok());
    std::vector<std::vector<double>> values;
    for (const NamedParameter& parameter : trainer.optimizer().parameters()) {
      values.push_back(parameter.master.ToDoubles());
    }
    if (first.empty()) first = values;
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(testing::Near(values[i], first[i], 1e-3));
    }
  }
}

TEST(Trainer, AFreshDropoutMaskComesWithEveryEpoch) {
  GoldenModel golden("llama_gqa", DType::kF32);
  LoraConfig config;
  config.dropout = 0.5;
  absl::StatusOr<AdapterSet> set = InjectLora(*golden.model, *golden.backend, DType::kF32, config);
  ASSERT_TRUE(set.ok());
  // B is zero at first; only its gradient, which sees the dropped input, tells masks apart.
  const MemorySource source = GoldenRecords("llama_gqa", {3});
  TrainerOptions options;
  options.optimizer.adamw.lr = 0;
  options.epochs = 2;
  Trainer trainer(*golden.model, ParametersOf(*set), source, options);
  const absl::StatusOr<StepMetrics> first = trainer.Step(), second = trainer.Step();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->loss, second->loss);
  EXPECT_NE(first->grad_norm, second->grad_norm);
}

}  // namespace
}  // namespace lorica
