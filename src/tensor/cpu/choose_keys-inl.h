// Scores of the keys that sparse attention chooses among: blocks of keys pass over the heads of a
// few queries, and each query's heads are summed in order before the next block comes, so no scores
// of single heads outlive a tile. A product of six rows, kept in cache, bounds the loop; the sum
// over heads is two instructions for D multiply-adds.
#if defined(LORICA_TENSOR_CPU_CHOOSE_KEYS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_CHOOSE_KEYS_INL_H_
#undef LORICA_TENSOR_CPU_CHOOSE_KEYS_INL_H_
#else
#define LORICA_TENSOR_CPU_CHOOSE_KEYS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/cpu/attention_tasks.h"
#include "lorica/tensor/cpu/attention_tile-inl.h"
#include "lorica/tensor/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

template <typename A>
struct KeyScoreScratch {
  A *q, *weights;    // [rows, D], [rows]
  A *keys, *keys_t;  // [kKeyBlock, D], [D, kKeyBlock]
  A* tile;           // [kAttentionTileRows, kKeyBlock]

  KeyScoreScratch(ScratchPlan& plan, int64_t rows, int64_t head_size) {
    const int64_t d = PaddedCols<A>(head_size);
    q = plan.Take<A>(PaddedRows(rows) * d);
    weights = plan.Take<A>(rows);
    keys = plan.Take<A>(kKeyBlock * d);
    keys_t = plan.Take<A>(kKeyBlock * head_size);
    tile = plan.Take<A>(kAttentionTileRows * kKeyBlock);
  }
};

// scores [queries of the task, stride]: those of each query with the keys up to its own position,
// and anything behind them. `scratch` lies behind `plan`.
template <typename T>
HWY_INLINE void ScoreKeysOf(const ChooseKeysArgs& args, const ChooseTask& task, void* all_scores,
                            int64_t stride, ScratchPlan plan) {
  using A = AccumulatorType<T>;
  A* scores = static_cast<A*>(all_scores);
  const AttentionSpan& span = args.spans[static_cast<size_t>(task.span)];
  const int64_t heads = args.q.shape[1], head_size = args.q.shape[2];
  const int64_t rows = (task.end - task.begin) * heads, d_width = PaddedCols<A>(head_size);
  const KeyScoreScratch<A> scratch(plan, rows, head_size);
  const HeadRows<const T> q{
      args.q.as<T>(), args.q.strides[0], args.q.strides[1], head_size, span.q_begin, 0, heads};
  const HeadRows<const T> k{
      args.k.as<T>(), args.k.strides[0], args.k.strides[1], head_size, span.k_begin, 0, 1};
  const HeadRows<const T> weights{args.weights.as<T>(),
                                  args.weights.strides[0],
                                  args.weights.strides[1],
                                  1,
                                  span.q_begin,
                                  0,
                                  heads};
  PackRows(q, task.begin * heads, rows, PaddedRows(rows), scratch.q);
  weights.ForEach(task.begin * heads, rows, [&](int64_t r, const T* weight) LORICA_LAMBDA {
    scratch.weights[r] = static_cast<A>(*weight);
  });

  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  const int64_t first_position = span.k_length - span.q_length + task.begin;
  const int64_t last_key = span.k_length - span.q_length + task.end;
  for (int64_t k0 = 0; k0 < last_key; k0 += kKeyBlock) {
    PackRows(k, k0, std::min(kKeyBlock, span.k_length - k0), kKeyBlock, scratch.keys);
    TransposeKeys<kKeyBlock>(scratch.keys, d_width, head_size, scratch.keys_t);
    for (int64_t i = 0; i < task.end - task.begin; ++i) {
      std::fill_n(scores + i * stride + k0, kKeyBlock, A{0});
    }
    // Queries before the block see nothing of it.
    const int64_t first = std::max<int64_t>(0, (k0 - first_position) * heads);
    for (int64_t r0 = first / kAttentionTileRows * kAttentionTileRows; r0 < rows;
         r0 += kAttentionTileRows) {
      MultiplyRows<kAttentionTileRows, false, false, A>(scratch.q + r0 * d_width, d_width,
                                                        scratch.keys_t, kKeyBlock, kKeyBlock,
                                                        head_size, A{1}, scratch.tile, kKeyBlock);
      for (int64_t r = 0; r < std::min<int64_t>(kAttentionTileRows, rows - r0); ++r) {
        const A* tile = scratch.tile + r * kKeyBlock;
        A* sum = scores + (r0 + r) / heads * stride + k0;
        const auto weight = hn::Set(d, scratch.weights[r0 + r]);
        for (int64_t i = 0; i < kKeyBlock; i += lanes) {
          const auto dot = hn::Load(d, tile + i);
          const auto positive = hn::IfThenZeroElse(hn::Lt(dot, zero), dot);  // keeps a NaN
          hn::Store(hn::MulAdd(weight, positive, hn::Load(d, sum + i)), d, sum + i);
        }
      }
    }
  }
}

void ScoreKeys(const ChooseKeysArgs& args, const ChooseTask& task, void* scores, int64_t stride,
               ScratchPlan plan) {
  LORICA_CALL_FOR_DTYPE(args.q.dtype, ScoreKeysOf, args, task, scores, stride, plan);
}

// Adds what ScoreKeys takes to what `plan` counts.
void PlanKeyScores(DType dtype, int64_t rows, int64_t head_size, ScratchPlan& plan) {
  if (dtype == DType::kF64) {
    KeyScoreScratch<double>(plan, rows, head_size);
  } else {
    KeyScoreScratch<float>(plan, rows, head_size);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_CHOOSE_KEYS_INL_H_
