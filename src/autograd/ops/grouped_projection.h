// One grouped projection of an op: base, bias and low-rank branches by rows that are sorted by
// expert, with all gradients.
//
// Letters: M rows, R rank.
#ifndef LORICA_AUTOGRAD_OPS_GROUPED_PROJECTION_H_
#define LORICA_AUTOGRAD_OPS_GROUPED_PROJECTION_H_

#include <tuple>
#include <vector>

#include "lorica/autograd/experts.h"
#include "lorica/autograd/op.h"
#include "lorica/autograd/ops/row_groups.h"

namespace lorica::ops {

class GroupedProjectionState {
 public:
  // `first_input` is the number of the weight's leaf among the op's inputs.
  GroupedProjectionState(const char* op, const GroupedProjection& projection, int first_input);
  GroupedProjectionState() = default;

  // Appends the leaves, in the order that Backward returns gradients in: weight, bias, then a and b
  // of each factor.
  void AppendInputs(std::vector<Tensor>& inputs) const;
  auto saved() const { return std::tie(weight_, bias_, a_, b_, t_); }

  bool NeedsWeights(const Op& op) const;  // weight or bias
  bool NeedsFactors(const Op& op) const;
  bool HasBias() const { return bias_.defined(); }
  const Tensor& bias() const { return bias_.unchecked(); }

  // y [M, out] of `type` from x [M, in].
  Tensor Forward(const RowGroups& groups, const Tensor& x, DType type, bool with_bias,
                 ExpertNumerics numerics);
  // After Forward: drops what Backward won't read.
  void Keep(const Op& op);

  // dx [M, in] of `type` from dy [M, out]; `dt` [M, R] is kept for FactorGrads.
  Tensor InputGrad(const RowGroups& groups, const Tensor& dy, DType type, ExpertNumerics numerics,
                   Tensor& dt) const;
  // Adds the gradients of everything that needs one; x [M, in]. With `row_factor` [M] the gradient
  // of a row is row_factor * dy (and * dt), with `bias_factor` that of the bias bias_factor * dy.
  void AddGrads(const RowGroups& groups, const Op& op, const Tensor& x, const Tensor& dy,
                const Tensor& dt, const Tensor& row_factor, const Tensor& bias_factor,
                std::vector<Tensor>& grads) const;

 private:
  int64_t AIndex(int slot, int64_t expert) const {
    return a_groups_ == 1 ? slot : slot * a_groups_ + expert;
  }
  int64_t BIndex(int slot, int64_t expert) const {
    return b_groups_ == 1 ? slot : slot * b_groups_ + expert;
  }
  int FactorInput(size_t factor) const { return first_input_ + 2 + 2 * static_cast<int>(factor); }
  // Of all factors of a slot, where B doesn't carry it.
  double ScaleOf(int slot) const;
  // The matrices of A or B that the groups meet, -1 without a slot.
  std::vector<int32_t> Matrices(const RowGroups& groups, bool of_a) const;
  // x with the dropout of each row's slot.
  Tensor Dropped(const RowGroups& groups, const Tensor& x) const;
  bool HasDropout() const;
  void AddFactorGrads(const RowGroups& groups, const Op& op, const Tensor& x, const Tensor& dy,
                      const Tensor& dt, const Tensor& row_factor, std::vector<Tensor>& grads) const;

  const char* op_ = "";
  int first_input_ = 0;
  Saved weight_, bias_, a_, b_, t_;
  Tensor weight_leaf_, bias_leaf_;
  int64_t a_groups_ = 1, b_groups_ = 1;
  bool scale_in_b_ = true;
  std::vector<GroupedBranch::Slot> slots_;
  std::vector<GroupedBranch::Factor> factors_;
};

}  // namespace lorica::ops

#endif  // LORICA_AUTOGRAD_OPS_GROUPED_PROJECTION_H_
