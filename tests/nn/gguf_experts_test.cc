// Mixtures of experts in GGUF files.
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "lorica/autograd/autograd.h"
#include "nn/gguf_fixture.h"
#include "nn/nn_fixture.h"
#include "support/described_gguf.h"

namespace lorica {
namespace {

using ::lorica::testing::Near;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Weights and fields of both are the same; only a tenth of mscale_all_dim rounds once more in f64.
constexpr double kF64Tolerance = 1e-12;
constexpr double kF32Tolerance = 1e-5;

std::string Fnv1a(absl::Span<const uint8_t> bytes) {
  uint64_t value = 0xCBF29CE484222325u;
  for (const uint8_t byte : bytes) value = (value ^ byte) * 0x100000001B3u;
  return absl::StrFormat("%016x", value);
}

// Changes of a file's metadata by key: another value, or none where it is null.
using Changes = std::map<std::string, Json>;

// The model of the folder, as far as GGUF metadata can say it: its floats have 32 bits.
std::unique_ptr<CausalLm> LoadReference(const std::string& name, Backend& backend, DType compute) {
  auto files = OpenModel(GoldenPath("models/" + name + "/model"));
  if (!files.ok()) throw Error(std::string(files.status().message()));
  // No key says mscale: it is taken for equal to mscale_all_dim.
  if (name == "deepseek_v3") files->config.rope.attention_factor = 1;
  for (double* value :
       {&files->config.rms_norm_eps, &files->config.qkv_clip, &files->config.moe.router.scale}) {
    *value = static_cast<float>(*value);
  }
  double& mscale = files->config.rope.mscale_all_dim;  // metadata has a tenth of it
  mscale = static_cast<float>(0.1 * mscale) / 0.1;
  auto model = std::make_unique<CausalLm>(files->config, compute);
  const absl::Status status = LoadWeights(*model, *files, backend);
  if (!status.ok()) throw Error(std::string(status.message()));
  return model;
}

// The tensors that the description lists, of the model or where it has none zeros.
EditableTensors TensorsOfCase(const std::string& name, CausalLm& model) {
  EditableTensors made = GgufTensors(model, false), tensors;
  EditableTensors whole = GgufTensors(model, true);
  for (const Json& row : DescribedGgufs().at(name).at("tensors")) {
    const std::string tensor = row[0];
    EditableTensor value{StoredType::kF32, row[1].get<std::vector<int64_t>>(), {}};
    const auto& from = made.count(tensor) > 0 ? made : whole;
    if (const auto found = from.find(tensor); found != from.end()) {
      value.bytes = found->second.bytes;
    } else {
      value.bytes.resize(*StoredBytes(value.type, value.shape));
    }
    tensors[tensor] = std::move(value);
  }
  return tensors;
}

class GgufExpertsTest : public NnTest {
 protected:
  // What loading the case's file says after changes.
  std::string Error(const std::string& name, const Changes& changes,
                    const std::function<void(EditableTensors&)>& edit = {}) {
    const auto model = LoadReference(name, backend_, DType::kF32);
    EditableTensors tensors = TensorsOfCase(name, *model);
    if (edit) edit(tensors);
    TempFolder folder;
    WriteGguf(folder / "m.gguf", tensors, DescribedMetadata(name, changes));
    return LoadError(folder / "m.gguf", backend_);
  }

