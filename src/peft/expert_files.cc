#include "lorica/peft/expert_files.h"

#include <algorithm>
#include <map>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/autograd/autograd.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/grouped_linear.h"
#include "lorica/peft/grouped_lora_adapter.h"
#include "lorica/tensor/random.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

constexpr absl::string_view kPrefix = "base_model.model.";

bool IsInterleaved(const AdaptedModule& module) {
  const auto* grouped = dynamic_cast<const nn::GroupedLinear*>(module.host);
  return grouped != nullptr && module.part == HostPart::kAll &&
         grouped->outputs() == nn::GroupedLinear::Outputs::kInterleaved;
}

// Rows of b [E, out, R], gate before up, in turn; or back.
Tensor Interleaved(const Tensor& b, bool back) {
  const int64_t half = b.dim(1) / 2;
  Tensor result = Tensor::Empty(b.backend(), b.shape(), b.dtype());
  for (int64_t row = 0; row < half; ++row) {
    for (const int64_t up : {0, 1}) {
      const int64_t apart = up * half + row, in_turn = 2 * row + up;
      b.backend().Copy(b.Narrow(1, back ? in_turn : apart, 1).view(),
                       result.Narrow(1, back ? apart : in_turn, 1).mutable_view());
    }
  }
  return result;
}

absl::Status WrongSize(const StoredModule& module, const Shape& a, const Shape& b) {
  return absl::InvalidArgumentError(
      absl::StrCat("the adapter's factors of ", Quoted(module.path), ": expected A ", a.ToString(),
                   " and B ", b.ToString(), " by the model, found ", module.a.shape().ToString(),
                   " and ", module.b.shape().ToString()));
}

// The shapes that factors of rank `rank` have, with a leading 1 where the file has one.
std::pair<Shape, Shape> ExpectedShapes(const StoredModule& stored, const TargetCandidate& module) {
  const Shape weight = module.host->weight_shape();
  const int64_t rank = stored.rank();
  switch (module.host->kind()) {
    case AdapterHost::Kind::kEmbedding:
      return {Shape{rank, weight[0]}, Shape{weight[1], rank}};
    case AdapterHost::Kind::kLinear:
      return {Shape{rank, weight[1]}, Shape{weight[0], rank}};
    case AdapterHost::Kind::kGroupedLinear:
      break;
  }
  const auto& grouped = dynamic_cast<const nn::GroupedLinear&>(*module.host);
  const int64_t out = OutputsOf(module.part, grouped.outputs(), weight[1]).count;
  const auto leading = [&](const Tensor& factor) {
    return factor.rank() == 3 && factor.dim(0) == 1 ? int64_t{1} : weight[0];
  };
  return {Shape{leading(stored.a), rank, weight[2]}, Shape{leading(stored.b), out, rank}};
}

// "...experts" of "...experts.down_proj", and how files with a pair an expert spell it.
std::string ExpertsPath(const std::string& path, bool numbered) {
  std::string experts(ExpertsOf(path));
  constexpr absl::string_view kEnd = ".mlp.experts";
  if (!numbered || !absl::EndsWith(experts, kEnd)) return experts;
  return absl::StrCat(experts.substr(0, experts.size() - kEnd.size()), ".block_sparse_moe.experts");
}

}  // namespace

ExpertForm ExpertFormOf(const ModelConfig& config) {
  ExpertForm form;
  form.interleaved = config.moe.activation.interleaved;
  form.transposed = config.family == "gpt_oss";
  form.numbered_names = config.family == "mixtral" || config.family == "minimax_m2";
  return form;
}

absl::StatusOr<AdapterSet> FitStoredAdapter(const StoredAdapter& stored, Module& root,
                                            Backend& backend, DType compute, uint64_t seed) {
  if (!stored.left_behind.empty()) {
    return absl::UnimplementedError(
        absl::StrCat("the adapter brings base weights (", stored.left_behind[0],
                     "), which isn't supported beside adapters of experts"));
  }
  const bool split = ExpertKindName(stored) == "split";
  std::map<std::string, const StoredModule*> by_path;
  for (const StoredModule& module : stored.modules) by_path[module.path] = &module;
  std::vector<AdaptedModule> modules;
  std::vector<std::string> paths;
  for (const TargetCandidate& candidate :
       ListTargetCandidates(root, split ? ExpertLoraKind::kSplit : ExpertLoraKind::kFused)) {
    paths.push_back(candidate.path);
    const auto it = by_path.find(candidate.path);
    if (it == by_path.end()) continue;
    const StoredModule& module = *it->second;
    by_path.erase(it);
    const auto [a_shape, b_shape] = ExpectedShapes(module, candidate);
    if (!(module.a.shape() == a_shape) || !(module.b.shape() == b_shape)) {
      return WrongSize(module, a_shape, b_shape);
    }
    const DType master = AccumulatorOf(compute);
    LoraFactors factors;
    const bool embedding = candidate.host->kind() == AdapterHost::Kind::kEmbedding;
    factors.a = raw::Clone(raw::Cast(embedding ? module.a.Transpose(0, 1) : module.a, master));
    AdaptedModule adapted{candidate.path, candidate.host, std::make_shared<LoraAdapter>(),
                          candidate.part};
    factors.b = raw::Cast(module.b, master);
    factors.b = IsInterleaved(adapted) ? Interleaved(factors.b, false) : raw::Clone(factors.b);
    SetRequiresGrad(factors.a, true);
    SetRequiresGrad(factors.b, true);
    factors.alpha = module.alpha;
    factors.scaling = module.scaling;
    factors.dropout = embedding ? 0 : stored.dropout;
    factors.dropout_key =
        CombineKeys(seed, HashName(absl::StrCat(candidate.path, ".lora_dropout")));
    adapted.adapter->AddSlot(std::move(factors));
    modules.push_back(std::move(adapted));
  }
  if (!by_path.empty()) {
    const std::string& path = by_path.begin()->first;
    const std::string nearest = NearestName(path, paths);
    return absl::InvalidArgumentError(
        absl::StrCat("the model has no module ", Quoted(path), " that can carry an adapter",
                     nearest.empty() ? "" : absl::StrCat("; the nearest is ", Quoted(nearest))));
  }
  Freeze(root);
  AdapterSet set(std::move(modules));
  set.Attach();
  return set;
}

