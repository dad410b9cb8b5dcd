#include "lorica/optim/parameter_group.h"

#include "lorica/autograd/autograd.h"

namespace lorica {

absl::string_view Name(ParameterRole role) {
  switch (role) {
    case ParameterRole::kLoraA:
      return "lora_a";
    case ParameterRole::kLoraB:
      return "lora_b";
    case ParameterRole::kMatrix:
      return "matrix";
    case ParameterRole::kVector:
      return "vector";
    case ParameterRole::kEmbedding:
      return "embedding";
    case ParameterRole::kHead:
      return "head";
  }
  return "";
}

void ZeroGrad(const ParameterGroup& group) {
  for (const NamedParameter& parameter : group) ZeroGrad(parameter.master);
}

}  // namespace lorica
