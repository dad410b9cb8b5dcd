// Tensors of GGUF files that are halves of ours. Internal to src/nn.
#ifndef LORICA_NN_GGUF_SOURCE_H_
#define LORICA_NN_GGUF_SOURCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "lorica/io/tensor_source.h"
#include "lorica/nn/model_config.h"

namespace lorica::internal {

// The tensors of a GGUF file, under the names that PlaceInGguf gives and of the parameters' shapes.
// Made while reading, of what the file has instead:
//   ffn_gate_up_exps [E, 2 I, D]   ffn_gate_exps and ffn_up_exps [E, I, D]; their biases alike
//   attn_kv_b [H (N + V), L]       attn_k_b [H, L, N], each head transposed, and attn_v_b [H, V, L]
//   ffn_gate_inp_shexp [1, D]      a vector
// Bytes of such are Unimplemented. Errors: a half that is missing or of another shape.
absl::StatusOr<std::shared_ptr<const TensorSource>> JoinGgufHalves(
    std::shared_ptr<const TensorSource> source, const ModelConfig& config);

}  // namespace lorica::internal

#endif  // LORICA_NN_GGUF_SOURCE_H_
