#include "lorica/autograd/gradcheck.h"

#include <algorithm>
#include <cmath>

#include "lorica/autograd/autograd.h"
#include "lorica/autograd/ops.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/random.h"

namespace lorica {
namespace {

// sum(y * w) with irregular weights, so that gradients that cancel in a plain sum show.
double Project(const Tensor& y, const std::vector<double>& w) {
  const std::vector<double> values = y.ToDoubles();
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += values[i] * w[i];
  return sum;
}

}  // namespace

std::string Gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& function,
                      std::vector<Tensor> inputs, const GradcheckOptions& options) {
  for (const Tensor& x : inputs) {
    if (RequiresGrad(x)) {
      LORICA_CHECK(x.dtype() == DType::kF64, "[gradcheck] inputs must be f64, found ", x.dtype());
      ZeroGrad(x);
    }
  }
  const Tensor y = function(inputs);
  RandomStream random(17, 0);
  std::vector<double> w(static_cast<size_t>(y.numel()));
  for (double& value : w) value = 0.5 + random.Uniform();
  Backward(y, raw::Cast(Tensor::FromHost<double>(y.backend(), y.shape(), w), y.dtype()));

  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensor& x = inputs[i];
    if (!RequiresGrad(x)) continue;
    LORICA_CHECK(x.is_contiguous(), "[gradcheck] leaves must be contiguous");
    std::vector<double> analytic(static_cast<size_t>(x.numel()), 0.0);
    if (const Tensor grad = Grad(x); grad.defined()) analytic = grad.ToDoubles();
    std::vector<double> numeric(analytic.size());
    double largest = 1;
    {
      NoGrad no_grad;
      for (size_t j = 0; j < numeric.size(); ++j) {
        const double value = x.data<double>()[j];
        x.mutable_data<double>()[j] = value + options.step;
        const double above = Project(function(inputs), w);
        x.mutable_data<double>()[j] = value - options.step;
        const double below = Project(function(inputs), w);
        x.mutable_data<double>()[j] = value;
        numeric[j] = (above - below) / (2 * options.step);
        largest = std::max(largest, std::abs(numeric[j]));
      }
    }
    for (size_t j = 0; j < numeric.size(); ++j) {
      // Written so that a NaN fails.
      if (!(std::abs(analytic[j] - numeric[j]) <= options.tolerance * largest)) {
        return internal::Concat("input ", i, " of shape ", x.shape(), ", element ", j,
                                ": gradient ", analytic[j], ", central difference ", numeric[j]);
      }
    }
  }
  return "";
}

}  // namespace lorica
