// Attention backward: scores are computed again from q, k and lse, block by block.
//
// Chains: dk and dv of a key add up over query rows ascending (token, then head of the group), dq
// of a row over keys ascending. They are the same however rows and keys are cut into tasks.
#if defined(LORICA_TENSOR_CPU_ATTENTION_GRAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_ATTENTION_GRAD_INL_H_
#undef LORICA_TENSOR_CPU_ATTENTION_GRAD_INL_H_
#else
#define LORICA_TENSOR_CPU_ATTENTION_GRAD_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/cpu/attention_tasks.h"
#include "lorica/tensor/cpu/attention_tile-inl.h"
#include "lorica/tensor/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

// Query rows that meet a block of keys at once: their scores and score gradients (30 KB each) are
// written, then read twice for dk and dv, within the second-level cache.
constexpr int64_t kGradRows = 16 * kAttentionTileRows;
// dk and dv are made six keys at a time; scores are this wide, so that the last tile has its
// columns, and rows don't fall on the same cache sets.
constexpr int64_t kGradKeys =
    (kKeyBlock + kAttentionTileRows - 1) / kAttentionTileRows * kAttentionTileRows;
constexpr int64_t kScoreStride = kKeyBlock + 16;
static_assert(kGradKeys <= kScoreStride);

template <typename A>
struct AttentionGradScratch {
  A *q, *dy, *dq, *lse, *delta;  // [rows, D], [rows, Dv], [rows, D], [rows], [rows]
  A *keys, *keys_t, *values_t;   // [kKeyBlock, D], [D, kKeyBlock], [Dv, kKeyBlock]
  A* values;                     // [kKeyBlock, Dv]
  A *dk, *dv;                    // [kGradKeys, D], [kGradKeys, Dv]
  A *p, *ds;                     // [kGradRows, kScoreStride]

  AttentionGradScratch(ScratchPlan& plan, int64_t rows, int64_t head_size, int64_t value_size) {
    const int64_t d = PaddedCols<A>(head_size), dv_width = PaddedCols<A>(value_size);
    const int64_t padded = PaddedRows(rows);
    q = plan.Take<A>(padded * d);
    dy = plan.Take<A>(padded * dv_width);
    dq = plan.Take<A>(padded * d);
    lse = plan.Take<A>(padded);
    delta = plan.Take<A>(padded);
    keys = plan.Take<A>(kKeyBlock * d);
    keys_t = plan.Take<A>(kKeyBlock * head_size);
    values = plan.Take<A>(kKeyBlock * dv_width);
    values_t = plan.Take<A>(kKeyBlock * value_size);
    dk = plan.Take<A>(kGradKeys * d);
    dv = plan.Take<A>(kGradKeys * dv_width);
    p = plan.Take<A>(kGradRows * kScoreStride);
    ds = plan.Take<A>(kGradRows * kScoreStride);
  }
};

// For one row: p holds scores and becomes probabilities, ds holds dp = dy v and becomes the
// gradient of q k, scale included. What isn't in [begin, end) becomes zero.
template <typename A>
HWY_INLINE void ScoreGradient(A* p, A* ds, int64_t begin, int64_t end, A lse, A delta, A scale) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t first = begin / lanes * lanes, last = PaddedCols<A>(end);
  std::fill(p, p + first, A{0});
  std::fill(ds, ds + first, A{0});
  constexpr A kLowest = -std::numeric_limits<A>::infinity();
  std::fill(p + first, p + begin, kLowest);
  std::fill(p + end, p + last, kLowest);
  std::fill(ds + first, ds + begin, A{0});
  std::fill(ds + end, ds + last, A{0});
  const auto shift = hn::Set(d, lse), offset = hn::Set(d, delta), factor = hn::Set(d, scale);
  for (int64_t i = first; i < last; i += lanes) {
    const auto probability = ExpLanes(d, hn::Sub(hn::Load(d, p + i), shift));
    const auto dp = hn::Sub(hn::Load(d, ds + i), offset);
    hn::Store(probability, d, p + i);
    hn::Store(hn::Mul(hn::Mul(probability, dp), factor), d, ds + i);
  }
  std::fill(p + last, p + kScoreStride, A{0});
  std::fill(ds + last, ds + kScoreStride, A{0});
}

