#include "lorica/peft/expert_files.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/autograd/autograd.h"
#include "lorica/io/json_file.h"
#include "lorica/io/quoted.h"
#include "lorica/io/safetensors.h"
#include "lorica/nn/decoder.h"
#include "lorica/nn/grouped_linear.h"
#include "lorica/peft/grouped_lora_adapter.h"
#include "lorica/peft/layouts/base_facts.h"
#include "lorica/peft/layouts/expert_keys.h"
#include "lorica/peft/layouts/factor_math.h"
#include "lorica/peft/layouts/peft_layout_config.h"
#include "lorica/tensor/random.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

using layouts::Projection;

bool IsInterleaved(const AdaptedModule& module) {
  const auto* grouped = dynamic_cast<const nn::GroupedLinear*>(module.host);
  return grouped != nullptr && module.part == HostPart::kAll &&
         grouped->outputs() == nn::GroupedLinear::Outputs::kInterleaved;
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

// What else is wrong with the file is its reader's to say.
bool NamesParameters(const std::string& config, FileSystem& files) {
  constexpr size_t kMaxConfigBytes = size_t{16} << 20;
  const absl::StatusOr<std::string> text = files.Read(config, kMaxConfigBytes);
  if (!text.ok()) return false;
  const absl::StatusOr<OrderedJson> json = ParseOrderedJson(*text, config);
  if (!json.ok() || !json->is_object()) return false;
  const auto it = json->find("target_parameters");
  return it != json->end() && it->is_array() && !it->empty();
}

// Every module that a PEFT folder's configuration names has factors; stacked experts, where it
// names them as parameters: names of single experts are of all layers. Where PEFT takes the names
// of gate, up and down for those of the experts it leaves modules of these names beside them alone.
absl::Status CheckNamedModules(const std::string& folder, Module& root, const AdapterSet& set,
                               FileSystem& files) {
  LORICA_ASSIGN_OR_RETURN(
      const layouts::PeftLayoutConfig config,
      layouts::PeftLayoutConfig::Read(JoinPath(folder, "adapter_config.json"), files));
  for (const TargetCandidate& candidate : ListTargetCandidates(root)) {
    const bool is_adapted =
        std::any_of(set.modules().begin(), set.modules().end(),
                    [&](const AdaptedModule& module) { return module.host == candidate.host; });
    if (is_adapted) continue;
    const bool experts = candidate.host->kind() == AdapterHost::Kind::kGroupedLinear;
    const absl::string_view last = LastName(candidate.path);
    const bool has_expert_name = last == Name(Projection::kGate) || last == Name(Projection::kUp) ||
                                 last == Name(Projection::kDown);
    const bool by_module = !experts && !config.peft.targets.all_linear() &&
                           (config.by_lorica || !has_expert_name) &&
                           config.peft.Adapts(candidate.path);
    const std::string parameter = absl::StrCat(candidate.path, experts ? "" : ".weight");
    if (!by_module && !config.NamesParameter(parameter)) continue;
    return absl::InvalidArgumentError(absl::StrCat(folder, ": has no factors for ",
                                                   Quoted(candidate.path),
                                                   ", which adapter_config.json names"));
  }
  return CheckSavedRouters(config.peft, root, set.routers(), folder);
}

// The modules of a file that was read, fitted to `root`, which stays as it is: masters of the
// compute type's accumulator type, keyed for dropout by `seed`. Errors: a module that the model
// lacks or that has other sizes.
absl::StatusOr<AdapterSet> FitStoredAdapter(const StoredAdapter& stored, Module& root,
                                            Backend& backend, DType compute, uint64_t seed) {
  if (!stored.left_behind.empty()) {
    return absl::UnimplementedError(
        absl::StrCat("the adapter brings base weights (", stored.left_behind[0],
                     "), which isn't supported beside adapters of experts"));
  }
  LORICA_ASSIGN_OR_RETURN(std::vector<SavedRouter> routers,
                          FitRouters(stored.saved, root, "the adapter"));
  const bool split =
      std::any_of(stored.modules.begin(), stored.modules.end(), [](const StoredModule& module) {
        return module.kind == StoredModule::Kind::kExperts &&
               (LastName(module.path) == "gate_proj" || LastName(module.path) == "up_proj");
      });
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
    factors.b = IsInterleaved(adapted) ? layouts::Interleaved(factors.b) : raw::Clone(factors.b);
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
  AdapterSet set(std::move(modules));
  set.set_routers(std::move(routers));
  return set;
}

}  // namespace

