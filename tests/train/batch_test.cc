#include "lorica/train/batch.h"

#include "gtest/gtest.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/train/memory_plan.h"

namespace lorica {
namespace {

using Counts = std::vector<int64_t>;

TEST(CutIntoPasses, WithoutPackingARowIsARecord) {
  const Counts lengths = {5, 5, 5, 5, 5};
  EXPECT_EQ(CutIntoPasses(lengths, {.packing = false, .rows = 2}), (Counts{2, 2, 1}));
  EXPECT_EQ(CutIntoPasses(lengths, {.packing = false, .rows = 9}), (Counts{5}));
}

TEST(CutIntoPasses, PackingFillsRowsInOrder) {
  // Rows of at most 10 tokens: {4, 6}, {7}, {3, 3, 3}, {20}, {1}.
  const Counts lengths = {4, 6, 7, 3, 3, 3, 20, 1};
  EXPECT_EQ(CutIntoPasses(lengths, {.packing = true, .row_tokens = 10, .rows = 1}),
            (Counts{2, 2, 2, 1, 1}));
  EXPECT_EQ(CutIntoPasses(lengths, {.packing = true, .row_tokens = 10, .rows = 2}),
            (Counts{4, 3, 1}));
}

TEST(CutIntoPasses, ByTokensNeverExceedsUnlessARecordDoes) {
  EXPECT_EQ(CutIntoPasses({4, 4, 4, 30, 1, 1}, {.pass_tokens = 10}), (Counts{2, 1, 1, 2}));
  EXPECT_EQ(CutIntoPasses({}, {}), Counts{});
}

TEST(CutIntoPasses, EveryRecordIsInOnePass) {
  const Counts lengths = {3, 9, 1, 1, 14, 2, 2, 8, 8, 5};
  for (const bool packing : {false, true}) {
    for (int64_t rows = 0; rows <= 11; ++rows) {
      for (int64_t tokens : {1, 5, 10, 100}) {
        int64_t sum = 0;
        for (const int64_t count : CutIntoPasses(
                 lengths,
                 {.packing = packing, .row_tokens = tokens, .rows = rows, .pass_tokens = tokens})) {
          EXPECT_GT(count, 0);
          sum += count;
        }
        EXPECT_EQ(sum, 10);
      }
    }
  }
}

TEST(Batch, ConcatenatesAndCounts) {
  const std::vector<TrainingSequence> sequences = {
      TrainingSequence::FromLabels({1, 2, 3}, {-100, 2, -100}),
      TrainingSequence::FromLabels({4, 5}, {9, 6})};
  const Batch batch = Batch::Of(sequences, {10, 11});
  EXPECT_EQ(batch.ids, (std::vector<int32_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{2, -100, -1, 6, -1}));
  EXPECT_EQ(batch.context.positions, (std::vector<int32_t>{0, 1, 2, 0, 1}));
  EXPECT_EQ(batch.context.sequences.offsets, (std::vector<int32_t>{0, 3, 5}));
  EXPECT_EQ(batch.trained_tokens, 2);
  ASSERT_NE(batch.context.row_keys, nullptr);
}

TEST(Batch, LossesAreSummedPerSequence) {
  ThreadPool pool(1);
  const auto backend = MakeCpuBackend(pool);
  const std::vector<float> values = {1, 2, 3, 4, 5};
  const Tensor losses = Tensor::FromHost<float>(*backend, {5}, values);
  Batch batch;
  batch.ids = {1, 2, 3, 4, 5};
  batch.context.sequences = {{0, 3, 3, 5}};
  EXPECT_EQ(batch.LossOfSequences(losses), (std::vector<double>{6, 0, 9}));
  EXPECT_FALSE(batch.WeightsLike(losses).defined());
  batch.weights = {1, 0, 2, 0.5, 1};
  EXPECT_EQ(batch.LossOfSequences(losses), (std::vector<double>{7, 0, 7}));
  EXPECT_EQ(batch.WeightsLike(losses).ToDoubles(), (std::vector<double>{1, 0, 2, 0.5, 1}));
}

TEST(Batch, WeightsCostNothingWhereAllAreOne) {
  const TrainingSequence plain = TrainingSequence::FromLabels({1, 2, 3}, {1, 2, 3}, {1, 1, 1});
  EXPECT_TRUE(plain.weights.empty());
  EXPECT_EQ(plain.trained_weight(), 2);
  // That of label t stands with the target of token t - 1; a weight of 0 isn't trained.
  const TrainingSequence weighted =
      TrainingSequence::FromLabels({1, 2, 3, 4}, {1, 2, 3, 4}, {9, 0, 0.5, 3});
  EXPECT_EQ(weighted.targets, (std::vector<int32_t>{-1, 3, 4, -1}));
  EXPECT_EQ(weighted.weights, (std::vector<float>{0, 0.5, 3, 0}));
  EXPECT_EQ(weighted.trained_weight(), 3.5);
  EXPECT_TRUE(Batch::Of({plain}, {}).weights.empty());
  EXPECT_EQ(Batch::Of({plain, weighted}, {}).weights, (std::vector<float>{1, 1, 1, 0, 0.5, 3, 0}));
}

TEST(MemoryPlan, GrowsWithWhatItIsMadeOf) {
  ModelConfig config;
  config.vocab_size = 1000;
  config.hidden_size = 64;
  config.intermediate_size = 128;
  config.layers = 4;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 16;
  MemoryFacts facts = {.config = &config,
                       .model_parameters = 1000000,
                       .trained_parameters = 1000,
                       .optimizer_values = 2000,
                       .tokens = 512};
  const MemoryPlan lora = EstimateMemory(facts);
  EXPECT_EQ(lora.weights, 4000000);
  EXPECT_EQ(lora.optimizer, 8000);
  EXPECT_EQ(lora.trained, 12000);  // master, gradient, copy
  EXPECT_EQ(lora.total(),
            lora.weights + lora.trained + lora.optimizer + lora.activations + lora.logits);
  facts.recompute = true;
  EXPECT_LT(EstimateMemory(facts).activations, lora.activations / 2);
  EXPECT_GE(TokensPerPass(facts), 512);
  facts.recompute = false;
  facts.compute = DType::kBF16;
  EXPECT_EQ(EstimateMemory(facts).weights, 2000000);
  facts.head_trains = true;
  EXPECT_GT(EstimateMemory(facts).logits, 512 * 1000 * 2);
  // A model of many layers gets passes of the smallest size, never none.
  config.layers = 10000;
  config.hidden_size = 8192;
  EXPECT_EQ(TokensPerPass(facts), 256);
}

}  // namespace
}  // namespace lorica
