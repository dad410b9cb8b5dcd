// What is in the batch, how many threads run, and recompute change no bit.
#include <map>

#include "lorica/autograd/autograd.h"
#include "nn/nn_fixture.h"

namespace lorica {
namespace {

using ::lorica::testing::SameBits;

struct Sample {
  std::vector<int32_t> ids, targets;
};

// Lengths around 1 and beyond a block of sums; some targets masked.
std::vector<Sample> Samples(int64_t vocab) {
  std::vector<Sample> samples;
  uint64_t seed = 1;
  for (int64_t length : {5, 1, 300, 17}) {
    Sample sample;
    sample.ids = RandomIds(length, vocab, seed++);
    sample.targets = RandomIds(length, vocab, seed++);
    for (size_t t = 0; t < sample.targets.size(); t += 3) sample.targets[t] = -1;
    samples.push_back(std::move(sample));
  }
  return samples;
}

struct Packed {
  std::vector<int32_t> ids, targets;
  ForwardContext context;
};

Packed Pack(const std::vector<Sample>& samples) {
  Packed packed;
  std::vector<int64_t> lengths;
  for (const Sample& sample : samples) {
    packed.ids.insert(packed.ids.end(), sample.ids.begin(), sample.ids.end());
    packed.targets.insert(packed.targets.end(), sample.targets.begin(), sample.targets.end());
    lengths.push_back(static_cast<int64_t>(sample.ids.size()));
  }
  packed.context = ContextOf(lengths);
  return packed;
}

class BatchingTest : public NnTest, public ::testing::WithParamInterface<DType> {};

TEST_P(BatchingTest, PackingChangesNoBit) {
  NoGrad no_grad;
  auto model = TinyModel(backend_, GetParam());
  const std::vector<Sample> samples = Samples(53);
  const Packed packed = Pack(samples);
  const Tensor hidden = model->Hidden(packed.ids, packed.context);
  const Tensor logits = model->Logits(hidden, packed.context);
  const Tensor loss = model->Loss(packed.ids, packed.targets, packed.context);
  int64_t begin = 0;
  for (const Sample& sample : samples) {
    const int64_t length = static_cast<int64_t>(sample.ids.size());
    const ForwardContext alone = ContextOf({length});
    const Tensor own = model->Logits(model->Hidden(sample.ids, alone), alone);
    EXPECT_TRUE(SameBits(logits.Narrow(0, begin, length), own)) << "at row " << begin;
    EXPECT_TRUE(
        SameBits(loss.Narrow(0, begin, length), model->Loss(sample.ids, sample.targets, alone)))
        << "at row " << begin;
    begin += length;
  }
}

// Gradients of all parameters for the samples in `batches`, one backward pass a batch.
std::map<std::string, Tensor> Gradients(Backend& backend, DType compute, bool tied,
                                        const std::vector<Packed>& batches, bool recompute) {
  auto model = TinyModel(backend, compute, TinyConfig(tied));
  MakeTrainable(*model);
  for (const Packed& batch : batches) {
    ForwardContext context = batch.context;
    context.training = true;
    context.recompute = recompute;
    const Tensor loss = Sum(model->Loss(batch.ids, batch.targets, context));
    context = ForwardContext();  // the caller's is gone before the backward pass
    Backward(loss);
  }
  std::map<std::string, Tensor> grads;
  ForEachParameter(*model, [&](const std::string& path, Parameter& parameter) {
    grads[path] = Grad(parameter.master());
  });
  return grads;
}

TEST_P(BatchingTest, RecomputeChangesNoGradientBit) {
  for (bool tied : {false, true}) {
    const std::vector<Packed> batches = {Pack(Samples(53))};
    const auto plain = Gradients(backend_, GetParam(), tied, batches, false);
    const auto again = Gradients(backend_, GetParam(), tied, batches, true);
    for (const auto& [path, grad] : plain) {
      EXPECT_TRUE(SameBits(again.at(path), grad)) << path;
    }
  }
}

TEST_P(BatchingTest, RecomputeOfAFrozenModelReachesTheTrainedPart) {
  // Only one block's weight trains: the blocks before it need no gradient at all.
  std::vector<Tensor> grads;
  for (bool recompute : {false, true}) {
    auto model = TinyModel(backend_, GetParam());
    auto* host = dynamic_cast<AdapterHost*>(FindModule(*model, "model.layers.1.mlp.up_proj"));
    ASSERT_NE(host, nullptr);
    host->weight().MakeTrainable();
    const Packed batch = Pack(Samples(53));
    ForwardContext context = batch.context;
    context.recompute = recompute;
    Backward(Sum(model->Loss(batch.ids, batch.targets, context)));
    grads.push_back(Grad(host->weight().master()));
    ASSERT_TRUE(grads.back().defined());
  }
  EXPECT_TRUE(SameBits(grads[0], grads[1]));
}

TEST_P(BatchingTest, RecomputeKeepsLittle) {
  auto model = TinyModel(backend_, GetParam());
  MakeTrainable(*model);
  const Packed batch = Pack(Samples(53));
  ForwardContext context = batch.context;
  const size_t plain = SavedBytes(model->Hidden(batch.ids, context));
  context.recompute = true;
  const size_t recomputed = SavedBytes(model->Hidden(batch.ids, context));
  // The inputs of three blocks and of the final norm, and that norm's other two.
  const size_t input = batch.ids.size() * 28 * SizeOf(AccumulatorOf(GetParam()));
  EXPECT_GE(recomputed, 4 * input);
  EXPECT_LE(recomputed, 5 * input);
  EXPECT_GT(plain, 5 * recomputed);
}

TEST_P(BatchingTest, ThreadsChangeNoBit) {
  const std::vector<Packed> batches = {Pack(Samples(53))};
  TestBackend one(1);
  const auto want = Gradients(*one, GetParam(), false, batches, false);
  for (int threads : {2, 3}) {
    TestBackend many(threads);
    const auto got = Gradients(*many, GetParam(), false, batches, false);
    for (const auto& [path, grad] : want) {
      EXPECT_TRUE(SameBits(got.at(path), grad)) << path << " with " << threads << " threads";
    }
  }
}

// Gradients of an adapter-like leaf are added block by block into one accumulator, whatever the
// micro-batches are. Full training promises as much only within rounding; on one backend it holds.
TEST_P(BatchingTest, MicroBatchesChangeNoGradientBit) {
  const std::vector<Sample> samples = Samples(53);
  std::vector<Packed> single;
  for (const Sample& sample : samples) single.push_back(Pack({sample}));
  const auto together = Gradients(backend_, GetParam(), false, {Pack(samples)}, false);
  const auto apart = Gradients(backend_, GetParam(), false, single, false);
  for (const auto& [path, grad] : together) {
    EXPECT_TRUE(SameBits(apart.at(path), grad)) << path;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, BatchingTest,
                         ::testing::Values(DType::kF32, DType::kBF16, DType::kF64),
                         [](const auto& type) { return std::string(Name(type.param)); });

TEST_F(NnTest, MaskedTargetsCostNothingAndGiveZero) {
  auto model = TinyModel(backend_, DType::kF64);
  const std::vector<int32_t> ids = RandomIds(6, 53, 1);
  const ForwardContext context = ContextOf({6});
  const std::vector<int32_t> all = RandomIds(6, 53, 2);
  std::vector<int32_t> some = all;
  some[0] = some[3] = -100;
  const auto full = model->Loss(ids, all, context).ToDoubles();
  auto part = model->Loss(ids, some, context).ToDoubles();
  EXPECT_EQ(part[0], 0);
  EXPECT_EQ(part[3], 0);
  for (int t : {1, 2, 4, 5}) EXPECT_EQ(part[t], full[t]);
  const auto none = model->Loss(ids, std::vector<int32_t>(6, -1), context).ToDoubles();
  EXPECT_EQ(none, std::vector<double>(6, 0.0));
  EXPECT_THROW(model->Loss(ids, {1, 2}, context), Error);
  EXPECT_THROW(model->Loss(ids, {1, 2, 3, 4, 5, 53}, context), Error);
}

}  // namespace
}  // namespace lorica
