// Differentiable ops. Each validates its inputs (Error with the op's name in brackets), allocates
// its result on the inputs' backend, and records itself where a gradient is needed. Inputs may be
// strided; results are contiguous.
//
// Letters: T tokens, C channels, H heads, G key/value heads, D head size, V vocabulary, R rank.
#ifndef LORICA_AUTOGRAD_OPS_H_
#define LORICA_AUTOGRAD_OPS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "lorica/autograd/autograd.h"
#include "lorica/autograd/weight.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/sequences.h"
#include "lorica/tensor/tensor.h"

namespace lorica {

// --- Elementwise, with NumPy's broadcasting; both operands of one type and placement.
//
// `a` of Add may also be f32 where `b` is bf16, and so is the sum: a residual stream that many
// layers add to, which bf16 would round once a layer.
Tensor Add(const Tensor& a, const Tensor& b);
Tensor Sub(const Tensor& a, const Tensor& b);
Tensor Mul(const Tensor& a, const Tensor& b);
Tensor Div(const Tensor& a, const Tensor& b);
// The gradient goes to the larger operand, to `a` where both are equal.
Tensor Maximum(const Tensor& a, const Tensor& b);
Tensor Neg(const Tensor& x);
Tensor Exp(const Tensor& x);
Tensor Log(const Tensor& x);
Tensor Sqrt(const Tensor& x);
Tensor Square(const Tensor& x);
Tensor Sigmoid(const Tensor& x);
Tensor Tanh(const Tensor& x);
Tensor Relu(const Tensor& x);
Tensor Silu(const Tensor& x);
Tensor Gelu(const Tensor& x);      // x Phi(x)
Tensor GeluTanh(const Tensor& x);  // its tanh approximation
// cap * tanh(x / cap), cap > 0.
Tensor SoftCap(const Tensor& x, double cap);
// factor * x + bias.
Tensor Affine(const Tensor& x, double factor, double bias = 0);
Tensor Cast(const Tensor& x, DType dtype);

// --- Shape.
Tensor Reshape(const Tensor& x, const Shape& shape);
Tensor Transpose(const Tensor& x, int axis_a, int axis_b);
Tensor Narrow(const Tensor& x, int axis, int64_t begin, int64_t length);
Tensor Concat(const std::vector<Tensor>& parts, int axis);

// --- Reductions. Sum and Mean of all elements: rank 0. SumAxis keeps the axis with extent 1.
Tensor Sum(const Tensor& x);
Tensor Mean(const Tensor& x);
Tensor SumAxis(const Tensor& x, int axis);
Tensor Softmax(const Tensor& x);     // last axis
Tensor LogSoftmax(const Tensor& x);  // last axis

// --- Products.
// a [M, K] times b [K, N].
Tensor Matmul(const Tensor& a, const Tensor& b);

// What a linear needs beyond x. `branches` are adapter slots; `spans` says which rows each serves
// (undefined rows: slot 0 for all when there is one branch). `sequences` are the block starts of
// weight gradients; `row_keys` [T] key dropout.
struct LinearArgs {
  Weight weight;  // [out, in]
  Weight bias;    // [out] or undefined
  absl::Span<const LoraBranch> branches;
  const AdapterSpans* spans = nullptr;
  const Sequences* sequences = nullptr;                   // null: one sequence of all rows
  std::shared_ptr<const std::vector<uint64_t>> row_keys;  // needed when a branch has dropout
  // y keeps the accumulator's type (f32 for bf16): logits that are only read, not trained on.
  // Within NoGrad only.
  bool accumulator_output = false;
};
// y = x Wᵀ + bias + per span (drop(x) aᵀ) bᵀ, x [..., in], y [..., out]. Base and branch meet in
// one accumulator and are rounded once; t = drop(x) aᵀ is rounded once to the compute type. A zero
// branch changes no bit of y. Saves nothing for a frozen weight without branch; with a branch x
// once and t.
Tensor Linear(const Tensor& x, const LinearArgs& args);

// Rows [offsets[g], offsets[g+1]) of x [T, in] times weight[g]ᵀ, weight [groups, out, in]. Empty
// groups are legal.
Tensor GroupedLinear(const Tensor& x, const Weight& weight, const RowOffsets& offsets);

// --- Parts of transformers.
struct EmbeddingArgs {
  Weight table;                           // [V, C]
  absl::Span<const LoraBranch> branches;  // a: [V, R], b: [C, R]
  const AdapterSpans* spans = nullptr;
  const Sequences* sequences = nullptr;
};
// y[t] = table[ids[t]] (+ a[ids[t]] bᵀ). ids must lie in [0, V).
Tensor Embedding(absl::Span<const int32_t> ids, const EmbeddingArgs& args);
// Backend::RmsNorm over the last axis, with `offset` by the factor 1 + weight, summed in the
// accumulator type. The result has the weight's type; x has it too, or is f32 where that is bf16.
Tensor RmsNorm(const Tensor& x, const Weight& weight, double eps,
               const Sequences* sequences = nullptr, bool offset = false);
// silu(gate) * up.
Tensor SwiGlu(const Tensor& gate, const Tensor& up);
// gelu(gate) * up with either form of GELU, rounded twice in bf16. Saves gate and up.
Tensor GeGlu(const Tensor& gate, const Tensor& up, bool tanh_form);

// cos and sin of every position and frequency, [P, D_rot / 2], f32 or f64. Made once per model
// (nn/rope.h).
struct RopeTable {
  Tensor cos, sin;
  bool interleaved = false;
};
// Rotary position embedding of x [T, H, D] at positions [T]. J. Su et al., "RoFormer", 2021.
Tensor Rope(const Tensor& x, const RopeTable& table, absl::Span<const int32_t> positions);

struct AttentionOptions {
  std::vector<AttentionSpan> spans;
  double scale = 1;
  bool causal = true;
  int64_t window = 0;  // 0: unlimited
  double softcap = 0;  // AttentionArgs; 0: none
  // [H] or undefined: a logit per query head that takes its share of softmax and has no value.
  Weight sinks;
  // From ChooseKeys, for the same spans: other keys have weight 0. Undefined: every key is seen.
  Tensor chosen;
};
// Softmax attention per span. q [T, H, D], k [S, G, D], v [S, G, Dv]; y [T, H, Dv]. The backward
// pass needs spans that cover every row of k and v once.
Tensor Attention(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options);

// Backend::ChooseKeys, the keys that sparse attention leaves to each query. q [T, H, D], k [S, 1,
// D] with unit stride along D, weights [T, H], spans as of causal attention; [T, W] i64. A choice
// has no gradient; within Recompute that of the first run stays where the caller keeps it
// (KeepChoice).
Tensor ChooseKeys(const Tensor& q, const Tensor& k, const Tensor& weights,
                  const std::vector<AttentionSpan>& spans, int64_t top_k);

// Each element dropped with probability mask.rate (Backend::Dropout); the mask is made again in the
// backward pass.
struct DropoutArgs {
  double rate = 0;
  uint64_t key = 0;
  std::shared_ptr<const std::vector<uint64_t>> row_keys;  // [T]
};
Tensor Dropout(const Tensor& x, const DropoutArgs& args);

// --- Losses: one value per row, f32 (f64 for f64). Negative targets give exactly 0 and no
// gradient.
Tensor CrossEntropy(const Tensor& logits, absl::Span<const int32_t> targets);
// CrossEntropy(Linear(x, weight), targets), with SoftCap between them where softcap > 0, for a
// frozen weight without storing the logits of all rows; for a weight that trains it is that
// composition.
Tensor LinearCrossEntropy(const Tensor& x, const LinearArgs& args,
                          absl::Span<const int32_t> targets, double softcap = 0);

}  // namespace lorica

#endif  // LORICA_AUTOGRAD_OPS_H_