// The part of ScoreGradient that a cap adds, run before it with the delta that it then no longer
// has: p holds scores s and becomes c tanh(s / c), ds holds dp and becomes (dp - delta) times the
// slope of that, 1 - tanh². Whole vectors are written.
template <typename A>
HWY_INLINE void CapGradient(A* p, A* ds, int64_t begin, int64_t end, A delta, A cap) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto limit = hn::Set(d, cap), inverse = hn::Set(d, 1 / cap), offset = hn::Set(d, delta);
  const auto one = hn::Set(d, A{1});
  for (int64_t i = begin / lanes * lanes; i < end; i += lanes) {
    const auto t = TanhLanes(d, hn::Mul(hn::Load(d, p + i), inverse));
    const auto slope = hn::NegMulAdd(t, t, one);
    hn::Store(hn::Mul(t, limit), d, p + i);
    hn::Store(hn::Mul(hn::Sub(hn::Load(d, ds + i), offset), slope), d, ds + i);
  }
}

template <typename T>
struct DeltaTerm {
  const T* dy;
  const T* o;
  template <class D, class V>
  HWY_INLINE V Add(D d, V sum, size_t i, size_t count) const {
    return hn::MulAdd(LoadUpTo(d, dy + i, count), LoadUpTo(d, o + i, count), sum);
  }
};

// A block of keys and what is summed for them, with the query rows [row_begin, row_begin + rows).
template <typename A>
struct GradBlock {
  const AttentionGradScratch<A>& scratch;
  const RowVisibility& visibility;
  const ChosenKeys& chosen;
  int64_t d_width, v_width, head_size, value_size;
  int64_t first_row;    // scratch row 0 is this row of the sequence
  int64_t first_token;  // of the sequence
  A scale, softcap;
  bool want_dq, want_dkv;

  // Rows [begin, end) of scratch, at most kGradRows and beginning with a tile, against the keys
  // from k0 on.
  void Run(int64_t begin, int64_t end, int64_t k0) const {
    // Rows that see any key of the block; those before see earlier keys only, those after (with a
    // window) later ones only.
    while (begin < end && visibility.Keys(first_row + begin + TileLast(begin, end)).end <= k0) {
      begin += kAttentionTileRows;
    }
    int64_t last = begin;
    for (int64_t r0 = begin; r0 < end; r0 += kAttentionTileRows) {
      if (visibility.Keys(first_row + r0).begin >= k0 + kKeyBlock) break;
      const int64_t rows = TileLast(r0, end) + 1;
      Tile(r0, rows, k0, scratch.p + (r0 - begin) * kScoreStride,
           scratch.ds + (r0 - begin) * kScoreStride);
      last = r0 + rows;
    }
    if (!want_dkv || last <= begin) return;
    for (int64_t key = 0; key < kKeyBlock; key += kAttentionTileRows) {
      int64_t from = begin;
      while (from < last && visibility.Keys(first_row + from).end <= k0 + key) ++from;
      if (from == last) break;
      const int64_t offset = (from - begin) * kScoreStride + key;
      MultiplyRows<kAttentionTileRows, true, true, A>(
          scratch.p + offset, kScoreStride, scratch.dy + from * v_width, v_width, v_width,
          last - from, A{1}, scratch.dv + key * v_width, v_width);
      MultiplyRows<kAttentionTileRows, true, true, A>(
          scratch.ds + offset, kScoreStride, scratch.q + from * d_width, d_width, d_width,
          last - from, A{1}, scratch.dk + key * d_width, d_width);
    }
  }

