// Experts whose weights are stored in blocks of few bits: each model must load as the one of the
// dequantised values.
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/autograd/autograd.h"
#include "lorica/io/json_file.h"
#include "lorica/tensor/random.h"
#include "nn/gguf_fixture.h"
#include "nn/nn_fixture.h"

namespace lorica {
namespace {

using ::lorica::testing::SameBits;
using ::testing::HasSubstr;

using Values = std::map<std::string, std::vector<float>>;

std::vector<float> Decoded(const EditableTensor& tensor) {
  const int64_t count = *CheckedElementCount(tensor.shape);
  std::vector<float> values(static_cast<size_t>(count));
  EXPECT_TRUE(ConvertElements(tensor.type, tensor.bytes, count, DType::kF32, values.data()).ok());
  return values;
}

EditableTensor Floats(const std::vector<int64_t>& shape, const std::vector<float>& values) {
  EditableTensor tensor{StoredType::kF32, shape, {}};
  tensor.bytes.resize(values.size() * sizeof(float));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

// A model of one block whose matrices have rows of 256 values.
ModelConfig WideConfig(const std::string& family) {
  ModelConfig config;
  config.family = family;
  config.vocab_size = 9;
  config.hidden_size = config.intermediate_size = 256;
  config.layers = 1;
  config.heads = config.kv_heads = 2;
  config.head_dim = config.rope.channels = 128;
  config.layer_configs = {LayerConfig{.experts = true}};
  nn::MoeConfig& moe = config.moe;
  moe.hidden = moe.expert_width = 256;
  moe.experts = 2;
  moe.router.top_k = 1;
  if (family == "qwen3_moe") {
    config.qk_norm = QkNorm::kHead;
    moe.router.normalize = true;
  } else if (family == "gpt_oss") {
    config.qkv_bias = config.o_bias = config.attention_sinks = true;
    config.rope.theta = 150000;
    moe.router.softmax_after_topk = moe.router_bias = moe.expert_bias = true;
    moe.router_wide = false;
    moe.router_name = "router";
    moe.activation.interleaved = true;
    moe.activation.offset = 1;
    moe.activation.slope = 1.702;
    moe.activation.limit = 7;
  } else {
    config.latent = {.q_lora_rank = 256,
                     .kv_lora_rank = 256,
                     .qk_nope_head_dim = 256,
                     .qk_rope_head_dim = 64,
                     .v_head_dim = 128};
    config.head_dim = 320;
    config.rope.channels = 64;
    config.rope.interleaved = true;
    moe.router.score = ScoreFunction::kSigmoid;
    moe.router.closed_group = RouterOptions::ClosedGroup::kMinusInfinity;
    moe.router.normalize = true;
    moe.correction_bias = true;
    moe.shared_width = 256;
  }
  return config;
}

GgufMetadata WideMetadata(const ModelConfig& config) {
  const std::string a = config.family == "qwen3_moe" ? "qwen3moe"
                        : config.family == "gpt_oss" ? "gpt-oss"
                                                     : "deepseek2";
  GgufMetadata metadata;
  metadata.SetString("general.architecture", a);
  const auto set = [&](const char* key, int64_t value) {
    metadata.SetU32(absl::StrCat(a, ".", key), static_cast<uint32_t>(value));
  };
  set("block_count", 1);
  set("embedding_length", 256);
  set("attention.head_count", config.heads);
  set("expert_count", config.moe.experts);
  set("expert_used_count", config.moe.router.top_k);
  set("expert_feed_forward_length", config.moe.expert_width);
  set("rope.dimension_count", config.rope.channels);
  metadata.SetF32(a + ".rope.freq_base", static_cast<float>(config.rope.theta));
  metadata.SetF32(a + ".attention.layer_norm_rms_epsilon", static_cast<float>(config.rms_norm_eps));
  if (a == "deepseek2") {
    set("attention.q_lora_rank", config.latent.q_lora_rank);
    set("attention.kv_lora_rank", config.latent.kv_lora_rank);
    set("attention.key_length_mla", config.head_dim);
    set("attention.value_length_mla", config.latent.v_head_dim);
    set("expert_shared_count", 1);
    set("expert_group_count", 1);
    metadata.SetBool(a + ".expert_weights_norm", true);
  } else {
    set("attention.key_length", config.head_dim);
  }
  return metadata;
}

// Row `row` of matrix `of` of the parameters below, counted in the tensors of the file.
std::vector<float> Row(const std::vector<float>& values, int64_t rows, int64_t columns, int64_t of,
                       int64_t row) {
  const auto begin = values.begin() + (of * rows + row) * columns;
  return {begin, begin + columns};
}

// What the parameter at `path` must be, given the file's tensors decoded.
std::vector<float> Expected(const std::string& path, const ModelConfig& config,
                            const Values& file) {
  const nn::MoeConfig& moe = config.moe;
  const auto at = [&](const std::string& name) -> const std::vector<float>& {
    return file.at("blk.0." + name);
  };
  std::vector<float> values;
  const auto append = [&](const std::vector<float>& row) {
    values.insert(values.end(), row.begin(), row.end());
  };
  if (absl::EndsWith(path, "experts.gate_up_proj") || absl::EndsWith(path, "gate_up_proj_bias")) {
    const bool bias = absl::EndsWith(path, "bias");
    const int64_t width = moe.expert_width, columns = bias ? 1 : moe.hidden;
    const std::string ending = bias ? "_exps.bias" : "_exps.weight";
    for (int64_t e = 0; e < moe.experts; ++e) {
      for (int64_t row = 0; row < 2 * width; ++row) {
        const bool turns = moe.activation.interleaved;
        const bool up = turns ? row % 2 == 1 : row >= width;
        append(Row(at((up ? "ffn_up" : "ffn_gate") + ending), width, columns, e,
                   turns ? row / 2 : row % width));
      }
    }
    return values;
  }
  if (absl::EndsWith(path, "kv_b_proj.weight")) {
    const LatentSizes& sizes = config.latent;
    for (int64_t head = 0; head < config.heads; ++head) {
      for (int64_t row = 0; row < sizes.qk_nope_head_dim; ++row) {
        for (int64_t column = 0; column < sizes.kv_lora_rank; ++column) {
          append(Row(at("attn_k_b.weight"), sizes.kv_lora_rank * sizes.qk_nope_head_dim, 1, head,
                     column * sizes.qk_nope_head_dim + row));
        }
      }
      for (int64_t row = 0; row < sizes.v_head_dim; ++row) {
        append(Row(at("attn_v_b.weight"), sizes.v_head_dim, sizes.kv_lora_rank, head, row));
      }
    }
    return values;
  }
  return file.at(PlaceInGguf(path, config).name);
}

class ExpertTypesTest : public NnTest {
 protected:
  // Blocks of the golden file, again and again, from the `skip`-th on.
  static EditableTensor Blocks(StoredType type, const std::vector<int64_t>& shape, int64_t skip) {
    static const Json* golden = new Json(*ReadJsonFile(GoldenPath("gguf_blocks.json")));
    const std::string bytes = absl::HexStringToBytes(
        golden->at("decode").at(std::string(Name(type))).at("blocks").get<std::string>());
    const size_t width = TraitsOf(type).block_bytes;
    // Blocks of ordinary scale.
    const size_t first = type == StoredType::kMXFP4 ? 4 : 0;
    EditableTensor tensor{type, shape, {}};
    const size_t size = *StoredBytes(type, shape);
    for (size_t i = static_cast<size_t>(skip); tensor.bytes.size() < size; ++i) {
      const size_t at = (first + i % 2) * width;
      tensor.bytes.insert(tensor.bytes.end(), bytes.begin() + static_cast<ptrdiff_t>(at),
                          bytes.begin() + static_cast<ptrdiff_t>(at + width));
    }
    return tensor;
  }

  // `type` for matrices, `second` for those of up projections.
  void Check(const std::string& family, StoredType type, StoredType second) {
    SCOPED_TRACE(absl::StrCat(family, " ", Name(type), " ", Name(second)));
    const ModelConfig config = WideConfig(family);
    const auto model = TinyModel(backend_, DType::kF32, config);
    EditableTensors tensors = GgufTensors(*model, false);
    Values decoded;
    int64_t number = 0;
    for (auto& [name, tensor] : tensors) {
      const bool matrix = tensor.shape.size() >= 2 && tensor.shape.back() % 256 == 0 &&
                          absl::EndsWith(name, ".weight") && !absl::StrContains(name, "gate_inp");
      if (matrix) {
        tensor = Blocks(absl::StrContains(name, "ffn_up") ? second : type, tensor.shape, number++);
      }
      decoded[name] = Decoded(tensor);
    }
    TempFolder folder;
    WriteGguf(folder / "m.gguf", tensors, WideMetadata(config));
    for (const DType compute : {DType::kF32, DType::kF64, DType::kBF16}) {
      const auto got = LoadModel(folder / "m.gguf", backend_, compute);
      ASSERT_OK(got);
      EXPECT_EQ(got->model->config().family, family);
      CausalLm want(got->model->config(), compute);
      ForEachParameter(want, [&](const std::string& path, Parameter& parameter) {
        const std::vector<float> values = Expected(path, config, decoded);
        ASSERT_EQ(static_cast<int64_t>(values.size()), parameter.numel()) << path;
        parameter.Assign(raw::Cast(Tensor::FromHost<float>(backend_, parameter.shape(), values),
                                   parameter.compute_dtype()));
      });
      ForEachParameter(*got->model, [&](const std::string& path, Parameter& parameter) {
        ForEachParameter(want, [&](const std::string& other, Parameter& wanted) {
          if (path != other) return;
          EXPECT_TRUE(SameBits(parameter.value(), wanted.value())) << path;
        });
      });
      const NoGrad no_grad;
      const ForwardContext context = ContextOf({5});
      const std::vector<int32_t> ids = RandomIds(5, config.vocab_size, 2);
      EXPECT_TRUE(SameBits(got->model->Logits(got->model->Hidden(ids, context), context),
                           want.Logits(want.Hidden(ids, context), context)));
    }
  }
};

TEST_F(ExpertTypesTest, BlocksInGguf) {
  for (const char* family : {"qwen3_moe", "gpt_oss", "deepseek_v3"}) {
    Check(family, StoredType::kQ8_0, StoredType::kQ8_0);
    Check(family, StoredType::kQ4_K, StoredType::kQ6_K);
  }
  Check("gpt_oss", StoredType::kMXFP4, StoredType::kMXFP4);
  Check("qwen3_moe", StoredType::kIQ4_NL, StoredType::kQ2_K);
}

// Experts one by one in 8-bit floats, scales of blocks that don't divide them.
TEST_F(ExpertTypesTest, EightBitExpertsInSafetensors) {
  ModelConfig config = WideConfig("deepseek_v3");
  config.hidden_size = config.moe.hidden = 28;
  config.moe.expert_width = config.moe.shared_width = 20;
  config.latent = {.q_lora_rank = 12,
                   .kv_lora_rank = 10,
                   .qk_nope_head_dim = 6,
                   .qk_rope_head_dim = 4,
                   .v_head_dim = 8};
  config.head_dim = 10;
  config.rope.channels = 4;
  const auto model = TinyModel(backend_, DType::kF32, config);
  EditableTensors plain, stored;
  for (const auto& [name, tensor] : TensorsOf(*model)) {
    if (!absl::StrContains(name, "mlp.experts.")) {
      plain[name] = tensor;
      continue;
    }
    const std::string experts = "model.layers.0.mlp.experts.";
    for (int64_t e = 0; e < 2; ++e) {
      for (const char* one : {"gate_proj", "up_proj", "down_proj"}) {
        const bool down = absl::string_view(one) == "down_proj";
        plain[absl::StrCat(experts, e, ".", one, ".weight")] = {
            StoredType::kF32,
            {down ? 28 : 20, down ? 20 : 28},
            std::vector<uint8_t>(28 * 20 * sizeof(float))};
      }
    }
  }
  RandomStream random(3, 5);
  for (auto& [name, tensor] : plain) {
    stored[name] = tensor;
    if (!absl::EndsWith(name, "_proj.weight")) continue;
    EditableTensor codes{StoredType::kF8E4M3, tensor.shape, {}};
    for (int64_t i = 0; i < *CheckedElementCount(tensor.shape); ++i) {
      codes.bytes.push_back(static_cast<uint8_t>(random.Below(0x60) + random.Below(2) * 128));
    }
    const int64_t columns = tensor.shape[1], across = (columns + 7) / 8;
    std::vector<float> scales;
    for (int64_t i = 0; i < (tensor.shape[0] + 15) / 16 * across; ++i) {
      scales.push_back(0.01f * static_cast<float>(1 + random.Below(99)));
    }
    std::vector<float> values = Decoded(codes);
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i) / columns;
      const int64_t column = static_cast<int64_t>(i) % columns;
      values[i] *= scales[static_cast<size_t>(row / 16 * across + column / 8)];
    }
    stored[name] = codes;
    stored[name + "_scale_inv"] = Floats({(tensor.shape[0] + 15) / 16, across}, scales);
    tensor = Floats(tensor.shape, values);
  }
  TempFolder folder;
  WriteFolder(folder / "stored", config, stored,
              R"({"quant_method": "fp8", "weight_block_size": [16, 8]})");
  WriteFolder(folder / "plain", config, plain);
  ExpectSameModel(folder / "stored", folder / "plain", backend_);
}

// The release of gpt-oss and its GGUF form: the same 4-bit values in another order.
TEST_F(ExpertTypesTest, FourBitExpertsAreTheSameInBothFormats) {
  constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  constexpr int64_t kGroups = 256 / 32;
  ModelConfig config = WideConfig("gpt_oss");
  config.moe.expert_width = config.intermediate_size = 64;
  const auto model = TinyModel(backend_, DType::kF32, config);
  EditableTensors four_bits, plain, gguf = GgufTensors(*model, false);
  RandomStream random(9, 1);
  for (const auto& [name, tensor] : TensorsOf(*model)) {
    const bool gate_up = absl::EndsWith(name, "gate_up_proj");
    if (!gate_up && !absl::EndsWith(name, "experts.down_proj")) {
      four_bits[name] = plain[name] = tensor;
      continue;
    }
    const int64_t rows = tensor.shape[1], columns = tensor.shape[2], groups = columns / 32;
    EXPECT_EQ(groups, gate_up ? kGroups : 2);
    EditableTensor blocks{StoredType::kU8, {2, rows, groups, 16}, {}};
    EditableTensor scales{StoredType::kU8, {2, rows, groups}, {}};
    for (int64_t i = 0; i < 2 * rows * groups * 16; ++i) {
      // No -0, which one of the formats reads as 0.
      const auto code = [&] { return (9 + random.Below(15)) % 16; };
      blocks.bytes.push_back(static_cast<uint8_t>(code() | code() << 4));
    }
    for (int64_t i = 0; i < 2 * rows * groups; ++i) {
      scales.bytes.push_back(static_cast<uint8_t>(120 + random.Below(6)));
    }
    // As bfloat16 releases have them: rows and columns swapped.
    std::vector<float> values(static_cast<size_t>(2 * rows * columns));
    std::map<bool, std::vector<uint8_t>> halves;  // by: an up projection
    for (int64_t e = 0; e < 2; ++e) {
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t group = 0; group < groups; ++group) {
          const size_t at = static_cast<size_t>((e * rows + row) * groups + group);
          const float scale = std::ldexp(1.0f, scales.bytes[at] - 127);
          const auto code = [&](int64_t i) {
            const uint8_t pair = blocks.bytes[at * 16 + static_cast<size_t>(i / 2)];
            return static_cast<uint8_t>(i % 2 == 0 ? pair & 15 : pair >> 4);
          };
          std::vector<uint8_t>& half = halves[gate_up && row % 2 == 1];
          half.push_back(scales.bytes[at]);
          for (int64_t i = 0; i < 16; ++i) {
            half.push_back(static_cast<uint8_t>(code(i) | code(i + 16) << 4));
          }
          for (int64_t i = 0; i < 32; ++i) {
            const float value = kValues[code(i) & 7] * (code(i) < 8 ? scale : -scale);
            values[static_cast<size_t>((e * columns + group * 32 + i) * rows + row)] = value;
          }
        }
      }
    }
    four_bits[name + "_blocks"] = blocks;
    four_bits[name + "_scales"] = scales;
    plain[name] = Floats({2, columns, rows}, values);
    const std::string block = "blk.0.ffn_";
    if (gate_up) {
      gguf[block + "gate_exps.weight"] = {StoredType::kMXFP4, {2, 64, 256}, halves[false]};
      gguf[block + "up_exps.weight"] = {StoredType::kMXFP4, {2, 64, 256}, halves[true]};
    } else {
      gguf[block + "down_exps.weight"] = {StoredType::kMXFP4, {2, 256, 64}, halves[false]};
    }
  }
  TempFolder folder;
  WriteFolder(folder / "four", config, four_bits, R"({"quant_method": "mxfp4"})");
  WriteFolder(folder / "plain", config, plain);
  WriteGguf(folder / "m.gguf", gguf, WideMetadata(config));
  ExpectSameModel(folder / "four", folder / "plain", backend_);
  ExpectSameModel(folder / "m.gguf", folder / "plain", backend_);
}

}  // namespace
}  // namespace lorica
