#include "lorica/train/sft.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "lorica/train/exit_status.h"
#include "train/sft_fixture.h"

namespace lorica {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class SftTest : public SftFixture {
 protected:
  // Runs what must be refused: nothing of the output may be left.
  std::string Refused(const SftOptions& options, int exit_status) {
    const bool existed = std::filesystem::exists(options.output);
    const auto before = ReadTree(options.output);
    const absl::StatusOr<SftResult> result = RunSft(options);
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(ExitStatus(result.status()), exit_status) << result.status();
    EXPECT_EQ(std::filesystem::exists(options.output), existed);
    EXPECT_EQ(ReadTree(options.output), before);
    return std::string(result.status().message());
  }
};

TEST_F(SftTest, WritesAdapterCheckpointsMetricsConfigurationAndReport) {
  std::vector<int64_t> steps, evaluations;
  std::optional<SftPlan> plan;
  SftCallbacks callbacks;
  callbacks.on_plan = [&](const SftPlan& p) { plan = p; };
  callbacks.on_step = [&](const StepMetrics& m, const SftProgress& progress) {
    steps.push_back(m.step);
    EXPECT_EQ(progress.step, m.step);
    EXPECT_EQ(progress.total_steps, 6);
  };
  callbacks.on_evaluation = [&](const EvalMetrics& m, const SftProgress&) {
    evaluations.push_back(m.step);
  };
  const SftOptions options = Options("run");
  const SftResult result = MustRun(options, callbacks);

  EXPECT_EQ(result.steps, 6);
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(evaluations, (std::vector<int64_t>{2, 4, 6}));
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->total_steps, 6);
  EXPECT_EQ(plan->steps_per_epoch, 3);
  EXPECT_EQ(plan->data->records, 21);
  EXPECT_EQ(plan->by_name.size(), 7u);
  EXPECT_GT(plan->trainable_parameters, 0);
  EXPECT_GT(plan->memory.total(), plan->memory.weights);
  EXPECT_LT(result.last.loss, 5);

  const auto tree = ReadTree(options.output);
  for (const char* name :
       {"adapter/adapter_config.json", "adapter/adapter_model.safetensors", "config.toml",
        "metrics.jsonl", "report.html", "checkpoints/LATEST",
        "checkpoints/step-00000002/MANIFEST.json", "checkpoints/step-00000006/MANIFEST.json"}) {
    EXPECT_EQ(tree.count(name), 1u) << name;
  }
  EXPECT_EQ(tree.count(".lorica.lock"), 0u);
  EXPECT_EQ(Metrics(options.output).size(), 9u);
  // The configuration is complete: it alone makes the same run.
  absl::StatusOr<SftOptions> again = SftOptionsFromToml(tree.at("config.toml"), "config.toml");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(SftOptionsToToml(*again), SftOptionsToToml(options));
  again->output = folder_ / "again";
  MustRun(*again);
  ExpectSameRun(options.output, again->output);
}

TEST_F(SftTest, KeepsTheNewestCheckpoints) {
  SftOptions options = Options("run");
  options.save_every = 1;
  options.keep = 2;
  MustRun(options);
  const auto tree = ReadTree(options.output + "/checkpoints");
  EXPECT_EQ(tree.count("step-00000004/"), 0u);
  EXPECT_EQ(tree.count("step-00000005/"), 1u);
  EXPECT_EQ(tree.count("step-00000006/"), 1u);
}

