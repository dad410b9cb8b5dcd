// Runs over data in all the shapes that it may come in.
#include <filesystem>

#include "gmock/gmock.h"
#include "lorica/train/exit_status.h"
#include "lorica/train/sft.h"
#include "train/compressed_text.h"
#include "train/sft_fixture.h"

namespace lorica {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class SftDataTest : public SftFixture {
 protected:
  std::string Adapter(const std::string& run) const {
    return ReadText(folder_ / run + "/adapter/adapter_model.safetensors");
  }
  static std::string Array(const std::string& lines) {
    std::string text = "[";
    for (const char c : lines.substr(0, lines.size() - 1)) text += c == '\n' ? ',' : c;
    return text + "]";
  }
};

TEST_F(SftDataTest, WhereRecordsAreKeptChangesNoBit) {
  MustRun(Options("memory"));
  SftOptions options = Options("streamed");
  options.data_memory = 0;
  std::optional<SftPlan> plan;
  SftCallbacks callbacks;
  callbacks.on_plan = [&](const SftPlan& p) { plan = p; };
  MustRun(options, callbacks);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->data->in_memory, 0);
  ExpectSameRun(folder_ / "memory", folder_ / "streamed");

  // From here on only the form of the file differs, so the runs' identities do.
  for (const auto& [name, bytes] :
       std::vector<std::pair<std::string, std::string>>{{"x.json", Array(TokenData(21))},
                                                        {"x.jsonl.gz", Gzip(TokenData(21))},
                                                        {"x.jsonl.zst", Zstd(TokenData(21))},
                                                        {"x.json.xz", Xz(Array(TokenData(21)))}}) {
    options = Options(name + "_run");
    options.data = {folder_ / name};
    options.data_memory = 0;
    WriteText(options.data[0], bytes);
    MustRun(options);
    EXPECT_EQ(Adapter(name + "_run"), Adapter("memory")) << name;
    EXPECT_EQ(Metrics(options.output), Metrics(folder_ / "memory")) << name;
  }
}

TEST_F(SftDataTest, AStreamedRunIsResumedWithTheSameBytes) {
  SftOptions options = Options("whole");
  options.data = {data_ + "@1.4", held_out_ + "@0.5"};
  MustRun(options);
  options.output = folder_ / "parts";
  options.data_memory = 0;
  SftCallbacks callbacks;
  int steps = 0;
  callbacks.on_step = [&](const StepMetrics&, const SftProgress&) { ++steps; };
  callbacks.cancelled = [&] { return steps == 3; };
  EXPECT_TRUE(absl::IsCancelled(RunSft(options, callbacks).status()));
  options.data_memory = 32;  // may change
  MustRun(options);
  ExpectSameRun(folder_ / "whole", options.output);

  options.data[0] = data_ + "@2";
  const absl::Status status = RunSft(options).status();
  EXPECT_EQ(ExitStatus(status), kExitUsage);
  EXPECT_THAT(std::string(status.message()), HasSubstr("weights of the data (1.4, 0.5"));
}

TEST_F(SftDataTest, AFileThatChangesDuringTheRunEndsIt) {
  SftOptions options = Options("run");
  options.data_memory = 0;
  SftCallbacks callbacks;
  callbacks.on_step = [&](const StepMetrics&, const SftProgress& progress) {
    if (progress.step == 2) WriteText(data_, TokenData(22));
  };
  const absl::Status status = RunSft(options, callbacks).status();
  EXPECT_EQ(ExitStatus(status), kExitInput);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has changed since the run began"));
}

TEST_F(SftDataTest, WeightsSetTheLengthOfAnEpoch) {
  SftOptions options = Options("run");
  options.data = {data_ + "@0.5", held_out_ + "@3"};
  const absl::StatusOr<SftPlan> plan = PlanSft(options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->epoch_records, 11 + 18);  // 10.5 is rounded
  EXPECT_EQ(plan->steps_per_epoch, 4);
  EXPECT_EQ(plan->total_steps, 8);
  ASSERT_EQ(plan->data->files.size(), 2u);
  EXPECT_EQ(plan->data->files[0].taken, 11);
  EXPECT_EQ(plan->data->files[1].records, 6);
  EXPECT_EQ(MustRun(options).steps, 8);

  options.data = {held_out_ + "@0.01"};
  EXPECT_EQ(ExitStatus(PlanSft(options).status()), kExitUsage);
  options.data = {held_out_ + "@0"};
  EXPECT_EQ(ExitStatus(PlanSft(options).status()), kExitUsage);
}

TEST_F(SftDataTest, AFoldersValidFileIsHeldOut) {
  const std::string folder = folder_ / "set";
  WriteText(folder + "/train.jsonl", TokenData(21));
  WriteText(folder + "/valid.jsonl.gz", Gzip(TokenData(6, 99)));
  WriteText(folder + "/test.jsonl", TokenData(3));
  SftOptions options = Options("run");
  options.data = {folder};
  options.eval_data.clear();
  const absl::StatusOr<SftPlan> plan = PlanSft(options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_TRUE(plan->eval_data.has_value());
  EXPECT_EQ(plan->eval_data->records, 6);
  EXPECT_THAT(plan->notes, Contains(HasSubstr("valid.jsonl.gz")));
  EXPECT_THAT(plan->notes, Contains(HasSubstr("test.jsonl is left alone")));
  options.eval_data = {folder + "/test.jsonl"};
  EXPECT_EQ(PlanSft(options)->eval_data->records, 3);
}

TEST_F(SftDataTest, DuplicatesAreReportedAndLeftOutOnRequest) {
  WriteText(folder_ / "twice.jsonl", TokenData(21) + TokenData(21));
  SftOptions options = Options("run");
  options.data = {folder_ / "twice.jsonl"};
  absl::StatusOr<SftPlan> plan = PlanSft(options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->data->duplicates, 21);
  EXPECT_EQ(plan->epoch_records, 42);
  EXPECT_THAT(plan->data->first_duplicates[0].where, HasSubstr("twice.jsonl, line 22"));
  options.deduplicate = true;
  plan = PlanSft(options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->epoch_records, 21);
  // What is left is the data without the copies.
  MustRun(options);
  MustRun(Options("single"));
  EXPECT_EQ(Adapter("run"), Adapter("single"));
}

}  // namespace
}  // namespace lorica
