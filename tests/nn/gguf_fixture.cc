#include "nn/gguf_fixture.h"

#include <cstring>

#include "lorica/tensor/backend.h"

namespace lorica {
namespace {

std::vector<uint8_t> Interleaved(const EditableTensor& tensor, int64_t heads) {
  const int64_t rows = tensor.shape[0], head = rows / heads, half = head / 2;
  const size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(rows);
  std::vector<uint8_t> moved(tensor.bytes.size());
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t in_head = r % head;
    const int64_t to = r - in_head + 2 * (in_head % half) + in_head / half;
    std::memcpy(moved.data() + static_cast<size_t>(to) * row_bytes,
                tensor.bytes.data() + static_cast<size_t>(r) * row_bytes, row_bytes);
  }
  return moved;
}

void AddToAll(std::vector<uint8_t>& bytes, double added) {
  for (size_t i = 0; i < bytes.size(); i += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, bytes.data() + i, sizeof(float));
    value += static_cast<float>(added);
    std::memcpy(bytes.data() + i, &value, sizeof(float));
  }
}

std::string ArchitectureOf(const ModelConfig& config) {
  if (config.family == "mistral") return "llama";
  return config.family == "gemma3_text" ? "gemma3" : config.family;
}

}  // namespace

GgufMetadata MetadataOf(const ModelConfig& config) {
  GgufMetadata metadata;
  const std::string a = ArchitectureOf(config);
  metadata.SetString("general.architecture", a);
  metadata.SetU32(a + ".block_count", static_cast<uint32_t>(config.layers));
  metadata.SetU32(a + ".embedding_length", static_cast<uint32_t>(config.hidden_size));
  metadata.SetU32(a + ".feed_forward_length", static_cast<uint32_t>(config.intermediate_size));
  metadata.SetU32(a + ".attention.head_count", static_cast<uint32_t>(config.heads));
  metadata.SetU32(a + ".attention.head_count_kv", static_cast<uint32_t>(config.kv_heads));
  metadata.SetU32(a + ".attention.key_length", static_cast<uint32_t>(config.head_dim));
  metadata.SetU32(a + ".attention.value_length", static_cast<uint32_t>(config.head_dim));
  metadata.SetU32(a + ".rope.dimension_count", static_cast<uint32_t>(config.rope.channels));
  metadata.SetF32(a + ".rope.freq_base", static_cast<float>(config.rope.theta));
  metadata.SetF32(a + ".attention.layer_norm_rms_epsilon", static_cast<float>(config.rms_norm_eps));
  metadata.SetU32(a + ".context_length", 128);
  metadata.SetU32("tokenizer.ggml.eos_token_id", 2);
  return metadata;
}

EditableTensors GgufTensors(CausalLm& model, bool whole) {
  const ModelConfig& config = model.config();
  EditableTensors tensors;
  ForEachParameter(model, [&](const std::string& path, Parameter& parameter) {
    const GgufPlace place = PlaceInGguf(path, config);
    EXPECT_NE(place.name, "") << path;
    std::vector<GgufHalf> parts;
    if (!whole) parts = HalvesInGguf(path, parameter.value(), config);
    if (parts.empty()) parts.push_back({place.name, parameter.value()});
    for (const GgufHalf& part : parts) {
      const Tensor values = raw::Contiguous(raw::Cast(raw::Contiguous(part.values), DType::kF32));
      const auto* data = static_cast<const uint8_t*>(values.view().data);
      EditableTensor tensor{StoredType::kF32, {values.shape().begin(), values.shape().end()}, {}};
      tensor.bytes.assign(data, data + values.bytes());
      if (place.interleaved_heads > 0) {
        tensor.bytes = Interleaved(tensor, place.interleaved_heads);
      }
      if (place.added != 0) AddToAll(tensor.bytes, place.added);
      tensors[part.name] = std::move(tensor);
    }
  });
  return tensors;
}

void WriteGguf(const std::string& path, const EditableTensors& tensors,
               const GgufMetadata& metadata) {
  std::vector<GgufTensorSpec> specs;
  for (const auto& [name, tensor] : tensors) specs.push_back({name, tensor.type, tensor.shape});
  auto file = PosixFiles().Open(path, OpenMode::kReplace);
  ASSERT_OK(file);
  auto writer = GgufWriter::Begin(**file, metadata, specs);
  ASSERT_OK(writer);
  for (const auto& [name, tensor] : tensors) ASSERT_OK(writer->AppendTensor(tensor.bytes));
  ASSERT_OK(writer->Finish());
  ASSERT_OK((*file)->Close());
}

void WriteGguf(const std::string& path, CausalLm& model, const GgufMetadata& metadata,
               const std::vector<ExtraTensor>& extra) {
  EditableTensors tensors = GgufTensors(model, true);
  for (const ExtraTensor& one : extra) {
    const auto* data = reinterpret_cast<const uint8_t*>(one.values.data());
    tensors[one.name] = {StoredType::kF32,
                         {static_cast<int64_t>(one.values.size())},
                         {data, data + one.values.size() * sizeof(float)}};
  }
  WriteGguf(path, tensors, metadata);
}

}  // namespace lorica
