// Adapters of every shape that layouts must hold, and files to damage.
#ifndef LORICA_TESTS_PEFT_LAYOUTS_LAYOUT_FIXTURE_H_
#define LORICA_TESTS_PEFT_LAYOUTS_LAYOUT_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lorica/io/safetensors.h"
#include "lorica/peft/layouts/adapter_layout.h"
#include "lorica/tensor/cpu_backend.h"
#include "peft/toy_model.h"
#include "support/tensor_matchers.h"

namespace lorica::testing {

struct AdapterShape {
  int64_t experts = 3;
  int64_t rank = 2;
  int64_t hidden = 8;
  int64_t width = 6;
  std::string kind = "fused";  // "fused", "split", "shared-outer"
  bool gate_up = true;
  bool down = true;
  bool rslora = false;
  int64_t down_rank = 0;  // 0: rank
  double down_alpha = 0;  // 0: that of the others
};

class LayoutTest : public ::testing::Test {
 protected:
  LayoutTest() {
    std::string pattern = ::testing::TempDir() + "lorica_layouts_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    base_.model_type = "deepseek_v3";
    base_.architecture = "deepseek2";
    base_.heads = 2;
    base_.kv_heads = 1;
  }
  ~LayoutTest() override { (void)RemoveTree(PosixFiles(), folder_); }

  Tensor Random(const Shape& shape) { return RandomTensor(*backend_, shape, DType::kF32, ++seed_); }

  StoredModule Experts(const AdapterShape& s, const std::string& name, int64_t in, int64_t out,
                       bool shared_a, bool shared_b) {
    const bool down = name == "down_proj";
    const int64_t rank = down && s.down_rank > 0 ? s.down_rank : s.rank;
    StoredModule module;
    module.path = "model.layers.1.mlp.experts." + name;
    module.kind = StoredModule::Kind::kExperts;
    module.experts = s.experts;
    module.a = Random({shared_a ? 1 : s.experts, rank, in});
    module.b = Random({shared_b ? 1 : s.experts, out, rank});
    module.alpha = down && s.down_alpha > 0 ? s.down_alpha : 7;
    module.scaling = s.rslora ? LoraScaling::kRsLora : LoraScaling::kStandard;
    return module;
  }
  StoredModule Dense(const std::string& path, int64_t in, int64_t out, const AdapterShape& s) {
    StoredModule module;
    module.path = path;
    module.a = Random({s.rank, in});
    module.b = Random({out, s.rank});
    module.alpha = 7;
    module.scaling = s.rslora ? LoraScaling::kRsLora : LoraScaling::kStandard;
    return module;
  }
  StoredAdapter Make(const AdapterShape& s) {
    StoredAdapter adapter;
    adapter.base_model = "base";
    adapter.modules.push_back(Dense("model.layers.0.self_attn.q_proj", s.hidden, 8, s));
    adapter.modules.push_back(Dense("model.layers.0.mlp.gate_proj", s.hidden, 10, s));
    const bool shared = s.kind == "shared-outer";
    if (s.gate_up && s.kind == "split") {
      for (const char* name : {"gate_proj", "up_proj"}) {
        adapter.modules.push_back(Experts(s, name, s.hidden, s.width, false, false));
      }
    } else if (s.gate_up) {
      adapter.modules.push_back(Experts(s, "gate_up_proj", s.hidden, 2 * s.width, shared, false));
    }
    if (s.down) {
      adapter.modules.push_back(Experts(s, "down_proj", s.width, s.hidden, false, shared));
    }
    base_.hidden = s.hidden;
    base_.experts = s.experts;
    base_.expert_width = s.width;
    return adapter;
  }

  // Where a test's files lie: a folder, or a GGUF file.
  std::string Place(AdapterLayout layout, const std::string& name) {
    const std::string path = folder_ + "/" + name;
    if (layout == AdapterLayout::kGguf) return path + ".gguf";
    EXPECT_TRUE(MakeDirectories(PosixFiles(), path).ok());
    return path;
  }
  std::string Write(const StoredAdapter& adapter, AdapterLayout layout,
                    const std::string& name = "a") {
    const std::string path = Place(layout, name);
    const absl::Status status = WriteStoredAdapter(adapter, layout, path, &base_);
    EXPECT_TRUE(status.ok()) << status;
    return path;
  }
  absl::StatusOr<ReadAdapter> Read(const std::string& path, AdapterReadOptions options = {}) {
    return ReadStoredAdapter(path, *backend_, options);
  }
  std::string ReadError(const std::string& path, AdapterReadOptions options = {}) {
    const auto read = Read(path, options);
    return read.ok() ? "" : std::string(read.status().message());
  }

  static void EditConfig(const std::string& folder,
                         const std::function<void(nlohmann::ordered_json&)>& edit) {
    const std::string path = folder + "/adapter_config.json";
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(std::ifstream(path));
    edit(json);
    std::ofstream(path, std::ios::trunc) << json.dump();
  }
  // As another program would have written it.
  static void Forget(const std::string& folder) {
    EditConfig(folder, [](nlohmann::ordered_json& json) {
      json.erase("lorica");
      json.erase("peft_version");
    });
  }

  struct NamedTensor {
    std::vector<int64_t> shape;
    std::vector<float> values;
  };
  using Tensors = std::map<std::string, NamedTensor>;
  static Tensors ReadTensors(const std::string& path) {
    Tensors tensors;
    const auto file = SafetensorsFile::Open(path);
    EXPECT_TRUE(file.ok()) << file.status();
    for (const SafetensorsEntry& entry : file->entries()) {
      NamedTensor tensor{entry.shape, {}};
      tensor.values.resize(file->Bytes(entry).size() / sizeof(float));
      std::memcpy(tensor.values.data(), file->Bytes(entry).data(), file->Bytes(entry).size());
      tensors[entry.name] = tensor;
    }
    return tensors;
  }
  static void WriteTensors(const std::string& path, const Tensors& tensors) {
    std::vector<SafetensorsTensor> entries;
    for (const auto& [name, tensor] : tensors) {
      entries.push_back({name,
                         StoredType::kF32,
                         tensor.shape,
                         {reinterpret_cast<const uint8_t*>(tensor.values.data()),
                          tensor.values.size() * sizeof(float)}});
    }
    const absl::Status status = WriteSafetensors(PosixFiles(), path, entries, {});
    EXPECT_TRUE(status.ok()) << status;
  }
  void EditTensors(const std::string& folder, const std::function<void(Tensors&)>& edit) {
    const std::string path = folder + "/adapter_model.safetensors";
    Tensors tensors = ReadTensors(path);
    edit(tensors);
    WriteTensors(path, tensors);
  }

  ThreadPool pool_{1};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
  std::string folder_;
  BaseFacts base_;
  uint64_t seed_ = 0;
};

}  // namespace lorica::testing

#endif  // LORICA_TESTS_PEFT_LAYOUTS_LAYOUT_FIXTURE_H_
