// nn::Linear: y = x Wᵀ + b, with one slot for adapters.
#ifndef LORICA_NN_LINEAR_H_
#define LORICA_NN_LINEAR_H_

#include <cstdint>
#include <memory>

#include "lorica/autograd/ops.h"
#include "lorica/nn/adapter_host.h"
#include "lorica/nn/forward_context.h"

namespace lorica::nn {

class Linear : public AdapterHost {
 public:
  // `weight` [out, in], `bias` [out] or absent.
  explicit Linear(Parameter weight, Parameter bias = Parameter());
  // Values in the compute type; `bias` may be undefined.
  explicit Linear(Tensor weight, Tensor bias = Tensor());
  static Linear Declare(int64_t out, int64_t in, bool with_bias, DType compute);
  // Shares a weight [out, in] that another module owns and lists (a head tied to the embedding);
  // carries an adapter of its own.
  static Linear Tied(std::shared_ptr<Parameter> weight);

  // x [..., in] -> [..., out]. Rows of x are the context's tokens.
  Tensor Forward(const Tensor& x, const ForwardContext& context);
  // What LinearCrossEntropy takes. Valid as long as the context and until the adapter's next
  // Branches call.
  LinearArgs Args(const ForwardContext& context);

  void Visit(ModuleVisitor& visitor) override;
  Kind kind() const override { return Kind::kLinear; }
  Shape weight_shape() const override { return weight_->shape(); }
  Parameter& weight() override { return *weight_; }
  Parameter& bias() { return bias_; }
  bool tied() const override { return tied_to_ != nullptr && weight_ == tied_to_; }
  void Untie(Tensor values) override;
  void Retie() override;

 private:
  Linear() = default;

  std::shared_ptr<Parameter> weight_;
  Parameter bias_;
  std::shared_ptr<Parameter> tied_to_;  // another module's weight; null where none is shared
};

}  // namespace lorica::nn

#endif  // LORICA_NN_LINEAR_H_
