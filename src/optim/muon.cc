#include "lorica/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lorica/autograd/autograd.h"
#include "lorica/tensor/backend.h"

namespace lorica {
namespace {

// Chosen by the method's author so that five rounds bring singular values from (0, 1] near 1.
constexpr double kA = 3.4445, kB = -4.775, kC = 2.0315;
constexpr int kRounds = 5;
constexpr double kSmallestNorm = 1e-7;

// y = a b (kNN) or a bᵀ (kNT).
Tensor Product(const Tensor& a, const Tensor& b, GemmLayout layout) {
  const int64_t n = layout == GemmLayout::kNT ? b.dim(0) : b.dim(1);
  Tensor y = Tensor::Empty(a.backend(), {a.dim(0), n}, a.dtype());
  GemmDesc desc;
  desc.m = a.dim(0);
  desc.n = n;
  desc.k = a.dim(1);
  desc.layout = layout;
  desc.a_type = desc.b_type = desc.y_type = a.dtype();
  a.backend().Gemm(desc, {.a = a.view(), .b = b.view(), .y = y.mutable_view()});
  return y;
}

// y = factor x.
void Scale(Tensor& x, double factor) { x.backend().Affine(x.view(), factor, 0, x.mutable_view()); }

// y += x.
void Add(Tensor& y, const Tensor& x) {
  y.backend().Binary(BinaryOp::kAdd, y.view(), x.view(), y.mutable_view());
}

Tensor Scaled(const Tensor& x, double factor) {
  Tensor y = Tensor::Empty(x.backend(), x.shape(), x.dtype());
  x.backend().Affine(x.view(), factor, 0, y.mutable_view());
  return y;
}

}  // namespace

bool IsMuonParameter(ParameterRole role, int rank) {
  return role == ParameterRole::kMatrix && rank == 2;
}

Tensor Orthogonalize(const Tensor& update) {
  const NoGrad no_grad;
  const bool tall = update.dim(0) > update.dim(1);
  const double norm = std::sqrt(update.backend().SumSquares(update.view()));
  Tensor x = Scaled(raw::Contiguous(tall ? update.Transpose(0, 1) : update),
                    1 / std::max(norm, kSmallestNorm));
  for (int round = 0; round < kRounds; ++round) {
    Tensor a = Product(x, x, GemmLayout::kNT);
    Tensor polynomial = Product(a, a, GemmLayout::kNT);  // a is symmetric
    Scale(polynomial, kC);
    Scale(a, kB);
    Add(polynomial, a);
    Tensor next = Product(polynomial, x, GemmLayout::kNN);
    Scale(x, kA);
    Add(next, x);
    x = std::move(next);
  }
  return tall ? raw::Contiguous(x.Transpose(0, 1)) : x;
}

Muon::Muon(const MuonOptions& muon, const AdamWOptions& adamw, ParameterGroup parameters)
    : Optimizer(std::move(parameters)), muon_(muon), adamw_(adamw) {
  states_.resize(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& master = parameters_[i].master;
    if (IsMuonParameter(parameters_[i].role, master.rank())) {
      states_[i].momentum = Tensor::Zeros(master.backend(), master.shape(), master.dtype());
    } else {
      states_[i].moments.emplace(master);
    }
  }
}

void Muon::Step(const StepArgs& args) {
  ++clock_;
  const double u = muon_.momentum;
  const double rate = muon_.lr * args.rate_factor;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Tensor& master = parameters_[i].master;
    if (states_[i].moments.has_value()) {
      states_[i].moments->Step(master, adamw_, clock_, args);
      continue;
    }
    if (master.numel() == 0) continue;
    Tensor& momentum = states_[i].momentum;
    Tensor gradient = Scaled(GradAccumulator(master), args.grad_scale * (1 - u));
    Scale(momentum, u);
    Add(momentum, gradient);
    if (muon_.nesterov) {
      Add(gradient, Scaled(momentum, u));
    } else {
      gradient = momentum;
    }
    Tensor step = Orthogonalize(gradient);
    const double ratio = static_cast<double>(master.dim(0)) / static_cast<double>(master.dim(1));
    Scale(step, -rate * std::sqrt(std::max(1.0, ratio)));
    Scale(master, 1 - rate * muon_.weight_decay);
    Add(master, step);
  }
}

void Muon::VisitState(const StateVisitor& visitor) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (states_[i].moments.has_value()) {
      visitor(parameters_[i], "adam_m", states_[i].moments->m);
      visitor(parameters_[i], "adam_v", states_[i].moments->v);
    } else {
      visitor(parameters_[i], "momentum", states_[i].momentum);
    }
  }
}

}  // namespace lorica