TEST_F(SftTest, KeepBestWritesTheAdapterOfTheBestEvaluation) {
  SftOptions options = Options("short");
  options.schedule = "constant";
  options.eval_every = 1;
  options.warmup_steps = 0;
  options.keep_best = true;
  // Tokens that training never sees, at a rate so large that their loss falls a few times, then
  // rises.
  options.lr = 1;
  WriteText(held_out_, "{\"input_ids\": [50, 60, 70, 80, 90]}\n");
  const SftResult best = MustRun(options);
  ASSERT_GT(best.evaluations.best_step, 0);
  ASSERT_LT(best.evaluations.best_step, 6);
  EXPECT_GT(best.last_evaluation->eval_loss, best.evaluations.best_loss);
  // The run that ends at the best step has the same adapter.
  options.output = folder_ / "until_best";
  options.max_steps = best.evaluations.best_step;
  options.keep_best = false;
  MustRun(options);
  EXPECT_EQ(ReadText(folder_ / "short/adapter/adapter_model.safetensors"),
            ReadText(folder_ / "until_best/adapter/adapter_model.safetensors"));
}

TEST_F(SftTest, StopsEarlyAfterEvaluationsWithoutImprovement) {
  SftOptions options = Options("run");
  options.eval_every = 1;
  options.lr = 0;  // nothing ever improves
  options.early_stop = 2;
  const SftResult result = MustRun(options);
  EXPECT_TRUE(result.stopped_early);
  EXPECT_EQ(result.steps, 3);
  EXPECT_EQ(result.evaluations.best_step, 1);
  EXPECT_TRUE(std::filesystem::exists(options.output + "/checkpoints/step-00000003"));
  EXPECT_TRUE(MustRun(options).was_finished);
}

TEST_F(SftTest, FullTrainingWritesAModelFolder) {
  SftOptions options = Options("run");
  options.lora_rank = 0;
  options.lora_dropout = 0;
  options.optimizer = "muon";
  options.max_steps = 2;
  const SftResult result = MustRun(options);
  EXPECT_EQ(result.result_path, options.output + "/model");
  ThreadPool pool(1);
  const auto backend = MakeCpuBackend(pool);
  const absl::StatusOr<LoadedModel> loaded =
      LoadModel(options.output + "/model", *backend, DType::kF32);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_FALSE(std::filesystem::exists(options.output + "/adapter"));
  EXPECT_TRUE(MustRun(options).was_finished);
}

TEST_F(SftTest, InitAdapterContinuesItsWeights) {
  SftOptions first = Options("first");
  MustRun(first);
  SftOptions options = Options("second");
  options.init_adapter = first.output + "/adapter";
  options.lora_rank.reset();
  options.lr = 0;
  MustRun(options);
  EXPECT_EQ(ReadText(first.output + "/adapter/adapter_model.safetensors"),
            ReadText(options.output + "/adapter/adapter_model.safetensors"));
  options = Options("third");
  options.init_adapter = first.output + "/adapter";
  options.lora_rank = 3;
  EXPECT_THAT(Refused(options, kExitUsage), HasSubstr("--lora-rank contradicts --init-adapter"));
  options.lora_rank = 4;
  options.target = {"q_proj"};
  EXPECT_THAT(Refused(options, kExitUsage), HasSubstr("--target and --exclude contradict"));
  options.target.clear();
  options.lora_scaling = "rslora";
  EXPECT_THAT(Refused(options, kExitUsage), HasSubstr("--lora-scaling contradicts"));
}

// Weights that the adapter brings in full count in the base, stay as they are and go along.
TEST_F(SftTest, InitAdapterKeepsTheModulesThatItBrings) {
  SftOptions options = Options("run");
  options.init_adapter = GoldenPath("../peft_variants/save_both");
  options.lora_rank.reset();
  options.max_steps = 2;
  std::optional<SftPlan> plan;
  SftCallbacks callbacks;
  callbacks.on_plan = [&](const SftPlan& p) { plan = p; };
  MustRun(options, callbacks);
  ASSERT_TRUE(plan.has_value());
  EXPECT_THAT(plan->notes, Contains(HasSubstr("modules_to_save")));
  const auto before = GoldenTensors("../peft_variants/save_both/adapter_model.safetensors");
  const auto after = GoldenTensors(
      "../../../" + std::filesystem::relative(options.output + "/adapter/adapter_model.safetensors",
                                              LORICA_SOURCE_ROOT)
                        .string());
  ASSERT_EQ(after.size(), before.size());
  int kept = 0, trained = 0;
  for (const auto& [name, values] : before) {
    const bool factor = name.find(".lora_") != std::string::npos;
    (factor ? trained : kept) += after.at(name) != values ? factor : !factor;
  }
  EXPECT_EQ(kept, 2);
  EXPECT_GT(trained, 0);
  const auto config =
      nlohmann::json::parse(ReadText(options.output + "/adapter/adapter_config.json"));
  EXPECT_EQ(config["modules_to_save"], nlohmann::json({"model.embed_tokens", "lm_head"}));
  // The result can be trained on in its turn.
  SftOptions next = Options("next");
  next.init_adapter = options.output + "/adapter";
  next.lora_rank.reset();
  next.max_steps = 1;
  MustRun(next);
}

