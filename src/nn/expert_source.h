// Experts as files have them, under the names and in the order of this engine. Internal to src/nn.
#ifndef LORICA_NN_EXPERT_SOURCE_H_
#define LORICA_NN_EXPERT_SOURCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "lorica/io/tensor_source.h"
#include "lorica/nn/model_config.h"

namespace lorica::internal {

// The tensors of a Hugging Face folder, its experts stacked: `mlp.experts.gate_up_proj` [E, 2 I, D]
// and `mlp.experts.down_proj` [E, D, I], read expert by expert straight into their place. Files
// have them
//   one by one   mlp.experts.<e>.{gate,up,down}_proj.weight, or w1, w3 and w2 of Mixtral under
//                block_sparse_moe, a name that becomes mlp everywhere
//   stacked      mlp.experts.{gate_up,down}_proj, as transformers 5 saves them; of gpt-oss with the
//                last two axes swapped
//   as 4 bits    mlp.experts.{gate_up,down}_proj_blocks and _scales, of gpt-oss
// Names that aren't experts pass through. Bytes of a stack that isn't stored as one are
// Unimplemented. Errors: an expert that is missing, or of another shape or type than its
// neighbours. Models without experts get `source` back.
absl::StatusOr<std::shared_ptr<const TensorSource>> StackExperts(
    std::shared_ptr<const TensorSource> source, const ModelConfig& config);

}  // namespace lorica::internal

#endif  // LORICA_NN_EXPERT_SOURCE_H_
