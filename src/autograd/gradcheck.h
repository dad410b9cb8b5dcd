// Gradients against central differences, in f64.
#ifndef LORICA_AUTOGRAD_GRADCHECK_H_
#define LORICA_AUTOGRAD_GRADCHECK_H_

#include <functional>
#include <string>
#include <vector>

#include "lorica/tensor/tensor.h"

namespace lorica {

struct GradcheckOptions {
  double step = 1e-5;       // of the central difference
  double tolerance = 1e-7;  // on |analytic - numeric| / max(1, |numeric| max)
};

// Checks the gradients of sum(function(inputs) * w), w fixed and irregular, with respect to every
// f64 input that requires a gradient. Returns an empty string when all agree, else the worst
// coordinate. The leaves' gradients are overwritten.
std::string Gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& function,
                      std::vector<Tensor> inputs, const GradcheckOptions& options = {});

}  // namespace lorica

#endif  // LORICA_AUTOGRAD_GRADCHECK_H_
