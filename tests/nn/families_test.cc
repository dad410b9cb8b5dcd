// What must hold for every family, checked on its golden model: decoding, packing, gradients of
// packed batches, written configurations.
#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "lorica/autograd/autograd.h"
#include "lorica/nn/kv_cache.h"
#include "nn/nn_fixture.h"

namespace lorica {
namespace {

using ::lorica::testing::Near;
using ::lorica::testing::SameBits;

class FamiliesTest : public NnTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::unique_ptr<CausalLm> Load(DType compute) {
    auto loaded =
        LoadModel(GoldenPath(std::string("models/") + GetParam() + "/model"), backend_, compute);
    if (!loaded.ok()) throw Error(std::string(loaded.status().message()));
    return std::move(loaded->model);
  }
  // Frequencies that follow the length of a sequence change while it grows.
  bool RotatesByLength() const {
    const std::string name = GetParam();
    return name == "rope_dynamic" || name == "rope_longrope" || name == "phi3";
  }
};

// Two sequences, pieces of several tokens and single ones, across windows.
TEST_P(FamiliesTest, DecodingAgreesWithTheFullPass) {
  const NoGrad no_grad;
  const auto model = Load(DType::kF64);
  const std::vector<int64_t> lengths =
      RotatesByLength() ? std::vector<int64_t>{16, 9} : std::vector<int64_t>{29, 9};
  std::vector<std::vector<int32_t>> ids;
  std::vector<Tensor> want;
  for (size_t s = 0; s < lengths.size(); ++s) {
    ids.push_back(RandomIds(lengths[s], model->config().vocab_size, s + 1));
    const ForwardContext context = ContextOf({lengths[s]});
    want.push_back(model->Logits(model->Hidden(ids[s], context), context));
  }
  KvCache cache(backend_, model->CacheConfig(), 2);
  int64_t step = 7;
  while (cache.length(0) < lengths[0] || cache.length(1) < lengths[1]) {
    ForwardContext context;
    std::vector<int32_t> given;
    for (int s = 0; s < 2; ++s) {
      const int64_t count = std::min(step - 2 * s, lengths[s] - cache.length(s));
      const auto from = ids[s].begin() + cache.length(s);
      given.insert(given.end(), from, from + std::max<int64_t>(count, 0));
      context.sequences.offsets.push_back(static_cast<int32_t>(given.size()));
    }
    context.positions = cache.Positions(context.sequences);
    context.cache = &cache;
    const Tensor got = model->Logits(model->Hidden(given, context), context);
    for (int s = 0; s < 2; ++s) {
      const int64_t count = context.sequences.size(s);
      if (count == 0) continue;
      EXPECT_TRUE(Near(got.Narrow(0, context.sequences.begin(s), count),
                       want[s].Narrow(0, cache.length(s) - count, count), 1e-10))
          << "sequence " << s << " up to token " << cache.length(s);
    }
    step = step == 7 ? 3 : step == 3 ? 4 : 3;
  }
}

TEST_P(FamiliesTest, PackingChangesNoBit) {
  const NoGrad no_grad;
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    const auto model = Load(compute);
    const std::vector<int64_t> lengths = {5, 37, 1, 20};
    const std::vector<int32_t> ids = RandomIds(63, model->config().vocab_size, 3);
    const ForwardContext packed = ContextOf(lengths);
    const Tensor hidden = model->Hidden(ids, packed);
    const Tensor loss = model->Loss(ids, ids, packed);
    int64_t begin = 0;
    for (const int64_t length : lengths) {
      const std::vector<int32_t> own(ids.begin() + begin, ids.begin() + begin + length);
      const ForwardContext alone = ContextOf({length});
      EXPECT_TRUE(SameBits(hidden.Narrow(0, begin, length), model->Hidden(own, alone))) << begin;
      EXPECT_TRUE(SameBits(loss.Narrow(0, begin, length), model->Loss(own, own, alone))) << begin;
      begin += length;
    }
  }
}

// Parameters that carry no adapter, summed over the tokens of all sequences.
constexpr const char* kSummedOverAll[] = {".sinks", ".A_log", ".dt_bias", ".conv1d.weight"};