  static Tensor Logits(CausalLm& model) {
    const NoGrad no_grad;
    const ForwardContext context = ContextOf({31});
    return model.Logits(model.Hidden(RandomIds(31, model.config().vocab_size, 5), context),
                        context);
  }
};

class GgufFilesTest : public GgufExpertsTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(GgufFilesTest, HaveTheBytesThatAnotherProgramWrites) {
  const auto model = LoadReference(GetParam(), backend_, DType::kF32);
  const EditableTensors tensors = TensorsOfCase(GetParam(), *model);
  size_t of_model = 0;
  for (const Json& row : DescribedGgufs().at(GetParam()).at("tensors")) {
    const std::string name = row[0];
    const EditableTensor& tensor = tensors.at(name);
    EXPECT_EQ(tensor.bytes.size(), *StoredBytes(tensor.type, tensor.shape)) << name;
    int64_t layer = 0;
    const bool skipped =
        std::sscanf(name.c_str(), "blk.%ld.", &layer) == 1 && layer >= model->config().layers;
    if (skipped) continue;
    EXPECT_EQ(Fnv1a(tensor.bytes), row[2]) << name;
    ++of_model;
  }
  const bool old_latent = tensors.count("blk.0.attn_kv_b.weight") > 0;
  EXPECT_EQ(of_model + (old_latent ? model->config().layers : 0),
            GgufTensors(*model, false).size());
}

TEST_P(GgufFilesTest, GiveTheLogitsOfTheFolder) {
  TempFolder folder;
  for (const DType compute : {DType::kF64, DType::kF32}) {
    const auto want = LoadReference(GetParam(), backend_, compute);
    WriteGguf(folder / "m.gguf", TensorsOfCase(GetParam(), *want), DescribedMetadata(GetParam()));
    const auto got = LoadModel(folder / "m.gguf", backend_, compute);
    ASSERT_OK(got);
    EXPECT_TRUE(Near(Logits(*got->model), Logits(*want),
                     compute == DType::kF64 ? kF64Tolerance : kF32Tolerance));
    const ModelConfig& config = got->model->config();
    EXPECT_THAT(config.notes, IsEmpty());
    EXPECT_EQ(config.family, absl::string_view(GetParam()) == "glm4_moe_lite" ? "deepseek_v3"
                             : absl::string_view(GetParam()) == "deepseek_v2_lite"
                                 ? "deepseek_v2"
                                 : absl::string_view(GetParam()));
    std::vector<std::string> paths, wanted_paths;
    ForEachParameter(*got->model,
                     [&](const std::string& path, Parameter&) { paths.push_back(path); });
    ForEachParameter(*want,
                     [&](const std::string& path, Parameter&) { wanted_paths.push_back(path); });
    EXPECT_EQ(paths, wanted_paths);
    const auto text = ConfigJson(config, DType::kF32);  // what merging into a folder writes
    EXPECT_TRUE(text.ok()) << text.status();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GgufFilesTest,
                         ::testing::Values("mixtral", "qwen2_moe", "qwen3_moe", "olmoe",
                                           "deepseek_v2", "deepseek_v2_lite", "deepseek_v3",
                                           "glm4_moe", "glm4_moe_lite", "minimax_m2", "gpt_oss"),
                         [](const auto& one) { return std::string(one.param); });

// Gate and up in one tensor, as newer files may have them.
TEST_F(GgufExpertsTest, ReadsGateAndUpTogether) {
  const auto want = LoadReference("qwen3_moe", backend_, DType::kF32);
  TempFolder folder;
  WriteGguf(folder / "m.gguf", GgufTensors(*want, true), DescribedMetadata("qwen3_moe"));
  const auto got = LoadModel(folder / "m.gguf", backend_, DType::kF32);
  ASSERT_OK(got);
  EXPECT_TRUE(Near(Logits(*got->model), Logits(*want), kF32Tolerance));

  const auto oss = LoadReference("gpt_oss", backend_, DType::kF32);
  WriteGguf(folder / "m.gguf", GgufTensors(*oss, true), DescribedMetadata("gpt_oss"));
  EXPECT_THAT(LoadError(folder / "m.gguf", backend_),
              HasSubstr("expected ffn_gate_exps and ffn_up_exps in its place"));
}

// Tensors of which the model makes one parameter lie in different parts.
TEST_F(GgufExpertsTest, SplitFilesHoldTheSameModel) {
  constexpr std::pair<const char*, const char*> kHalves[] = {{"ffn_gate_exps", "ffn_up_exps"},
                                                             {"attn_k_b", "attn_v_b"}};
  const auto part_of = [&](const std::string& name) -> uint32_t {
    for (const auto& [first, second] : kHalves) {
      if (absl::StrContains(name, second)) return 1;
      if (absl::StrContains(name, first)) return 0;
    }
    return absl::StrContains(name, "blk.1.") ? 1 : 0;
  };
  const std::pair<const char*, size_t> models[] = {
      {"deepseek_v3", 2 + 3}, {"qwen3_moe", 2}, {"gpt_oss", 2 * 2}};
  for (const auto& [model, divided] : models) {
    SCOPED_TRACE(model);
    const auto want = LoadReference(model, backend_, DType::kF32);
    const EditableTensors tensors = TensorsOfCase(model, *want);
    EditableTensors parts[2];
    for (const auto& [name, tensor] : tensors) parts[part_of(name)][name] = tensor;
    size_t apart = 0;
    for (const auto& one : parts[0]) {
      for (const auto& [first, second] : kHalves) {
        apart += absl::StrContains(one.first, first) &&
                 parts[1].count(absl::StrReplaceAll(one.first, {{first, second}})) == 1;
      }
    }
    EXPECT_EQ(apart, divided);
    TempFolder folder;
    for (uint32_t part = 0; part < 2; ++part) {
      GgufMetadata metadata;
      if (part == 0) metadata = DescribedMetadata(model);
      metadata.SetU32("split.no", part);
      metadata.SetU32("split.count", 2);
      metadata.SetI32("split.tensors.count", static_cast<int32_t>(tensors.size()));
      WriteGguf(folder / absl::StrCat("m-0000", part + 1, "-of-00002.gguf"), parts[part], metadata);
    }
    const auto got = LoadModel(folder / "m-00001-of-00002.gguf", backend_, DType::kF32);
    ASSERT_OK(got);
    EXPECT_TRUE(Near(Logits(*got->model), Logits(*want), kF32Tolerance));
  }
}

TEST_F(GgufExpertsTest, WhatFilesLeaveOutIsNoted) {
  const auto model = LoadReference("deepseek_v3", backend_, DType::kF32);
  TempFolder folder;
  WriteGguf(folder / "m.gguf", TensorsOfCase("deepseek_v3", *model),
            DescribedMetadata("deepseek_v3", {{"deepseek2.expert_group_count", nullptr},
                                              {"deepseek2.expert_group_used_count", nullptr},
                                              {"deepseek2.expert_gating_func", 2}}));
  const auto config = ReadModelConfig(folder / "m.gguf");
  ASSERT_OK(config);
  EXPECT_EQ(config->moe.router.groups, 1);
  EXPECT_THAT(config->notes, ::testing::ElementsAre(HasSubstr("expert_group_count is absent")));
}

TEST_F(GgufExpertsTest, MetadataThatMakesNoSenseIsRefused) {
  struct Row {
    const char* model;
    Changes changes;
    const char* message;
  };
  const Row rows[] = {
      {"qwen3_moe", {{"qwen3moe.expert_count", 8}}, "expected shape [8, 11, 20]"},
      {"qwen3_moe", {{"qwen3moe.expert_count", 4000000000u}}, "from 1 to 65536"},
      {"qwen3_moe", {{"qwen3moe.expert_count", nullptr}}, "\"qwen3moe.expert_count\": expected"},
      {"qwen3_moe", {{"qwen3moe.expert_used_count", 8}}, "expected a number from 1 to 7, found 8"},
      {"qwen3_moe", {{"qwen3moe.expert_used_count", 0}}, "expected a number from 1 to 7, found 0"},
      {"qwen3_moe", {{"qwen3moe.expert_feed_forward_length", 12}}, "expected shape [7, 12, 20]"},
      {"qwen3_moe", {{"qwen3moe.expert_gating_func", 2}}, "expected 1 here, found 2"},
      {"qwen3_moe", {{"qwen3moe.expert_gating_func", 4}}, "from 0 to 3, found 4"},
      {"qwen3_moe", {{"qwen3moe.expert_group_count", 7}}, "expected no groups of experts here"},
      {"qwen3_moe", {{"qwen3moe.expert_shared_count", 1}}, "expected no shared experts here"},
      {"qwen3_moe", {{"qwen3moe.attention.sliding_window", 4}}, "changes the maths"},
      {"qwen3_moe", {{"qwen3moe.expert_weights_scale", -1.5}}, "expected a positive number"},
      {"qwen3_moe", {{"qwen3moe.nextn_predict_layers", 1}}, "changes the maths"},
      {"qwen2_moe",
       {{"qwen2moe.expert_shared_feed_forward_length", 15}},
       "expected shape [15, 24]"},
      {"glm4_moe", {{"glm4moe.nextn_predict_layers", 4}}, "expected some of 3 blocks, found 4"},
      {"glm4_moe", {{"glm4moe.nextn_predict_layers", 3}}, "num_hidden_layers: expected"},
      {"glm4_moe", {{"glm4moe.leading_dense_block_count", 2}}, "from 0 to 1, found 2"},
      {"glm4_moe", {{"glm4moe.leading_dense_block_count", 0}}, "blk.0.ffn_gate_exps.weight"},
      {"deepseek_v3", {{"deepseek2.expert_group_count", 3}}, "expected a divisor of 8 experts"},
      {"deepseek_v3", {{"deepseek2.expert_group_count", 8}}, "two experts or more in each"},
      {"deepseek_v3", {{"deepseek2.expert_group_used_count", 1}}, "groups that hold 3 experts"},
      {"deepseek_v3", {{"deepseek2.expert_group_used_count", 5}}, "from 1 to 4, found 5"},
      {"deepseek_v3", {{"deepseek2.expert_gating_func", 1}}, "expected 2 beside exp_probs_b.bias"},
      {"deepseek_v3", {{"deepseek2.attention.kv_lora_rank", nullptr}}, "attention.kv_lora_rank"},
      {"deepseek_v3", {{"deepseek2.attention.kv_lora_rank", 11}}, "expected shape"},
      {"deepseek_v3",
       {{"deepseek2.attention.key_length_mla", 4}},
       "expected more than the 4 of rope.dimension_count, found 4"},
      {"deepseek_v3",
       {{"deepseek2.rope.dimension_count", 0}},
       "expected more than the 0 of rope.dimension_count"},
      {"deepseek_v3", {{"deepseek2.rope.scaling.attn_factor", 1.5}}, "changes the maths"},
      {"deepseek_v3",
       {{"deepseek2.rope.scaling.yarn_log_multiplier", -0.1}},
       "from 0 to 1000, found -0.1"},
      {"deepseek_v3", {{"deepseek2.attention.temperature_scale", 0.5}}, "changes the maths"},
      {"deepseek_v3",
       {{"deepseek2.expert_shared_feed_forward_length", 10}},
       "expected 9 by deepseek2.expert_shared_count, found 10"},
      {"gpt_oss", {{"gpt-oss.expert_gating_func", 1}}, "expected 3 here, found 1"},
      {"mixtral", {{"llama.expert_count", 4}}, "expected shape [4, 14, 20]"},
  };
  for (const Row& row : rows) {
    EXPECT_THAT(Error(row.model, row.changes), HasSubstr(row.message))
        << row.changes.begin()->first;
  }
}

TEST_F(GgufExpertsTest, TensorsThatAreMissingOrTooManyAreNamed) {
  const auto without = [](const std::string& name) {
    return [name](EditableTensors& tensors) { EXPECT_EQ(tensors.erase(name), 1u) << name; };
  };
  const std::pair<const char*, const char*> missing[] = {
      {"qwen3_moe", "blk.0.ffn_gate_exps.weight"},
      {"qwen3_moe", "blk.2.ffn_up_exps.weight"},
      {"qwen3_moe", "blk.0.ffn_down_exps.weight"},
      {"qwen2_moe", "blk.1.ffn_gate_inp_shexp.weight"},
      {"gpt_oss", "blk.0.ffn_up_exps.bias"},
      {"gpt_oss", "blk.1.attn_sinks.weight"},
      {"gpt_oss", "blk.0.attn_q.bias"},
      {"deepseek_v3", "blk.0.attn_k_b.weight"},
      {"deepseek_v3", "blk.1.attn_v_b.weight"},
      {"deepseek_v3", "blk.2.exp_probs_b.bias"},
      {"glm4_moe", "blk.1.ffn_gate_inp.weight"},
      {"minimax_m2", "blk.0.exp_probs_b.bias"},
  };
  for (const auto& [model, name] : missing) {
    EXPECT_THAT(Error(model, {}, without(name)),
                HasSubstr(absl::StrCat("expected a tensor \"", name, "\"")))
        << model;
  }
  EXPECT_THAT(Error("qwen3_moe", {},
                    [](EditableTensors& tensors) {
                      tensors["blk.0.ffn_gate_shexp.weight"] = tensors.at("output_norm.weight");
                    }),
              HasSubstr("the model has no place for it"));
  // Whole and in halves.
  EXPECT_THAT(Error("deepseek_v3", {},
                    [](EditableTensors& tensors) {
                      tensors["blk.0.attn_kv_b.weight"] = {
                          StoredType::kF32, {33, 10}, std::vector<uint8_t>(33 * 10 * 4)};
                    }),
              HasSubstr("the model has no place for it"));
  // A router but nothing else makes no mixture.
  EXPECT_THAT(Error("qwen3_moe", {},
                    [](EditableTensors& tensors) {
                      for (int i : {0, 2}) {
                        tensors.erase(absl::StrCat("blk.", i, ".ffn_gate_inp.weight"));
                      }
                    }),
              HasSubstr("in one of 3 blocks at least, found none"));
}

}  // namespace
}  // namespace lorica
