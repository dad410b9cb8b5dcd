// What the tests of src/nn share: a backend, small models, files.
#ifndef LORICA_TESTS_NN_NN_FIXTURE_H_
#define LORICA_TESTS_NN_NN_FIXTURE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lorica/io/file_system.h"
#include "lorica/io/tensor_source.h"
#include "lorica/nn/decoder.h"
#include "lorica/nn/init.h"
#include "lorica/nn/model_loader.h"
#include "lorica/tensor/cpu_backend.h"
#include "support/tensor_matchers.h"

#define ASSERT_OK(expression)                                     \
  do {                                                            \
    const auto& asserted = (expression);                          \
    ASSERT_TRUE(asserted.ok()) << ::lorica::StatusText(asserted); \
  } while (false)

namespace lorica {

inline std::string StatusText(const absl::Status& status) { return status.ToString(); }
template <typename T>
std::string StatusText(const absl::StatusOr<T>& result) {
  return result.status().ToString();
}

// A backend of its own on `threads` threads.
struct TestBackend {
  explicit TestBackend(int threads = 2) : pool(threads), backend(MakeCpuBackend(pool)) {}
  ThreadPool pool;
  std::unique_ptr<Backend> backend;
  Backend& operator*() { return *backend; }
};

class NnTest : public ::testing::Test {
 protected:
  TestBackend owner_;
  Backend& backend_ = *owner_.backend;
};

// A new folder, removed with everything in it.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string operator/(absl::string_view name) const { return JoinPath(path_, name); }

 private:
  std::string path_;
};

// Awkward sizes: 6 heads on 2 key/value heads of 10 channels, hidden 28, vocabulary 53.
ModelConfig TinyConfig(bool tied = false);
// With random values, norms included, so that nothing is one by accident.
std::unique_ptr<CausalLm> TinyModel(Backend& backend, DType compute,
                                    const ModelConfig& config = TinyConfig());

std::vector<int32_t> RandomIds(int64_t count, int64_t vocab, uint64_t seed);
ForwardContext ContextOf(const std::vector<int64_t>& lengths);

// A model's tensors, to be spoiled and written.
struct EditableTensor {
  StoredType type;
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
};
using EditableTensors = std::map<std::string, EditableTensor>;
EditableTensors TensorsOf(CausalLm& model);

// A model folder with those tensors; `quantization`: JSON for quantization_config, "" without.
void WriteFolder(const std::string& folder, const ModelConfig& config,
                 const EditableTensors& tensors, absl::string_view quantization = "");

// What LoadModel says; "" where it succeeds.
std::string LoadError(const std::string& path, Backend& backend, DType compute = DType::kF32);

// Both paths give the same parameters bit for bit, in every compute type.
void ExpectSameModel(const std::string& path, const std::string& plain, Backend& backend);

// A file or folder below tests/golden.
std::string GoldenPath(absl::string_view name);
// A path below the shared folder of reference data, "" where that folder or the path is absent.
std::string SharedPath(absl::string_view name);

// One line of batches.jsonl.
struct GoldenRecord {
  std::vector<int32_t> ids;
  std::vector<int32_t> targets;  // shifted: targets[t] follows ids[t]; -1 where none counts
};
std::vector<GoldenRecord> ReadBatches(const std::string& path);
// `mean_loss` of every record in loss.json.
std::vector<double> ReadMeanLosses(const std::string& path);
std::vector<double> ReadTensor(const TensorSource& source, const std::string& name);
std::string ReadText(const std::string& path);
void WriteText(const std::string& path, absl::string_view text);

}  // namespace lorica

#endif  // LORICA_TESTS_NN_NN_FIXTURE_H_
