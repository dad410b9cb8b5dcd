// Backend: the kernels of one device, by family.
//
// Everything here is validated by the caller (the ops of the autograd floor, or whoever calls a
// family directly): shapes and types fit, row offsets are checked, outputs don't overlap inputs
// unless a family says so. Kernels therefore neither throw nor check. Unless said otherwise
// matrices have unit stride along the last axis and all other tensors are contiguous; values are of
// one compute type (f32, bf16, f64), arithmetic runs in f32 (f64 for f64) with one rounding at the
// end. Results never depend on the number of threads, and a row's result never on the other rows of
// the batch. A backend serves one caller at a time; different backends are independent.
//
// Letters: T tokens (rows), C channels, H query heads, G key/value heads, D head size, V
// vocabulary, N columns.
#ifndef LORICA_TENSOR_BACKEND_H_
#define LORICA_TENSOR_BACKEND_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "lorica/tensor/allocator.h"
#include "lorica/tensor/device.h"
#include "lorica/tensor/gemm.h"
#include "lorica/tensor/sequences.h"
#include "lorica/tensor/view.h"

namespace lorica {

enum class UnaryOp {
  kNeg,
  kExp,
  kLog,
  kSqrt,
  kSquare,
  kSigmoid,
  kTanh,
  kRelu,
  kSilu,
  kGelu,
  kGeluTanh
};
enum class BinaryOp { kAdd, kSub, kMul, kDiv, kMax };

// Which elements dropout keeps: a pure function of the key, the row's key and the channel.
// Element (t, c) is kept iff word c % 4 of Philox(CombineKeys(key, row_keys[t]), c / 4, 0), as a
// fraction of 2^32, is not below `rate`; kept elements are multiplied by 1 / (1 - rate).
struct DropoutMask {
  double rate = 0;
  uint64_t key = 0;
  absl::Span<const uint64_t> row_keys;  // [T]
};

struct RopeArgs {
  TensorView x;                         // [T, H, D]
  absl::Span<const int32_t> positions;  // [T], each below the table's rows
  TensorView cos, sin;                  // [P, D_rot / 2], f32 (f64 for f64)
  bool interleaved = false;             // pairs are (2i, 2i+1); else (i, i + D_rot / 2)
  bool inverse = false;                 // rotate back: the gradient
  MutableTensorView y;                  // [T, H, D], may be x; channels from D_rot on are copied
};

// One sequence of an attention call: query rows and the key rows they may see. Query i of the
// sequence sits at key position k_length - q_length + i and sees keys up to itself (causal), with
// window > 0 only keys less than `window` positions back, its own counted: position - key < window.
struct AttentionSpan {
  int64_t q_begin = 0, q_length = 0;
  int64_t k_begin = 0, k_length = 0;  // k_length >= q_length when causal
};

struct AttentionArgs {
  absl::Span<const AttentionSpan> spans;
  double scale = 1;
  bool causal = true;
  int64_t window = 0;   // 0: unlimited
  double softcap = 0;   // a scaled score s becomes softcap tanh(s / softcap); 0: stays s
  TensorView q;         // [T, H, D]
  TensorView k;         // [S, G, D], H a multiple of G
  TensorView v;         // [S, G, Dv]
  MutableTensorView o;  // [T, H, Dv]
  MutableTensorView
      lse;  // [T, H] log of the softmax denominator, accumulator type; may be undefined
  // [T, W] i64, or undefined: nothing else hides keys. Of the keys that query t may see as above it
  // sees key j of its span only where bit j % 64 of word j / 64 is set, with all its heads; 64 W >=
  // k_length. The weight of a hidden key is 0 (not absent: its value must be finite).
  TensorView chosen;
};

struct AttentionGradArgs {
  absl::Span<const AttentionSpan> spans;  // disjoint in q rows and in k rows
  double scale = 1;
  bool causal = true;
  int64_t window = 0;
  double softcap = 0;
  TensorView q, k, v, o, lse, dy;  // dy is [T, H, Dv]
  MutableTensorView dq, dk, dv;    // every row of every span is written
  TensorView chosen;               // AttentionArgs
};

// The choice of sparse attention: each query keeps, of the keys that it sees causally, the `top_k`
// with the greatest
//   score(t, s) = sum over h of weights[t, h] max(q[t, h] · k[s], 0)
// or all where it sees no more than that. Where scores are equal the lowest position comes first; a
// NaN counts as the greatest. A positive factor on all scores changes nothing, so there is none.
// DeepSeek-AI, "DeepSeek-V3.2", 2025.
struct ChooseKeysArgs {
  absl::Span<const AttentionSpan> spans;
  int64_t top_k = 0;   // at least 1
  TensorView q;        // [T, H, D]
  TensorView k;        // [S, 1, D]
  TensorView weights;  // [T, H]
  MutableTensorView
      chosen;  // [T, W] i64, as AttentionArgs takes it; every row of a span is written
};

// The gated delta rule, a linear attention with a state S [K, V] per head. For each token t of a
// sequence, S starting from zero:
//   S = exp(g_t) S;  S = S + k_t (beta_t (v_t - Sᵀ k_t))ᵀ;  y_t = Sᵀ q_t
// Value heads h = 0..H-1 share the key heads: h belongs to key head h / (H / G). All values f32 or
// all f64, contiguous. S. Yang et al., "Gated delta networks", 2024.
struct DeltaRuleArgs {
  const Sequences* sequences = nullptr;  // of the T tokens
  TensorView q, k;                       // [T, G, K]
  TensorView v;                          // [T, H, V]
  TensorView g, beta;                    // [T, H]
  MutableTensorView y;                   // [T, H, V]
  // [sequences, H, K, V]: S before the first token, and after the last on return; undefined: zeros.
  MutableTensorView state;
};

struct DeltaRuleGradArgs {
  const Sequences* sequences = nullptr;
  TensorView q, k, v, g, beta, dy;
  MutableTensorView dq, dk, dv, dg, dbeta;
};

// What a feed-forward expert does between its two products, on h = [gate | up].
struct GatedActivation {
  enum class Kind {
    kSigmoid,   // g sigmoid(slope g) (u + offset); slope 1, offset 0: SwiGLU
    kGeluTanh,  // gelu(g) u, its tanh approximation
    kRelu2,     // relu(h)², without a gate
  };
  Kind kind = Kind::kSigmoid;
  double slope = 1, offset = 0;
  double limit = 0;          // above 0: g = min(g, limit), u within +-limit
  bool interleaved = false;  // gate and up in turn (even, odd) instead of side by side

