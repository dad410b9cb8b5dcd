// The options of generating text, shared by generate and chat.
#ifndef LORICA_CLI_SAMPLING_H_
#define LORICA_CLI_SAMPLING_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "lorica/nn/generate.h"
#include "lorica/train/option_list.h"

namespace lorica::cli {

// Decoding reads every weight once a token; weights that stay packed make that as fast as memory.
inline constexpr size_t kPackedCacheBytes = size_t{1} << 40;

struct SamplingOptions {
  int64_t max_tokens = 128;
  double temperature = 0;
  double top_p = 1;
  int64_t top_k = 0;
  int64_t seed = 0;
};

void VisitSamplingOptions(SamplingOptions& options, OptionVisitor& visitor);

// InvalidArgument naming the option that is out of range.
absl::StatusOr<GenerateOptions> GenerateOptionsOf(const SamplingOptions& options);

}  // namespace lorica::cli

#endif  // LORICA_CLI_SAMPLING_H_
