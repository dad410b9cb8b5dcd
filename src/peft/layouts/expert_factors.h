// ExpertFactors: the adapters of one layer's routed experts by projection, as most layouts hold
// them; between that form and the modules of a StoredAdapter.
#ifndef LORICA_PEFT_LAYOUTS_EXPERT_FACTORS_H_
#define LORICA_PEFT_LAYOUTS_EXPERT_FACTORS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lorica/peft/layouts/base_facts.h"
#include "lorica/peft/layouts/expert_keys.h"
#include "lorica/peft/stored_adapter.h"

namespace lorica::layouts {

struct ProjectionFactors {
  Tensor a;  // [E, R, in] or [1, R, in]
  Tensor b;  // [E, out, R] or [1, out, R]
  double alpha = 0;
  LoraScaling scaling = LoraScaling::kStandard;

  int64_t rank() const { return a.dim(1); }
  double scale() const { return LoraScale(scaling, rank(), alpha); }
};

struct ExpertFactors {
  int64_t experts = 0;
  std::map<Projection, ProjectionFactors> projections;

  const ProjectionFactors* Find(Projection projection) const {
    const auto it = projections.find(projection);
    return it == projections.end() ? nullptr : &it->second;
  }
};

// By the path of the experts.
using ExpertFactorMap = std::map<std::string, ExpertFactors>;

// Makes modules of what a file holds, after checking that sizes agree among projections and with
// `base` (may be null). Gate and up become one gate_up_proj where in the whole file both are there
// with the same A, rank and scale, unless `recorded` (the kind the file's writer noted; may be
// empty) is "split". With "shared-outer" factors that are the same for all experts become one.
// Projections that are zero in A and in B are padding and left out.
absl::Status AppendExperts(ExpertFactorMap map, const std::string& recorded, const BaseFacts* base,
                           absl::string_view where, StoredAdapter& adapter);

// The experts of `adapter` by gate, up and down. gate_up_proj gives gate and up a copy of A each.
ExpertFactorMap ByProjection(const StoredAdapter& adapter);

// The experts of `adapter` by gate_up and down. Gate and up with an A each become one pair of rank
// R_gate + R_up: A stacked, B block-diagonal; with only one of both B has zero rows for the other.
ExpertFactorMap Stacked(const StoredAdapter& adapter);
// Undoes that: replaces a gate_up whose B has that structure by gate and up; leaves others.
void Unstack(ExpertFactors& factors);

}  // namespace lorica::layouts

#endif  // LORICA_PEFT_LAYOUTS_EXPERT_FACTORS_H_