TEST_F(SftTest, RefusalsLeaveNothingBehind) {
  SftOptions options = Options("a/b/run");
  options.target = {"no_such_proj"};
  EXPECT_THAT(Refused(options, kExitUsage), HasSubstr("no_such_proj"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a"));

  options = Options("run");
  options.model = folder_ / "nowhere";
  Refused(options, kExitInput);
  options = Options("run");
  options.data = {folder_ / "nowhere.jsonl"};
  Refused(options, kExitInput);
  options = Options("run");
  WriteText(folder_ / "empty.jsonl", "");
  options.data = {folder_ / "empty.jsonl"};
  Refused(options, kExitInput);
  options = Options("run");
  WriteText(folder_ / "masked.jsonl", "{\"input_ids\": [1, 2], \"labels\": [-100, -100]}\n");
  options.data = {folder_ / "masked.jsonl"};
  Refused(options, kExitInput);
  options = Options("run");
  options.overlong = "error";
  options.max_length = 4;
  Refused(options, kExitInput);
  options = Options("run");
  options.init_adapter = folder_ / "nowhere";
  Refused(options, kExitInput);
  options = Options("run");
  options.init_adapter = GoldenPath("qwen2_patterns/adapter");
  options.lora_rank.reset();
  Refused(options, kExitInput);
  options = Options("run");
  options.sample = {"a question"};
  EXPECT_THAT(Refused(options, kExitInput), HasSubstr("--sample needs a tokenizer"));
  options = Options("run");
  options.eval_data.clear();
  EXPECT_THAT(Refused(options, kExitUsage), HasSubstr("--eval-data"));
}

TEST_F(SftTest, AStepWithoutATrainedTokenIsRefused) {
  SftOptions options = Options("run");
  WriteText(folder_ / "some.jsonl",
            "{\"input_ids\": [1, 2]}\n{\"input_ids\": [1, 2], \"labels\": [-100, -100]}\n");
  options.data = {folder_ / "some.jsonl"};
  options.batch_size = 1;
  EXPECT_THAT(Refused(options, kExitInput), HasSubstr("a trained token in every step"));
  options.batch_size = 2;
  MustRun(options);
}

TEST_F(SftTest, AnIdBeyondTheVocabularyIsRefused) {
  SftOptions options = Options("run");
  WriteText(folder_ / "big.jsonl", "{\"input_ids\": [1, 2, 100000]}\n");
  options.data = {folder_ / "big.jsonl"};
  EXPECT_THAT(Refused(options, kExitInput), HasSubstr("100000"));
}

TEST_F(SftTest, ALossThatIsNotFiniteEndsTheRunWithItsStep) {
  SftOptions options = Options("run");
  options.lr = 1e30;
  options.max_grad_norm = 0;
  options.warmup_steps = 0;
  const absl::StatusOr<SftResult> result = RunSft(options);
  EXPECT_EQ(ExitStatus(result.status()), kExitFailed);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("isn't finite"));
}

TEST_F(SftTest, AFolderWithForeignFilesIsRefused) {
  SftOptions options = Options("run");
  WriteText(options.output + "/thesis.tex", "precious");
  EXPECT_THAT(Refused(options, kExitUsage), HasSubstr("thesis.tex"));
  options.output = folder_ / "file";
  WriteText(options.output, "precious");
  EXPECT_THAT(Refused(options, kExitUsage), HasSubstr("found a file"));
  options.output = "/proc/lorica";
  EXPECT_EQ(ExitStatus(RunSft(options).status()), kExitFailed);
}

TEST_F(SftTest, AnEmptyFolderMayBeUsed) {
  SftOptions options = Options("run");
  std::filesystem::create_directories(options.output);
  options.target = {"nothing"};
  Refused(options, kExitUsage);
  options.target.clear();
  MustRun(options);
}

TEST_F(SftTest, AnotherRunIsRefused) {
  SftOptions options = Options("run");
  MustRun(options);
  options.resume = "never";
  EXPECT_THAT(Refused(options, kExitUsage), HasSubstr("--resume never"));
  options.resume = "auto";
  options.lr = 0.02;
  options.batch_size = 4;
  const std::string message = Refused(options, kExitUsage);
  EXPECT_THAT(message, HasSubstr("lr (0.01 there, 0.02 here)"));
  EXPECT_THAT(message, HasSubstr("batch-size (8 there, 4 here)"));
  // A run of the same name that never reached a checkpoint.
  std::filesystem::remove_all(options.output + "/checkpoints");
  EXPECT_THAT(Refused(options, kExitUsage), HasSubstr("lr (0.01 there, 0.02 here)"));
}

TEST_F(SftTest, TwoRunsCannotShareAFolder) {
  SftOptions options = Options("run");
  SftCallbacks callbacks;
  int tried = 0;
  callbacks.on_step = [&](const StepMetrics&, const SftProgress&) {
    if (tried++ > 0) return;
    const absl::StatusOr<SftResult> second = RunSft(options);
    EXPECT_EQ(ExitStatus(second.status()), kExitUsage);
    EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use by another process"));
  };
  MustRun(options, callbacks);
  EXPECT_GT(tried, 0);
}

TEST_F(SftTest, APlanSaysTheSameAndWritesNothing) {
  SftOptions options = Options("run");
  const absl::StatusOr<SftPlan> plan = PlanSft(options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(std::filesystem::exists(options.output));
  std::optional<SftPlan> real;
  SftCallbacks callbacks;
  callbacks.on_plan = [&](const SftPlan& p) { real = p; };
  MustRun(options, callbacks);
  ASSERT_TRUE(real.has_value());
  EXPECT_EQ(plan->modules.size(), real->modules.size());
  EXPECT_EQ(plan->trainable_parameters, real->trainable_parameters);
  EXPECT_EQ(plan->model_parameters, real->model_parameters);
  EXPECT_EQ(plan->total_steps, real->total_steps);
  EXPECT_EQ(plan->memory.total(), real->memory.total());
  EXPECT_EQ(plan->fingerprint, real->fingerprint);
  ASSERT_EQ(plan->first_records.size(), 3u);
  // Token data without a tokenizer shows ids; what is trained is a piece of its own.
  EXPECT_FALSE(plan->first_records[0][0].trained);
  EXPECT_EQ(plan->first_records[0].size(), 2u);
  EXPECT_TRUE(plan->first_records[0][1].trained);

  SftOptions bare;
  bare.model = options.model;
  const absl::StatusOr<SftPlan> without_data = PlanSft(bare);
  ASSERT_TRUE(without_data.ok()) << without_data.status();
  EXPECT_FALSE(without_data->data.has_value());
  bare.lora_rank = 0;
  EXPECT_EQ(PlanSft(bare)->trainable_parameters, plan->model_parameters);
  bare.lora_rank = 16;
  bare.target = {"nothing"};
  EXPECT_EQ(ExitStatus(PlanSft(bare).status()), kExitUsage);
}

}  // namespace
}  // namespace lorica
