// Models whose weights are stored in other types than they are computed with: each must load as the
// f32 model of the same values.
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/gguf.h"
#include "lorica/io/json_file.h"
#include "lorica/tensor/random.h"
#include "nn/nn_fixture.h"

namespace lorica {
namespace {

using ::lorica::testing::SameBits;
using ::testing::HasSubstr;

class StoredTypesTest : public NnTest {
 protected:
  static EditableTensor Floats(const std::vector<int64_t>& shape,
                               const std::vector<float>& values) {
    EditableTensor tensor{StoredType::kF32, shape, {}};
    tensor.bytes.resize(values.size() * sizeof(float));
    std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    return tensor;
  }
  static std::vector<float> Decoded(const EditableTensor& tensor) {
    const int64_t count = *CheckedElementCount(tensor.shape);
    std::vector<float> values(static_cast<size_t>(count));
    EXPECT_TRUE(ConvertElements(tensor.type, tensor.bytes, count, DType::kF32, values.data()).ok());
    return values;
  }
};

bool IsQuantisable(absl::string_view name) { return absl::EndsWith(name, "_proj.weight"); }

TEST_F(StoredTypesTest, HalvesAndDoublesInSafetensors) {
  const ModelConfig config = TinyConfig();
  auto model = TinyModel(backend_, DType::kF32, config);
  for (const StoredType type : {StoredType::kF16, StoredType::kBF16, StoredType::kF64}) {
    EditableTensors stored, plain;
    for (const auto& [name, tensor] : TensorsOf(*model)) {
      EditableTensor other{type, tensor.shape, {}};
      other.bytes.resize(*StoredBytes(type, tensor.shape));
      ASSERT_OK(EncodeElements(type, Decoded(tensor), absl::MakeSpan(other.bytes)));
      plain[name] = Floats(tensor.shape, Decoded(other));
      stored[name] = std::move(other);
    }
    TempFolder folder;
    WriteFolder(folder / "stored", config, stored);
    WriteFolder(folder / "plain", config, plain);
    ExpectSameModel(folder / "stored", folder / "plain", backend_);
  }
}

// Blocks of 16 x 8 on sizes that neither divides.
TEST_F(StoredTypesTest, EightBitFloatsWithScalesOfBlocks) {
  const ModelConfig config = TinyConfig();
  auto model = TinyModel(backend_, DType::kF32, config);
  for (const StoredType type : {StoredType::kF8E4M3, StoredType::kF8E5M2}) {
    EditableTensors stored, plain;
    RandomStream random(3, 5);
    for (const auto& [name, tensor] : TensorsOf(*model)) {
      stored[name] = plain[name] = tensor;
      if (!IsQuantisable(name)) continue;
      EditableTensor codes{type, tensor.shape, {}};
      for (int64_t i = 0; i < *CheckedElementCount(tensor.shape); ++i) {
        codes.bytes.push_back(static_cast<uint8_t>(random.Below(0x60) + random.Below(2) * 128));
      }
      const int64_t columns = tensor.shape[1];
      const std::vector<int64_t> scale_shape = {(tensor.shape[0] + 15) / 16, (columns + 7) / 8};
      std::vector<float> scales;
      for (int64_t i = 0; i < scale_shape[0] * scale_shape[1]; ++i) {
        scales.push_back(0.01f * static_cast<float>(1 + random.Below(99)));
      }
      std::vector<float> values = Decoded(codes);
      for (size_t i = 0; i < values.size(); ++i) {
        const int64_t row = static_cast<int64_t>(i) / columns;
        const int64_t column = static_cast<int64_t>(i) % columns;
        values[i] *= scales[static_cast<size_t>(row / 16 * scale_shape[1] + column / 8)];
      }
      stored[name] = codes;
      stored[name + "_scale_inv"] = Floats(scale_shape, scales);
      plain[name] = Floats(tensor.shape, values);
    }
    TempFolder folder;
    const Json quantization = {{"quant_method", "fp8"},
                               {"activation_scheme", "dynamic"},
                               {"fmt", "e4m3"},
                               {"weight_block_size", {16, 8}}};
    WriteFolder(folder / "stored", config, stored, quantization.dump());
    WriteFolder(folder / "plain", config, plain);
    ExpectSameModel(folder / "stored", folder / "plain", backend_);

    EditableTensors less = stored;
    less.erase("model.layers.1.mlp.up_proj.weight_scale_inv");
    WriteFolder(folder / "less", config, less, quantization.dump());
    EXPECT_THAT(LoadError(folder / "less", backend_),
                HasSubstr("\"model.layers.1.mlp.up_proj.weight\": expected scales"));
    WriteFolder(folder / "unsaid", config, stored);  // nobody says what the scales are
    EXPECT_THAT(LoadError(folder / "unsaid", backend_), HasSubstr("_scale_inv"));
  }
}

TEST_F(StoredTypesTest, EveryBlockTypeInGguf) {
  const auto golden = ReadJsonFile(LORICA_SOURCE_ROOT "/tests/golden/gguf_blocks.json");
  ASSERT_OK(golden);
  ModelConfig config = TinyConfig();
  config.family = "qwen2";  // rows as they are
  config.hidden_size = 256;
  config.intermediate_size = 512;
  config.vocab_size = 9;
  config.layers = 1;
  config.heads = 4;
  config.kv_heads = 1;
  config.head_dim = config.rope.channels = 64;
  config.o_bias = config.mlp_bias = false;
  auto model = TinyModel(backend_, DType::kF32, config);
  for (const auto& [type_name, blocks] : golden->at("decode").items()) {
    const std::string bytes = absl::HexStringToBytes(blocks.at("blocks").get<std::string>());
    StoredType type = StoredType::kF32;
    for (uint32_t id = 0; id < 64; ++id) {
      const auto known = StoredTypeFromGgml(id);
      if (known.ok() && Name(*known) == type_name) type = *known;
    }
    ASSERT_NE(type, StoredType::kF32) << type_name;
    const size_t width = TraitsOf(type).block_bytes;
    const size_t first = type == StoredType::kMXFP4 ? 5 : 0;  // blocks of ordinary scale
    EditableTensors stored, plain;
    for (const auto& [name, tensor] : TensorsOf(*model)) {
      stored[name] = plain[name] = tensor;
      if (!IsQuantisable(name) && !absl::StrContains(name, "embed")) continue;
      EditableTensor other{type, tensor.shape, {}};
      const size_t size = *StoredBytes(type, tensor.shape);
      for (size_t i = 0; other.bytes.size() < size; ++i) {
        const size_t at = (first + i * i % 2) * width;
        other.bytes.insert(other.bytes.end(), bytes.begin() + static_cast<ptrdiff_t>(at),
                           bytes.begin() + static_cast<ptrdiff_t>(at + width));
      }
      plain[name] = Floats(tensor.shape, Decoded(other));
      stored[name] = std::move(other);
    }
    TempFolder folder;
    WriteFolder(folder / "plain", config, plain);
    GgufMetadata metadata;
    metadata.SetString("general.architecture", "qwen2");
    const std::pair<const char*, int64_t> numbers[] = {
        {"block_count", config.layers},
        {"embedding_length", config.hidden_size},
        {"feed_forward_length", config.intermediate_size},
        {"attention.head_count", config.heads},
        {"attention.head_count_kv", config.kv_heads}};
    for (const auto& [key, value] : numbers) {
      metadata.SetU32(absl::StrCat("qwen2.", key), static_cast<uint32_t>(value));
    }
    metadata.SetF32("qwen2.attention.layer_norm_rms_epsilon", 1e-5f);
    std::vector<GgufTensorSpec> specs;
    for (const auto& [name, t] : stored) {
      specs.push_back({PlaceInGguf(name, config).name, t.type, t.shape});
    }
    auto file = PosixFiles().Open(folder / "m.gguf", OpenMode::kReplace);
    ASSERT_OK(file);
    auto writer = GgufWriter::Begin(**file, metadata, specs);
    ASSERT_OK(writer);
    for (const auto& [name, t] : stored) ASSERT_OK(writer->AppendTensor(t.bytes));
    ASSERT_OK(writer->Finish());
    ASSERT_OK((*file)->Close());
    SCOPED_TRACE(type_name);
    ExpectSameModel(folder / "m.gguf", folder / "plain", backend_);
  }
}

}  // namespace
}  // namespace lorica
