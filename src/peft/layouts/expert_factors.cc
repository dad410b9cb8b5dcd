#include "lorica/peft/layouts/expert_factors.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/peft/layouts/factor_math.h"
#include "lorica/tensor/status.h"

namespace lorica::layouts {
namespace {

absl::Status Wrong(absl::string_view where, const std::string& path, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": experts ", Quoted(path), ": ", message));
}

int64_t HalfOut(const ExpertFactors& factors) {
  if (const ProjectionFactors* f = factors.Find(Projection::kGateUp)) return f->b.dim(1) / 2;
  if (const ProjectionFactors* f = factors.Find(Projection::kGate)) return f->b.dim(1);
  const ProjectionFactors* f = factors.Find(Projection::kUp);
  return f == nullptr ? 0 : f->b.dim(1);
}

absl::Status CheckSizes(const std::string& path, const ExpertFactors& factors,
                        const BaseFacts* base, absl::string_view where) {
  int64_t hidden = base != nullptr ? base->hidden : 0;
  int64_t width = base != nullptr ? base->expert_width : 0;
  if (base != nullptr && base->experts > 0 && base->experts != factors.experts) {
    return Wrong(where, path,
                 absl::StrCat("expected ", base->experts, " experts, as the model has, found ",
                              factors.experts));
  }
  const auto agree = [&](Projection projection, const char* side, int64_t found,
                         int64_t& expected) -> absl::Status {
    if (expected == 0) expected = found;
    if (found == expected) return absl::OkStatus();
    return Wrong(where, path,
                 absl::StrCat("expected ", expected, " ", side, "s of ", Name(projection),
                              ", as the other sizes have it, found ", found));
  };
  for (const auto& [projection, f] : factors.projections) {
    if (f.b.dim(2) != f.rank()) {
      return Wrong(where, path,
                   absl::StrCat("ranks of A and B of ", Name(projection), " differ: ", f.rank(),
                                " and ", f.b.dim(2)));
    }
    for (const int64_t count : {f.a.dim(0), f.b.dim(0)}) {
      if (count == 1 || count == factors.experts) continue;
      return Wrong(where, path,
                   absl::StrCat("expected factors of ", factors.experts, " or 1 experts for ",
                                Name(projection), ", found ", count));
    }
    const bool down = projection == Projection::kDown;
    int64_t out = f.b.dim(1);
    if (projection == Projection::kGateUp) {
      if (out % 2 != 0) {
        return Wrong(
            where, path,
            absl::StrCat("expected an even number of outputs of gate_up_proj, found ", out));
      }
      out /= 2;
    }
    LORICA_RETURN_IF_ERROR(agree(projection, "input", f.a.dim(2), down ? width : hidden));
    LORICA_RETURN_IF_ERROR(agree(projection, "output", out, down ? hidden : width));
  }
  return absl::OkStatus();
}

bool SameScale(const ProjectionFactors& x, const ProjectionFactors& y) {
  return x.alpha == y.alpha && x.scaling == y.scaling;
}

// Gate and up can share A.
bool Joinable(const ExpertFactors& factors) {
  const ProjectionFactors* gate = factors.Find(Projection::kGate);
  const ProjectionFactors* up = factors.Find(Projection::kUp);
  if (gate == nullptr && up == nullptr) return true;
  if (gate == nullptr || up == nullptr || !SameScale(*gate, *up)) return false;
  return SameBits(gate->a, up->a) ||
         SameBits(Expanded(gate->a, factors.experts), Expanded(up->a, factors.experts));
}

void Join(ExpertFactors& factors) {
  const auto gate = factors.projections.find(Projection::kGate);
  const auto up = factors.projections.find(Projection::kUp);
  if (gate == factors.projections.end() || up == factors.projections.end()) return;
  ProjectionFactors joined = gate->second;
  if (joined.a.dim(0) != 1) joined.a = up->second.a;
  joined.b =
      Concat(Expanded(gate->second.b, factors.experts), Expanded(up->second.b, factors.experts), 1);
  factors.projections.erase(gate);
  factors.projections.erase(up);
  factors.projections[Projection::kGateUp] = std::move(joined);
}

void Collapse(ExpertFactors& factors) {
  for (auto& [projection, f] : factors.projections) {
    Tensor& outer = projection == Projection::kDown ? f.b : f.a;
    outer = Collapsed(outer);
  }
}

std::map<std::string, ExpertFactors> ExpertsIn(const StoredAdapter& adapter) {
  std::map<std::string, ExpertFactors> map;
  for (const StoredModule& module : adapter.modules) {
    if (module.kind != StoredModule::Kind::kExperts) continue;
    ExpertFactors& factors = map[std::string(ExpertsOf(module.path))];
    factors.experts = module.experts;
    const absl::string_view name = LastName(module.path);
    for (const Projection projection :
         {Projection::kGate, Projection::kUp, Projection::kDown, Projection::kGateUp}) {
      if (name == Name(projection)) {
        factors.projections[projection] = {module.a, module.b, module.alpha, module.scaling};
      }
    }
  }
  return map;
}

