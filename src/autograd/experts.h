// The feed-forward experts of a mixture, as one op.
//
// Letters: T tokens, K choices a token, M rows ((token, expert) pairs), E experts, D width of
// tokens, I width of an expert, U = 2 I (gate and up; I without a gate), R rank.
#ifndef LORICA_AUTOGRAD_EXPERTS_H_
#define LORICA_AUTOGRAD_EXPERTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "lorica/autograd/dispatch.h"
#include "lorica/autograd/weight.h"
#include "lorica/tensor/backend.h"

namespace lorica {

// The low-rank branches of one grouped projection, all adapter slots in one pair of tensors:
//   y[row] += (drop(x[row]) A[i]ᵀ) B[j]ᵀ
// with i = slot * a_groups + expert (slot alone where a_groups is 1: all experts share), j
// likewise.
struct GroupedBranch {
  struct Slot {
    double dropout = 0;        // rate on the branch input, training only
    uint64_t dropout_key = 0;  // distinct for every module of every job
  };
  // Masters that a part of A and B is made of. `split` adapters have two: gate's and up's.
  struct Factor {
    int slot = 0;
    Tensor a;  // leaf [a_groups, r, in]: rows [rank_begin, rank_begin + r) of A
    Tensor b;  // leaf [b_groups, n, r]: row j is row out_begin + j * out_step of B
    double scale = 1;
    int64_t rank_begin = 0;
    int64_t out_begin = 0, out_step = 1;
  };

  Tensor a;  // [slots * a_groups, R, in], compute type; R padded with zeros, once
  Tensor b;  // [slots * b_groups, out, R], the scale in it where scale_in_b
  int64_t a_groups = 1, b_groups = 1;  // E, or 1
  bool scale_in_b = true;
  std::vector<Slot> slots;
  std::vector<Factor> factors;

  bool defined() const { return a.defined(); }
};

// A branch from its factors: A and B are their copies in `compute` type, each value rounded once,
// zero where no factor is. All factors of a slot lie in it side by side, in the order given; their
// rank_begin is set here. R is the largest rank of a slot, padded to 16 bytes. `out` is the
// projection's.
GroupedBranch MakeGroupedBranch(std::vector<GroupedBranch::Factor> factors,
                                std::vector<GroupedBranch::Slot> slots, int64_t out, DType compute,
                                bool scale_in_b = true);

struct GroupedProjection {
  Weight weight;  // [E, out, in]
  Weight bias;    // [E, out] or undefined
  const GroupedBranch* branch = nullptr;
};

enum class RouterWeightPlacement {
  kBeforeDown,  // on the activation; a token's rows are added in the order of their experts
  kAfterDown,  // on the output, bias included; a token's rows are added in the order of its choices
};

enum class ExpertNumerics {
  // Base, branch and bias meet in one accumulator, rounded once; rows are added in the accumulator
  // type and rounded once.
  kFast,
  // Every step is rounded to the compute type where NeMo AutoModel's grouped path rounds it: each
  // product, t, t Bᵀ, its multiple by the scale, the sum with the base, the bias, each factor of
  // the activation. Branches must have scale_in_b false, and one scale per slot.
  kAutomodel,
};

struct ExpertsArgs {
  GroupedProjection gate_up;  // D -> U
  GroupedProjection down;     // I -> D
  GatedActivation activation;
  RouterWeightPlacement placement = RouterWeightPlacement::kAfterDown;
  ExpertNumerics numerics = ExpertNumerics::kFast;
  std::shared_ptr<const DispatchPlan> plan;
  const AdapterSpans* spans = nullptr;                    // of the T tokens; null: slot 0 for all
  const Sequences* sequences = nullptr;                   // of the T tokens; null: one
  std::shared_ptr<const std::vector<uint64_t>> row_keys;  // [T], needed when a branch has dropout
  bool accumulator_output =
      false;  // y in the accumulator type: parts of several ranks, to be added
};

// y[t] = sum over t's rows of w · down(act(gate_up(x[t]))), x [T, D], weights [T, K] of the
// accumulator type; y [T, D]. Tokens without rows give exactly 0. Experts without rows are never
// read, and get gradients that are exactly 0. Gradients of factors and weights are sums over tokens
// in blocks of each sequence, straight into the leaves' accumulators; a factor that experts share
// gets them in the order (sequence, block of tokens, expert). No product of A and B is ever formed.
// Saves x once and t for branches, and h [M, U]; the activation is made again.
Tensor Experts(const Tensor& x, const Tensor& weights, const ExpertsArgs& args);

// The same values by plain means: one expert after the other, every step an op of its own that
// rounds to the compute type. What `Experts` is compared with. In bf16 the sums of kBeforeDown with
// a bias take the bias unrounded, as AutoModel's loop over experts does.
Tensor ExpertsReference(const Tensor& x, const Tensor& weights, const ExpertsArgs& args);

}  // namespace lorica

#endif  // LORICA_AUTOGRAD_EXPERTS_H_
