// Attention forward: blocks of keys pass over a block of query rows with a running softmax.
// T. Dao et al., "FlashAttention", 2022.
//
// A row's bits depend on its query and the keys that it sees, at their places in the sequence:
// blocks of keys start at the sequence, every sum is a chain of the row's own, and no value of a
// key that the row doesn't see is touched.
//
// Sparse attention runs through the same loops with scores of -infinity at the keys that a query
// isn't left. What bounds the loop stays the product of queries and keys: queries choose each for
// themselves, so gathering keys would read D values from memory for D multiply-adds, where a tile
// here reads them once for six rows from the first-level cache. Blocks that no query of a task is
// left a key of are skipped, unpacked, and so are tiles; the backward pass skips tiles alone.
#if defined(LORICA_TENSOR_CPU_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_ATTENTION_INL_H_
#undef LORICA_TENSOR_CPU_ATTENTION_INL_H_
#else
#define LORICA_TENSOR_CPU_ATTENTION_INL_H_
#endif

#include <algorithm>
#include <cmath>
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

template <typename A>
struct AttentionScratch {
  A *q, *o, *max, *sum;       // [rows, D], [rows, Dv], [rows], [rows]
  A *keys, *keys_t, *values;  // [kKeyBlock, D], [D, kKeyBlock], [kKeyBlock, Dv]
  A* scores;                  // [kAttentionTileRows, kKeyBlock]

  AttentionScratch(ScratchPlan& plan, int64_t rows, int64_t head_size, int64_t value_size) {
    const int64_t d = PaddedCols<A>(head_size), dv = PaddedCols<A>(value_size);
    const int64_t padded = PaddedRows(rows);
    q = plan.Take<A>(padded * d);
    o = plan.Take<A>(padded * dv);
    max = plan.Take<A>(padded);
    sum = plan.Take<A>(padded);
    keys = plan.Take<A>(kKeyBlock * d);
    keys_t = plan.Take<A>(kKeyBlock * head_size);
    values = plan.Take<A>(kKeyBlock * dv);
    scores = plan.Take<A>(kAttentionTileRows * kKeyBlock);
  }
};

// scores[i] = cap tanh(scores[i] / cap) for i in [begin, end); whole vectors are written.
template <typename A>
HWY_INLINE void CapScores(A* scores, int64_t begin, int64_t end, A cap) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto limit = hn::Set(d, cap), inverse = hn::Set(d, 1 / cap);
  for (int64_t i = begin / lanes * lanes; i < end; i += lanes) {
    const auto t = TanhLanes(d, hn::Mul(hn::Load(d, scores + i), inverse));
    hn::Store(hn::Mul(t, limit), d, scores + i);
  }
}

// Brings `scores` [kKeyBlock], of which [begin, end) are visible, into the running softmax of a
// row: scores become exp(score - max); what was summed so far, o included, is rescaled when the
// maximum grows.
template <typename A>
HWY_INLINE void UpdateSoftmax(A* scores, int64_t begin, int64_t end, A* o, int64_t o_width, A& max,
                              A& sum) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t first = begin / lanes * lanes, last = PaddedCols<A>(end);
  constexpr A kLowest = -std::numeric_limits<A>::infinity();
  std::fill(scores + first, scores + begin, kLowest);
  std::fill(scores + end, scores + last, kLowest);
  auto block_max = hn::Load(d, scores + first);
  for (int64_t i = first + lanes; i < last; i += lanes) {
    block_max = hn::Max(block_max, hn::Load(d, scores + i));
  }
  const A new_max = std::max(max, MaxOf(d, block_max));
  if (!(new_max <= max)) {
    const A shrink = hn::GetLane(ExpLanes(d, hn::Set(d, max - new_max)));
    sum *= shrink;
    const auto factor = hn::Set(d, shrink);
    for (int64_t i = 0; i < o_width; i += lanes) {
      hn::Store(hn::Mul(hn::Load(d, o + i), factor), d, o + i);
    }
    max = new_max;
  }
  const auto shift = hn::Set(d, max);
  auto block_sum = hn::Zero(d);
  for (int64_t i = first; i < last; i += lanes) {
    const auto p = ExpLanes(d, hn::Sub(hn::Load(d, scores + i), shift));
    hn::Store(p, d, scores + i);
    block_sum = hn::Add(block_sum, p);
  }
  sum += SumOf(d, block_sum);
}

