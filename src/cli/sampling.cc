#include "lorica/cli/sampling.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lorica::cli {
namespace {

constexpr absl::string_view kGroup = "Generation";
constexpr int64_t kMostTokens = int64_t{1} << 20;

}  // namespace

void VisitSamplingOptions(SamplingOptions& options, OptionVisitor& visitor) {
  visitor.On({.name = "max-tokens", .group = kGroup, .help = "new tokens, at most"},
             options.max_tokens);
  visitor.On({.name = "temperature",
              .group = kGroup,
              .help = "above 0 draws at random; 0 takes the most likely token"},
             options.temperature);
  visitor.On({.name = "top-p",
              .group = kGroup,
              .help = "keep the most likely tokens that hold this share"},
             options.top_p);
  visitor.On({.name = "top-k",
              .group = kGroup,
              .help = "keep that many of the most likely tokens; 0: all"},
             options.top_k);
  visitor.On({.name = "seed", .group = kGroup, .help = "of the random draws"}, options.seed);
}

absl::StatusOr<GenerateOptions> GenerateOptionsOf(const SamplingOptions& options) {
  if (options.max_tokens < 1 || options.max_tokens > kMostTokens) {
    return absl::InvalidArgumentError(absl::StrCat("--max-tokens: expected a number from 1 to ",
                                                   kMostTokens, ", found ", options.max_tokens));
  }
  if (options.seed < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--seed: expected a number of at least 0, found ", options.seed));
  }
  GenerateOptions result;
  result.max_tokens = options.max_tokens;
  result.sampler.temperature = options.temperature;
  result.sampler.top_p = options.top_p;
  result.sampler.top_k = options.top_k;
  result.sampler.seed = static_cast<uint64_t>(options.seed);
  const absl::Status sampler = result.sampler.Check();
  if (!sampler.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--", sampler.message()));
  }
  return result;
}

}  // namespace lorica::cli
