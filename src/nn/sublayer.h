// nn::Sublayer: what a block adds to the residual stream, an attention or a feed-forward. A block
// holds two of them and knows neither kind.
#ifndef LORICA_NN_SUBLAYER_H_
#define LORICA_NN_SUBLAYER_H_

#include "lorica/nn/forward_context.h"
#include "lorica/nn/module.h"

namespace lorica::nn {

class Sublayer : public Module {
 public:
  // x [T, C] -> [T, C]. Rows of x are the context's tokens.
  virtual Tensor Forward(const Tensor& x, const ForwardContext& context) = 0;
};

}  // namespace lorica::nn

#endif  // LORICA_NN_SUBLAYER_H_