// o[rows of the tile] += p v, each row over the keys that it sees only.
template <typename A>
HWY_INLINE void AddValues(const A* scores, const KeyRange* visible, int64_t rows, const A* values,
                          int64_t width, A* o) {
  // The keys that all rows see run six rows at a time, those before and after row by row.
  int64_t common_begin = 0, common_end = kKeyBlock;
  for (int64_t r = 0; r < rows; ++r) {
    common_begin = std::max(common_begin, visible[r].begin);
    common_end = std::min(common_end, visible[r].end);
  }
  const bool has_common = common_begin < common_end;
  const auto row_range = [&](int64_t r, int64_t begin, int64_t end) LORICA_LAMBDA {
    if (begin >= end) return;
    MultiplyRows<1, true, false, A>(scores + r * kKeyBlock + begin, kKeyBlock,
                                    values + begin * width, width, width, end - begin, A{1},
                                    o + r * width, width);
  };
  for (int64_t r = 0; r < rows; ++r) {
    row_range(r, visible[r].begin, has_common ? common_begin : visible[r].end);
  }
  if (!has_common) return;
  MultiplyRows<kAttentionTileRows, true, false, A>(scores + common_begin, kKeyBlock,
                                                   values + common_begin * width, width, width,
                                                   common_end - common_begin, A{1}, o, width);
  for (int64_t r = 0; r < rows; ++r) row_range(r, common_end, visible[r].end);
}

