#include "lorica/peft/merge.h"

#include "absl/strings/str_cat.h"
#include "lorica/peft/grouped_lora_adapter.h"
#include "lorica/peft/layouts/factor_math.h"
#include "lorica/tensor/backend.h"

namespace lorica {
namespace {

// y[M, N] = a · b (+ addend): operands as in GemmDesc.
Tensor Product(const Tensor& a, const Tensor& b, GemmLayout layout, const Tensor& addend,
               DType dtype) {
  GemmDesc desc;
  desc.m = a.dim(0);
  desc.n = layout == GemmLayout::kNT ? b.dim(0) : b.dim(1);
  desc.k = a.dim(1);
  desc.layout = layout;
  desc.a_type = a.dtype();
  desc.b_type = b.dtype();
  desc.y_type = dtype;
  desc.has_addend = addend.defined();
  Tensor y = Tensor::Empty(a.backend(), {desc.m, desc.n}, dtype);
  GemmArgs args;
  args.a = a.view();
  args.b = b.view();
  args.y = y.mutable_view();
  if (addend.defined()) args.addend = addend.view();
  a.backend().Gemm(desc, args);
  return y;
}

// The factors B with the scale in it.
Tensor ScaledB(const LoraFactors& f) {
  Tensor b = Tensor::Empty(f.b.backend(), f.b.shape(), f.b.dtype());
  if (b.numel() > 0) b.backend().Affine(f.b.view(), f.scale(), 0, b.mutable_view());
  return b;
}

// Adds scale * B[e] A[e] to the outputs that a module adapts of every expert's matrix; `weights`
// [E, out, in] of any compute type. One rounding.
void AddExpertDelta(const AdaptedModule& module, int slot, Tensor& weights) {
  const LoraFactors& f = module.adapter->factors(slot);
  const auto& grouped = dynamic_cast<const nn::GroupedLinear&>(*module.host);
  const PartOutputs outputs = OutputsOf(module.part, grouped.outputs(), weights.dim(1));
  const Tensor scaled = ScaledB(f), a = f.a.Detach();
  GemmDesc desc;
  desc.m = outputs.count;
  desc.n = weights.dim(2);
  desc.k = a.dim(1);
  desc.layout = GemmLayout::kNN;
  desc.a_type = scaled.dtype();
  desc.b_type = a.dtype();
  desc.y_type = weights.dtype();
  desc.has_addend = true;
  for (int64_t e = 0; e < weights.dim(0); ++e) {
    const auto of_expert = [e](const Tensor& stack) {
      return stack.Narrow(0, stack.dim(0) == 1 ? 0 : e, 1).WithShape({stack.dim(1), stack.dim(2)});
    };
    Tensor rows =
        Tensor(weights.storage(), {outputs.count, weights.dim(2)},
               {outputs.step * weights.strides()[1], 1},
               weights.offset() + e * weights.strides()[0] + outputs.begin * weights.strides()[1],
               weights.dtype());
    const Tensor b_here = of_expert(scaled), a_here = of_expert(a);
    GemmArgs args;
    args.a = b_here.view();
    args.b = a_here.view();
    args.addend = rows.view();
    args.y = rows.mutable_view();
    weights.backend().Gemm(desc, args);
  }
}

// addend + scale * B A, rounded to `dtype`.
Tensor AddDelta(const AdaptedModule& module, int slot, const Tensor& addend, DType dtype) {
  const LoraFactors& f = module.adapter->factors(slot);
  if (module.host->kind() == AdapterHost::Kind::kGroupedLinear) {
    Tensor sum = addend.defined()
                     ? raw::Clone(addend)
                     : Tensor::Zeros(f.b.backend(), module.host->weight_shape(), dtype);
    AddExpertDelta(module, slot, sum);
    return sum;
  }
  const Tensor scaled = ScaledB(f);
  // An embedding's A lies transposed, [V, R]: W[V, C] + A B'ᵀ.
  if (module.host->kind() == AdapterHost::Kind::kEmbedding) {
    return Product(f.a.Detach(), scaled, GemmLayout::kNT, addend, dtype);
  }
  return Product(scaled, f.a.Detach(), GemmLayout::kNN, addend, dtype);
}

// A module of the set reads `weight`.
bool Touches(const AdapterSet& set, const Parameter& weight) {
  for (const AdaptedModule& module : set.modules()) {
    if (&module.host->weight() == &weight) return true;
  }
  return false;
}

}  // namespace

Tensor LoraDelta(const AdaptedModule& module, int slot) {
  return AddDelta(module, slot, Tensor(), module.adapter->factors(slot).a.dtype());
}

absl::StatusOr<MergedWeights> MergedWeights::Merge(Module& root, const AdapterSet& set, int slot) {
  MergedWeights merged(set);
  std::vector<Tensor> values;
  std::vector<AdapterHost*> hosts;
  for (const AdaptedModule& module : set.modules()) {
    const LoraFactors& f = module.adapter->factors(slot);
    // Gate and up of a stack of experts are two modules, one behind the other, of one weight.
    if (!hosts.empty() && hosts.back() == module.host) {
      AddExpertDelta(module, slot, values.back());
    } else {
      const Tensor base = module.host->weight().value().Detach();
      hosts.push_back(module.host);
      values.push_back(AddDelta(module, slot, base, base.dtype()));
    }
    if (!layouts::AllFinite(f.a) || !layouts::AllFinite(f.b) ||
        !layouts::AllFinite(values.back())) {
      return absl::InvalidArgumentError(
          absl::StrCat("merging ", module.path, " would give weights that aren't finite"));
    }
  }
  // Tied heads first: from here on they hold the unmerged weights, whatever happens to the owner's.
  for (const TargetCandidate& candidate : ListTargetCandidates(root)) {
    if (!candidate.host->tied() || !Touches(set, candidate.host->weight())) continue;
    candidate.host->Untie(candidate.host->weight().value().Detach());
    merged.originals_.push_back({candidate.host, Tensor()});
  }
  for (size_t i = 0; i < values.size(); ++i) {
    AdapterHost* host = hosts[i];
    merged.originals_.push_back({host, host->weight().value().Detach()});
    host->weight().Assign(values[i]);
  }
  set.DetachBranches();
  return merged;
}

MergedWeights::~MergedWeights() { Unmerge(); }

void MergedWeights::Unmerge() {
  if (originals_.empty()) return;
  for (const Original& original : originals_) {
    if (original.values.defined()) original.host->weight().Assign(original.values);
  }
  for (const Original& original : originals_) {
    if (!original.values.defined()) original.host->Retie();
  }
  originals_.clear();
  set_.AttachBranches();
}

void MergedWeights::Keep() { originals_.clear(); }

}  // namespace lorica
