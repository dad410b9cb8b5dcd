#include "lorica/nn/grouped_linear.h"

#include <utility>

#include "lorica/tensor/check.h"

namespace lorica::nn {

GroupedLinear::GroupedLinear(Parameter weight) : weight_(std::move(weight)) {
  LORICA_CHECK(weight_.defined() && weight_.shape().rank() == 3,
               "[grouped_linear] the weight must be [E, out, in], found ", weight_.shape());
}

GroupedLinear GroupedLinear::Declare(int64_t groups, int64_t out, int64_t in, DType compute) {
  return GroupedLinear(Parameter::Declare({groups, out, in}, compute));
}

Tensor GroupedLinear::Forward(const Tensor& x, const RowOffsets& offsets,
                              const ForwardContext& context) {
  LORICA_CHECK(adapter_ == nullptr, "[grouped_linear] adapters on grouped linears are not served");
  return lorica::GroupedLinear(x, weight_.weight(), offsets);
}

void GroupedLinear::Visit(ModuleVisitor& visitor) { visitor.OnParameter("", weight_); }

}  // namespace lorica::nn
