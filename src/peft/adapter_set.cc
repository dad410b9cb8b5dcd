#include "lorica/peft/adapter_set.h"

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
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
    const std::string nearest = NearestName(entry.first, paths);
    return absl::InvalidArgumentError(absl::StrCat(
        what, " pattern ", Quoted(entry.first), " matches none of the ", selected.size(),
        " adapted modules", nearest.empty() ? "" : "; the nearest is ", nearest));
  }
  return absl::OkStatus();
}

template <typename Value>
Value FirstMatch(const std::vector<std::pair<std::string, Value>>& patterns,
                 const TargetCandidate& module, Value fallback) {
  for (const auto& [pattern, value] : patterns) {
    if (MatchesTarget(pattern, module.path, module.host->kind())) return value;
  }
  return fallback;
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

void AdapterSet::Attach() const {
  for (const AdaptedModule& module : modules_) module.host->set_adapter(module.adapter);
}

void AdapterSet::Detach() const {
  for (const AdaptedModule& module : modules_) module.host->set_adapter(nullptr);
}

int64_t RankOf(const LoraConfig& config, const TargetCandidate& module) {
  return FirstMatch(config.rank_pattern, module, config.rank);
}

double AlphaOf(const LoraConfig& config, const TargetCandidate& module) {
  return FirstMatch(config.alpha_pattern, module, config.alpha);
}

absl::StatusOr<AdapterSet> InjectLora(Module& root, Backend& backend, DType compute,
                                      const LoraConfig& config) {
  LORICA_RETURN_IF_ERROR(Validate(config));
  TargetSelection selection;
  LORICA_ASSIGN_OR_RETURN(selection, SelectTargets(root, config.targets, config.excludes));
  LORICA_RETURN_IF_ERROR(CheckPatterns("rank", config.rank_pattern, selection.selected));
  LORICA_RETURN_IF_ERROR(CheckPatterns("alpha", config.alpha_pattern, selection.selected));
  for (const TargetCandidate& module : selection.selected) {
    if (module.host->kind() == AdapterHost::Kind::kGroupedLinear) {
      return absl::UnimplementedError(
          absl::StrCat("LoRA on grouped experts isn't supported yet: ", module.path));
    }
    if (module.host->kind() == AdapterHost::Kind::kEmbedding && config.dropout > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "LoRA dropout acts on a branch's input, which an embedding doesn't have: exclude ",
          module.path, " or set the dropout to 0"));
    }
  }

  Freeze(root);
  std::vector<AdaptedModule> modules;
  for (const TargetCandidate& module : selection.selected) {
    auto adapter = std::make_shared<LoraAdapter>();
    adapter->AddSlot(InitLoraFactors(backend, compute, module.host->kind(),
                                     module.host->weight_shape(), module.path, config,
                                     RankOf(config, module), AlphaOf(config, module)));
    modules.push_back({module.path, module.host, std::move(adapter)});
  }
  AdapterSet set(std::move(modules));
  set.Attach();
  return set;
}

}  // namespace lorica
