#include "lorica/nn/generate.h"

#include <cmath>
#include <limits>
#include <map>

#include "lorica/autograd/autograd.h"
#include "nn/nn_fixture.h"

namespace lorica {
namespace {

using ::lorica::testing::Near;
using ::lorica::testing::SameBits;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using KvCacheTest = NnTest;

// The first `count` blocks have the gated delta rule, with `taps` of its convolution.
ModelConfig DeltaConfig(int count, int64_t taps) {
  ModelConfig config = TinyConfig();
  config.layer_configs.resize(static_cast<size_t>(config.layers));
  for (int i = 0; i < count; ++i) config.layer_configs[static_cast<size_t>(i)].delta = true;
  config.delta = {
      .key_heads = 2, .key_head_dim = 5, .value_heads = 4, .value_head_dim = 6, .taps = taps};
  return config;
}

// Prefill of `prefill` tokens of each sequence, then one token a pass.
void DecodeEqualsForward(Backend& backend, DType compute, double tolerance,
                         const ModelConfig& config = TinyConfig()) {
  NoGrad no_grad;
  auto model = TinyModel(backend, compute, config);
  const std::vector<int64_t> lengths = {9, 1, 150};
  const std::vector<int64_t> prefill = {4, 0, 3};
  std::vector<std::vector<int32_t>> ids;
  std::vector<Tensor> want;
  for (size_t s = 0; s < lengths.size(); ++s) {
    ids.push_back(RandomIds(lengths[s], 53, s + 1));
    const ForwardContext alone = ContextOf({lengths[s]});
    want.push_back(model->Logits(model->Hidden(ids[s], alone), alone));
  }
  KvCache cache(backend, model->CacheConfig(), static_cast<int>(lengths.size()));
  for (int pass = 0; pass < 200; ++pass) {
    ForwardContext context;
    std::vector<int32_t> fed;
    for (size_t s = 0; s < lengths.size(); ++s) {
      const int64_t done = cache.length(static_cast<int>(s));
      const int64_t count = std::min(lengths[s] - done, pass == 0 ? prefill[s] : 1);
      fed.insert(fed.end(), ids[s].begin() + done, ids[s].begin() + done + count);
      context.sequences.offsets.push_back(static_cast<int32_t>(fed.size()));
    }
    if (fed.empty()) break;
    context.positions = cache.Positions(context.sequences);
    context.cache = &cache;
    const Tensor got = model->Logits(model->Hidden(fed, context), context);
    for (size_t s = 0; s < lengths.size(); ++s) {
      const int64_t count = context.sequences.size(static_cast<int>(s));
      if (count == 0) continue;
      const int64_t from = cache.length(static_cast<int>(s)) - count;
      const Tensor rows = got.Narrow(0, context.sequences.begin(static_cast<int>(s)), count);
      const Tensor wanted = want[s].Narrow(0, from, count);
      ASSERT_TRUE(tolerance == 0 ? SameBits(rows, wanted) : Near(rows, wanted, tolerance))
          << "sequence " << s << " tokens from " << from;
    }
  }
  for (size_t s = 0; s < lengths.size(); ++s) {
    EXPECT_EQ(cache.length(static_cast<int>(s)), lengths[s]);
  }
}

TEST_F(KvCacheTest, DecodingEqualsTheForwardPass) {
  DecodeEqualsForward(backend_, DType::kF64, 1e-10);
  DecodeEqualsForward(backend_, DType::kF32, 1e-4);
}

TEST_F(KvCacheTest, DecodingWithTheDeltaRuleEqualsTheForwardPass) {
  for (const int64_t taps : {1, 2, 4}) {
    SCOPED_TRACE(taps);
    DecodeEqualsForward(backend_, DType::kF64, 1e-10, DeltaConfig(1, taps));
    DecodeEqualsForward(backend_, DType::kF32, 1e-4, DeltaConfig(2, taps));
    // Without attention not even a rounding tells passes apart.
    const int all = static_cast<int>(TinyConfig().layers);
    for (const DType compute : {DType::kF64, DType::kF32, DType::kBF16}) {
      DecodeEqualsForward(backend_, compute, 0, DeltaConfig(all, taps));
    }
  }
}

TEST_F(KvCacheTest, APassThatIsGivenUpChangesNoState) {
  const NoGrad no_grad;
  const auto model = TinyModel(backend_, DType::kF64, DeltaConfig(2, 3));
  KvCache cache(backend_, model->CacheConfig(), 1);
  EXPECT_GT(cache.bytes(), 0u);
  const auto feed = [&](const std::vector<int32_t>& ids) {
    ForwardContext context = ContextOf({static_cast<int64_t>(ids.size())});
    context.positions = cache.Positions(context.sequences);
    context.cache = &cache;
    return model->Hidden(ids, context);
  };
  feed({1, 2, 3});
  cache.Begin(Sequences::Single(2));
  KvCache::State state = cache.state(0);
  state.matrix = Tensor::Full(backend_, state.matrix.shape(), DType::kF64, 7);
  cache.SetState(0, state);
  EXPECT_THROW(cache.Commit(), Error);  // layer 1 gave none
  const Tensor got = feed({4});
  EXPECT_EQ(cache.length(0), 4);
  const ForwardContext context = ContextOf({4});
  EXPECT_TRUE(Near(got, model->Hidden({1, 2, 3, 4}, context).Narrow(0, 3, 1), 1e-12));

  EXPECT_THROW(cache.state(2), Error);  // attention
  const Tensor rows = Tensor::Zeros(backend_, {1, 2, 10}, DType::kF64);
  EXPECT_THROW(cache.Append(0, rows, rows), Error);
  state.tail = rows;
  EXPECT_THROW(cache.SetState(0, state), Error);
}

TEST_F(KvCacheTest, ChecksWhatItIsGiven) {
  auto model = TinyModel(backend_, DType::kF32);
  KvCache cache(backend_, model->CacheConfig(), 2);
  EXPECT_EQ(cache.bytes(), 0u);
  EXPECT_THROW(cache.Begin(Sequences::Single(3)), Error);
  cache.Begin({{0, 1, 1}});
  EXPECT_GT(cache.bytes(), 0u);
  const Tensor bad = Tensor::Zeros(backend_, {2, 2, 10}, DType::kF32);
  EXPECT_THROW(cache.Append(0, bad, bad), Error);
  EXPECT_THROW(cache.Append(3, bad, bad), Error);
  EXPECT_EQ(cache.length(0), 0);  // nothing was committed
}

SamplerOptions Hot(double temperature, int64_t top_k = 0, double top_p = 1) {
  SamplerOptions options;
  options.temperature = temperature;
  options.top_k = top_k;
  options.top_p = top_p;
  return options;
}

// Share of each id among many draws.
std::map<int32_t, double> Shares(const std::vector<double>& logits, const SamplerOptions& options) {
  RandomStream stream(3, 4);
  std::map<int32_t, double> shares;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) shares[Sample(logits, options, stream)->id] += 1.0 / kDraws;
  return shares;
}

TEST(SampleTest, TemperatureZeroTakesTheFirstOfTheBest) {
  RandomStream stream(1, 1);
  const auto choice = Sample({0.0, 2.0, 1.0, 2.0}, Hot(0), stream);
  ASSERT_OK(choice);
  EXPECT_EQ(choice->id, 1);
  const double sum = 1 + 2 * std::exp(2.0) + std::exp(1.0);
  EXPECT_NEAR(choice->logprob, 2 - std::log(sum), 1e-15);
}

TEST(SampleTest, FrequenciesFollowTheTemperature) {
  const std::vector<double> logits = {std::log(0.5), std::log(0.3), std::log(0.2)};
  auto shares = Shares(logits, Hot(1));
  EXPECT_NEAR(shares[0], 0.5, 0.015);
  EXPECT_NEAR(shares[2], 0.2, 0.015);
  shares = Shares(logits, Hot(0.5));  // squares: 25, 9, 4 of 38
  EXPECT_NEAR(shares[0], 25 / 38.0, 0.015);
  EXPECT_NEAR(shares[1], 9 / 38.0, 0.015);
  EXPECT_EQ(Shares(logits, Hot(1e-300)).size(), 1u);
}

TEST(SampleTest, TopKAndTopPCutTheTail) {
  const std::vector<double> logits = {std::log(0.2), std::log(0.4), std::log(0.1), std::log(0.3)};
  auto shares = Shares(logits, Hot(1, 2));
  EXPECT_EQ(shares.size(), 2u);
  EXPECT_NEAR(shares[1], 4 / 7.0, 0.015);
  EXPECT_EQ(Shares(logits, Hot(1, 0, 0.4)).size(), 1u);
  EXPECT_EQ(Shares(logits, Hot(1, 0, 0.41)).size(), 2u);
  EXPECT_EQ(Shares(logits, Hot(1, 0, 1e-9)).size(), 1u);
  EXPECT_EQ(Shares(logits, Hot(1, 3, 0.95)).size(), 3u);
  EXPECT_EQ(Shares({1, 1, 1}, Hot(1, 1)).begin()->first, 0);
  // Log-probabilities are those of the whole model.
  RandomStream stream(1, 1);
  EXPECT_NEAR(Sample(logits, Hot(1, 1), stream)->logprob, std::log(0.4), 1e-12);
}

TEST(SampleTest, BadLogitsAndOptionsAreErrors) {
  RandomStream stream(1, 1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(std::string(Sample({1.0, nan}, Hot(0), stream).status().message()),
              HasSubstr("logit of token 1 is nan"));
  EXPECT_FALSE(Hot(-1).Check().ok());
  EXPECT_FALSE(Hot(nan).Check().ok());
  EXPECT_FALSE(Hot(1, -1).Check().ok());
  EXPECT_FALSE(Hot(1, 0, 0).Check().ok());
  EXPECT_FALSE(Hot(1, 0, 1.5).Check().ok());
}

class GenerateTest : public NnTest {
 protected:
  std::unique_ptr<CausalLm> model_ = TinyModel(backend_, DType::kF64);
  std::vector<std::vector<int32_t>> prompts_ = {RandomIds(7, 53, 1), RandomIds(1, 53, 2),
                                                RandomIds(90, 53, 3)};
};

TEST_F(GenerateTest, GreedyTakesTheBestOfEveryForwardPass) {
  GenerateOptions options;
  options.max_tokens = 12;
  const auto results = Generate(*model_, prompts_, options);
  ASSERT_OK(results);
  NoGrad no_grad;
  for (size_t s = 0; s < prompts_.size(); ++s) {
    std::vector<int32_t> ids = prompts_[s];
    for (size_t i = 0; i < 12; ++i) {
      const ForwardContext context = ContextOf({static_cast<int64_t>(ids.size())});
      const Tensor logits = model_->LogitsOfRows(model_->Hidden(ids, context),
                                                 {static_cast<int32_t>(ids.size()) - 1}, context);
      RandomStream unused(0, 0);
      const auto want = Sample(logits.ToDoubles(), SamplerOptions(), unused);
      ASSERT_EQ((*results)[s].ids[i], want->id) << "prompt " << s << " token " << i;
      EXPECT_NEAR((*results)[s].logprobs[i], want->logprob, 1e-10);
      ids.push_back(want->id);
    }
    EXPECT_EQ((*results)[s].reason, FinishReason::kLength);
  }
}

TEST_F(GenerateTest, CompanyAndPrefillSizeChangeNothing) {
  GenerateOptions options;
  options.max_tokens = 8;
  options.sampler = Hot(1.3, 20, 0.9);
  options.sampler.seed = 5;
  const auto together = Generate(*model_, prompts_, options);
  ASSERT_OK(together);
  const auto first = Generate(*model_, {prompts_[0]}, options);
  EXPECT_EQ((*first)[0].ids, (*together)[0].ids);
  EXPECT_EQ((*first)[0].logprobs, (*together)[0].logprobs);
  options.prefill_tokens = 5;
  const auto pieces = Generate(*model_, prompts_, options);
  for (size_t s = 0; s < prompts_.size(); ++s) {
    EXPECT_EQ((*pieces)[s].ids, (*together)[s].ids) << s;
  }
  // The same prompt twice goes two ways.
  const auto twice = Generate(*model_, {prompts_[0], prompts_[0]}, options);
  EXPECT_EQ((*twice)[0].ids, (*together)[0].ids);
  EXPECT_NE((*twice)[1].ids, (*together)[0].ids);
  options.sampler.seed = 6;
  EXPECT_NE((*Generate(*model_, prompts_, options))[2].ids, (*together)[2].ids);
}

TEST_F(GenerateTest, TheDeltaRulesStateFollowsItsSequence) {
  model_ = TinyModel(backend_, DType::kF64, DeltaConfig(2, 4));
  GenerateOptions options;
  options.max_tokens = 9;
  const auto together = Generate(*model_, prompts_, options);
  ASSERT_OK(together);
  options.prefill_tokens = 5;
  const auto pieces = Generate(*model_, prompts_, options);
  for (size_t s = 0; s < prompts_.size(); ++s) {
    const auto alone = Generate(*model_, {prompts_[s]}, options);
    EXPECT_EQ((*alone)[0].ids, (*together)[s].ids) << s;
    EXPECT_EQ((*pieces)[s].ids, (*together)[s].ids) << s;
  }
}

TEST_F(GenerateTest, StopIdEndsASequenceAndStaysOut) {
  GenerateOptions options;
  options.max_tokens = 10;
  const auto plain = Generate(*model_, {prompts_[0]}, options);
  ASSERT_OK(plain);
  const std::vector<int32_t>& ids = (*plain)[0].ids;
  options.stop_ids = {ids[4]};
  const auto stopped = Generate(*model_, {prompts_[0]}, options);
  const GeneratedSequence& result = (*stopped)[0];
  EXPECT_EQ(result.reason, FinishReason::kStopId);
  EXPECT_EQ(result.stop_id, ids[4]);
  const auto first = std::find(ids.begin(), ids.end(), ids[4]);
  EXPECT_EQ(result.ids, std::vector<int32_t>(ids.begin(), first));
  EXPECT_EQ(result.logprobs.size(), result.ids.size());
}

TEST_F(GenerateTest, CallbackSeesEveryTokenAndMayEnd) {
  GenerateOptions options;
  options.max_tokens = 6;
  std::map<int, std::vector<int32_t>> seen;
  options.on_token = [&](int sequence, const Choice& choice) {
    seen[sequence].push_back(choice.id);
    return sequence != 1 || seen[1].size() < 2;
  };
  const auto results = Generate(*model_, prompts_, options);
  ASSERT_OK(results);
  for (int s = 0; s < 3; ++s) EXPECT_EQ(seen[s], (*results)[s].ids);
  EXPECT_EQ((*results)[1].ids.size(), 2u);
  EXPECT_EQ((*results)[1].reason, FinishReason::kCallback);
  EXPECT_EQ((*results)[0].ids.size(), 6u);
}

TEST_F(GenerateTest, CancelEndsAll) {
  GenerateOptions options;
  int asked = 0;
  options.cancelled = [&] { return ++asked > 3; };
  const auto results = Generate(*model_, prompts_, options);
  ASSERT_OK(results);
  EXPECT_EQ((*results)[0].ids.size(), 3u);
  EXPECT_EQ((*results)[2].reason, FinishReason::kCancelled);
}

TEST_F(GenerateTest, RefusesWhatMakesNoSense) {
  EXPECT_THROW((void)Generate(*model_, {}, {}), Error);
  EXPECT_THROW((void)Generate(*model_, {{1}, {}}, {}), Error);
  EXPECT_THROW((void)Generate(*model_, {{53}}, {}), Error);
  GenerateOptions options;
  options.slots = {0, 0};
  EXPECT_THROW((void)Generate(*model_, {{1}}, options), Error);
  options = {};
  options.sampler.top_p = 2;
  EXPECT_FALSE(Generate(*model_, {{1}}, options).ok());
  options = {};
  options.max_tokens = 0;
  EXPECT_TRUE((*Generate(*model_, {{1}}, options))[0].ids.empty());
}

TEST_F(GenerateTest, SlotsChooseTheAdapterOfAPrompt) {
  class OneSlot final : public LinearAdapter {
   public:
    explicit OneSlot(Backend& backend) {
      branch_.a = Tensor::Full(backend, {1, 28}, DType::kF64, 0.5);
      branch_.b = Tensor::Full(backend, {53, 1}, DType::kF64, 0.0);
      branch_.b.value.mutable_data<double>()[9] = 1000;
    }
    absl::Span<const LoraBranch> Branches(DType, bool) override { return {&branch_, 1}; }

   private:
    LoraBranch branch_;
  };
  GenerateOptions options;
  options.max_tokens = 4;
  const auto base = Generate(*model_, {prompts_[0], prompts_[0]}, options);
  model_->lm_head().set_adapter(std::make_shared<OneSlot>(backend_));
  options.slots = {-1, 0};
  const auto mixed = Generate(*model_, {prompts_[0], prompts_[0]}, options);
  ASSERT_OK(mixed);
  EXPECT_EQ((*mixed)[0].ids, (*base)[0].ids);
  EXPECT_NE((*mixed)[1].ids, (*base)[1].ids);
}

}  // namespace
}  // namespace lorica
