// How attention is cut into tasks and what a query row sees.
//
// A row is a (token, head of the group) pair of one sequence and one key/value head: row r is head
// r % group of token r / group. So all heads that share keys run through one set of packed keys.
#ifndef LORICA_TENSOR_CPU_ATTENTION_TASKS_H_
#define LORICA_TENSOR_CPU_ATTENTION_TASKS_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "lorica/tensor/backend.h"

namespace lorica::cpu {

// Keys per block, counted from the first key of the sequence: a block of packed keys and one of
// values, 16 KB each for 64 channels, stay in the first- and second-level caches while all query
// rows of a task pass.
inline constexpr int64_t kKeyBlock = 64;

// Keys [begin, end) of its sequence.
struct KeyRange {
  int64_t begin = 0, end = 0;
};

struct RowVisibility {
  int64_t group, q_length, k_length, window;
  bool causal;

  RowVisibility(const AttentionSpan& span, int64_t group_size, bool is_causal, int64_t window_size)
      : group(group_size),
        q_length(span.q_length),
        k_length(span.k_length),
        window(window_size),
        causal(is_causal) {}

  int64_t rows() const { return q_length * group; }
  // Both ends never fall with r.
  KeyRange Keys(int64_t r) const {
    const int64_t position = k_length - q_length + r / group;
    KeyRange range{0, causal ? std::clamp<int64_t>(position + 1, 0, k_length) : k_length};
    if (window > 0) range.begin = std::clamp<int64_t>(position - window + 1, 0, range.end);
    return range;
  }
};

// Which keys sparse attention leaves to a query: a word per block of keys (AttentionArgs::chosen).
class ChosenKeys {
 public:
  explicit ChosenKeys(const TensorView& chosen) {
    if (!chosen.defined()) return;
    words_ = chosen.as<int64_t>();
    stride_ = chosen.strides[0];
  }

  // Bit i stands for key k0 + i, k0 a multiple of kKeyBlock.
  uint64_t Block(int64_t token, int64_t k0) const {
    static_assert(kKeyBlock == 64);
    if (words_ == nullptr) return ~uint64_t{0};
    return static_cast<uint64_t>(words_[token * stride_ + k0 / kKeyBlock]);
  }
  // Whether any of the tokens [begin, end) is left a key of the block.
  bool Any(int64_t begin, int64_t end, int64_t k0) const {
    for (int64_t token = begin; token < end; ++token) {
      if (Block(token, k0) != 0) return true;
    }
    return false;
  }

 private:
  const int64_t* words_ = nullptr;  // null: every key
  int64_t stride_ = 0;
};

// The bits [begin, end) of a block, 0 <= begin <= end <= kKeyBlock.
inline uint64_t BitsOf(const KeyRange& range) {
  if (range.begin == range.end) return 0;
  const uint64_t below = ~uint64_t{0} >> (kKeyBlock - range.end);
  return below >> range.begin << range.begin;
}

// scores[i] = -infinity for the keys i of `range` whose bits aren't set in `kept`.
template <typename A>
void HideKeys(uint64_t kept, const KeyRange& range, A* scores) {
  for (uint64_t hidden = BitsOf(range) & ~kept; hidden != 0; hidden &= hidden - 1) {
    scores[std::countr_zero(hidden)] = -std::numeric_limits<A>::infinity();
  }
}

// Bytes of scratch that one task takes, handed out in pieces of whole cache lines. With a null base
// it only counts.
class ScratchPlan {
 public:
  explicit ScratchPlan(void* base) : base_(static_cast<char*>(base)) {}

  template <typename A>
  A* Take(int64_t count) {
    A* piece = base_ == nullptr ? nullptr : reinterpret_cast<A*>(base_ + used_);
    used_ += (static_cast<size_t>(count) * sizeof(A) + 63) / 64 * 64;
    return piece;
  }
  size_t bytes() const { return used_; }

 private:
  char* base_;
  size_t used_ = 0;
};

// Query rows [row_begin, row_end) of a sequence for one key/value head.
struct AttentionTask {
  int64_t span, kv_head, row_begin, row_end;
};

// A part of the gradient: the pairs of query rows [row_begin, row_end) and keys [key_begin,
// key_end). Whoever wants dq holds all keys of the sequence, whoever wants dk and dv all rows.
struct AttentionGradTask {
  int64_t span, kv_head, row_begin, row_end, key_begin, key_end;
  bool want_dq, want_dkv;
};

// Queries [begin, end) of a span, whose keys are chosen.
struct ChooseTask {
  int64_t span, begin, end;
};

}  // namespace lorica::cpu

#endif  // LORICA_TENSOR_CPU_ATTENTION_TASKS_H_