template <typename T>
HWY_INLINE void AttentionTaskOf(const AttentionArgs& args, const AttentionTask& task,
                                void* memory) {
  using A = AccumulatorType<T>;
  const AttentionSpan& span = args.spans[static_cast<size_t>(task.span)];
  const int64_t heads = args.q.shape[1], kv_heads = args.k.shape[1], group = heads / kv_heads;
  const int64_t head_size = args.q.shape[2], value_size = args.v.shape[2];
  const RowVisibility visibility(span, group, args.causal, args.window);
  const ChosenKeys chosen(args.chosen);
  const int64_t first_token = span.q_begin + task.row_begin / group;
  const int64_t last_token = span.q_begin + (task.row_end - 1) / group;
  const int64_t rows = task.row_end - task.row_begin;
  const int64_t d_width = PaddedCols<A>(head_size), v_width = PaddedCols<A>(value_size);
  ScratchPlan plan(memory);
  const AttentionScratch<A> scratch(plan, rows, head_size, value_size);

  const HeadRows<const T> q{args.q.as<T>(), args.q.strides[0], args.q.strides[1],
                            head_size,      span.q_begin,      task.kv_head * group,
                            group};
  const HeadRows<const T> k{args.k.as<T>(),
                            args.k.strides[0],
                            args.k.strides[1],
                            head_size,
                            span.k_begin,
                            task.kv_head,
                            1};
  const HeadRows<const T> v{args.v.as<T>(),
                            args.v.strides[0],
                            args.v.strides[1],
                            value_size,
                            span.k_begin,
                            task.kv_head,
                            1};
  PackRows(q, task.row_begin, rows, PaddedRows(rows), scratch.q);
  std::fill_n(scratch.o, PaddedRows(rows) * v_width, A{0});
  std::fill_n(scratch.max, rows, -std::numeric_limits<A>::infinity());
  std::fill_n(scratch.sum, rows, A{0});
  std::fill_n(scratch.scores, kAttentionTileRows * kKeyBlock, A{0});

  const int64_t first_key = visibility.Keys(task.row_begin).begin;
  const int64_t last_key = visibility.Keys(task.row_end - 1).end;
  for (int64_t k0 = first_key / kKeyBlock * kKeyBlock; k0 < last_key; k0 += kKeyBlock) {
    if (!chosen.Any(first_token, last_token + 1, k0)) continue;
    const int64_t keys = std::min(kKeyBlock, span.k_length - k0);
    PackRows(k, k0, keys, kKeyBlock, scratch.keys);
    TransposeKeys<kKeyBlock>(scratch.keys, d_width, head_size, scratch.keys_t);
    PackRows(v, k0, keys, kKeyBlock, scratch.values);
    for (int64_t r0 = 0; r0 < rows; r0 += kAttentionTileRows) {
      const int64_t tile_rows = std::min<int64_t>(kAttentionTileRows, rows - r0);
      KeyRange visible[kAttentionTileRows];
      uint64_t kept[kAttentionTileRows];
      int64_t tile_end = 0;
      for (int64_t r = 0; r < tile_rows; ++r) {
        const int64_t row = task.row_begin + r0 + r;
        const KeyRange range = visibility.Keys(row);
        visible[r].begin = std::clamp<int64_t>(range.begin - k0, 0, kKeyBlock);
        visible[r].end = std::clamp<int64_t>(range.end - k0, visible[r].begin, kKeyBlock);
        kept[r] = chosen.Block(span.q_begin + row / visibility.group, k0) & BitsOf(visible[r]);
        if (kept[r] != 0) tile_end = visible[r].end;
      }
      if (tile_end == 0) continue;
      MultiplyRows<kAttentionTileRows, false, false, A>(
          scratch.q + r0 * d_width, d_width, scratch.keys_t, kKeyBlock, PaddedCols<A>(tile_end),
          head_size, static_cast<A>(args.scale), scratch.scores, kKeyBlock);
      for (int64_t r = 0; r < tile_rows; ++r) {
        A* scores = scratch.scores + r * kKeyBlock;
        const int64_t begin = visible[r].begin, end = visible[r].end;
        if (begin >= end) continue;
        if (kept[r] == 0) {  // a softmax of nothing would be NaN
          std::fill(scores + begin, scores + end, A{0});
          continue;
        }
        if (args.softcap > 0) CapScores(scores, begin, end, static_cast<A>(args.softcap));
        HideKeys(kept[r], visible[r], scores);
        UpdateSoftmax(scores, begin, end, scratch.o + (r0 + r) * v_width, v_width,
                      scratch.max[r0 + r], scratch.sum[r0 + r]);
      }
      AddValues(scratch.scores, visible, tile_rows, scratch.values, v_width,
                scratch.o + r0 * v_width);
    }
  }

  const HeadRows<T> o{args.o.as<T>(), args.o.strides[0], args.o.strides[1],
                      value_size,     span.q_begin,      task.kv_head * group,
                      group};
  for (int64_t r = 0; r < rows; ++r) {
    const A sum = scratch.sum[r];
    if (args.lse.defined()) {
      const int64_t token = span.q_begin + (task.row_begin + r) / group;
      const int64_t head = task.kv_head * group + (task.row_begin + r) % group;
      args.lse.as<A>()[token * heads + head] = scratch.max[r] + std::log(sum);
    }
    // A row that sees nothing gives zeros.
    scratch.sum[r] = sum == 0 ? A{0} : 1 / sum;
  }
  UnpackRows(scratch.o, scratch.sum, rows, task.row_begin, o);
}

void RunAttentionTask(const AttentionArgs& args, const AttentionTask& task, void* scratch) {
  LORICA_CALL_FOR_DTYPE(args.q.dtype, AttentionTaskOf, args, task, scratch);
}

template <typename T>
HWY_INLINE size_t AttentionScratchBytesOf(int64_t rows, int64_t head_size, int64_t value_size) {
  ScratchPlan plan(nullptr);
  AttentionScratch<AccumulatorType<T>>(plan, rows, head_size, value_size);
  return plan.bytes();
}

size_t AttentionScratchBytes(DType dtype, int64_t rows, int64_t head_size, int64_t value_size) {
  return dtype == DType::kF64 ? AttentionScratchBytesOf<double>(rows, head_size, value_size)
                              : AttentionScratchBytesOf<float>(rows, head_size, value_size);
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_ATTENTION_INL_H_
