// ModelConfig: what a model's configuration says, whatever file and spelling it comes from.
#ifndef LORICA_NN_MODEL_CONFIG_H_
#define LORICA_NN_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/io/gguf.h"
#include "lorica/nn/rope.h"

namespace lorica {

struct ModelConfig {
  std::string family;  // "llama", "qwen2"

  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  double rms_norm_eps = 1e-6;
  RopeConfig rope;
  bool qkv_bias = false;  // of q_proj, k_proj and v_proj
  bool o_bias = false;    // of o_proj
  bool mlp_bias = false;
  bool tied = false;                // lm_head shares the embedding's table
  int64_t max_positions = 0;        // what the model was trained for; 0: unknown
  double initializer_range = 0.02;  // standard deviation of fresh weights

  std::vector<int64_t> eos_token_ids;  // may be empty
  int64_t bos_token_id = -1;           // -1: none
  std::string stored_dtype;            // as the file names it; empty where it doesn't
  // Sentences for people: what was found in the file and has no effect here.
  std::vector<std::string> notes;
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

// Parameters of the model, adapters not included.
int64_t CountParameters(const ModelConfig& config);

// The path names a GGUF file: by its ending, or by its first bytes.
bool IsGgufPath(const std::string& path);

}  // namespace lorica

#endif  // LORICA_NN_MODEL_CONFIG_H_
