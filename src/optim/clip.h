// Clipping by the global norm. R. Pascanu et al., "On the difficulty of training recurrent neural
// networks", 2013; the coefficient is PyTorch's.
#ifndef LORICA_OPTIM_CLIP_H_
#define LORICA_OPTIM_CLIP_H_

#include "lorica/optim/parameter_group.h"

namespace lorica {

// Square root of the sum of squares of all gradients times |grad_scale|; summed in double, in the
// group's order. NaN or infinity when a gradient isn't finite.
double GradientNorm(const ParameterGroup& group, double grad_scale = 1);

// min(1, max_norm / (norm + 1e-6)); 1 when max_norm is 0 (no clipping).
double ClipCoefficient(double norm, double max_norm);

}  // namespace lorica

#endif  // LORICA_OPTIM_CLIP_H_