// Every parameter of the base, norms of heads and norms by 1 + weight included.
TEST_P(FamiliesTest, GradientsOfTwoSequencesAreThoseOfOnePassEach) {
  std::map<std::string, std::vector<double>> sums[2];
  bool tied = false;
  for (const bool packed : {false, true}) {
    const auto model = Load(DType::kF64);
    MakeTrainable(*model);
    tied = model->config().tied;
    const std::vector<int32_t> ids = RandomIds(28, model->config().vocab_size, 5);
    const auto run = [&](const std::vector<int64_t>& lengths, int64_t begin, int64_t end,
                         bool recompute) {
      const std::vector<int32_t> own(ids.begin() + begin, ids.begin() + end);
      ForwardContext context = ContextOf(lengths);
      context.recompute = recompute;
      Backward(Sum(model->Loss(own, own, context)));
    };
    if (packed) {
      run({11, 17}, 0, 28, true);
    } else {
      run({11}, 0, 11, false);
      run({17}, 11, 28, false);
    }
    ForEachParameter(*model, [&](const std::string& path, Parameter& parameter) {
      if (!parameter.trainable()) return;  // a buffer
      sums[packed][path] = Grad(parameter.master()).ToDoubles();
    });
  }
  for (const auto& [path, values] : sums[0]) {
    const bool summed_over_all =
        std::any_of(std::begin(kSummedOverAll), std::end(kSummedOverAll),
                    [&name = path](const char* end) { return absl::EndsWith(name, end); });
    // A table that is the head too gets its two shares in the order of the passes; an expert's rows
    // are those of all sequences.
    if ((tied && path == "model.embed_tokens.weight") || absl::StrContains(path, ".experts.") ||
        summed_over_all) {
      const Tensor want =
          Tensor::FromHost<double>(backend_, {static_cast<int64_t>(values.size())}, values);
      EXPECT_TRUE(Near(want, sums[1].at(path), 1e-13));
      continue;
    }
    EXPECT_TRUE(values == sums[1].at(path)) << path;
  }
}

TEST_P(FamiliesTest, DeclaredSizeIsThatOfTheModel) {
  const auto model = Load(DType::kF32);
  EXPECT_EQ(CountParameters(model->config()), CountParameters(*model));
}

TEST_P(FamiliesTest, SavedModelLoadsBitForBit) {
  const auto model = Load(DType::kF32);
  TempFolder folder;
  ASSERT_OK(SaveModel(*model, folder / "m"));
  const auto loaded = LoadModel(folder / "m", backend_, DType::kF32);
  ASSERT_OK(loaded);
  std::map<std::string, Tensor> want;
  ForEachParameter(*model, [&](const std::string& path, Parameter& p) { want[path] = p.value(); });
  size_t compared = 0;
  ForEachParameter(*loaded->model, [&](const std::string& path, Parameter& p) {
    EXPECT_TRUE(SameBits(p.value(), want.at(path))) << path;
    ++compared;
  });
  EXPECT_GT(compared, 10u);
  EXPECT_EQ(compared, want.size());
}

// ConfigJson refuses what doesn't read back as the same model.
TEST_P(FamiliesTest, WrittenConfigurationReadsBack) {
  const auto config = ReadModelConfig(GoldenPath(std::string("models/") + GetParam() + "/model"));
  ASSERT_OK(config);
  EXPECT_THAT(config->notes, ::testing::IsEmpty());
  const auto text = ConfigJson(*config, DType::kF32);
  ASSERT_OK(text);
  const auto back = ParseModelConfig(*text, "config.json");
  ASSERT_OK(back);
  EXPECT_EQ(MathsText(*back), MathsText(*config));
  EXPECT_EQ(back->max_positions, config->max_positions);
  EXPECT_THAT(back->notes, ::testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Models, FamiliesTest,
                         ::testing::Values("llama_gqa", "mistral", "qwen2_window", "qwen3",
                                           "smollm3", "granite", "olmo2", "gemma2", "gemma3_text",
                                           "phi3", "rope_linear", "rope_dynamic", "rope_llama3",
                                           "rope_yarn", "rope_yarn_mscale", "rope_longrope"),
                         [](const auto& model) { return std::string(model.param); });
INSTANTIATE_TEST_SUITE_P(Experts, FamiliesTest,
                         ::testing::Values("mixtral", "qwen2_moe", "qwen3_moe", "olmoe",
                                           "deepseek_v2", "deepseek_v2_lite", "deepseek_v3",
                                           "glm4_moe", "glm4_moe_lite", "deepseek_v32",
                                           "glm_moe_dsa", "gpt_oss", "minimax_m2", "qwen3_5_moe"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace lorica
