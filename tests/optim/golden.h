// The expected values of tests/golden/optim.json, and what the tests of this folder share.
#ifndef LORICA_TESTS_OPTIM_GOLDEN_H_
#define LORICA_TESTS_OPTIM_GOLDEN_H_

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lorica/autograd/autograd.h"
#include "lorica/optim/optimizer.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/tensor.h"

namespace lorica {

inline const nlohmann::json& Golden() {
  static const auto* golden = [] {
    std::ifstream file(LORICA_SOURCE_ROOT "/tests/golden/optim.json");
    return new nlohmann::json(nlohmann::json::parse(file));
  }();
  return *golden;
}

// A backend with `threads` threads.
struct World {
  explicit World(int threads = 1) : pool(threads), backend(MakeCpuBackend(pool)) {}
  ThreadPool pool;
  std::unique_ptr<Backend> backend;
};

// max |got - want| / max |want|; where all of want is zero, max |got|.
inline double RelativeError(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return INFINITY;
  double difference = 0, largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference = std::max(difference, std::abs(got[i] - want[i]));
    largest = std::max(largest, std::abs(want[i]));
  }
  return largest == 0 ? difference : difference / largest;
}

inline Tensor FromDoubles(Backend& backend, const Shape& shape, DType dtype,
                          const std::vector<double>& values) {
  return raw::Cast(Tensor::FromHost<double>(backend, shape, values), dtype);
}

inline NamedParameter Leaf(Backend& backend, std::string path, const Shape& shape, DType dtype,
                           const std::vector<double>& values, ParameterRole role) {
  Tensor master = FromDoubles(backend, shape, dtype, values);
  SetRequiresGrad(master, true);
  return {std::move(path), std::move(master), role};
}

inline void SetGrad(const NamedParameter& parameter, const std::vector<double>& values) {
  const Tensor& master = parameter.master;
  GradAccumulator(master) = FromDoubles(master.backend(), master.shape(), master.dtype(), values);
}

}  // namespace lorica

#endif  // LORICA_TESTS_OPTIM_GOLDEN_H_
