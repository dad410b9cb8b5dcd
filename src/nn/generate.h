// Decoding with a KV cache: several prompts at once, each as if it were alone.
#ifndef LORICA_NN_GENERATE_H_
#define LORICA_NN_GENERATE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lorica/nn/decoder.h"
#include "lorica/tensor/random.h"

namespace lorica {

struct SamplerOptions {
  double temperature = 0;  // 0: the most likely token, the first where several are
  int64_t top_k = 0;       // keep that many of the most likely; 0: all
  double top_p = 1;        // then keep the most likely until they hold this share, in (0, 1]
  uint64_t seed = 0;

  // InvalidArgument naming the option that is out of range.
  absl::Status Check() const;
};

struct Choice {
  int32_t id = 0;
  double logprob = 0;  // of the model itself: all tokens, temperature 1
};

// Picks from one row of logits. At most one number is taken from `stream`, none at temperature 0.
// An error where a logit isn't finite.
absl::StatusOr<Choice> Sample(absl::Span<const double> logits, const SamplerOptions& options,
                              RandomStream& stream);

struct GenerateOptions {
  SamplerOptions sampler;
  int64_t max_tokens = 128;       // new tokens of a sequence
  std::vector<int32_t> stop_ids;  // end a sequence
  // The adapter slot of each prompt (-1: base alone); empty: slot 0 for all.
  std::vector<int> slots;
  // Prompts are read in passes of at most this many tokens.
  int64_t prefill_tokens = 2048;
  // Called for every new token but stop ids; returning false ends that sequence. May be null.
  std::function<bool(int sequence, const Choice& choice)> on_token;
  // Asked once a pass; true ends all. May be null.
  std::function<bool()> cancelled;
};

enum class FinishReason {
  kStopId,     // a stop id was chosen
  kLength,     // max_tokens
  kCallback,   // on_token returned false
  kCancelled,  // cancelled() returned true
};

struct GeneratedSequence {
  std::vector<int32_t> ids;      // new tokens, the stop id not included
  std::vector<double> logprobs;  // of `ids`
  FinishReason reason = FinishReason::kLength;
  int32_t stop_id = -1;  // what ended it, for kStopId
};

// Continues every prompt (ids, at least one each, all in the vocabulary; else throws Error). A
// sequence's random numbers are keyed by seed and its place in `prompts`.
absl::StatusOr<std::vector<GeneratedSequence>> Generate(
    CausalLm& model, const std::vector<std::vector<int32_t>>& prompts,
    const GenerateOptions& options);

}  // namespace lorica

#endif  // LORICA_NN_GENERATE_H_
