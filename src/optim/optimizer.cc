#include "lorica/optim/optimizer.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/autograd/autograd.h"
#include "lorica/optim/adamw.h"
#include "lorica/optim/muon.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

absl::Status InRange(absl::string_view name, double value, bool ok, absl::string_view range) {
  if (ok && std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": expected a value ", range, ", found ", value));
}

}  // namespace

absl::Status Validate(const OptimizerOptions& options) {
  const AdamWOptions& a = options.adamw;
  const MuonOptions& m = options.muon;
  LORICA_RETURN_IF_ERROR(InRange("lr", a.lr, a.lr >= 0, "of 0 or more"));
  LORICA_RETURN_IF_ERROR(InRange("beta1", a.beta1, a.beta1 >= 0 && a.beta1 < 1, "in [0, 1)"));
  LORICA_RETURN_IF_ERROR(InRange("beta2", a.beta2, a.beta2 >= 0 && a.beta2 < 1, "in [0, 1)"));
  LORICA_RETURN_IF_ERROR(InRange("eps", a.eps, a.eps >= 0, "of 0 or more"));
  LORICA_RETURN_IF_ERROR(
      InRange("weight-decay", a.weight_decay, a.weight_decay >= 0, "of 0 or more"));
  LORICA_RETURN_IF_ERROR(InRange("muon-lr", m.lr, m.lr >= 0, "of 0 or more"));
  LORICA_RETURN_IF_ERROR(
      InRange("muon-momentum", m.momentum, m.momentum >= 0 && m.momentum < 1, "in [0, 1)"));
  return InRange("weight-decay", m.weight_decay, m.weight_decay >= 0, "of 0 or more");
}

Optimizer::Optimizer(ParameterGroup parameters) : parameters_(std::move(parameters)) {
  std::set<std::string> paths;
  for (const NamedParameter& parameter : parameters_) {
    const Tensor& master = parameter.master;
    LORICA_CHECK(master.defined() && RequiresGrad(master) && master.is_contiguous() &&
                     master.dtype() == AccumulatorOf(master.dtype()),
                 "[optimizer] ", parameter.path,
                 ": expected a contiguous f32 or f64 leaf that needs a gradient");
    LORICA_CHECK(paths.insert(parameter.path).second, "[optimizer] two parameters are called ",
                 parameter.path);
  }
}

int StateCopies(OptimizerKind kind, ParameterRole role, int rank) {
  return kind == OptimizerKind::kMuon && IsMuonParameter(role, rank) ? 1 : 2;
}

std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerOptions& options,
                                         ParameterGroup parameters) {
  if (options.kind == OptimizerKind::kMuon) {
    return std::make_unique<Muon>(options.muon, options.adamw, std::move(parameters));
  }
  return std::make_unique<AdamW>(options.adamw, std::move(parameters));
}

}  // namespace lorica
