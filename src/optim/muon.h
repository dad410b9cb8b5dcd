// Muon: momentum, orthogonalised. K. Jordan et al., "Muon: an optimizer for hidden layers in neural
// networks", 2024; the scaling is sqrt(max(1, rows / columns)).
//
//   M <- u M + (1 - u) G                      M starts at 0
//   U  = (1 - u) G + u M with Nesterov, else M
//   X  = U / max(|U|, 1e-7), transposed when it has more rows than columns
//   five times: A = X X^T, X <- a X + (b A + c A A) X
//   W <- (1 - lr d) W - lr sqrt(max(1, rows / columns)) X
//
// All of it in the masters' type: f32, or f64 in f64 mode.
#ifndef LORICA_OPTIM_MUON_H_
#define LORICA_OPTIM_MUON_H_

#include <optional>
#include <vector>

#include "lorica/optim/adamw.h"
#include "lorica/optim/optimizer.h"

namespace lorica {

// Whether Muon updates such a parameter itself. Adapters, embeddings, the head and vectors go to
// AdamW, and so does whatever isn't a matrix.
bool IsMuonParameter(ParameterRole role, int rank);

// The matrices of the group by Muon, the others by AdamW, on one clock. Either part may be empty.
class Muon final : public Optimizer {
 public:
  Muon(const MuonOptions& muon, const AdamWOptions& adamw, ParameterGroup parameters);
  void Step(const StepArgs& args) override;
  void VisitState(const StateVisitor& visitor) override;

 private:
  // One of the two is defined.
  struct State {
    Tensor momentum;
    std::optional<AdamMoments> moments;
  };

  MuonOptions muon_;
  AdamWOptions adamw_;
  std::vector<State> states_;
};

// The polynomial above applied to `update` [rows, columns]: its singular values end near 1.
Tensor Orthogonalize(const Tensor& update);

}  // namespace lorica

#endif  // LORICA_OPTIM_MUON_H_
