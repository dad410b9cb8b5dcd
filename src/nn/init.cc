#include "lorica/nn/init.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "lorica/tensor/random.h"

namespace lorica {
namespace {

bool IsBias(const std::string& path) { return absl::EndsWith(path, "bias"); }

}  // namespace

void InitializeRandom(Module& root, Backend& backend, const InitOptions& options) {
  ForEachParameter(root, [&](const std::string& path, Parameter& parameter) {
    const Shape& shape = parameter.shape();
    if (shape.rank() < 2 || IsBias(path)) {
      parameter.Assign(
          Tensor::Full(backend, shape, parameter.compute_dtype(), IsBias(path) ? 0 : 1));
      return;
    }
    RandomStream stream(options.seed, HashName(path));
    std::vector<double> values(static_cast<size_t>(shape.numel()));
    for (double& value : values) value = options.standard_deviation * stream.Normal();
    parameter.Assign(
        raw::Cast(Tensor::FromHost<double>(backend, shape, values), parameter.compute_dtype()));
  });
}

}  // namespace lorica
