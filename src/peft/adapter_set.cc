#include "lorica/peft/adapter_set.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/peft/grouped_lora_adapter.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

// Each pattern must mean at least one of the selected modules.
template <typename Value>
absl::Status CheckPatterns(absl::string_view what,
                           const std::vector<std::pair<std::string, Value>>& patterns,
                           const std::vector<TargetCandidate>& selected) {
  for (const auto& entry : patterns) {
    bool any = false;
    for (const TargetCandidate& module : selected) {
      any = any || MatchesTarget(entry.first, module.path, module.host->kind());
    }
    if (any) continue;
    std::vector<std::string> paths;
    for (const TargetCandidate& module : selected) paths.push_back(module.path);
    const std::string nearest = NearestPath(entry.first, paths);
    return absl::InvalidArgumentError(absl::StrCat(
        what, " pattern ", Quoted(entry.first), " matches none of the ", selected.size(),
        " adapted modules", nearest.empty() ? "" : "; the nearest is ", nearest));
  }
  return absl::OkStatus();
}

// The projection back to the tokens' width: its outer side is B's.
bool IsDown(absl::string_view path) {
  const absl::string_view kName = "down_proj";
  return path == kName || absl::EndsWith(path, absl::StrCat(".", kName));
}

template <typename Value>
Value FirstMatch(const std::vector<std::pair<std::string, Value>>& patterns,
                 const TargetCandidate& module, Value fallback) {
  for (const auto& [pattern, value] : patterns) {
    if (MatchesTarget(pattern, module.path, module.host->kind())) return value;
  }
  return fallback;
}

// A tensor that has a shape alone: one zero, seen everywhere.
Tensor Declared(Backend& backend, const Shape& shape) {
  const Tensor zero = Tensor::Zeros(backend, {1}, DType::kF32);
  Shape strides = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) strides[axis] = 0;
  return Tensor(zero.storage(), shape, strides, 0, DType::kF32);
}

// The shapes of InitFactors' result.
LoraFactors DeclareFactors(Backend& backend, const TargetCandidate& module,
                           const LoraConfig& config) {
  const Shape shape = module.host->weight_shape();
  const int64_t rank = RankOf(config, module);
  LoraFactors factors;
  factors.alpha = AlphaOf(config, module);
  factors.scaling = config.scaling;
  const auto* grouped = dynamic_cast<const nn::GroupedLinear*>(module.host);
  if (grouped != nullptr) {
    const bool shared = config.expert_kind == ExpertLoraKind::kSharedOuter;
    const bool down = IsDown(module.path);
    const int64_t out = OutputsOf(module.part, grouped->outputs(), shape[1]).count;
    factors.a = Declared(backend, {shared && !down ? 1 : shape[0], rank, shape[2]});
    factors.b = Declared(backend, {shared && down ? 1 : shape[0], out, rank});
  } else if (module.host->kind() == AdapterHost::Kind::kEmbedding) {
    factors.a = Declared(backend, {shape[0], rank});
    factors.b = Declared(backend, {shape[1], rank});
  } else {
    factors.a = Declared(backend, {rank, shape[1]});
    factors.b = Declared(backend, {shape[0], rank});
  }
  return factors;
}

LoraFactors InitFactors(Backend& backend, DType compute, const TargetCandidate& module,
                        const LoraConfig& config) {
  Shape shape = module.host->weight_shape();
  const int64_t rank = RankOf(config, module);
  const double alpha = AlphaOf(config, module);
  const auto* grouped = dynamic_cast<const nn::GroupedLinear*>(module.host);
  if (grouped == nullptr) {
    return InitLoraFactors(backend, compute, module.host->kind(), shape, module.path, config, rank,
                           alpha);
  }
  shape[1] = OutputsOf(module.part, grouped->outputs(), shape[1]).count;
  const bool shared = config.expert_kind == ExpertLoraKind::kSharedOuter;
  const bool down = IsDown(module.path);
  return InitExpertFactors(backend, compute, shape, shared && !down, shared && down, module.path,
                           config, rank, alpha);
}

// Nothing where the router is trained in place.
void AssignParts(const SavedRouter& router, const std::vector<Tensor>& values) {
  const std::vector<RouterPart> parts = PartsOf(*router.router);
  for (size_t i = 0; i < values.size(); ++i) parts[i].parameter->Assign(values[i]);
}

}  // namespace

int64_t AdapterSet::CountParameters(int slot) const {
  int64_t count = 0;
  ForEachFactor(slot, [&](const std::string&, Tensor& master) { count += master.numel(); });
  return count;
}

