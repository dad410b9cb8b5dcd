#include "lorica/train/metrics.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "train/temp_folder.h"

namespace lorica {
namespace {

StepMetrics Line(int64_t step) {
  return {.step = step,
          .epoch = static_cast<double>(step) / 7,
          .loss = 1.0 / 3 + static_cast<double>(step),
          .lr = 2e-4,
          .grad_norm = 0.1,
          .tokens = 100,
          .trained_tokens = 40,
          .seconds = 0.5,
          .tokens_per_second = 200,
          .peak_rss_bytes = 1 << 20};
}

std::string WriteRun(const TempFolder& folder) {
  const std::string path = folder / "metrics.jsonl";
  absl::StatusOr<MetricsWriter> writer = MetricsWriter::Open(PosixFiles(), path);
  EXPECT_TRUE(writer.ok());
  for (int64_t step = 1; step <= 4; ++step) {
    EXPECT_TRUE(writer->Write(Line(step)).ok());
    if (step % 2 == 0) {
      EXPECT_TRUE(writer->Write(EvalMetrics{step, 0.7, 55}).ok());
    }
  }
  return path;
}

TEST(Metrics, EveryBitComesBack) {
  TempFolder folder;
  const absl::StatusOr<MetricsLog> log = ReadMetrics(PosixFiles(), WriteRun(folder));
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_EQ(log->steps.size(), 4u);
  ASSERT_EQ(log->evaluations.size(), 2u);
  EXPECT_EQ(log->steps[2].loss, Line(3).loss);
  EXPECT_EQ(log->steps[2].epoch, Line(3).epoch);
  EXPECT_EQ(log->steps[2].trained_tokens, 40);
  EXPECT_EQ(log->evaluations[1].step, 4);
  EXPECT_EQ(log->evaluations[1].eval_tokens, 55);
}

TEST(Metrics, LoadsOfExpertsComeBackInTheirOrder) {
  TempFolder folder;
  const std::string path = folder / "metrics.jsonl";
  StepMetrics line = Line(1);
  line.aux_loss = 1.0625;
  line.loads = {{"model.layers.9.mlp", {3, 0, 5}}, {"model.layers.10.mlp", {4, 4, 0}}};
  absl::StatusOr<MetricsWriter> writer = MetricsWriter::Open(PosixFiles(), path);
  ASSERT_TRUE(writer.ok() && writer->Write(line).ok());
  const absl::StatusOr<MetricsLog> log = ReadMetrics(PosixFiles(), path);
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ(log->steps[0].loads, line.loads);
  EXPECT_EQ(log->steps[0].aux_loss, 1.0625);
  EXPECT_EQ(WorstImbalance(line.loads), 5 / (8.0 / 3));

  WriteText(path, FormatMetrics(Line(1)).insert(1, "\"expert_load\": 3, ") + "\n");
  EXPECT_FALSE(ReadMetrics(PosixFiles(), path).ok());
}

TEST(Metrics, LinesHaveTheAgreedKeys) {
  EXPECT_EQ(FormatMetrics(StepMetrics{.step = 3,
                                      .epoch = 0.5,
                                      .loss = 2,
                                      .lr = 0.25,
                                      .grad_norm = 1,
                                      .tokens = 10,
                                      .trained_tokens = 4,
                                      .seconds = 2,
                                      .tokens_per_second = 5,
                                      .peak_rss_bytes = 7}),
            "{\"step\": 3, \"epoch\": 0.5, \"loss\": 2, \"lr\": 0.25, \"grad_norm\": 1, "
            "\"tokens\": 10, \"trained_tokens\": 4, \"seconds\": 2, \"tokens_per_second\": 5, "
            "\"peak_rss_bytes\": 7}");
  EXPECT_EQ(FormatMetrics(EvalMetrics{3, 0, 9}),
            "{\"step\": 3, \"eval_loss\": 0, \"eval_tokens\": 9, \"eval_perplexity\": 1}");
}

TEST(Metrics, CutKeepsTheStepAndItsEvaluation) {
  TempFolder folder;
  const std::string path = WriteRun(folder);
  ASSERT_TRUE(CutMetrics(PosixFiles(), path, 2).ok());
  absl::StatusOr<MetricsLog> log = ReadMetrics(PosixFiles(), path);
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log->steps.size(), 2u);
  EXPECT_EQ(log->evaluations.size(), 1u);
  ASSERT_TRUE(CutMetrics(PosixFiles(), path, 2, /*keep_evaluation=*/false).ok());
  log = ReadMetrics(PosixFiles(), path);
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log->steps.size(), 2u);
  EXPECT_EQ(log->evaluations.size(), 0u);
  ASSERT_TRUE(CutMetrics(PosixFiles(), path, 0).ok());
  EXPECT_EQ(ReadText(path), "");
}

TEST(Metrics, CutRemovesWhatACrashLeftOfALine) {
  TempFolder folder;
  const std::string path = WriteRun(folder);
  const std::string whole = ReadText(path);
  WriteText(path, whole + "{\"step\": 5, \"epo");
  EXPECT_TRUE(ReadMetrics(PosixFiles(), path).ok());  // only complete lines count
  ASSERT_TRUE(CutMetrics(PosixFiles(), path, 9).ok());
  EXPECT_EQ(ReadText(path), whole);
}

TEST(Metrics, AnAbsentFileIsAnEmptyRun) {
  TempFolder folder;
  EXPECT_TRUE(CutMetrics(PosixFiles(), folder / "none", 3).ok());
  const absl::StatusOr<MetricsLog> log = ReadMetrics(PosixFiles(), folder / "none");
  ASSERT_TRUE(log.ok());
  EXPECT_TRUE(log->steps.empty());
}

TEST(Metrics, ALineThatIsNotOursIsNamed) {
  TempFolder folder;
  const std::string path = WriteRun(folder);
  WriteText(path, ReadText(path) + "{\"step\": \"five\"}\n");
  const absl::Status status = ReadMetrics(PosixFiles(), path).status();
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("metrics.jsonl:7"));
}

TEST(Metrics, MemoryIsMeasured) { EXPECT_GT(PeakRssBytes(), 1 << 20); }

}  // namespace
}  // namespace lorica
