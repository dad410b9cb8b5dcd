#include "lorica/train/memory_plan.h"

#include <algorithm>

namespace lorica {
namespace {

// Values of one token that layer `index` keeps for its backward pass besides the residual stream:
// the outputs of both norms, the input of o_proj and of down_proj, q, k, v, gate and up; experts
// keep gate and up of each choice, and the shared ones theirs.
int64_t ValuesOfLayer(const ModelConfig& c, int index) {
  int64_t attention = 0;
  if (c.latent.kv_lora_rank > 0) {
    const LatentSizes& l = c.latent;
    attention = 2 * l.q_lora_rank + 2 * (l.kv_lora_rank + l.qk_rope_head_dim) +
                c.heads * (3 * c.head_dim + l.qk_nope_head_dim + 3 * l.v_head_dim);
  } else {
    attention = 2 * c.heads * c.head_dim + 2 * c.kv_heads * c.head_dim;
  }
  int64_t feed_forward = 3 * c.intermediate_size;
  if (c.Layer(index).experts) {
    feed_forward = c.moe.router.top_k * 2 * c.moe.expert_width + 3 * c.moe.shared_width;
  }
  return 2 * c.hidden_size + attention + feed_forward;
}

// What sparse attention chose for one token, a bit per key, kept through recompute too: in every
// layer with an indexer, where sequences are long enough for one. The longest counts for all.
int64_t ChoiceBytesPerToken(const MemoryFacts& facts) {
  const ModelConfig& c = *facts.config;
  if (c.indexer.top_k == 0 || facts.tokens <= c.indexer.top_k) return 0;
  int64_t indexers = 0;
  for (int i = 0; i < static_cast<int>(c.layers); ++i) indexers += !c.Layer(i).shares_choice;
  return indexers * ((facts.tokens + 63) / 64) * 8;
}

int64_t ActivationBytesPerToken(const MemoryFacts& facts) {
  const ModelConfig& c = *facts.config;
  const int64_t width = static_cast<int64_t>(SizeOf(facts.compute));
  const int64_t wide = static_cast<int64_t>(SizeOf(AccumulatorOf(facts.compute)));
  // The inputs of both norms are the residual stream. With recompute a block keeps its input; one
  // block at a time has all.
  int64_t all = 0, largest = 0;
  for (int i = 0; i < static_cast<int>(c.layers); ++i) {
    const int64_t block = 2 * c.hidden_size * wide + ValuesOfLayer(c, i) * width;
    all += block;
    largest = std::max(largest, block);
  }
  const int64_t blocks = facts.recompute ? c.layers * c.hidden_size * wide + largest : all;
  return blocks + 4 * c.hidden_size * wide + ChoiceBytesPerToken(facts);
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
