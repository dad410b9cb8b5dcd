#include "lorica/peft/layouts/scale_folding.h"

#include <algorithm>
#include <cmath>

#include "lorica/peft/layouts/factor_math.h"

namespace lorica::layouts {
namespace {

// alpha comes from the scale by a product, and the scale from alpha by a quotient.
bool Same(double x, double y) { return std::abs(x - y) <= 1e-14 * std::abs(y); }

Tensor Zeros(const Tensor& like, int axis, int64_t extent) {
  Shape shape = like.shape();
  shape[axis] = extent;
  return Tensor::Zeros(like.backend(), shape, like.dtype());
}

}  // namespace

double CommonScale(const StoredAdapter& adapter) {
  double common = 1;
  int64_t most = 0;
  for (const StoredModule& candidate : adapter.modules) {
    // Nothing can be folded into it.
    if (candidate.scale() == 0) continue;
    const int64_t count =
        std::count_if(adapter.modules.begin(), adapter.modules.end(),
                      [&](const StoredModule& m) { return Same(m.scale(), candidate.scale()); });
    if (count > most) {
      most = count;
      common = candidate.scale();
    }
    // Nothing behind can have more.
    if (2 * most > static_cast<int64_t>(adapter.modules.size())) break;
  }
  return common;
}

StoredAdapter WithScales(StoredAdapter adapter,
                         const std::function<double(const StoredModule&)>& target) {
  for (StoredModule& module : adapter.modules) {
    const double scale = module.scale(), wanted = target(module);
    const bool plain = module.scaling == LoraScaling::kStandard;
    if (Same(scale, wanted)) {
      if (plain) continue;
    } else {
      module.b = Scaled(module.b, scale / wanted);
    }
    module.alpha = wanted * static_cast<double>(module.rank());
    module.scaling = LoraScaling::kStandard;
  }
  return adapter;
}

StoredAdapter WithOneRank(StoredAdapter adapter) {
  int64_t largest = 0;
  for (const StoredModule& module : adapter.modules) largest = std::max(largest, module.rank());
  for (StoredModule& module : adapter.modules) {
    const int64_t rank = module.rank(), missing = largest - rank;
    if (missing == 0) continue;
    const double scale = module.scale();
    const int axes = module.a.rank();
    module.a = Concat(module.a, Zeros(module.a, axes - 2, missing), axes - 2);
    module.b = Concat(module.b, Zeros(module.b, axes - 1, missing), axes - 1);
    module.alpha = scale * static_cast<double>(largest);
    module.scaling = LoraScaling::kStandard;
  }
  return adapter;
}

}  // namespace lorica::layouts
