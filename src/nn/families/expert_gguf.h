// Keys of GGUF metadata about mixtures of experts, and about windows. Internal to src/nn.
#ifndef LORICA_NN_FAMILIES_EXPERT_GGUF_H_
#define LORICA_NN_FAMILIES_EXPERT_GGUF_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lorica/io/gguf.h"
#include "lorica/nn/model_config.h"

namespace lorica::internal {

// Values of expert_gating_func.
enum class GgufGating : int64_t { kSoftmax = 1, kSigmoid = 2, kSoftmaxOfChosen = 3 };

// What an architecture fixes or leaves out.
struct GgufExpertRules {
  // Another expert_gating_func is an error; absent it is this one.
  GgufGating gating = GgufGating::kSoftmax;
  bool normalize = false;  // where expert_weights_norm is absent
  bool groups = false;     // experts may be chosen by groups
  enum class Shared {
    kNone,   // no shared experts
    kCount,  // expert_shared_count of them, as wide as the others
    kGated,  // one of any width behind a gate
  } shared = Shared::kNone;
};

// Behind "<architecture>.": what ReadGgufExperts reads.
absl::Span<const absl::string_view> GgufExpertKeys();

// Number, width, choice and weights of experts, and which layers have them: those behind
// leading_dense_block_count, without that key those with a router. Values are bounded.
absl::Status ReadGgufExperts(const GgufFile& file, const std::string& prefix,
                             const GgufExpertRules& rules, ModelConfig& config);
// expert_gating_func; `fallback` where it is absent or 0.
absl::StatusOr<GgufGating> ReadGgufGating(const GgufFile& file, const std::string& prefix,
                                          GgufGating fallback);
// Some block has a tensor of that name.
bool HasBlockTensor(const GgufFile& file, absl::string_view name);

}  // namespace lorica::internal

#endif  // LORICA_NN_FAMILIES_EXPERT_GGUF_H_
