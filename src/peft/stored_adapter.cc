#include "lorica/peft/stored_adapter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

double At(const Tensor& t, int64_t index) {
  return t.dtype() == DType::kF64 ? t.data<double>()[index]
                                  : static_cast<double>(t.data<float>()[index]);
}

// Part of a module's output that one projection owns: a whole module, or half of gate_up_proj.
struct Unit {
  const StoredModule* module = nullptr;
  int64_t row = 0;  // of B
  int64_t rows = 0;
};

std::map<std::string, Unit> UnitsOf(const StoredAdapter& adapter) {
  std::map<std::string, Unit> units;
  for (const StoredModule& module : adapter.modules) {
    if (module.kind == StoredModule::Kind::kExperts && LastName(module.path) == "gate_up_proj") {
      const int64_t half = module.out() / 2;
      units[absl::StrCat(ExpertsOf(module.path), ".gate_proj")] = {&module, 0, half};
      units[absl::StrCat(ExpertsOf(module.path), ".up_proj")] = {&module, half, half};
    } else {
      units[module.path] = {&module, 0, module.out()};
    }
  }
  return units;
}

// One expert's factors of a unit; dense modules count as one expert.
struct UnitView {
  const Unit& unit;
  int64_t expert;

  double A(int64_t rank, int64_t column) const {
    const StoredModule& m = *unit.module;
    const int64_t e = m.experts > 0 && m.a.dim(0) > 1 ? expert : 0;
    return At(m.a, (e * m.rank() + rank) * m.in() + column);
  }
  double B(int64_t row, int64_t rank) const {
    const StoredModule& m = *unit.module;
    const int64_t e = m.experts > 0 && m.b.dim(0) > 1 ? expert : 0;
    return At(m.b, (e * m.out() + unit.row + row) * m.rank() + rank);
  }
  std::vector<int64_t> LiveColumns() const {
    std::vector<int64_t> live;
    if (unit.module->scale() == 0) return live;
    for (int64_t j = 0; j < unit.module->rank(); ++j) {
      bool a = false, b = false;
      for (int64_t i = 0; i < unit.module->in() && !a; ++i) a = A(j, i) != 0;
      for (int64_t o = 0; o < unit.rows && !b; ++o) b = B(o, j) != 0;
      if (a && b) live.push_back(j);
    }
    return live;
  }
};

int64_t ExpertCount(const Unit& unit) { return std::max<int64_t>(unit.module->experts, 1); }

absl::Status Differs(const std::string& path, int64_t expert, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(
      "module ", Quoted(path), expert > 0 ? absl::StrCat(", expert ", expert) : "", ": ", what));
}