void AdapterSet::ForEachFactor(
    int slot, const std::function<void(const std::string& name, Tensor& master)>& body) const {
  for (const AdaptedModule& module : modules_) {
    LoraFactors& factors = module.adapter->factors(slot);
    body(absl::StrCat(module.path, ".lora_A"), factors.a);
    body(absl::StrCat(module.path, ".lora_B"), factors.b);
  }
}

void AdapterSet::AttachBranches() const {
  for (size_t i = 0; i < modules_.size(); ++i) {
    AdapterHost* host = modules_[i].host;
    const auto* grouped = dynamic_cast<const nn::GroupedLinear*>(host);
    if (grouped == nullptr) {
      host->set_adapter(modules_[i].adapter);
      continue;
    }
    // The parts of a stack stand side by side.
    std::vector<GroupedLoraAdapter::Part> parts = {{modules_[i].part, modules_[i].adapter}};
    while (i + 1 < modules_.size() && modules_[i + 1].host == host) {
      ++i;
      parts.push_back({modules_[i].part, modules_[i].adapter});
    }
    host->set_adapter(std::make_shared<GroupedLoraAdapter>(
        std::move(parts), host->weight_shape()[1], grouped->outputs()));
  }
}

void AdapterSet::DetachBranches() const {
  for (const AdaptedModule& module : modules_) module.host->set_adapter(nullptr);
}

void AdapterSet::Attach() const {
  AttachBranches();
  for (const ReplacedWeight& weight : replaced_) {
    if (weight.host->tied()) {
      weight.host->Untie(weight.values);
    } else {
      weight.host->weight().Assign(weight.values);
    }
  }
  for (const SavedRouter& router : routers_) AssignParts(router, router.values);
}

void AdapterSet::Detach() const {
  DetachBranches();
  for (const ReplacedWeight& weight : replaced_) {
    if (weight.original.defined()) {
      weight.host->weight().Assign(weight.original);
    } else {
      weight.host->Retie();
    }
  }
  for (const SavedRouter& router : routers_) AssignParts(router, router.originals);
}

int64_t RankOf(const LoraConfig& config, const TargetCandidate& module) {
  const int64_t rank = FirstMatch(config.rank_pattern, module, config.rank);
  const bool expert = module.host->kind() == AdapterHost::Kind::kGroupedLinear;
  return expert ? rank / config.expert_rank_divisor : rank;
}

double AlphaOf(const LoraConfig& config, const TargetCandidate& module) {
  return FirstMatch(config.alpha_pattern, module, config.alpha);
}

absl::StatusOr<AdapterSet> InjectLora(Module& root, Backend& backend, DType compute,
                                      const LoraConfig& config) {
  LORICA_RETURN_IF_ERROR(Validate(config));
  TargetSelection selection;
  LORICA_ASSIGN_OR_RETURN(selection,
                          SelectTargets(root, config.targets, config.excludes, config.expert_kind));
  LORICA_RETURN_IF_ERROR(CheckPatterns("rank", config.rank_pattern, selection.selected));
  LORICA_RETURN_IF_ERROR(CheckPatterns("alpha", config.alpha_pattern, selection.selected));
  for (const TargetCandidate& module : selection.selected) {
    if (RankOf(config, module) < 1) {
      return absl::InvalidArgumentError(absl::StrCat("the rank of ", module.path, " divided by ",
                                                     config.expert_rank_divisor,
                                                     " experts a token is 0"));
    }
    if (module.host->kind() == AdapterHost::Kind::kEmbedding && config.dropout > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "LoRA dropout acts on a branch's input, which an embedding doesn't have: exclude ",
          module.path, " or set the dropout to 0"));
    }
  }

  std::vector<std::string> notes;
  for (const TargetCandidate& module : selection.selected) {
    const int64_t rank = FirstMatch(config.rank_pattern, module, config.rank);
    const int64_t divided = RankOf(config, module);
    if (divided == rank || divided * config.expert_rank_divisor == rank) continue;
    notes.push_back(absl::StrCat("the rank ", rank, " of ", module.path, " divided by ",
                                 config.expert_rank_divisor, " experts a token is rounded down to ",
                                 divided));
    break;  // one stands for all
  }

  Freeze(root);
  std::vector<AdaptedModule> modules;
  for (const TargetCandidate& module : selection.selected) {
    auto adapter = std::make_shared<LoraAdapter>();
    adapter->AddSlot(config.declare_only ? DeclareFactors(backend, module, config)
                                         : InitFactors(backend, compute, module, config));
    modules.push_back({module.path, module.host, std::move(adapter), module.part});
  }
  AdapterSet set(std::move(modules));
  set.set_notes(std::move(notes));
  if (!config.declare_only) set.Attach();
  return set;
}

}  // namespace lorica