  bool gated() const { return kind != Kind::kRelu2; }
  bool operator==(const GatedActivation&) const = default;
};

struct GatedActivationArgs {
  GatedActivation function;
  TensorView h;         // [M, 2 I]; [M, I] without a gate
  TensorView factor;    // [M], accumulator type: multiplies y; undefined: 1
  MutableTensorView y;  // [M, I]
};

struct GatedActivationGradArgs {
  GatedActivation function;
  TensorView h;           // [M, 2 I]; [M, I] without a gate
  TensorView dy;          // [M, I], gradient of f(h) before `factor`
  TensorView factor;      // [M], accumulator type; undefined: 1
  MutableTensorView dh;   // as h: factor * dy * f'(h)
  MutableTensorView dot;  // [M], accumulator type: sum of dy * f(h); undefined: not wanted
  MutableTensorView y;    // [M, I]: f(h), times factor where factor_in_y; undefined: not wanted
  bool factor_in_y = false;
};

// y[t] = round(sum over k of factor[r] * x[r]), r = rows[t * K + k], k ascending from +0; -1: no
// addend. Each product is rounded to the accumulator type before it is added.
struct CombineRowsArgs {
  TensorView x;                    // [M, C], any compute type
  TensorView factor;               // [M], accumulator type; undefined: 1
  absl::Span<const int32_t> rows;  // [T * K], each < M
  MutableTensorView y;             // [T, C], x's type or its accumulator's or compute type
};

struct CrossEntropyArgs {
  TensorView logits;                  // [T, V], any compute type or f32
  absl::Span<const int32_t> targets;  // [T], each < V; negative = ignored, loss exactly 0
  MutableTensorView loss;             // [T], accumulator type
  MutableTensorView lse;              // [T], accumulator type
};

struct CrossEntropyGradArgs {
  TensorView logits;                  // [T, V]
  absl::Span<const int32_t> targets;  // [T]
  TensorView lse;                     // [T]
  TensorView dloss;                   // [T], accumulator type
  MutableTensorView dlogits;          // [T, V], may be logits
};

// loss[t] = lse(z) - z[targets[t]] with z = x[t] Wᵀ, or softcap tanh(x[t] Wᵀ / softcap) where
// softcap > 0, without storing the logits of all rows.
struct LinearCrossEntropyArgs {
  TensorView x;                       // [T, C]
  TensorView weight;                  // [V, C]
  absl::Span<const int32_t> targets;  // [T]
  MutableTensorView loss;             // [T], accumulator type
  MutableTensorView dx;  // [T, C], accumulator type: d loss[t] / d x[t] for a unit gradient;
                         // undefined when not wanted
  uint64_t weight_storage_id = 0, weight_storage_version = 0;  // as GemmArgs
  double softcap = 0;
};

struct AdamWArgs {
  MutableTensorView param;    // accumulator type, contiguous
  MutableTensorView moment1;  // same
  MutableTensorView moment2;  // same
  TensorView grad;            // same
  double grad_scale = 1;      // the gradient is grad * grad_scale (1 / tokens, clipping)
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  int64_t step = 1;  // counted from 1, for the bias corrections
};

class Backend {
 public:
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  virtual Device device() const = 0;
  virtual Allocator& allocator() = 0;

