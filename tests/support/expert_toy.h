// A small stack of experts with adapters of any kind.
#ifndef LORICA_TESTS_SUPPORT_EXPERT_TOY_H_
#define LORICA_TESTS_SUPPORT_EXPERT_TOY_H_

#include <memory>
#include <string>
#include <vector>

#include "lorica/autograd/autograd.h"
#include "lorica/autograd/experts.h"
#include "lorica/tensor/random.h"

namespace lorica::testing {

enum class ToyKind { kNone, kFused, kSplit, kSharedOuter };

struct ToyOptions {
  int64_t tokens = 9, top_k = 2, experts = 5, width = 6, inner = 4, rank = 3;
  ToyKind kind = ToyKind::kFused;
  int slots = 1;
  GatedActivation activation;
  RouterWeightPlacement placement = RouterWeightPlacement::kAfterDown;
  ExpertNumerics numerics = ExpertNumerics::kFast;
  bool bias = false;
  bool train_weights = false;
  bool zero_b = false;
  double dropout = 0;
  DType dtype = DType::kF64;
  int idle = -1;  // an expert that no token chooses
};

// Leaves, the arguments that use them, and the order of all that trains.
struct ExpertToy {
  ToyOptions options;
  Backend* backend = nullptr;
  Tensor x, weights;
  Tensor w1, b1, w2, b2;
  std::vector<GroupedBranch::Factor> gate_up_factors, down_factors;
  std::vector<int32_t> choices;
  std::shared_ptr<const DispatchPlan> plan;
  AdapterSpans spans;
  Sequences sequences;
  std::shared_ptr<const std::vector<uint64_t>> row_keys;

  Tensor Random(const Shape& shape, DType type, bool leaf, double size = 0.7) {
    std::vector<double> values(static_cast<size_t>(shape.numel()));
    for (double& v : values) v = size * (2 * random_.Uniform() - 1);
    Tensor t = raw::Cast(Tensor::FromHost<double>(*backend, shape, values), type);
    if (leaf) SetRequiresGrad(t, true);
    return t;
  }

  ExpertToy(Backend& on, const ToyOptions& o) : options(o), backend(&on), random_(23, 5) {
    const int64_t gate_up = o.inner * (o.activation.gated() ? 2 : 1);
    const DType wide = AccumulatorOf(o.dtype);
    x = Random({o.tokens, o.width}, o.dtype, true);
    weights = Random({o.tokens, o.top_k}, wide, true);
    w1 = Random({o.experts, gate_up, o.width}, o.dtype, o.train_weights);
    w2 = Random({o.experts, o.width, o.inner}, o.dtype, o.train_weights);
    if (o.bias) {
      b1 = Random({o.experts, gate_up}, o.dtype, o.train_weights);
      b2 = Random({o.experts, o.width}, o.dtype, o.train_weights);
    }
    const bool shared = o.kind == ToyKind::kSharedOuter;
    const bool split = o.kind == ToyKind::kSplit && o.activation.gated();
    const double size_b = o.zero_b ? 0 : 0.4;
    for (int slot = 0; o.kind != ToyKind::kNone && slot < o.slots; ++slot) {
      const int64_t rank = o.rank + slot;
      for (int part = 0; part < (split ? 2 : 1); ++part) {
        const bool turns = o.activation.interleaved;
        gate_up_factors.push_back(
            {.slot = slot,
             .a = Random({shared ? 1 : o.experts, rank, o.width}, wide, true),
             .b = Random({o.experts, split ? o.inner : gate_up, rank}, wide, true, size_b),
             .scale = 1.5 + slot,
             .out_begin = !split  ? 0
                          : turns ? part
                                  : part * o.inner,
             .out_step = split && turns ? 2 : 1});
      }
      down_factors.push_back(
          {.slot = slot,
           .a = Random({o.experts, rank, o.inner}, wide, true),
           .b = Random({shared ? 1 : o.experts, o.width, rank}, wide, true, size_b),
           .scale = 0.75 + slot});
    }
    RandomStream pick(31, 7);
    for (int64_t t = 0; t < o.tokens; ++t) {
      std::vector<int32_t> pool;
      for (int32_t e = 0; e < static_cast<int32_t>(o.experts); ++e) {
        if (e != o.idle) pool.push_back(e);
      }
      for (int64_t k = 0; k < o.top_k; ++k) {
        const size_t at = pick.Below(pool.size());
        choices.push_back(pool[at]);
        pool.erase(pool.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    plan = std::make_shared<const DispatchPlan>(
        MakeDispatchPlan(choices, o.tokens, o.top_k, o.experts));
    sequences = Sequences::Single(o.tokens);
    std::vector<uint64_t> keys;
    for (int64_t t = 0; t < o.tokens; ++t) keys.push_back(MixBits(static_cast<uint64_t>(t) + 77));
    row_keys = std::make_shared<const std::vector<uint64_t>>(keys);
  }

  std::vector<Tensor> Leaves() const {
    std::vector<Tensor> leaves = {x, weights};
    for (const Tensor& t : {w1, b1, w2, b2}) {
      if (t.defined() && RequiresGrad(t)) leaves.push_back(t);
    }
    for (const auto* factors : {&gate_up_factors, &down_factors}) {
      for (const GroupedBranch::Factor& f : *factors) {
        leaves.push_back(f.a);
        leaves.push_back(f.b);
      }
    }
    return leaves;
  }

  // Runs the op, or the reference, on the present values of the leaves.
  Tensor Run(bool reference = false) { return RunOn(x, reference); }
  Tensor RunOn(const Tensor& input, bool reference = false) {
    const ToyOptions& o = options;
    const bool fold = o.numerics == ExpertNumerics::kFast;
    const std::vector<GroupedBranch::Slot> slots(static_cast<size_t>(o.slots),
                                                 {.dropout = o.dropout, .dropout_key = 99});
    GroupedBranch gate_up, down;
    if (o.kind != ToyKind::kNone) {
      gate_up = MakeGroupedBranch(gate_up_factors, slots, w1.dim(1), o.dtype, fold);
      down = MakeGroupedBranch(down_factors, slots, w2.dim(1), o.dtype, fold);
    }
    ExpertsArgs args;
    args.gate_up = {Weight(w1), b1.defined() ? Weight(b1) : Weight(), &gate_up};
    args.down = {Weight(w2), b2.defined() ? Weight(b2) : Weight(), &down};
    args.activation = o.activation;
    args.placement = o.placement;
    args.numerics = o.numerics;
    args.plan = plan;
    if (!spans.spans().empty()) args.spans = &spans;
    args.sequences = &sequences;
    args.row_keys = row_keys;
    return reference ? ExpertsReference(input, weights, args) : Experts(input, weights, args);
  }

 private:
  RandomStream random_;
};

inline std::vector<std::pair<std::string, GatedActivation>> ToyActivations() {
  return {{"swiglu", {}},
          {"swiglu_limit", {.limit = 0.5}},
          {"swigluoai", {.slope = 1.702, .offset = 1, .limit = 0.6}},
          {"quick_geglu", {.slope = 1.702, .offset = 1, .limit = 0.6, .interleaved = true}},
          {"geglu", {.kind = GatedActivation::Kind::kGeluTanh}},
          {"relu2", {.kind = GatedActivation::Kind::kRelu2}}};
}

}  // namespace lorica::testing

#endif  // LORICA_TESTS_SUPPORT_EXPERT_TOY_H_