// One pair for gate and up, of which one may be absent.
ProjectionFactors StackedPair(const ProjectionFactors* gate, const ProjectionFactors* up,
                              int64_t experts) {
  ProjectionFactors first = gate != nullptr ? *gate : *up;
  first.b = Expanded(first.b, experts);
  if (gate == nullptr || up == nullptr) {
    const Tensor none = Tensor::Zeros(first.b.backend(), first.b.shape(), first.b.dtype());
    first.b = gate != nullptr ? Concat(first.b, none, 1) : Concat(none, first.b, 1);
    return first;
  }
  if (first.scale() == 0) {
    first.b = Scaled(first.b, 0);
    const double rank = static_cast<double>(first.rank());
    first.alpha = up->scale() * (first.scaling == LoraScaling::kRsLora ? std::sqrt(rank) : rank);
  }
  Tensor up_b = Expanded(up->b, experts);
  const double ratio = first.scale() == 0 ? 1 : up->scale() / first.scale();
  if (std::abs(ratio - 1) > 1e-14) up_b = Scaled(up_b, ratio);
  ProjectionFactors stacked;
  const bool shared = gate->a.dim(0) == 1 && up->a.dim(0) == 1;
  stacked.a = shared ? Concat(gate->a, up->a, 1)
                     : Concat(Expanded(gate->a, experts), Expanded(up->a, experts), 1);
  stacked.b = BlockDiagonal(first.b, up_b);
  stacked.scaling = first.scaling;
  const double growth = static_cast<double>(stacked.rank()) / static_cast<double>(first.rank());
  stacked.alpha =
      first.alpha * (first.scaling == LoraScaling::kRsLora ? std::sqrt(growth) : growth);
  return stacked;
}

}  // namespace

absl::Status AppendExperts(ExpertFactorMap map, const std::string& recorded, const BaseFacts* base,
                           absl::string_view where, StoredAdapter& adapter) {
  bool joinable = recorded != "split";
  for (auto& [path, factors] : map) {
    LORICA_RETURN_IF_ERROR(CheckSizes(path, factors, base, where));
    for (auto it = factors.projections.begin(); it != factors.projections.end();) {
      const bool padding = AllZero(it->second.a) && AllZero(it->second.b);
      it = padding ? factors.projections.erase(it) : std::next(it);
    }
    joinable = joinable && Joinable(factors);
  }
  for (auto& [path, factors] : map) {
    if (joinable) Join(factors);
    if (recorded == "shared-outer") Collapse(factors);
    for (auto& [projection, f] : factors.projections) {
      StoredModule module;
      module.path = absl::StrCat(path, ".", Name(projection));
      module.kind = StoredModule::Kind::kExperts;
      module.experts = factors.experts;
      module.a = raw::Contiguous(f.a);
      module.b = raw::Contiguous(f.b);
      module.alpha = f.alpha;
      module.scaling = f.scaling;
      adapter.modules.push_back(std::move(module));
    }
  }
  return absl::OkStatus();
}

ExpertFactorMap ByProjection(const StoredAdapter& adapter) {
  ExpertFactorMap map = ExpertsIn(adapter);
  for (auto& [path, factors] : map) {
    const auto it = factors.projections.find(Projection::kGateUp);
    if (it == factors.projections.end()) continue;
    const ProjectionFactors both = it->second;
    factors.projections.erase(it);
    const int64_t half = both.b.dim(1) / 2;
    ProjectionFactors gate = both, up = both;
    gate.b = raw::Contiguous(both.b.Narrow(1, 0, half));
    up.b = raw::Contiguous(both.b.Narrow(1, half, half));
    factors.projections[Projection::kGate] = std::move(gate);
    factors.projections[Projection::kUp] = std::move(up);
  }
  return map;
}

ExpertFactorMap Stacked(const StoredAdapter& adapter) {
  ExpertFactorMap map = ExpertsIn(adapter);
  for (auto& [path, factors] : map) {
    const ProjectionFactors* gate = factors.Find(Projection::kGate);
    const ProjectionFactors* up = factors.Find(Projection::kUp);
    if (gate == nullptr && up == nullptr) continue;
    ProjectionFactors both = StackedPair(gate, up, factors.experts);
    factors.projections.erase(Projection::kGate);
    factors.projections.erase(Projection::kUp);
    factors.projections[Projection::kGateUp] = std::move(both);
  }
  return map;
}

void Unstack(ExpertFactors& factors) {
  const auto it = factors.projections.find(Projection::kGateUp);
  if (it == factors.projections.end()) return;
  const ProjectionFactors both = it->second;
  const int64_t rank = both.rank(), half = HalfOut(factors);
  const Tensor gate_rows = both.b.Narrow(1, 0, half), up_rows = both.b.Narrow(1, half, half);
  // A cut leaves columns of gate rows before it and those of up rows behind it. Half of the rank
  // each is what writers do; other cuts are for ranks that differ.
  int64_t lowest = rank, highest = 0;
  while (lowest > 0 && AllZero(gate_rows.Narrow(2, lowest - 1, 1))) --lowest;
  while (highest < rank && AllZero(up_rows.Narrow(2, highest, 1))) ++highest;
  lowest = std::max<int64_t>(lowest, 1);
  highest = std::min(highest, rank - 1);
  if (lowest > highest) return;
  const int64_t cut = lowest <= rank / 2 && rank / 2 <= highest ? rank / 2 : lowest;
  const auto part = [&](int64_t begin, int64_t length, const Tensor& rows) {
    ProjectionFactors f = both;
    f.a = raw::Contiguous(both.a.Narrow(1, begin, length));
    f.b = raw::Contiguous(rows.Narrow(2, begin, length));
    const double growth = static_cast<double>(length) / static_cast<double>(rank);
    f.alpha *= f.scaling == LoraScaling::kRsLora ? std::sqrt(growth) : growth;
    return f;
  };
  factors.projections.erase(it);
  factors.projections[Projection::kGate] = part(0, cut, gate_rows);
  factors.projections[Projection::kUp] = part(cut, rank - cut, up_rows);
}

}  // namespace lorica::layouts
