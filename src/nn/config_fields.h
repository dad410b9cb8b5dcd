// Every field of a configuration is read, known to be harmless, known to change the maths, or
// reported. Internal to src/nn.
#ifndef LORICA_NN_CONFIG_FIELDS_H_
#define LORICA_NN_CONFIG_FIELDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lorica/io/gguf.h"
#include "lorica/io/json_file.h"
#include "lorica/nn/model_config.h"

namespace lorica::internal {

// Checks the fields of config.json that aren't in `read` (fields that somebody reads and checks):
// one that would change the maths and isn't at its neutral value is an error; one that nobody knows
// gives a note.
absl::Status CheckJsonFields(const JsonObject& json,
                             absl::Span<const absl::Span<const absl::string_view>> read,
                             std::vector<std::string>& notes);

// The same for the keys of GGUF metadata that start with `architecture` and a dot; `read` holds
// what follows that.
absl::Status CheckGgufFields(const GgufFile& file, absl::string_view architecture,
                             absl::Span<const absl::Span<const absl::string_view>> read,
                             std::vector<std::string>& notes);

// The part of CheckModelConfig that lists as long as the model may be made after.
absl::Status CheckSizes(const ModelConfig& config, absl::string_view where);
absl::Status CheckLatentSizes(const LatentSizes& latent, int64_t heads, absl::string_view where);

}  // namespace lorica::internal

#endif  // LORICA_NN_CONFIG_FIELDS_H_
