#include "lorica/cli/engine.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lorica/tensor/cpu_backend.h"

namespace lorica::cli {
namespace {

constexpr absl::string_view kGroup = "Running";
// More threads than any machine has cores are a slip.
constexpr int64_t kMostThreads = 4096;

}  // namespace

void VisitEngineOptions(EngineOptions& options, OptionVisitor& visitor) {
  visitor.On({.name = "dtype",
              .group = kGroup,
              .help = "type to compute in; f64 is slow and exact",
              .choices = {"f32", "bf16", "f64"}},
             options.dtype);
  visitor.On({.name = "threads",
              .group = kGroup,
              .help = "threads to compute with; 0: the cores that this process may use"},
             options.threads);
  visitor.On(
      {.name = "backend", .group = kGroup, .help = "what computes", .choices = {"cpu", "cuda"}},
      options.backend);
  visitor.On({.name = "device", .group = kGroup, .help = "number of the device, from 0"},
             options.device);
}

absl::StatusOr<Engine> MakeEngine(const EngineOptions& options, size_t packed_cache_bytes) {
  if (options.threads < 0 || options.threads > kMostThreads) {
    return absl::InvalidArgumentError(absl::StrCat("--threads: expected a number from 0 to ",
                                                   kMostThreads, ", found ", options.threads));
  }
  if (options.backend != "cpu") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--backend: expected cpu, found ", options.backend, ", which this build doesn't have"));
  }
  if (options.device != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--device: expected 0, the only device of the backend cpu, found ", options.device));
  }
  Engine engine;
  engine.compute = options.dtype == "bf16"  ? DType::kBF16
                   : options.dtype == "f64" ? DType::kF64
                                            : DType::kF32;
  engine.pool = std::make_unique<ThreadPool>(
      options.threads == 0 ? AvailableCores() : static_cast<int>(options.threads));
  engine.backend =
      MakeCpuBackend(*engine.pool, CpuBackendOptions{.packed_cache_bytes = packed_cache_bytes});
  return engine;
}

}  // namespace lorica::cli