 private:
  // Offset of the last row of the tile at `begin`.
  static int64_t TileLast(int64_t begin, int64_t end) {
    return std::min<int64_t>(kAttentionTileRows, end - begin) - 1;
  }

  void Tile(int64_t r0, int64_t rows, int64_t k0, A* p, A* ds) const {
    KeyRange visible[kAttentionTileRows];
    uint64_t kept[kAttentionTileRows], any_kept = 0;
    int64_t tile_begin = kKeyBlock, tile_end = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t row = first_row + r0 + r;
      kept[r] = chosen.Block(first_token + row / visibility.group, k0);
      any_kept |= kept[r];
      const KeyRange range = visibility.Keys(row);
      visible[r].begin = std::clamp<int64_t>(range.begin - k0, 0, kKeyBlock);
      visible[r].end = std::clamp<int64_t>(range.end - k0, visible[r].begin, kKeyBlock);
      tile_begin = std::min(tile_begin, visible[r].begin);
      tile_end = std::max(tile_end, visible[r].end);
    }
    if (any_kept == 0) {
      std::fill_n(p, rows * kScoreStride, A{0});
      std::fill_n(ds, rows * kScoreStride, A{0});
      return;
    }
    const int64_t cols = PaddedCols<A>(tile_end);
    MultiplyRows<kAttentionTileRows, false, false, A>(scratch.q + r0 * d_width, d_width,
                                                      scratch.keys_t, kKeyBlock, cols, head_size,
                                                      scale, p, kScoreStride);
    MultiplyRows<kAttentionTileRows, false, false, A>(scratch.dy + r0 * v_width, v_width,
                                                      scratch.values_t, kKeyBlock, cols, value_size,
                                                      A{1}, ds, kScoreStride);
    for (int64_t r = 0; r < rows; ++r) {
      A delta = scratch.delta[r0 + r];
      if (softcap > 0) {
        CapGradient(p + r * kScoreStride, ds + r * kScoreStride, visible[r].begin, visible[r].end,
                    delta, softcap);
        delta = 0;
      }
      HideKeys(kept[r], visible[r], p + r * kScoreStride);
      ScoreGradient(p + r * kScoreStride, ds + r * kScoreStride, visible[r].begin, visible[r].end,
                    scratch.lse[r0 + r], delta, scale);
    }
    if (want_dq && tile_begin < tile_end) {
      MultiplyRows<kAttentionTileRows, true, false, A>(
          ds + tile_begin, kScoreStride, scratch.keys + tile_begin * d_width, d_width, d_width,
          tile_end - tile_begin, A{1}, scratch.dq + r0 * d_width, d_width);
    }
  }
};

