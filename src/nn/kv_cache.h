// KvCache: what a model keeps of the tokens decoded so far.
#ifndef LORICA_NN_KV_CACHE_H_
#define LORICA_NN_KV_CACHE_H_

#include <cstdint>
#include <vector>

#include "lorica/tensor/backend.h"
#include "lorica/tensor/sequences.h"
#include "lorica/tensor/tensor.h"

namespace lorica {

// What a layer of linear attention (nn/delta_net.h) keeps of a sequence, however long it is.
struct RecurrentSizes {
  int64_t taps = 0, channels = 0;           // rows before the next token, for its convolution
  int64_t heads = 0, keys = 0, values = 0;  // the state

  bool operator==(const RecurrentSizes&) const = default;
};

struct KvCacheConfig {
  int layers = 0;
  int64_t kv_heads = 0;
  int64_t key_channels = 0;     // of a head
  int64_t value_channels = 0;   // of a head; 0: the keys hold all (latent attention)
  DType dtype = DType::kF32;    // compute type of the model
  std::vector<bool> recurrent;  // per layer: a state in place of keys and values; empty: none
  RecurrentSizes state;         // of those layers
};

// A forward pass over new tokens of some sequences runs Begin, one Append or SetState per layer,
// Commit; the decoder does so when its context carries a cache. A pass that is given up between
// Begin and Commit changes no length and no state. Memory of a sequence doubles when it is full.
// One thread at a time.
class KvCache {
 public:
  // `backend` must outlive the cache.
  KvCache(Backend& backend, const KvCacheConfig& config, int sequences);

  int sequences() const { return static_cast<int>(rows_.size()); }
  // Tokens of a sequence that are in the cache.
  int64_t length(int sequence) const { return rows_[sequence].length; }
  // Bytes held for keys, values and states.
  size_t bytes() const;

  // A context's positions for new tokens: sequence s of `added` continues at length(s).
  std::vector<int32_t> Positions(const Sequences& added) const;

  // Makes room for added.size(s) tokens behind sequence s, for every s.
  void Begin(const Sequences& added);
  // Rows of the new tokens: k [T, G, D], v [T, G, Dv], undefined where Dv is 0.
  void Append(int layer, const Tensor& k, const Tensor& v);
  // Keys [S, G, D] and values [S, G, Dv] of all sequences, new tokens included, with gaps between
  // sequences; Spans says where each lies. Valid until the next Begin.
  const Tensor& keys(int layer) const { return layers_[layer].keys; }
  const Tensor& values(int layer) const { return layers_[layer].values; }
  // One span per sequence that has new tokens.
  std::vector<AttentionSpan> Spans() const;

  // Of a recurrent layer. Zeros before the first token.
  struct State {
    Tensor tail;    // [sequences, taps, channels], compute type
    Tensor matrix;  // [sequences, heads, keys, values], its accumulator type
  };
  // As the last Commit left it.
  const State& state(int layer) const;
  // Takes effect with Commit.
  void SetState(int layer, State next);

  // Throws Error where a layer gave neither.
  void Commit();

 private:
  struct Rows {
    int64_t begin = 0, capacity = 0, length = 0;
  };
  struct Layer {
    bool recurrent = false;
    Tensor keys, values;
    State state, next;  // next: defined between SetState and Commit
  };
  Layer& At(int layer, bool recurrent);
  const Layer& At(int layer, bool recurrent) const;
  Tensor Moved(const Tensor& old, int64_t channels, const std::vector<Rows>& to, int64_t rows);
  void Check(const Sequences& added) const;

  Backend* backend_;
  KvCacheConfig config_;
  std::vector<Rows> rows_;  // the same for all layers
  std::vector<Layer> layers_;
  Sequences added_;
};

}  // namespace lorica

#endif  // LORICA_NN_KV_CACHE_H_
