#include "nn/nn_fixture.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lorica/io/atomic_commit.h"
#include "lorica/io/json_file.h"
#include "lorica/io/safetensors.h"
#include "lorica/tensor/random.h"

namespace lorica {

TempFolder::TempFolder() : path_(JoinPath(::testing::TempDir(), "lorica_nn_" + MakeNonce())) {
  if (!PosixFiles().MakeDirectory(path_).ok()) std::abort();
}
TempFolder::~TempFolder() { RemoveTree(PosixFiles(), path_).IgnoreError(); }

ModelConfig TinyConfig(bool tied) {
  ModelConfig config;
  config.family = "llama";
  config.vocab_size = 53;
  config.hidden_size = 28;
  config.intermediate_size = 37;
  config.layers = 3;
  config.heads = 6;
  config.kv_heads = 2;
  config.head_dim = 10;
  config.rms_norm_eps = 1e-5;
  config.rope.channels = 10;
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  config.tied = tied;
  return config;
}

std::unique_ptr<CausalLm> TinyModel(Backend& backend, DType compute, const ModelConfig& config) {
  auto model = std::make_unique<CausalLm>(config, compute);
  ForEachParameter(*model, [&](const std::string& path, Parameter& parameter) {
    RandomStream stream(7, HashName(path));
    std::vector<double> values(static_cast<size_t>(parameter.numel()));
    const bool norm = path.find("norm") != std::string::npos;
    for (double& value : values) value = (norm ? 1.0 : 0.0) + 0.25 * stream.Normal();
    parameter.Assign(raw::Cast(Tensor::FromHost<double>(backend, parameter.shape(), values),
                               parameter.compute_dtype()));
  });
  return model;
}

std::vector<int32_t> RandomIds(int64_t count, int64_t vocab, uint64_t seed) {
  RandomStream stream(seed, 1);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<int32_t>(stream.Below(static_cast<uint64_t>(vocab))));
  }
  return ids;
}

ForwardContext ContextOf(const std::vector<int64_t>& lengths) {
  Sequences sequences;
  for (int64_t length : lengths) {
    sequences.offsets.push_back(sequences.offsets.back() + static_cast<int32_t>(length));
  }
  return ForwardContext::ForSequences(std::move(sequences));
}

EditableTensors TensorsOf(CausalLm& model) {
  EditableTensors tensors;
  ForEachParameter(model, [&](const std::string& path, Parameter& parameter) {
    EditableTensor tensor{StoredTypeOf(parameter.compute_dtype()),
                          {parameter.shape().begin(), parameter.shape().end()},
                          {}};
    const auto* data = static_cast<const uint8_t*>(parameter.value().view().data);
    tensor.bytes.assign(data, data + parameter.value().bytes());
    tensors[path] = std::move(tensor);
  });
  return tensors;
}

void WriteFolder(const std::string& folder, const ModelConfig& config,
                 const EditableTensors& tensors, absl::string_view quantization) {
  ASSERT_OK(MakeDirectories(PosixFiles(), folder));
  Json json = Json::parse(*ConfigJson(config, DType::kF32));
  if (!quantization.empty()) json["quantization_config"] = *ParseJson(quantization, "the test");
  WriteText(JoinPath(folder, "config.json"), json.dump());
  std::vector<SafetensorsTensor> list;
  for (const auto& [name, t] : tensors) list.push_back({name, t.type, t.shape, t.bytes});
  ASSERT_OK(WriteSafetensors(PosixFiles(), JoinPath(folder, "model.safetensors"), list, {}));
}

std::string LoadError(const std::string& path, Backend& backend, DType compute) {
  const auto loaded = LoadModel(path, backend, compute);
  return loaded.ok() ? "" : std::string(loaded.status().message());
}

void ExpectSameModel(const std::string& path, const std::string& plain, Backend& backend) {
  for (const DType compute : {DType::kF32, DType::kBF16, DType::kF64}) {
    const auto got = LoadModel(path, backend, compute);
    ASSERT_OK(got);
    const auto want = LoadModel(plain, backend, compute);
    ASSERT_OK(want);
    std::map<std::string, Tensor> values;
    ForEachParameter(*want->model, [&](const std::string& name, Parameter& parameter) {
      values[name] = parameter.value();
    });
    size_t compared = 0;
    ForEachParameter(*got->model, [&](const std::string& name, Parameter& parameter) {
      ASSERT_EQ(values.count(name), 1u) << name;
      EXPECT_TRUE(testing::SameBits(parameter.value(), values.at(name))) << name;
      ++compared;
    });
    EXPECT_GT(compared, 5u);
    EXPECT_EQ(compared, values.size());
  }
}

std::string GoldenPath(absl::string_view name) {
  return JoinPath(LORICA_SOURCE_ROOT "/tests/golden", name);
}

std::string SharedPath(absl::string_view name) {
  const char* folder = std::getenv("LORICA_SHARED_DIR");
  const std::string path =
      JoinPath(folder != nullptr ? folder : LORICA_SOURCE_ROOT "/../shared", name);
  return PosixFiles().Stat(path).ok() ? path : "";
}

std::vector<GoldenRecord> ReadBatches(const std::string& path) {
  std::vector<GoldenRecord> records;
  std::istringstream lines(ReadText(path));
  for (std::string line; std::getline(lines, line);) {
    const Json json = *ParseJson(line, path);
    GoldenRecord record;
    record.ids = json.at("input_ids").get<std::vector<int32_t>>();
    const auto labels = json.at("labels").get<std::vector<int32_t>>();
    for (size_t t = 0; t < labels.size(); ++t) {
      const int32_t next = t + 1 < labels.size() ? labels[t + 1] : -100;
      record.targets.push_back(next >= 0 ? next : -1);
    }
    records.push_back(std::move(record));
  }
  return records;
}

std::vector<double> ReadMeanLosses(const std::string& path) {
  std::vector<double> losses;
  const Json json = *ReadJsonFile(path);
  for (const Json& record : json) losses.push_back(record.at("mean_loss").get<double>());
  return losses;
}

std::vector<double> ReadTensor(const TensorSource& source, const std::string& name) {
  const StoredTensorInfo* info = source.Find(name);
  if (info == nullptr) {
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }
  int64_t count = 1;
  for (int64_t extent : info->shape) count *= extent;
  std::vector<double> values(static_cast<size_t>(count));
  const absl::Status status = source.ReadAll(name, DType::kF64, values.data());
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void WriteText(const std::string& path, absl::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  ASSERT_TRUE(file.good()) << path;
}

}  // namespace lorica