StoredAdapter StoredAdapterOf(const AdapterSet& set, int slot, const ExpertForm& form,
                              const std::string& base_model) {
  StoredAdapter stored;
  stored.form = form;
  stored.base_model = base_model;
  for (const AdaptedModule& module : set.modules()) {
    const LoraFactors& factors = module.adapter->factors(slot);
    StoredModule one;
    one.path = module.path;
    one.alpha = factors.alpha;
    one.scaling = factors.scaling;
    one.a = factors.a.Detach();
    one.b = factors.b.Detach();
    stored.dropout = std::max(stored.dropout, factors.dropout);
    switch (module.host->kind()) {
      case AdapterHost::Kind::kEmbedding:
        one.kind = StoredModule::Kind::kEmbedding;
        one.a = raw::Contiguous(one.a.Transpose(0, 1));
        break;
      case AdapterHost::Kind::kGroupedLinear:
        one.kind = StoredModule::Kind::kExperts;
        one.experts = module.host->weight_shape()[0];
        if (IsInterleaved(module)) one.b = Interleaved(one.b, true);
        break;
      case AdapterHost::Kind::kLinear:
        break;
    }
    stored.modules.push_back(std::move(one));
  }
  return stored;
}

std::vector<std::pair<std::string, Tensor>> ExpertTensors(const AdaptedModule& module,
                                                          const Tensor& a, const Tensor& b,
                                                          AdapterLayout layout,
                                                          const ExpertForm& form, int layer_parts) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  const absl::string_view leaf = LastName(module.path);
  const bool gate_up = leaf == "gate_up_proj";
  const int64_t rank = a.dim(1), in = a.dim(2), out = b.dim(1);
  if (layout != AdapterLayout::kPeft2d) {
    // Rows e * R + r of A, columns r * E + e of B; rows of B as the parameter has them.
    const bool inner = gate_up && layer_parts > 1;
    const std::string key =
        absl::StrCat(kPrefix, ExpertsOf(module.path), inner ? ".base_layer" : "");
    tensors.emplace_back(absl::StrCat(key, ".lora_A.weight"),
                         raw::Contiguous(a).WithShape({a.dim(0) * rank, in}));
    tensors.emplace_back(
        absl::StrCat(key, ".lora_B.weight"),
        raw::Contiguous(b.Transpose(0, 2).Transpose(0, 1)).WithShape({out, rank * b.dim(0)}));
    return tensors;
  }
  const Tensor apart = IsInterleaved(module) ? Interleaved(b, true) : b;
  const std::string experts =
      absl::StrCat(kPrefix, ExpertsPath(module.path, form.numbered_names), ".");
  const auto name = [&](absl::string_view plain) -> absl::string_view {
    if (!form.numbered_names) return plain;
    return plain == "gate_proj" ? "w1" : plain == "up_proj" ? "w3" : "w2";
  };
  const auto plane = [](const Tensor& x, int64_t e) {
    return raw::Contiguous(x.Narrow(0, x.dim(0) == 1 ? 0 : e, 1)).WithShape({x.dim(1), x.dim(2)});
  };
  const int64_t count = module.host->weight_shape()[0];
  for (int64_t e = 0; e < count; ++e) {
    const auto add = [&](absl::string_view part, const Tensor& part_b) {
      const std::string key = absl::StrCat(experts, e, ".", name(part));
      tensors.emplace_back(absl::StrCat(key, ".lora_A.weight"), plane(a, e));
      tensors.emplace_back(absl::StrCat(key, ".lora_B.weight"), plane(part_b, e));
    };
    if (gate_up) {
      add("gate_proj", apart.Narrow(1, 0, out / 2));
      add("up_proj", apart.Narrow(1, out / 2, out / 2));
    } else {
      add(leaf, apart);
    }
  }
  return tensors;
}

}  // namespace lorica