absl::Status CompareUnits(const std::string& path, const Unit& got, const Unit& want) {
  if (got.rows != want.rows || got.module->in() != want.module->in() ||
      got.module->experts != want.module->experts || got.module->kind != want.module->kind) {
    return Differs(path, 0, "sizes differ");
  }
  const double got_scale = got.module->scale(), want_scale = want.module->scale();
  // alpha is recovered from the scale by one product and one quotient.
  const bool folded = !(std::abs(got_scale - want_scale) <= 1e-14 * std::abs(want_scale));
  // Folding rounds once; a fold on the way here may have rounded before.
  const double tolerance = std::ldexp(1.0, -23);
  for (int64_t e = 0; e < ExpertCount(want); ++e) {
    const UnitView a{got, e}, b{want, e};
    const std::vector<int64_t> got_live = a.LiveColumns(), want_live = b.LiveColumns();
    if (got_live.size() != want_live.size()) return Differs(path, e, "ranks differ");
    for (size_t j = 0; j < want_live.size(); ++j) {
      for (int64_t i = 0; i < want.module->in(); ++i) {
        if (a.A(got_live[j], i) != b.A(want_live[j], i)) return Differs(path, e, "A differs");
      }
      for (int64_t o = 0; o < want.rows; ++o) {
        const double x = a.B(o, got_live[j]), y = b.B(o, want_live[j]);
        const double distance = std::abs(x * got_scale - y * want_scale);
        const bool same = folded
                              ? distance <= tolerance * std::abs(y * want_scale) +
                                                std::numeric_limits<float>::denorm_min() * got_scale
                              : x == y;
        if (!same) return Differs(path, e, "B differs");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDead(const std::string& path, const Unit& unit) {
  for (int64_t e = 0; e < ExpertCount(unit); ++e) {
    if (!UnitView{unit, e}.LiveColumns().empty()) {
      return Differs(path, e, "only one of both has it");
    }
  }
  return absl::OkStatus();
}

absl::Status CompareSaved(const StoredAdapter& got, const StoredAdapter& want) {
  std::map<std::string, Tensor> left;
  for (const SavedTensor& t : got.saved) left[absl::StrCat(t.module, ".", t.name)] = t.values;
  for (const SavedTensor& t : want.saved) {
    const std::string name = absl::StrCat(t.module, ".", t.name);
    const auto it = left.find(name);
    if (it == left.end() || !(it->second.shape() == t.values.shape()) ||
        it->second.ToDoubles() != t.values.ToDoubles()) {
      return absl::DataLossError(
          absl::StrCat(Quoted(name), " isn't what the other adapter brings in full"));
    }
    left.erase(it);
  }
  if (left.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(Quoted(left.begin()->first), " isn't in the other adapter"));
}

}  // namespace

bool IsOrEnds(absl::string_view path, absl::string_view name) {
  return path == name || absl::EndsWith(path, absl::StrCat(".", name));
}

absl::string_view ExpertsOf(absl::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == absl::string_view::npos ? absl::string_view() : path.substr(0, dot);
}

absl::string_view LastName(absl::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == absl::string_view::npos ? path : path.substr(dot + 1);
}

absl::string_view ExpertKindName(const StoredAdapter& adapter) {
  bool any = false, split = false;
  for (const StoredModule& module : adapter.modules) {
    if (module.kind != StoredModule::Kind::kExperts) continue;
    any = true;
    if (module.experts > 1 && (module.a.dim(0) == 1 || module.b.dim(0) == 1)) return "shared-outer";
    const absl::string_view name = LastName(module.path);
    split = split || name == "gate_proj" || name == "up_proj";
  }
  return !any ? "" : split ? "split" : "fused";
}

std::vector<double> DeltaOf(const StoredModule& module, int64_t expert) {
  const bool experts = module.kind == StoredModule::Kind::kExperts;
  LORICA_CHECK(expert >= 0 && expert < std::max<int64_t>(module.experts, 1),
               "[delta] expert is out of range");
  const Unit unit{&module, 0, module.out()};
  const UnitView view{unit, experts ? expert : 0};
  const int64_t out = module.out(), in = module.in(), rank = module.rank();
  std::vector<double> delta(static_cast<size_t>(out * in), 0.0);
  const bool embedding = module.kind == StoredModule::Kind::kEmbedding;
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < in; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < rank; ++j) sum += view.B(o, j) * view.A(j, i);
      delta[static_cast<size_t>(embedding ? i * out + o : o * in + i)] = module.scale() * sum;
    }
  }
  return delta;
}

absl::Status CompareDeltas(const StoredAdapter& got, const StoredAdapter& want) {
  LORICA_RETURN_IF_ERROR(CompareSaved(got, want));
  const std::map<std::string, Unit> got_units = UnitsOf(got), want_units = UnitsOf(want);
  for (const auto& [path, unit] : want_units) {
    const auto it = got_units.find(path);
    LORICA_RETURN_IF_ERROR(it == got_units.end() ? CheckDead(path, unit)
                                                 : CompareUnits(path, it->second, unit));
  }
  for (const auto& [path, unit] : got_units) {
    if (want_units.find(path) == want_units.end()) LORICA_RETURN_IF_ERROR(CheckDead(path, unit));
  }
  return absl::OkStatus();
}

}  // namespace lorica
