// Rotary positions in config.json. Internal to src/nn.
//
// Two spellings: rope_theta, partial_rotary_factor and rope_scaling; or rope_parameters with all of
// it inside, for families with two rotations once under "full_attention" and once under
// "sliding_attention".
#ifndef LORICA_NN_ROPE_FIELDS_H_
#define LORICA_NN_ROPE_FIELDS_H_

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lorica/io/json_file.h"
#include "lorica/nn/families/family.h"
#include "lorica/nn/model_config.h"

namespace lorica::internal {

// The fields of config.json that ReadRopes reads.
absl::Span<const absl::string_view> RopeKeys();

// Fills rope and local_rope; head_dim and max_positions are in `config` already. A field inside
// rope_scaling or rope_parameters that its type has no use for is an error.
absl::Status ReadRopes(const JsonObject& json, const Family& family, ModelConfig& config);

// The older spelling where it can say it: transformers 5 reads it as well as 4.
void WriteRopes(const ModelConfig& config, const Family& family, OrderedJson& json);

}  // namespace lorica::internal

#endif  // LORICA_NN_ROPE_FIELDS_H_
