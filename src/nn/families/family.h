// What distinguishes model families: reading their configuration, and names. Internal to src/nn.
#ifndef LORICA_NN_FAMILIES_FAMILY_H_
#define LORICA_NN_FAMILIES_FAMILY_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lorica/io/gguf.h"
#include "lorica/io/json_file.h"
#include "lorica/nn/model_config.h"

namespace lorica::internal {

struct Family {
  absl::string_view name;          // `model_type`
  absl::string_view architecture;  // the class in transformers
  absl::string_view gguf = {};     // `general.architecture`; empty: not read from GGUF files

  // Sets what all models of the family have and no field says: the shape of a block, scales that
  // follow from sizes. The sizes are in `config` already. Null: a Llama block.
  void (*shape)(ModelConfig& config) = nullptr;

  // A JSON object: fields that mean something else than Llama's class says, or than nothing, where
  // they are absent.
  absl::string_view defaults = {};
  double rope_theta = 10000;
  double partial_rotary = 1;
  bool local_rope = false;               // a second rotation, of the layers with a window
  bool names_hidden_activation = false;  // its field for the activation
  bool latent = false;                   // latent attention; its sizes are read before `shape`
  // Fields of config.json that read_json reads, beyond those that all families share.
  absl::Span<const absl::string_view> keys = {};
  // The shared fields are in `config` already.
  absl::Status (*read_json)(const JsonObject& json, ModelConfig& config);
  // ConfigJson reads the result back: what the family can't say is found there.
  void (*write_json)(const ModelConfig& config, OrderedJson& json);
  // Folders have stacks of experts with the last two axes swapped.
  bool transposed_experts = false;

  // Keys of GGUF metadata behind "<gguf>." that read_gguf reads, beyond the shared ones.
  absl::Span<const absl::string_view> gguf_keys = {};
  // The shared keys are in `config` already; `prefix` is "<gguf>.". Null: nothing to read.
  absl::Status (*read_gguf)(const GgufFile& file, const std::string& prefix,
                            ModelConfig& config) = nullptr;
  // The keys about experts (expert_gguf.h) are read besides.
  bool gguf_experts = false;
  // Rows of q and k are stored with the rotation halves of a head interleaved in GGUF files.
  bool gguf_interleaves_rotation = false;
  // The norm between attention and feed-forward is called post_attention_norm there.
  bool gguf_post_attention_norm = false;
};

const Family& DeepseekV2Family();
const Family& DeepseekV3Family();
const Family& DeepseekV32Family();
const Family& Gemma2Family();
const Family& Gemma3Family();
const Family& Glm4MoeFamily();
const Family& Glm4MoeLiteFamily();
const Family& GlmMoeDsaFamily();
const Family& GptOssFamily();
const Family& GraniteFamily();
const Family& LlamaFamily();
const Family& MiniMaxM2Family();
const Family& MistralFamily();
const Family& MixtralFamily();
const Family& Olmo2Family();
const Family& OlmoeFamily();
const Family& Phi3Family();
const Family& Qwen2Family();
const Family& Qwen2MoeFamily();
const Family& Qwen3Family();
const Family& Qwen35MoeFamily();
const Family& Qwen3MoeFamily();
const Family& SmolLm3Family();

// By `model_type`, and by `general.architecture`; null where the name is unknown.
const Family* FindFamily(absl::string_view name);
const Family* FindGgufFamily(absl::string_view architecture);
// "llama, qwen2", for error texts.
std::string FamilyNames();
std::string GgufFamilyNames();

}  // namespace lorica::internal

#endif  // LORICA_NN_FAMILIES_FAMILY_H_