bool NeedsLayouts(const std::string& folder, const SafetensorsFile* opened, FileSystem& files) {
  if (opened == nullptr) {
    return IsGgufPath(folder) || files.Stat(JoinPath(folder, "adapters.safetensors")).ok();
  }
  if (NamesParameters(JoinPath(folder, "adapter_config.json"), files)) return true;
  return std::any_of(opened->entries().begin(), opened->entries().end(),
                     [](const SafetensorsEntry& entry) {
                       return absl::StrContains(entry.name, ".experts.") &&
                              absl::StrContains(entry.name, ".lora_");
                     });
}

absl::StatusOr<AdapterSet> LoadByLayout(const std::string& folder, Module& root, Backend& backend,
                                        DType compute, uint64_t seed, FileSystem& files,
                                        std::shared_ptr<const SafetensorsFile> opened) {
  const bool peft_folder = opened != nullptr;
  AdapterReadOptions options;
  options.opened = std::move(opened);
  options.dtype = AccumulatorOf(compute);
  BaseFacts facts;
  if (const auto* model = dynamic_cast<const CausalLm*>(&root)) {
    facts = BaseFactsOf(model->config());
    options.base = &facts;
  }
  LORICA_ASSIGN_OR_RETURN(const ReadAdapter read,
                          ReadStoredAdapter(folder, backend, options, files));
  absl::StatusOr<AdapterSet> set = FitStoredAdapter(read.adapter, root, backend, compute, seed);
  if (!set.ok()) {
    return absl::Status(set.status().code(), absl::StrCat(folder, ": ", set.status().message()));
  }
  if (peft_folder) LORICA_RETURN_IF_ERROR(CheckNamedModules(folder, root, *set, files));
  Freeze(root);
  set->Attach();
  set->set_experts_folded(read.layout == AdapterLayout::kPeft3d ||
                          read.layout == AdapterLayout::kPeft3d018);
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
        if (IsInterleaved(module)) one.b = layouts::Deinterleaved(one.b);
        break;
      case AdapterHost::Kind::kLinear:
        break;
    }
    stored.modules.push_back(std::move(one));
  }
  for (const SavedRouter& router : set.routers()) {
    for (const RouterPart& part : PartsOf(*router.router)) {
      stored.saved.push_back({router.path, std::string(part.name), part.Values()});
    }
  }
  return stored;
}

std::vector<std::pair<std::string, Tensor>> ExpertTensors(const AdaptedModule& module,
                                                          const Tensor& a, const Tensor& b,
                                                          AdapterLayout layout,
                                                          const ExpertForm& form, int layer_parts) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  const absl::string_view leaf = LastName(module.path);
  const bool gate_up = leaf == Name(Projection::kGateUp);
  if (layout != AdapterLayout::kPeft2d) {
    // Rows of B as the parameter has them.
    const bool inner = gate_up && layer_parts > 1;
    const std::string key =
        absl::StrCat(kPeftPrefix, ExpertsOf(module.path), inner ? ".base_layer" : "");
    tensors.emplace_back(absl::StrCat(key, ".lora_A.weight"), layouts::FoldedA(a));
    tensors.emplace_back(absl::StrCat(key, ".lora_B.weight"), layouts::FoldedB(b));
    return tensors;
  }
  const bool numbered = form.numbered_names;
  const std::string experts =
      absl::StrCat(kPeftPrefix, layouts::SinglePath(ExpertsOf(module.path), numbered), ".");
  const Tensor apart = IsInterleaved(module) ? layouts::Deinterleaved(b) : b;
  const int64_t count = module.host->weight_shape()[0], half = b.dim(1) / 2;
  for (int64_t e = 0; e < count; ++e) {
    const auto add = [&](Projection projection, const Tensor& part_b) {
      const std::string key =
          absl::StrCat(experts, e, ".", layouts::SingleName(projection, numbered));
      tensors.emplace_back(absl::StrCat(key, ".lora_A.weight"), layouts::Plane(a, e));
      tensors.emplace_back(absl::StrCat(key, ".lora_B.weight"), layouts::Plane(part_b, e));
    };
    if (gate_up) {
      add(Projection::kGate, apart.Narrow(1, 0, half));
      add(Projection::kUp, apart.Narrow(1, half, half));
    } else {
      for (const Projection p : {Projection::kGate, Projection::kUp, Projection::kDown}) {
        if (leaf == Name(p)) add(p, apart);
      }
    }
  }
  return tensors;
}

}  // namespace lorica
