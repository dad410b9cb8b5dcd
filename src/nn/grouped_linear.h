// nn::GroupedLinear: one linear per group of rows (experts), their weights in one tensor.
#ifndef LORICA_NN_GROUPED_LINEAR_H_
#define LORICA_NN_GROUPED_LINEAR_H_

#include <cstdint>

#include "lorica/autograd/ops.h"
#include "lorica/nn/adapter_host.h"
#include "lorica/nn/forward_context.h"

namespace lorica::nn {

class GroupedLinear : public AdapterHost {
 public:
  // `weight` [E, out, in].
  explicit GroupedLinear(Parameter weight);
  static GroupedLinear Declare(int64_t groups, int64_t out, int64_t in, DType compute);

  // Rows [offsets[e], offsets[e + 1]) of x [M, in] meet weight[e]; [M, out]. Rows are (token,
  // expert) pairs, so the context's rows are not those of x. Throws Error when an adapter is set:
  // its branches need the order of the rows as well.
  Tensor Forward(const Tensor& x, const RowOffsets& offsets, const ForwardContext& context);

  // The weight has the module's own path, as transformers names stacked experts.
  void Visit(ModuleVisitor& visitor) override;
  Kind kind() const override { return Kind::kGroupedLinear; }
  Shape weight_shape() const override { return weight_.shape(); }
  Parameter& weight() override { return weight_; }

 private:
  Parameter weight_;
};

}  // namespace lorica::nn

#endif  // LORICA_NN_GROUPED_LINEAR_H_
