// What distinguishes model families: reading their configuration, and names. Internal to src/nn.
#ifndef LORICA_NN_FAMILIES_FAMILY_H_
#define LORICA_NN_FAMILIES_FAMILY_H_

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lorica/io/json_file.h"
#include "lorica/nn/model_config.h"

namespace lorica::internal {

struct Family {
  absl::string_view name;          // `model_type`, and `general.architecture` of GGUF files
  absl::string_view architecture;  // the class in transformers
  // Fields of config.json that read_json reads, beyond those that all families share.
  absl::Span<const absl::string_view> keys;
  // The shared fields are in `config` already.
  absl::Status (*read_json)(const JsonObject& json, ModelConfig& config);
  // What writing them takes; an error for what the family can't say.
  absl::Status (*write_json)(const ModelConfig& config, OrderedJson& json);
  // Rows of q and k are stored with the rotation halves of a head interleaved in GGUF files.
  bool gguf_interleaves_rotation;
};

const Family& LlamaFamily();
const Family& Qwen2Family();

// Null where the name is unknown.
const Family* FindFamily(absl::string_view name);
// "llama, qwen2", for error texts.
std::string FamilyNames();

}  // namespace lorica::internal

#endif  // LORICA_NN_FAMILIES_FAMILY_H_
