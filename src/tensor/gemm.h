// Products as values: what a matrix product computes, apart from where its operands lie.
//
// Letters: M rows (tokens), N columns (output features), K the summed axis, G groups, R rank.
//
// Numerics of every product below: products and sums in the accumulator type (f32, for f64 operands
// f64) with fused multiply-add, the K sum of one output element in ascending k, one chain, the same
// for every M, N and thread count; one rounding to the output type at the end.
#ifndef LORICA_TENSOR_GEMM_H_
#define LORICA_TENSOR_GEMM_H_

#include <string>

#include "absl/types/span.h"
#include "lorica/tensor/sequences.h"
#include "lorica/tensor/view.h"

namespace lorica {

// How the right operand lies in memory.
enum class GemmLayout {
  kNT,  // b is [N, K]: y = a bᵀ, a weight in its usual form
  kNN,  // b is [K, N]: y = a b, the input gradient dx = dy W
};

// One product of a sum of products that share an accumulator.
//   y[M, N] = round(prefix_a · prefix_b + a · b + bias + addend)
// The prefix (a LoRA branch, K = rank) comes first in the sum: starting from +0 it leaves +0 when
// the branch is zero, so a zero adapter changes no bit of y.
struct GemmDesc {
  int64_t m = 0, n = 0, k = 0;
  GemmLayout layout = GemmLayout::kNT;
  int64_t prefix_k = 0;  // 0: no prefix
  GemmLayout prefix_layout = GemmLayout::kNT;
  DType a_type = DType::kF32, b_type = DType::kF32, y_type = DType::kF32;
  bool has_bias = false;    // bias is [N]
  bool has_addend = false;  // addend is [M, N], may be y itself

  bool operator==(const GemmDesc&) const = default;
  std::string ToString() const;
};

// Operands of a GemmDesc. Matrices have unit stride along their last axis; rows may be further
// apart. Types: {a, prefix_a} share a_type or f32; {b, prefix_b} share b_type or f32; bias any
// compute type; addend f32, f64 or y_type. f64 goes with f64 only; f32 and bf16 mix freely.
struct GemmArgs {
  TensorView a;         // [M, K]
  TensorView b;         // [N, K] or [K, N]
  TensorView prefix_a;  // [M, prefix_k]
  TensorView prefix_b;  // [N, prefix_k] or [prefix_k, N]
  TensorView bias;      // [N]
  TensorView addend;    // [M, N]
  MutableTensorView y;  // [M, N]
  // Identifies b's bytes for caches of packed forms: (storage id, version); 0 = don't cache.
  uint64_t b_storage_id = 0, b_storage_version = 0;
};

// Products of row groups with a matrix each (experts, adapter slots, pairs of both): rows
// [offsets[g], offsets[g+1]) of a meet one matrix of b, of the prefix's b and of the bias, each
// group as a GemmDesc has it. Which ones, `GroupedGemmArgs` says.
struct GroupedGemmDesc {
  int64_t m = 0, n = 0, k = 0;
  RowOffsets offsets;  // G groups, ending with m
  GemmLayout layout = GemmLayout::kNT;
  DType a_type = DType::kF32, b_type = DType::kF32, y_type = DType::kF32;
  int64_t prefix_k = 0;  // 0: no prefix
  GemmLayout prefix_layout = GemmLayout::kNT;
  bool has_bias = false;
  bool has_addend = false;

  std::string ToString() const;
};

// Types as GemmArgs. The matrices of b, prefix_b and bias may lie at any distance (stride 0
// included); each has unit stride along its last axis.
struct GroupedGemmArgs {
  TensorView a;         // [M, K]
  TensorView b;         // [B, N, K] or [B, K, N]
  MutableTensorView y;  // [M, N]
  TensorView prefix_a;  // [M, prefix_k]
  TensorView prefix_b;  // [P, N, prefix_k] or [P, prefix_k, N]
  TensorView bias;      // [B, N]
  TensorView addend;    // [M, N], may be y itself
  // [G] the matrix of b (and the bias) that group g meets; -1: its rows of y are left alone. Empty:
  // matrix g.
  absl::Span<const int32_t> b_of_group;
  // [G] the matrix of prefix_b; -1: none. Empty: matrix g.
  absl::Span<const int32_t> prefix_of_group;
};

// A sum over tokens, the gradient of a weight. For each block of each sequence, in order:
//   acc[m, n] = fma(alpha, sum over the block's rows t of dy[t, m] * x[t, n], acc[m, n])
// Blocks of at most kTokenBlock rows start at each sequence; within a block t ascends in one chain
// of multiply-adds that starts from zero. (With alpha = 1 this is a plain addition: 1 * sum is
// exact.)
struct TokenSumDesc {
  int64_t tokens = 0, m = 0, n = 0;
  double alpha = 1;
};

struct TokenSumArgs {
  TensorView dy;          // [T, M], f32, bf16 or f64
  TensorView x;           // [T, N], likewise
  MutableTensorView acc;  // [M, N], contiguous, f32 (f64 for f64 operands)
};

}  // namespace lorica

#endif  // LORICA_TENSOR_GEMM_H_
