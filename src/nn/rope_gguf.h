// Rotary positions in the metadata and tensors of GGUF files. Internal to src/nn.
#ifndef LORICA_NN_ROPE_GGUF_H_
#define LORICA_NN_ROPE_GGUF_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lorica/io/gguf.h"
#include "lorica/nn/model_config.h"

namespace lorica::internal {

// The keys behind "<architecture>." that ReadGgufRope reads.
absl::Span<const absl::string_view> GgufRopeKeys();
// The tensors that it reads.
bool IsGgufRopeTensor(absl::string_view name);

// Fills config.rope; head_dim and max_positions are there already. Divisors of frequencies that
// stand in tensors (how files of Llama 3 say it) become a kLongRope.
absl::Status ReadGgufRope(const GgufFile& file, const std::string& prefix, ModelConfig& config);

}  // namespace lorica::internal

#endif  // LORICA_NN_ROPE_GGUF_H_
