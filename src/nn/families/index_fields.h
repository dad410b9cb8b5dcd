// Fields of config.json about sparse attention. Internal to src/nn.
#ifndef LORICA_NN_FAMILIES_INDEX_FIELDS_H_
#define LORICA_NN_FAMILIES_INDEX_FIELDS_H_

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "lorica/io/json_file.h"
#include "lorica/nn/model_config.h"

namespace lorica::internal {

// index_topk, index_n_heads, index_head_dim; layer_types, which may only say "indexed_attention".
absl::Status ReadIndex(const JsonObject& json, ModelConfig& config);
void WriteIndex(const ModelConfig& config, OrderedJson& json);

// Which layers share the keys of the layer before: indexer_types ("full" or "shared"), else
// index_topk_pattern (the same words, or a text of F and S), else by index_topk_freq and
// index_skip_topk_offset. Where several are there they must agree. Words behind the last layer are
// those of predictors, which aren't read.
absl::Status ReadSharedChoices(const JsonObject& json, ModelConfig& config);
// As indexer_types.
void WriteSharedChoices(const ModelConfig& config, OrderedJson& json);

}  // namespace lorica::internal

#endif  // LORICA_NN_FAMILIES_INDEX_FIELDS_H_
