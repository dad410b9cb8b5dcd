// Runs that are interrupted, killed or run out of disk, and go on as if nothing had happened.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "lorica/io/checkpoint.h"
#include "lorica/train/exit_status.h"
#include "support/fault_file_system.h"
#include "train/sft_fixture.h"

namespace lorica {
namespace {

using ::testing::HasSubstr;

class ResumeTest : public SftFixture {
 protected:
  // The undisturbed run that all others must equal.
  std::string Reference(SftOptions options) {
    options.output = folder_ / "reference";
    if (!std::filesystem::exists(options.output)) MustRun(options);
    return options.output;
  }

  // Interrupted as by SIGINT after `step` steps.
  absl::Status InterruptAfter(const SftOptions& options, int64_t step) {
    int64_t made = 0;
    SftCallbacks callbacks;
    callbacks.on_step = [&](const StepMetrics& m, const SftProgress&) { made = m.step; };
    callbacks.cancelled = [&] { return made >= step; };
    return RunSft(options, callbacks).status();
  }
};

TEST_F(ResumeTest, AnInterruptAtAnyStepChangesNothing) {
  for (int64_t step = 1; step < 6; ++step) {
    SCOPED_TRACE(step);
    SftOptions options = Options(absl::StrCat("run", step));
    const std::string reference = Reference(options);
    const absl::Status status = InterruptAfter(options, step);
    EXPECT_EQ(ExitStatus(status), kExitInterrupted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("after step ", step)));
    EXPECT_TRUE(std::filesystem::exists(options.output + "/checkpoints/" + CheckpointName(step)));
    EXPECT_FALSE(std::filesystem::exists(options.output + "/adapter"));
    options.threads = 2;
    options.micro_batch_size = 1 + step % 3;
    const SftResult result = MustRun(options);
    EXPECT_EQ(result.steps, 6);
    EXPECT_EQ(ReadText(options.output + "/adapter/adapter_model.safetensors"),
              ReadText(reference + "/adapter/adapter_model.safetensors"));
    EXPECT_EQ(Metrics(options.output), Metrics(reference));
    EXPECT_EQ(
        ReadText(options.output + "/checkpoints/step-00000006/shard-00000-of-00001.safetensors"),
        ReadText(reference + "/checkpoints/step-00000006/shard-00000-of-00001.safetensors"));
  }
}

TEST_F(ResumeTest, AnInterruptBeforeTheFirstStepLeavesNothing) {
  const SftOptions options = Options("run");
  SftCallbacks callbacks;
  callbacks.cancelled = [] { return true; };
  EXPECT_EQ(ExitStatus(RunSft(options, callbacks).status()), kExitInterrupted);
  EXPECT_FALSE(std::filesystem::exists(options.output));
}

TEST_F(ResumeTest, AnInterruptedEvaluationIsMadeUpFor) {
  const SftOptions options = Options("run");
  const std::string reference = Reference(options);
  // The evaluation after step 2 asks; the step's own question before it was answered with no.
  bool in_evaluation = false;
  SftCallbacks callbacks;
  callbacks.on_step = [&](const StepMetrics& m, const SftProgress&) {
    in_evaluation = m.step == 2;
  };
  callbacks.cancelled = [&] { return in_evaluation; };
  const absl::Status status = RunSft(options, callbacks).status();
  EXPECT_EQ(ExitStatus(status), kExitInterrupted) << status;
  EXPECT_EQ(Metrics(options.output).size(), 2u);
  MustRun(options);
  EXPECT_EQ(Metrics(options.output), Metrics(reference));
}

TEST_F(ResumeTest, TheOptimizersOfFullTrainingContinueToo) {
  SftOptions options = Options("run");
  options.lora_rank = 0;
  options.lora_dropout = 0;
  options.optimizer = "muon";
  options.keep_best = true;
  const SftOptions whole = [&] {
    SftOptions o = options;
    o.output = folder_ / "whole";
    return o;
  }();
  MustRun(whole);
  EXPECT_EQ(ExitStatus(InterruptAfter(options, 3)), kExitInterrupted);
  MustRun(options);
  EXPECT_EQ(ReadTree(options.output + "/model"), ReadTree(whole.output + "/model"));
  EXPECT_EQ(Metrics(options.output), Metrics(whole.output));
}

TEST_F(ResumeTest, AFinishedRunIsLeftAlone) {
  const SftOptions options = Options("run");
  MustRun(options);
  const auto before = ReadTree(options.output);
  const SftResult result = MustRun(options);
  EXPECT_TRUE(result.was_finished);
  EXPECT_EQ(result.steps, 6);
  EXPECT_EQ(ReadTree(options.output), before);
}

TEST_F(ResumeTest, MoreStepsContinueAFinishedRun) {
  SftOptions options = Options("run");
  options.schedule = "constant";  // others depend on the number of steps
  options.eval_every = 1;
  options.max_steps = 2;
  MustRun(options);
  options.max_steps.reset();
  EXPECT_EQ(MustRun(options).steps, 6);
  SftOptions whole = options;
  whole.output = folder_ / "whole";
  MustRun(whole);
  ExpectSameRun(whole.output, options.output);
}

TEST_F(ResumeTest, ResumesFromAGivenCheckpoint) {
  SftOptions options = Options("run");
  const std::string reference = Reference(options);
  MustRun(options);
  options.resume = options.output + "/checkpoints/step-00000002/";
  EXPECT_EQ(MustRun(options).steps, 6);
  ExpectSameRun(reference, options.output);
  // Into another folder too.
  options.output = folder_ / "elsewhere";
  MustRun(options);
  EXPECT_EQ(ReadText(options.output + "/adapter/adapter_model.safetensors"),
            ReadText(reference + "/adapter/adapter_model.safetensors"));
  // Not into one with another run.
  options.resume = reference + "/checkpoints/step-00000002";
  EXPECT_EQ(ExitStatus(RunSft(options).status()), kExitUsage);
  options.output = folder_ / "new";
  options.resume = folder_ / "nowhere";
  EXPECT_EQ(ExitStatus(RunSft(options).status()), kExitInput);
  EXPECT_FALSE(std::filesystem::exists(options.output));
}

TEST_F(ResumeTest, DataThatChangedIsNamed) {
  SftOptions options = Options("run");
  ASSERT_EQ(ExitStatus(InterruptAfter(options, 3)), kExitInterrupted);
  WriteText(data_, TokenData(21, 2));
  absl::Status status = RunSft(options).status();
  EXPECT_EQ(ExitStatus(status), kExitInput);
  EXPECT_THAT(std::string(status.message()), HasSubstr("data file 1 (\"train.jsonl\" of"));
  // The same content under another path is the same data.
  WriteText(folder_ / "moved/other.jsonl", TokenData(21));
  options.data = {folder_ / "moved/other.jsonl"};
  EXPECT_EQ(MustRun(options).steps, 6);
}

TEST_F(ResumeTest, AnotherBaseModelIsRefused) {
  SftOptions options = Options("run");
  options.target = {"q_proj"};
  ASSERT_EQ(ExitStatus(InterruptAfter(options, 3)), kExitInterrupted);
  options.model = GoldenPath("llama_mqa_bias_tied/model");
  const absl::Status status = RunSft(options).status();
  EXPECT_EQ(ExitStatus(status), kExitInput) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the model's content"));
}

TEST_F(ResumeTest, ADamagedCheckpointIsAnErrorOrPassedOver) {
  SftOptions options = Options("run");
  const std::string reference = Reference(options);
  ASSERT_EQ(ExitStatus(InterruptAfter(options, 5)), kExitInterrupted);
  const std::string newest = options.output + "/checkpoints/step-00000005/";
  const std::string shard = newest + "shard-00000-of-00001.safetensors";
  // A flipped bit in a tensor: the checkpoint opens, its content doesn't.
  std::string bytes = ReadText(shard);
  bytes[bytes.size() - 9] ^= 4;
  WriteText(shard, bytes);
  absl::Status status = RunSft(options).status();
  EXPECT_EQ(ExitStatus(status), kExitInput) << status;
  // A shard of another size: no complete checkpoint any more; the one before it is taken.
  WriteText(shard, bytes.substr(0, bytes.size() / 2));
  std::string messages;
  SftCallbacks callbacks;
  callbacks.on_message = [&](const std::string& text) { absl::StrAppend(&messages, text, "\n"); };
  EXPECT_EQ(MustRun(options, callbacks).steps, 6);
  EXPECT_THAT(messages, HasSubstr("passing over a damaged checkpoint"));
  EXPECT_THAT(messages, HasSubstr("continuing after step 4"));
  EXPECT_EQ(ReadText(options.output + "/adapter/adapter_model.safetensors"),
            ReadText(reference + "/adapter/adapter_model.safetensors"));
}

TEST_F(ResumeTest, AFreshOptimizerSaysSoAndGoesAnotherWay) {
  SftOptions options = Options("run");
  const std::string reference = Reference(options);
  ASSERT_EQ(ExitStatus(InterruptAfter(options, 3)), kExitInterrupted);
  options.fresh_optimizer = true;
  std::string messages;
  SftCallbacks callbacks;
  callbacks.on_message = [&](const std::string& text) { absl::StrAppend(&messages, text, "\n"); };
  EXPECT_EQ(MustRun(options, callbacks).steps, 6);
  EXPECT_THAT(messages, HasSubstr("moments start anew"));
  EXPECT_NE(ReadText(options.output + "/adapter/adapter_model.safetensors"),
            ReadText(reference + "/adapter/adapter_model.safetensors"));
  EXPECT_EQ(Metrics(options.output).size(), Metrics(reference).size());
}

// --- Crashes.

// Exit status of a process that runs with these files; -1 when a signal ended it.
int RunInProcess(const SftOptions& options, FaultPlan plan) {
  const pid_t child = fork();
  if (child == 0) {
    FaultFileSystem files(plan);
    _exit(ExitStatus(RunSft(options, {}, files).status()));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int CountOperations(const SftOptions& options) {
  FaultFileSystem files({});
  EXPECT_TRUE(RunSft(options, {}, files).ok());
  return files.operations();
}

class CrashTest : public ResumeTest {
 protected:
  // A run with fewer steps, whose every write can be tried.
  SftOptions Short(const std::string& output) const {
    SftOptions options = Options(output);
    options.epochs = 1;
    options.save_every = 1;
    options.keep = 1;
    options.target = {"model.layers.0.self_attn.q_proj"};
    return options;
  }

  void TryEveryOperation(FaultPlan::Action action) {
    const std::string reference = Reference(Short("reference"));
    const int operations = CountOperations(Short("counted"));
    ASSERT_GT(operations, 50);
    for (int at = 0; at < operations; ++at) {
      SCOPED_TRACE(at);
      const SftOptions options = Short(absl::StrCat("run", at));
      const int status = RunInProcess(options, {.at = at, .action = action});
      if (action == FaultPlan::Action::kExit || action == FaultPlan::Action::kPowerLoss) {
        ASSERT_EQ(status, kFaultExitStatus);
      } else {
        // An operation whose failure doesn't matter may be survived.
        ASSERT_TRUE(status == kExitFailed || status == kExitDone) << status;
      }
      // Whatever was committed is loadable.
      const absl::StatusOr<CheckpointList> list = ListCheckpoints(options.output + "/checkpoints");
      ASSERT_TRUE(list.ok());
      EXPECT_TRUE(list->damaged.empty()) << list->damaged[0];
      for (const CheckpointPlace& place : list->complete) {
        const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open(place.path);
        ASSERT_TRUE(reader.ok());
        EXPECT_TRUE(reader->VerifyAll().ok());
      }
      const absl::StatusOr<SftResult> result = RunSft(options);
      ASSERT_TRUE(result.ok()) << result.status();
      ExpectSameRun(reference, options.output);
      for (const auto& [name, content] : ReadTree(options.output)) {
        EXPECT_FALSE(name.find(".tmp") != std::string::npos ||
                     name.find("trash") != std::string::npos)
            << name;
      }
      std::filesystem::remove_all(options.output);
    }
  }
};

TEST_F(CrashTest, ACrashAtAnyWriteLosesNothingCommitted) {
  TryEveryOperation(FaultPlan::Action::kExit);
}
TEST_F(CrashTest, APowerLossAtAnyWriteLosesNothingCommitted) {
  TryEveryOperation(FaultPlan::Action::kPowerLoss);
}
TEST_F(CrashTest, AFullDiskAtAnyWriteLosesNothingCommitted) {
  TryEveryOperation(FaultPlan::Action::kFailForever);
}
TEST_F(CrashTest, AFailureOfAnyOneOperationLosesNothingCommitted) {
  TryEveryOperation(FaultPlan::Action::kFail);
}

TEST_F(CrashTest, KillMinusNineAtAnyMoment) {
  SftOptions options = Options("run");
  options.save_every = 1;
  options.epochs = 8;
  const std::string reference = Reference(options);
  int kills = 0, whole_runs = 0;
  for (int delay_us = 300;; delay_us += 700) {
    const pid_t child = fork();
    if (child == 0) _exit(ExitStatus(RunSft(options).status()));
    usleep(static_cast<useconds_t>(delay_us));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status)) {
      ASSERT_EQ(WEXITSTATUS(status), kExitDone);
      if (kills > 3) break;
      // This process slept through the run.
      ASSERT_LT(++whole_runs, 100);
      std::filesystem::remove_all(options.output);
      kills = 0;
      delay_us = 300;
      continue;
    }
    ++kills;
    ASSERT_LT(kills, 2000);
  }
  ExpectSameRun(reference, options.output);
}

// A template that shows the time gives other tokens at another time; a run keeps the time at which
// it began.
TEST_F(ResumeTest, ATemplateThatShowsTheTimeGoesOnWithThatOfTheBeginning) {
  const std::string model = folder_ / "model";
  std::filesystem::copy(GoldenPath("llama_gqa/model"), model);
  nlohmann::json vocabulary = {{"<u>", 0}};
  for (const char c : std::string(" :abcdefghijklmnopqrstuvwxyz0123456789")) {
    vocabulary[std::string(1, c)] = vocabulary.size();
  }
  const nlohmann::json tokenizer = {{"version", "1.0"},
                                    {"added_tokens", nlohmann::json::array()},
                                    {"model",
                                     {{"type", "BPE"},
                                      {"unk_token", "<u>"},
                                      {"vocab", vocabulary},
                                      {"merges", nlohmann::json::array()}}}};
  WriteText(model + "/tokenizer.json", tokenizer.dump());
  WriteText(model + "/chat_template.jinja",
            "{{ strftime_now('%H:%M:%S') }}{% for m in messages %}{{ m.content }}{% endfor %}");
  std::string records;
  for (const char* text : {"one", "two", "three", "four"}) {
    records += nlohmann::json{{"messages",
                               {{{"role", "user"}, {"content", text}},
                                {{"role", "assistant"}, {"content", "yes"}}}}}
                   .dump() +
               "\n";
  }
  WriteText(folder_ / "chat.jsonl", records);
  SftOptions options = Options("timed");
  options.model = model;
  options.data = {folder_ / "chat.jsonl"};
  options.eval_data.clear();
  options.eval_every.reset();
  options.batch_size = 2;
  const absl::Status status = InterruptAfter(options, 1);
  ASSERT_EQ(ExitStatus(status), kExitInterrupted) << status;
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  const absl::StatusOr<SftResult> result = RunSft(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps, 4);
}

}  // namespace
}  // namespace lorica
