#include "lorica/train/memory_plan.h"

#include <algorithm>

namespace lorica {
namespace {

// Bytes of one token that one block keeps for its backward pass: the inputs of both norms, which
// are the residual stream; the outputs of both norms, the input of o_proj and of down_proj, q, k,
// v, gate and up.
int64_t BytesPerBlock(const ModelConfig& c, int64_t width, int64_t wide) {
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  return 2 * c.hidden_size * wide +
         (2 * c.hidden_size + 2 * q + 2 * kv + 3 * c.intermediate_size) * width;
}

int64_t ActivationBytesPerToken(const MemoryFacts& facts) {
  const ModelConfig& c = *facts.config;
  const int64_t width = static_cast<int64_t>(SizeOf(facts.compute));
  const int64_t wide = static_cast<int64_t>(SizeOf(AccumulatorOf(facts.compute)));
  const int64_t block = BytesPerBlock(c, width, wide);
  // With recompute a block keeps its input; one block at a time has all.
  const int64_t blocks =
      facts.recompute ? c.layers * c.hidden_size * wide + block : c.layers * block;
  return blocks + 4 * c.hidden_size * wide;
}

// Rows of logits that the fused loss has at a time.
constexpr int64_t kLossRows = 256;
// Passes of fewer tokens leave the matrix kernels' blocks half empty.
constexpr int64_t kFewestTokens = 256, kMostTokens = 4096;
constexpr int64_t kActivationBudget = int64_t{1} << 30;

}  // namespace

MemoryPlan EstimateMemory(const MemoryFacts& facts) {
  const int64_t width = static_cast<int64_t>(SizeOf(facts.compute));
  const int64_t wide = static_cast<int64_t>(SizeOf(AccumulatorOf(facts.compute)));
  MemoryPlan plan;
  plan.weights = facts.model_parameters * width;
  // A master and its gradient; an adapter has a copy in the compute type besides, and so has a
  // model whose compute type isn't the master's (that copy is what `weights` counts).
  plan.trained = facts.trained_parameters * 2 * wide;
  if (!facts.full_training) plan.trained += facts.trained_parameters * width;
  if (facts.full_training && width == wide) plan.trained -= facts.trained_parameters * wide;
  plan.optimizer = facts.optimizer_values * wide;
  plan.activations = facts.tokens * ActivationBytesPerToken(facts);
  // Logits and their gradient, or one block of rows where the head is frozen.
  const int64_t rows = facts.head_trains ? facts.tokens : std::min(facts.tokens, kLossRows);
  plan.logits = 2 * rows * facts.config->vocab_size * width;
  return plan;
}

int64_t TokensPerPass(const MemoryFacts& facts) {
  int64_t per_token = ActivationBytesPerToken(facts);
  if (facts.head_trains) {
    per_token += 2 * facts.config->vocab_size * static_cast<int64_t>(SizeOf(facts.compute));
  }
  return std::clamp(kActivationBudget / std::max<int64_t>(per_token, 1), kFewestTokens,
                    kMostTokens);
}

}  // namespace lorica
