// nn::GroupedLinear: one linear per group of rows (experts), their weights in one tensor.
#ifndef LORICA_NN_GROUPED_LINEAR_H_
#define LORICA_NN_GROUPED_LINEAR_H_

#include <cstdint>

#include "lorica/autograd/experts.h"
#include "lorica/autograd/ops.h"
#include "lorica/nn/adapter_host.h"
#include "lorica/nn/forward_context.h"

namespace lorica::nn {

class GroupedLinear : public AdapterHost {
 public:
  // What the outputs of a group are.
  enum class Outputs {
    kOne,          // one projection
    kGateAndUp,    // two, one behind the other
    kInterleaved,  // two in turn: gate's are even
  };

  // `weight` [E, out, in]; `bias` [E, out] or absent, listed by the parent, whose parameter it is.
  explicit GroupedLinear(Parameter weight, Parameter bias = Parameter(),
                         Outputs outputs = Outputs::kOne);
  static GroupedLinear Declare(int64_t groups, int64_t out, int64_t in, DType compute,
                               bool with_bias = false, Outputs outputs = Outputs::kOne);

  // Rows [offsets[e], offsets[e + 1]) of x [M, in] meet weight[e]; [M, out]. Rows are (token,
  // expert) pairs, so the context's rows are not those of x. Throws Error when an adapter or a bias
  // is set: those need the dispatch plan (Projection).
  Tensor Forward(const Tensor& x, const RowOffsets& offsets, const ForwardContext& context);
  // What the op Experts takes. Valid until the adapter's next Grouped call.
  GroupedProjection Projection(const ForwardContext& context, ExpertNumerics numerics);

  // The weight has the module's own path, as transformers names stacked experts.
  void Visit(ModuleVisitor& visitor) override;
  Kind kind() const override { return Kind::kGroupedLinear; }
  Shape weight_shape() const override { return weight_.shape(); }
  Parameter& weight() override { return weight_; }
  Parameter& bias() { return bias_; }
  Outputs outputs() const { return outputs_; }

 private:
  Parameter weight_, bias_;
  Outputs outputs_;
};

}  // namespace lorica::nn

#endif  // LORICA_NN_GROUPED_LINEAR_H_
