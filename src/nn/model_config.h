// ModelConfig: what a model's configuration says, whatever file and spelling it comes from.
#ifndef LORICA_NN_MODEL_CONFIG_H_
#define LORICA_NN_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/io/gguf.h"
#include "lorica/nn/moe_config.h"
#include "lorica/nn/quantization_config.h"
#include "lorica/nn/rope.h"

namespace lorica {

// What distinguishes a layer from its neighbours.
struct LayerConfig {
  // Which of the model's rotations its queries and keys get.
  enum class Rope { kNone, kMain, kLocal };
  Rope rope = Rope::kMain;
  int64_t window = 0;          // keys that a token sees, itself included; 0: all before it
  bool experts = false;        // a mixture of experts as its feed-forward
  bool delta = false;          // the gated delta rule (nn/delta_net.h) in place of attention
  bool shares_choice = false;  // sparse attention with the keys that the layer before was left

  bool operator==(const LayerConfig&) const = default;
};

// Where the norms of a block stand: before attention and feed-forward, after them (before their
// result is added), or both.
enum class NormPlacement { kBefore, kAfter, kBoth };
// Norms of queries and keys before rotation: none, of each head, of the whole projection.
enum class QkNorm { kNone, kHead, kProjection };
// Of the gate of a feed-forward: silu(x) = x sigmoid(x), gelu(x) = x Phi(x) or its tanh form.
enum class Activation { kSilu, kGelu, kGeluTanh };

// Sizes of latent attention (nn/mla.h), which takes the place of the ordinary one where
// kv_lora_rank is above 0.
struct LatentSizes {
  int64_t q_lora_rank = 0;  // 0: queries straight from x
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;

  bool operator==(const LatentSizes&) const = default;
};

// Sparse latent attention (nn/indexer.h). It is dense in sequences of at most top_k tokens.
struct IndexerSizes {
  int64_t heads = 0, head_dim = 0;
  int64_t top_k = 0;         // keys that a query is left; 0: all, and there is no indexer
  bool interleaved = false;  // RopeConfig; the attention has its own

  bool operator==(const IndexerSizes&) const = default;
};

// Sizes of layers with the gated delta rule.
struct DeltaSizes {
  int64_t key_heads = 0, key_head_dim = 0;
  int64_t value_heads = 0, value_head_dim = 0;
  int64_t taps = 0;  // of the convolution

  int64_t channels() const {  // of q, k and v together
    return 2 * key_heads * key_head_dim + value_heads * value_head_dim;
  }
  bool operator==(const DeltaSizes&) const = default;
};

struct ModelConfig {
  std::string family;  // `model_type` of config.json: "llama", "qwen2", ...

  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  double rms_norm_eps = 1e-6;
  RopeConfig rope;
  RopeConfig local_rope;                   // of layers that say Rope::kLocal
  std::vector<LayerConfig> layer_configs;  // one per layer; empty: LayerConfig() for all

  NormPlacement norms = NormPlacement::kBefore;
  bool norm_offset = false;  // norms multiply by 1 + weight
  QkNorm qk_norm = QkNorm::kNone;
  Activation activation = Activation::kSilu;
  bool fused_projections = false;  // qkv_proj and gate_up_proj instead of three and two linears
  double embedding_scale = 1;      // of embeddings, rounded to the compute type
  double residual_scale = 1;       // of what attention and feed-forward add
  double attention_scale = 0;      // of q kᵀ; 0: 1 / sqrt(head_dim)
  double attention_softcap = 0;    // of scaled scores, c tanh(s / c); 0: none
  double logit_divisor = 1;
  double logit_softcap = 0;  // 0: none

  LatentSizes latent;
  IndexerSizes indexer;
  nn::MoeConfig moe;             // of the layers that say `experts`
  int64_t skipped_layers = 0;    // behind the last one, in files alone: predictors of later tokens
  DeltaSizes delta;              // of the layers that say `delta`
  bool attention_gate = false;   // q_proj gives a gate beside each query head
  bool attention_sinks = false;  // one logit per head that takes part in softmax and has no value
  double qkv_clip = 0;           // q, k and v stay within +-qkv_clip; 0: free

  bool qkv_bias = false;  // of q_proj, k_proj and v_proj
  bool o_bias = false;    // of o_proj
  bool mlp_bias = false;
  bool tied = false;                // lm_head shares the embedding's table
  int64_t max_positions = 0;        // what the model was trained for; 0: unknown
  double initializer_range = 0.02;  // standard deviation of fresh weights

  std::vector<int64_t> eos_token_ids;  // may be empty
  int64_t bos_token_id = -1;           // -1: none
  QuantizationConfig quantization;     // of the files, which changes no path or shape
  std::string stored_dtype;            // as the file names it; empty where it doesn't
  bool text_part = false;              // of a model that holds more (text_part.h)
  // Sentences for people: what was found in the file and has no effect here.
  std::vector<std::string> notes;

  LayerConfig Layer(int index) const {
    return layer_configs.empty() ? LayerConfig() : layer_configs[static_cast<size_t>(index)];
  }
};

// Reads config.json. A field that would change the maths and isn't supported is an error that names
// the field and its value. Values are bounded, so that a model can be declared from any
// configuration that is accepted.
absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json, absl::string_view where);
absl::StatusOr<ModelConfig> ReadModelConfigFile(const std::string& path);

// From the metadata of a GGUF file and the names of its tensors.
absl::StatusOr<ModelConfig> ModelConfigFromGguf(const GgufFile& file);

// Of a Hugging Face folder or a .gguf file; no weights are read.
absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& path);

// The text of a config.json that transformers 4 and 5 load, and that ParseModelConfig reads back.
// `stored_dtype` names the type of the weights beside it. An error where the family has no field
// for what the configuration says.
absl::StatusOr<std::string> ConfigJson(const ModelConfig& config, DType stored_dtype);

// Bounds and divisibility; `where` starts the error text.
absl::Status CheckModelConfig(const ModelConfig& config, absl::string_view where);

// Every field that changes the maths, as one line: equal for configurations of equal models.
std::string MathsText(const ModelConfig& config);

// Parameters of the model, adapters not included. Correction biases of routers are none.
int64_t CountParameters(const ModelConfig& config);

// The path names a GGUF file: by its ending, or by its first bytes.
bool IsGgufPath(const std::string& path);

}  // namespace lorica

#endif  // LORICA_NN_MODEL_CONFIG_H_
