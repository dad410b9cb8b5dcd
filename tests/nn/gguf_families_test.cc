// GGUF files of every architecture give the golden models' logits.
#include <cmath>
#include <functional>

#include "lorica/autograd/autograd.h"
#include "nn/gguf_fixture.h"
#include "nn/nn_fixture.h"

namespace lorica {
namespace {

using ::lorica::testing::Near;

// The weights of a golden model under a configuration that GGUF metadata can say.
std::unique_ptr<CausalLm> LoadAs(const std::string& name, Backend& backend,
                                 const std::function<void(ModelConfig&)>& edit = {}) {
  auto files = OpenModel(GoldenPath("models/" + name + "/model"));
  if (!files.ok()) throw Error(std::string(files.status().message()));
  if (edit) edit(files->config);
  auto model = std::make_unique<CausalLm>(files->config, DType::kF32);
  const absl::Status status = LoadWeights(*model, *files, backend);
  if (!status.ok()) throw Error(std::string(status.message()));
  return model;
}

std::vector<float> Floats(const std::vector<double>& values) {
  return std::vector<float>(values.begin(), values.end());
}

class GgufFamiliesTest : public NnTest {
 protected:
  // Loads the file and compares logits of 25 tokens; the configuration of what was loaded.
  ModelConfig Check(CausalLm& model, const GgufMetadata& metadata,
                    const std::vector<ExtraTensor>& extra = {}) {
    const NoGrad no_grad;
    TempFolder folder;
    WriteGguf(folder / "m.gguf", model, metadata, extra);
    const auto again = LoadModel(folder / "m.gguf", backend_, DType::kF32);
    if (!again.ok()) {
      ADD_FAILURE() << again.status();
      return {};
    }
    const std::vector<int32_t> ids = RandomIds(25, model.config().vocab_size, 1);
    const ForwardContext context = ContextOf({25});
    EXPECT_TRUE(Near(again->model->Logits(again->model->Hidden(ids, context), context),
                     model.Logits(model.Hidden(ids, context), context), 1e-5));
    EXPECT_THAT(again->model->config().notes, ::testing::IsEmpty());
    // What merging a GGUF model into a folder writes.
    const auto text = ConfigJson(again->model->config(), DType::kF32);
    EXPECT_TRUE(text.ok()) << text.status();
    return again->model->config();
  }
};

TEST_F(GgufFamiliesTest, Mistral) {
  const auto model = LoadAs("mistral", backend_);
  GgufMetadata metadata = MetadataOf(model->config());
  metadata.SetU32("llama.attention.sliding_window", 7);
  EXPECT_EQ(Check(*model, metadata).family, "mistral");
}

TEST_F(GgufFamiliesTest, Qwen3) {
  const auto model =
      LoadAs("qwen3", backend_, [](ModelConfig& config) { config.layer_configs.clear(); });
  EXPECT_EQ(Check(*model, MetadataOf(model->config())).qk_norm, QkNorm::kHead);
}

// Which layers a window is meant for a list says, or a period of which the last layer sees all.
TEST_F(GgufFamiliesTest, WindowsOfQwen) {
  const auto qwen2 = LoadAs("qwen2_window", backend_);
  GgufMetadata metadata = MetadataOf(qwen2->config());
  metadata.SetU32("qwen2.attention.sliding_window", 5);
  TempFolder folder;
  WriteGguf(folder / "m.gguf", *qwen2, metadata);
  EXPECT_THAT(LoadError(folder / "m.gguf", backend_),
              ::testing::EndsWith("qwen2.attention.sliding_window: expected "
                                  "qwen2.attention.sliding_window_pattern beside it, which says "
                                  "for which layers it is meant, found none"));
  GgufMetadata listed = metadata;
  listed.SetI32s("qwen2.attention.sliding_window_pattern", {0, 1, 1});
  EXPECT_EQ(Check(*qwen2, listed).layer_configs, qwen2->config().layer_configs);
  metadata.SetI32s("qwen2.attention.sliding_window_pattern", {0, 1});
  WriteGguf(folder / "m.gguf", *qwen2, metadata);
  EXPECT_THAT(LoadError(folder / "m.gguf", backend_),
              ::testing::HasSubstr("expected a flag for each of 3 layers, found 2"));

  const auto qwen3 = LoadAs("qwen3", backend_);
  metadata = MetadataOf(qwen3->config());
  metadata.SetU32("qwen3.attention.sliding_window", 9);
  metadata.SetU32("qwen3.attention.sliding_window_pattern", 2);
  EXPECT_EQ(Check(*qwen3, metadata).layer_configs, qwen3->config().layer_configs);
}

TEST_F(GgufFamiliesTest, SmolLm3RotatesThreeLayersOfFour) {
  ModelConfig config = TinyConfig(true);
  config.family = "smollm3";
  config.layers = 4;
  config.layer_configs.resize(4);
  config.layer_configs[3].rope = LayerConfig::Rope::kNone;
  const auto model = TinyModel(backend_, DType::kF32, config);
  EXPECT_EQ(Check(*model, MetadataOf(config)).layer_configs, config.layer_configs);
}

TEST_F(GgufFamiliesTest, Granite) {
  const auto model = LoadAs("granite", backend_);
  GgufMetadata metadata = MetadataOf(model->config());
  metadata.SetF32("granite.attention.scale", 0.3f);
  metadata.SetF32("granite.embedding_scale", 3.1f);
  metadata.SetF32("granite.residual_scale", 0.43f);
  metadata.SetF32("granite.logit_scale", 1.7f);
  Check(*model, metadata);
}

TEST_F(GgufFamiliesTest, Olmo2) {
  const auto model = LoadAs("olmo2", backend_);
  EXPECT_EQ(Check(*model, MetadataOf(model->config())).norms, NormPlacement::kAfter);
}

TEST_F(GgufFamiliesTest, Gemma2) {
  const auto model = LoadAs("gemma2", backend_);
  GgufMetadata metadata = MetadataOf(model->config());
  metadata.SetU32("gemma2.attention.sliding_window", 5);
  metadata.SetF32("gemma2.attn_logit_softcapping", 1.5f);
  metadata.SetF32("gemma2.final_logit_softcapping", 2.5f);
  metadata.SetF32("gemma2.attention.scale", 1 / 3.0f);
  Check(*model, metadata);
}

TEST_F(GgufFamiliesTest, Gemma2WithoutScaleGoesByTheHeads) {
  const auto model = LoadAs("gemma2", backend_, [](ModelConfig& config) {
    config.attention_scale = 1 / std::sqrt(6.0);
    config.attention_softcap = 50;
    config.logit_softcap = 30;
  });
  GgufMetadata metadata = MetadataOf(model->config());
  metadata.SetU32("gemma2.attention.sliding_window", 5);
  Check(*model, metadata);
}

TEST_F(GgufFamiliesTest, Gemma3) {
  const auto model = LoadAs("gemma3_text", backend_);
  GgufMetadata metadata = MetadataOf(model->config());
  metadata.SetU32("gemma3.attention.sliding_window", 5);
  metadata.SetU32("gemma3.attention.sliding_window_pattern", 3);
  metadata.SetF32("gemma3.attention.scale", 1 / 3.0f);
  metadata.SetString("gemma3.rope.scaling.type", "linear");
  metadata.SetF32("gemma3.rope.scaling.factor", 8);
  const ModelConfig config = Check(*model, metadata);
  EXPECT_EQ(config.family, "gemma3_text");
  EXPECT_EQ(config.local_rope.theta, 10000);
}

TEST_F(GgufFamiliesTest, Phi3) {
  const auto model = LoadAs("phi3", backend_);
  const RopeConfig& rope = model->config().rope;
  GgufMetadata metadata = MetadataOf(model->config());
  metadata.SetU32("phi3.attention.sliding_window", 19);
  metadata.SetU32("phi3.rope.scaling.original_context_length", 16);
  metadata.SetF32("phi3.rope.scaling.attn_factor", static_cast<float>(rope.attention_factor));
  Check(*model, metadata,
        {{"rope_factors_long.weight", Floats(rope.long_factors)},
         {"rope_factors_short.weight", Floats(rope.short_factors)}});
}

// Files of Llama 3 hold what the frequencies are divided by.
TEST_F(GgufFamiliesTest, DivisorsOfFrequencies) {
  const auto model = LoadAs("rope_llama3", backend_);
  RopeConfig plain = model->config().rope;
  const std::vector<double> scaled = InverseFrequencies(plain, 1);
  plain.kind = RopeConfig::Kind::kDefault;
  std::vector<double> divisors = InverseFrequencies(plain, 1);
  for (size_t i = 0; i < divisors.size(); ++i) divisors[i] /= scaled[i];
  Check(*model, MetadataOf(model->config()), {{"rope_freqs.weight", Floats(divisors)}});
}

TEST_F(GgufFamiliesTest, LinearAndYarn) {
  const auto linear = LoadAs("rope_linear", backend_);
  GgufMetadata metadata = MetadataOf(linear->config());
  metadata.SetF32("llama.rope.scaling.factor", 3);
  Check(*linear, metadata);
  metadata.SetString("llama.rope.scaling.type", "linear");
  Check(*linear, metadata);

  const auto yarn = LoadAs("rope_yarn", backend_);
  metadata = MetadataOf(yarn->config());
  metadata.SetString("llama.rope.scaling.type", "yarn");
  metadata.SetF32("llama.rope.scaling.factor", 4);
  metadata.SetU32("llama.rope.scaling.original_context_length", 32);
  metadata.SetF32("llama.rope.scaling.yarn_beta_fast", 4);
  metadata.SetF32("llama.rope.scaling.yarn_beta_slow", 0.5f);
  Check(*yarn, metadata);
}

}  // namespace
}  // namespace lorica