  // --- Memory. Any dtype.
  virtual void Fill(MutableTensorView y, double value) = 0;
  // Same shape, any strides, any pair of types (to nearest, ties to even; to integers truncating).
  virtual void Copy(TensorView x, MutableTensorView y) = 0;
  virtual void CopyFromHost(const void* values, MutableTensorView y) = 0;  // contiguous
  virtual void CopyToHost(TensorView x, void* values) = 0;                 // contiguous

  // --- Elementwise.
  virtual void Unary(UnaryOp op, TensorView x, MutableTensorView y) = 0;
  // dx = dy * op'(x). dx may be dy.
  virtual void UnaryGrad(UnaryOp op, TensorView x, TensorView dy, MutableTensorView dx) = 0;
  // a and b have y's shape; broadcast axes have stride 0. y may be a or b.
  virtual void Binary(BinaryOp op, TensorView a, TensorView b, MutableTensorView y) = 0;
  // y = x * factor + bias. y may be x.
  virtual void Affine(TensorView x, double factor, double bias, MutableTensorView y) = 0;
  // y[t, c] = kept(t, c) ? x[t, c] / (1 - rate) : 0. x is [T, C]; y may be x.
  virtual void Dropout(TensorView x, const DropoutMask& mask, MutableTensorView y) = 0;
  // y[r, :] = x[r, :] * factor[r], factor of the accumulator type. y may be x.
  virtual void ScaleRows(TensorView x, TensorView factor, MutableTensorView y) = 0;

  // --- Reductions.
  // Sums x over the axes along which y's extent is 1 (same rank), in row-major order of the summed
  // elements.
  virtual void SumTo(TensorView x, MutableTensorView y) = 0;
  // Sum of squares of all elements, as double, in an order that doesn't depend on threads.
  virtual double SumSquares(TensorView x) = 0;
  // acc[n] += alpha * sum of dy[t, n] in the block order of TokenSumDesc. acc: accumulator type.
  virtual void ColumnSum(TensorView dy, const Sequences& sequences, double alpha,
                         MutableTensorView acc) = 0;

