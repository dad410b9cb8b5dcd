#include "lorica/optim/clip.h"

#include <algorithm>
#include <cmath>

#include "lorica/autograd/autograd.h"
#include "lorica/tensor/backend.h"

namespace lorica {

double GradientNorm(const ParameterGroup& group, double grad_scale) {
  double sum = 0;
  for (const NamedParameter& parameter : group) {
    const Tensor grad = Grad(parameter.master);
    if (grad.defined() && grad.numel() > 0) sum += grad.backend().SumSquares(grad.view());
  }
  return std::sqrt(sum) * std::abs(grad_scale);
}

double ClipCoefficient(double norm, double max_norm) {
  if (max_norm == 0) return 1;
  return std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace lorica
