// Experts as one pair of 2-D tensors each (peft-2d), and as one pair of 3-D tensors a projection
// (sglang).
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/peft/layouts/layout_files.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/status.h"

namespace lorica::layouts {
namespace {

using IndexedPairs = std::map<int64_t, const FactorPair*>;  // by expert

absl::Status MissingExpert(const PeftInput& input, const std::string& experts,
                           Projection projection, int64_t index, int64_t count) {
  return absl::InvalidArgumentError(absl::StrCat(input.table.where(), ": experts ", Quoted(experts),
                                                 ": expected ", Name(projection), " of all ", count,
                                                 " experts, found none of expert ", index));
}

// The pairs of one projection, by expert.
absl::StatusOr<ProjectionFactors> StackSingles(const PeftInput& input,
                                               const std::vector<const FactorPair*>& pairs) {
  const FactorTable& table = input.table;
  ProjectionFactors f;
  const int64_t experts = static_cast<int64_t>(pairs.size());
  for (int64_t e = 0; e < experts; ++e) {
    const FactorPair& pair = *pairs[static_cast<size_t>(e)];
    Tensor a, b;
    LORICA_ASSIGN_OR_RETURN(a, table.Load(*pair.a, 2, input.backend, input.options.dtype));
    LORICA_ASSIGN_OR_RETURN(b, table.Load(*pair.b, 2, input.backend, input.options.dtype));
    const int64_t rank = input.config.RankOf(pair.path);
    if (a.dim(0) != rank) return table.Wrong(*pair.a, absl::StrCat("rank ", rank, " along axis 0"));
    if (b.dim(1) != rank) return table.Wrong(*pair.b, absl::StrCat("rank ", rank, " along axis 1"));
    const double alpha = input.config.AlphaOf(pair.path);
    if (e == 0) {
      f.a = Tensor::Empty(input.backend, {experts, a.dim(0), a.dim(1)}, a.dtype());
      f.b = Tensor::Empty(input.backend, {experts, b.dim(0), b.dim(1)}, b.dtype());
      f.alpha = alpha;
      f.scaling = input.config.peft.scaling;
    }
    const Shape a_shape = {f.a.dim(1), f.a.dim(2)}, b_shape = {f.b.dim(1), f.b.dim(2)};
    if (!(a.shape() == a_shape)) {
      return table.Wrong(*pair.a, absl::StrCat(a_shape.ToString(), " as of expert 0"));
    }
    if (!(b.shape() == b_shape)) {
      return table.Wrong(*pair.b, absl::StrCat(b_shape.ToString(), " as of expert 0"));
    }
    if (alpha != f.alpha) {
      return absl::InvalidArgumentError(absl::StrCat(table.where(), ": module ", Quoted(pair.path),
                                                     ": expected alpha ", f.alpha,
                                                     ", as of expert 0, found ", alpha));
    }
    Tensor a_slot = f.a.Narrow(0, e, 1), b_slot = f.b.Narrow(0, e, 1);
    input.backend.Copy(a.WithShape({1, a.dim(0), a.dim(1)}).view(), a_slot.mutable_view());
    input.backend.Copy(b.WithShape({1, b.dim(0), b.dim(1)}).view(), b_slot.mutable_view());
  }
  return f;
}

// Projections that the configuration names for a layer's experts and the file has none of. `pair`
// is one that it has.
absl::Status CheckNamedProjections(const PeftInput& input, const std::string& experts,
                                   const FactorPair& pair,
                                   const std::map<Projection, IndexedPairs>& found) {
  const absl::string_view name = LastName(pair.path);
  const std::string stem = pair.path.substr(0, pair.path.size() - name.size());
  for (const Projection projection : {Projection::kGate, Projection::kUp, Projection::kDown}) {
    if (found.count(projection) > 0) continue;
    const absl::string_view sibling =
        SingleName(projection, name == SingleName(found.begin()->first, true));
    if (!input.config.Names(absl::StrCat(stem, sibling))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(input.table.where(), ": experts ", Quoted(experts), ": has no factors for ",
                     sibling, ", which target_modules of adapter_config.json names"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadSingleExperts(const PeftInput& input, const KeyedPairs& pairs,
                               ExpertFactorMap& map) {
  std::map<std::string, std::map<Projection, IndexedPairs>> sorted;
  for (const auto& [key, pair] : pairs) {
    if (!input.config.Names(pair->path)) {
      return absl::InvalidArgumentError(
          absl::StrCat(input.table.where(), ": has factors for ", Quoted(pair->path),
                       ", which target_modules of adapter_config.json doesn't name"));
    }
    const FactorPair*& slot = sorted[key.experts][key.projection][key.index];
    if (slot != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(input.table.where(), ": ", Quoted(slot->path),
                                                     " and ", Quoted(pair->path),
                                                     " are the same module"));
    }
    slot = pair;
  }
  for (const auto& [path, projections] : sorted) {
    LORICA_RETURN_IF_ERROR(CheckNamedProjections(
        input, path, *projections.begin()->second.begin()->second, projections));
    ExpertFactors& factors = map[path];
    factors.experts = input.options.base != nullptr ? input.options.base->experts : 0;
    for (const auto& [projection, by_index] : projections) {
      factors.experts = std::max(factors.experts, by_index.rbegin()->first + 1);
    }
    for (const auto& [projection, by_index] : projections) {
      std::vector<const FactorPair*> stack;
      for (const auto& [index, pair] : by_index) {
        if (index != static_cast<int64_t>(stack.size())) break;
        stack.push_back(pair);
      }
      if (static_cast<int64_t>(stack.size()) != factors.experts) {
        return MissingExpert(input, path, projection, static_cast<int64_t>(stack.size()),
                             factors.experts);
      }
      ProjectionFactors f;
      LORICA_ASSIGN_OR_RETURN(f, StackSingles(input, stack));
      factors.projections[projection] = std::move(f);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadGroupedExperts(const PeftInput& input, const KeyedPairs& pairs,
                                ExpertFactorMap& map) {
  const FactorTable& table = input.table;
  for (const auto& [key, pair] : pairs) {
    ProjectionFactors f;
    LORICA_ASSIGN_OR_RETURN(f.a, table.Load(*pair->a, 3, input.backend, input.options.dtype));
    LORICA_ASSIGN_OR_RETURN(f.b, table.Load(*pair->b, 3, input.backend, input.options.dtype));
    const int64_t rank = input.config.RankOf(pair->path);
    if (f.a.dim(1) != rank) {
      return table.Wrong(*pair->a, absl::StrCat("rank ", rank, " along axis 1"));
    }
    if (f.b.dim(2) != rank) {
      return table.Wrong(*pair->b, absl::StrCat("rank ", rank, " along axis 2"));
    }
    f.alpha = input.config.AlphaOf(pair->path);
    f.scaling = input.config.peft.scaling;
    ExpertFactors& factors = map[key.experts];
    factors.experts = std::max({factors.experts, f.a.dim(0), f.b.dim(0)});
    if (!factors.projections.emplace(key.projection, std::move(f)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(table.where(), ": ", Quoted(pair->path), " is there in two spellings"));
    }
  }
  return absl::OkStatus();
}

}  // namespace lorica::layouts
