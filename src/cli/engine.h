// The options that say what to compute on, for commands that train nothing (sft has its own), and
// what they make.
#ifndef LORICA_CLI_ENGINE_H_
#define LORICA_CLI_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/dtype.h"
#include "lorica/tensor/thread_pool.h"
#include "lorica/train/option_list.h"

namespace lorica::cli {

struct EngineOptions {
  std::string dtype = "f32";
  int64_t threads = 0;  // 0: the cores that the process may use
  std::string backend = "cpu";
  int64_t device = 0;
};

void VisitEngineOptions(EngineOptions& options, OptionVisitor& visitor);

struct Engine {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Backend> backend;
  DType compute = DType::kF32;
};

// InvalidArgument naming the option. `packed_cache_bytes` as in CpuBackendOptions.
absl::StatusOr<Engine> MakeEngine(const EngineOptions& options, size_t packed_cache_bytes = 0);

}  // namespace lorica::cli

#endif  // LORICA_CLI_ENGINE_H_
