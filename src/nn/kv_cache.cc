#include "lorica/nn/kv_cache.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lorica/tensor/check.h"

namespace lorica {
namespace {

// The first allocation of a sequence: enough for a short prompt, small beside any model.
constexpr int64_t kFirstCapacity = 64;

}  // namespace

KvCache::KvCache(Backend& backend, const KvCacheConfig& config, int sequences)
    : backend_(&backend), config_(config) {
  LORICA_CHECK(sequences > 0 && config.layers > 0 && config.kv_heads > 0 &&
                   config.key_channels > 0 && config.value_channels >= 0,
               "[kv_cache] sequences, layers, heads and channels must be positive");
  rows_.resize(static_cast<size_t>(sequences));
  layers_.resize(static_cast<size_t>(config.layers));
  LORICA_CHECK(config.recurrent.empty() || config.recurrent.size() == layers_.size(),
               "[kv_cache] kinds of ", config.recurrent.size(), " layers for ", config.layers);
  for (size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    layer.recurrent = !config.recurrent.empty() && config.recurrent[i];
    if (layer.recurrent) {
      const RecurrentSizes& s = config.state;
      layer.state.tail = Tensor::Zeros(backend, {sequences, s.taps, s.channels}, config.dtype);
      layer.state.matrix = Tensor::Zeros(backend, {sequences, s.heads, s.keys, s.values},
                                         AccumulatorOf(config.dtype));
      continue;
    }
    layer.keys = Tensor::Empty(backend, {0, config.kv_heads, config.key_channels}, config.dtype);
    layer.values =
        Tensor::Empty(backend, {0, config.kv_heads, config.value_channels}, config.dtype);
  }
}

size_t KvCache::bytes() const {
  size_t total = 0;
  for (const Layer& layer : layers_) {
    for (const Tensor* tensor :
         {&layer.keys, &layer.values, &layer.state.tail, &layer.state.matrix}) {
      if (tensor->defined()) total += tensor->bytes();
    }
  }
  return total;
}

const KvCache::Layer& KvCache::At(int layer, bool recurrent) const {
  LORICA_CHECK(layer >= 0 && layer < config_.layers, "[kv_cache] layer ", layer, " of ",
               config_.layers);
  LORICA_CHECK(layers_[layer].recurrent == recurrent, "[kv_cache] layer ", layer, " keeps ",
               recurrent ? "keys and values" : "a state");
  return layers_[layer];
}

KvCache::Layer& KvCache::At(int layer, bool recurrent) {
  return const_cast<Layer&>(static_cast<const KvCache*>(this)->At(layer, recurrent));
}

void KvCache::Check(const Sequences& added) const {
  LORICA_CHECK(added.groups() == sequences(), "[kv_cache] a cache of ", sequences(),
               " sequences is given tokens of ", added.groups());
}

std::vector<int32_t> KvCache::Positions(const Sequences& added) const {
  Check(added);
  std::vector<int32_t> positions;
  positions.reserve(static_cast<size_t>(added.rows()));
  for (int s = 0; s < sequences(); ++s) {
    for (int64_t i = 0; i < added.size(s); ++i) {
      positions.push_back(static_cast<int32_t>(rows_[s].length + i));
    }
  }
  return positions;
}

Tensor KvCache::Moved(const Tensor& old, int64_t channels, const std::vector<Rows>& to,
                      int64_t rows) {
  Tensor moved = Tensor::Empty(*backend_, {rows, config_.kv_heads, channels}, config_.dtype);
  for (size_t s = 0; s < to.size(); ++s) {
    if (to[s].length == 0 || channels == 0) continue;
    backend_->Copy(old.Narrow(0, rows_[s].begin, to[s].length).view(),
                   moved.Narrow(0, to[s].begin, to[s].length).mutable_view());
  }
  return moved;
}

void KvCache::Begin(const Sequences& added) {
  Check(added);
  std::vector<Rows> next = rows_;
  bool fits = true;
  int64_t total = 0;
  for (int s = 0; s < sequences(); ++s) {
    const int64_t needed = next[s].length + added.size(s);
    LORICA_CHECK(needed <= std::numeric_limits<int32_t>::max(),
                 "[kv_cache] positions of a sequence must fit 31 bits");
    if (needed > next[s].capacity) {
      fits = false;
      next[s].capacity = std::max({needed, 2 * next[s].capacity, kFirstCapacity});
    }
    next[s].begin = total;
    total += next[s].capacity;
  }
  for (Layer& layer : layers_) layer.next = State();
  if (!fits) {
    for (Layer& layer : layers_) {
      if (layer.recurrent) continue;
      Tensor keys = Moved(layer.keys, config_.key_channels, next, total);
      Tensor values = Moved(layer.values, config_.value_channels, next, total);
      layer.keys = std::move(keys);
      layer.values = std::move(values);
    }
    rows_ = std::move(next);
  }
  added_ = added;
}

void KvCache::Append(int layer, const Tensor& k, const Tensor& v) {
  Layer& target = At(layer, false);
  const int64_t tokens = added_.rows();
  const auto check = [&](const char* what, const Tensor& x, int64_t channels) {
    LORICA_CHECK(
        x.dtype() == config_.dtype && x.shape() == Shape({tokens, config_.kv_heads, channels}),
        "[kv_cache] ", what, " ", x.dtype(), " ", x.shape(), " don't fit ", tokens, " new tokens");
  };
  check("keys", k, config_.key_channels);
  if (config_.value_channels > 0) check("values", v, config_.value_channels);
  for (int s = 0; s < sequences(); ++s) {
    const int64_t count = added_.size(s);
    if (count == 0) continue;
    const int64_t to = rows_[s].begin + rows_[s].length, from = added_.begin(s);
    backend_->Copy(k.Narrow(0, from, count).view(),
                   target.keys.Narrow(0, to, count).mutable_view());
    if (config_.value_channels == 0) continue;
    backend_->Copy(v.Narrow(0, from, count).view(),
                   target.values.Narrow(0, to, count).mutable_view());
  }
}

std::vector<AttentionSpan> KvCache::Spans() const {
  std::vector<AttentionSpan> spans;
  for (int s = 0; s < added_.groups(); ++s) {
    const int64_t count = added_.size(s);
    if (count == 0) continue;
    spans.push_back({added_.begin(s), count, rows_[s].begin, rows_[s].length + count});
  }
  return spans;
}

const KvCache::State& KvCache::state(int layer) const { return At(layer, true).state; }

void KvCache::SetState(int layer, State next) {
  Layer& target = At(layer, true);
  LORICA_CHECK(next.tail.shape() == target.state.tail.shape() &&
                   next.tail.dtype() == target.state.tail.dtype() &&
                   next.matrix.shape() == target.state.matrix.shape() &&
                   next.matrix.dtype() == target.state.matrix.dtype(),
               "[kv_cache] a state of ", next.tail.shape(), " and ", next.matrix.shape(),
               " in place of ", target.state.tail.shape(), " and ", target.state.matrix.shape());
  target.next = std::move(next);
}

void KvCache::Commit() {
  for (const Layer& layer : layers_) {
    LORICA_CHECK(!layer.recurrent || layer.next.matrix.defined(),
                 "[kv_cache] a layer gave no state");
  }
  for (Layer& layer : layers_) {
    if (layer.recurrent) layer.state = std::exchange(layer.next, State());
  }
  for (int s = 0; s < added_.groups(); ++s) rows_[s].length += added_.size(s);
  added_ = Sequences();
}

}  // namespace lorica