template <typename T>
HWY_INLINE void AttentionGradTaskOf(const AttentionGradArgs& args, const AttentionGradTask& task,
                                    void* memory) {
  using A = AccumulatorType<T>;
  const AttentionSpan& span = args.spans[static_cast<size_t>(task.span)];
  const int64_t heads = args.q.shape[1], kv_heads = args.k.shape[1], group = heads / kv_heads;
  const int64_t head_size = args.q.shape[2], value_size = args.v.shape[2];
  const RowVisibility visibility(span, group, args.causal, args.window);
  const ChosenKeys chosen(args.chosen);
  const int64_t d_width = PaddedCols<A>(head_size), v_width = PaddedCols<A>(value_size);
  const int64_t rows = task.row_end - task.row_begin, padded = PaddedRows(rows);
  ScratchPlan plan(memory);
  const AttentionGradScratch<A> scratch(plan, rows, head_size, value_size);

  const auto query_rows = [&](auto* data, const Shape& strides, int64_t size) {
    using Value = std::remove_pointer_t<decltype(data)>;
    return HeadRows<Value>{data,         strides[0],           strides[1], size,
                           span.q_begin, task.kv_head * group, group};
  };
  const auto key_rows = [&](auto* data, const Shape& strides, int64_t size) {
    using Value = std::remove_pointer_t<decltype(data)>;
    return HeadRows<Value>{data, strides[0], strides[1], size, span.k_begin, task.kv_head, 1};
  };
  const auto q = query_rows(args.q.as<T>(), args.q.strides, head_size);
  const auto o = query_rows(args.o.as<T>(), args.o.strides, value_size);
  const auto dy = query_rows(args.dy.as<T>(), args.dy.strides, value_size);
  const auto k = key_rows(args.k.as<T>(), args.k.strides, head_size);
  const auto v = key_rows(args.v.as<T>(), args.v.strides, value_size);

  PackRows(q, task.row_begin, rows, padded, scratch.q);
  PackRows(dy, task.row_begin, rows, padded, scratch.dy);
  const hn::ScalableTag<A> d;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = task.row_begin + r;
    scratch.lse[r] =
        args.lse.as<A>()[(span.q_begin + row / group) * heads + task.kv_head * group + row % group];
    scratch.delta[r] = SumTerms(d, static_cast<size_t>(value_size), DeltaTerm<T>{dy[row], o[row]});
  }
  std::fill_n(scratch.dq, padded * d_width, A{0});

  const GradBlock<A> block{scratch,
                           visibility,
                           chosen,
                           d_width,
                           v_width,
                           head_size,
                           value_size,
                           task.row_begin,
                           span.q_begin,
                           static_cast<A>(args.scale),
                           static_cast<A>(args.softcap),
                           task.want_dq,
                           task.want_dkv};
  for (int64_t k0 = task.key_begin; k0 < task.key_end; k0 += kKeyBlock) {
    const int64_t keys = std::min(kKeyBlock, task.key_end - k0);
    PackRows(k, k0, keys, kKeyBlock, scratch.keys);
    PackRows(v, k0, keys, kKeyBlock, scratch.values);
    TransposeKeys<kKeyBlock>(scratch.keys, d_width, head_size, scratch.keys_t);
    TransposeKeys<kKeyBlock>(scratch.values, v_width, value_size, scratch.values_t);
    if (task.want_dkv) {
      std::fill_n(scratch.dk, kGradKeys * d_width, A{0});
      std::fill_n(scratch.dv, kGradKeys * v_width, A{0});
    }
    for (int64_t r = 0; r < rows; r += kGradRows) {
      block.Run(r, std::min(r + kGradRows, rows), k0);
    }
    if (task.want_dkv) {
      UnpackRows<T, A>(scratch.dk, nullptr, keys, k0,
                       key_rows(args.dk.as<T>(), args.dk.strides, head_size));
      UnpackRows<T, A>(scratch.dv, nullptr, keys, k0,
                       key_rows(args.dv.as<T>(), args.dv.strides, value_size));
    }
  }
  if (task.want_dq) {
    UnpackRows<T, A>(scratch.dq, nullptr, rows, task.row_begin,
                     query_rows(args.dq.as<T>(), args.dq.strides, head_size));
  }
}

void RunAttentionGradTask(const AttentionGradArgs& args, const AttentionGradTask& task,
                          void* scratch) {
  LORICA_CALL_FOR_DTYPE(args.q.dtype, AttentionGradTaskOf, args, task, scratch);
}

template <typename A>
HWY_INLINE size_t GradScratchBytesOf(int64_t rows, int64_t head_size, int64_t value_size) {
  ScratchPlan plan(nullptr);
  AttentionGradScratch<A>(plan, rows, head_size, value_size);
  return plan.bytes();
}

size_t AttentionGradScratchBytes(DType dtype, int64_t rows, int64_t head_size, int64_t value_size) {
  return dtype == DType::kF64 ? GradScratchBytesOf<double>(rows, head_size, value_size)
                              : GradScratchBytesOf<float>(rows, head_size, value_size);
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_ATTENTION_GRAD_INL_H_