  // --- Rows. Last axis.
  virtual void Softmax(TensorView x, bool log, MutableTensorView y) = 0;
  // From y = softmax(x) or log softmax(x).
  virtual void SoftmaxGrad(TensorView y, TensorView dy, bool log, MutableTensorView dx) = 0;
  // y = x * rstd * weight, rstd[t] = 1 / sqrt(mean(x[t]²) + eps). x [T, C], weight [C] (f32 or x's
  // type), rstd [T] of the accumulator type. y and dy have x's type, or bf16 where x and dx are
  // f32. B. Zhang, R. Sennrich, "Root mean square layer normalization", 2019.
  virtual void RmsNorm(TensorView x, TensorView weight, double eps, MutableTensorView y,
                       MutableTensorView rstd) = 0;
  virtual void RmsNormGrad(TensorView x, TensorView weight, TensorView rstd, TensorView dy,
                           MutableTensorView dx) = 0;
  // acc[c] += sum of dy[t, c] * x[t, c] * rstd[t], in the block order of TokenSumDesc.
  virtual void RmsNormWeightGrad(TensorView x, TensorView rstd, TensorView dy,
                                 const Sequences& sequences, MutableTensorView acc) = 0;
  // y = silu(gate) * up. N. Shazeer, "GLU variants improve transformer", 2020.
  virtual void SwiGlu(TensorView gate, TensorView up, MutableTensorView y) = 0;
  virtual void SwiGluGrad(TensorView gate, TensorView up, TensorView dy, MutableTensorView dgate,
                          MutableTensorView dup) = 0;

  // --- Experts.
  virtual void GatedActivationForward(const GatedActivationArgs& args) = 0;
  virtual void GatedActivationGrad(const GatedActivationGradArgs& args) = 0;
  virtual void CombineRows(const CombineRowsArgs& args) = 0;

  // --- Tables.
  // y[t] = table[ids[t]] (converted to y's type). table [V, C], y [T, C].
  virtual void Gather(TensorView table, absl::Span<const int32_t> ids, MutableTensorView y) = 0;
  // acc[ids[t]] += alpha * dy[t], t ascending. acc [V, C] of the accumulator type. (No blocks: each
  // token is one addend.)
  virtual void ScatterAdd(absl::Span<const int32_t> ids, TensorView dy, double alpha,
                          MutableTensorView acc) = 0;
  virtual void Rope(const RopeArgs& args) = 0;

  // --- Products.
  virtual void Gemm(const GemmDesc& desc, const GemmArgs& args) = 0;
  // Default: one Gemm per non-empty group.
  virtual void GroupedGemm(const GroupedGemmDesc& desc, const GroupedGemmArgs& args);
  virtual void TokenSum(const TokenSumDesc& desc, const Sequences& sequences,
                        const TokenSumArgs& args) = 0;

  // --- Attention. Softmax in the accumulator type; T x S scores are never stored.
  virtual void Attention(const AttentionArgs& args) = 0;
  virtual void AttentionGrad(const AttentionGradArgs& args) = 0;
  virtual void ChooseKeys(const ChooseKeysArgs& args) = 0;
  virtual void DeltaRule(const DeltaRuleArgs& args) = 0;
  virtual void DeltaRuleGrad(const DeltaRuleGradArgs& args) = 0;

  // --- Loss.
  virtual void CrossEntropy(const CrossEntropyArgs& args) = 0;
  virtual void CrossEntropyGrad(const CrossEntropyGradArgs& args) = 0;
  // Default: Gemm, CrossEntropy, CrossEntropyGrad, Gemm over blocks of rows.
  virtual void LinearCrossEntropy(const LinearCrossEntropyArgs& args);

  // --- Optimizer. I. Loshchilov, F. Hutter, "Decoupled weight decay regularization", 2019; in
  // PyTorch's order: param *= 1 - lr * wd; m, v updated; param -= lr / (1 - beta1^step) * m /
  // (sqrt(v) / sqrt(1 - beta2^step) + eps).
  virtual void AdamWStep(const AdamWArgs& args) = 0;

 protected:
  Backend() = default;
};

}  // namespace lorica

#endif  // LORICA_TENSOR_BACKEND_H_
