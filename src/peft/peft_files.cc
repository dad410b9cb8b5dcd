#include "lorica/peft/peft_files.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lorica/io/quoted.h"
#include "lorica/io/safetensors.h"
#include "lorica/nn/decoder.h"
#include "lorica/nn/text_part.h"
#include "lorica/peft/expert_files.h"
#include "lorica/peft/layouts/load_factor.h"
#include "lorica/peft/peft_config.h"
#include "lorica/tensor/random.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

constexpr size_t kMaxConfigBytes = size_t{16} << 20;

// The parts of a key behind the prefix.
enum class FactorKind { kA, kB, kEmbeddingA, kEmbeddingB, kBaseWeight, kWeight };
struct Suffix {
  absl::string_view text;
  FactorKind kind;
};
constexpr Suffix kSuffixes[] = {
    {".lora_A.weight", FactorKind::kA},
    {".lora_B.weight", FactorKind::kB},
    {".lora_embedding_A", FactorKind::kEmbeddingA},
    {".lora_embedding_B", FactorKind::kEmbeddingB},
    {".base_layer.weight", FactorKind::kBaseWeight},
    {".weight", FactorKind::kWeight},  // the last: others end in it
};

struct FoundModule {
  TargetCandidate candidate;
  const SafetensorsEntry* a = nullptr;
  const SafetensorsEntry* b = nullptr;
  const SafetensorsEntry* base = nullptr;   // a copy of the model's weight
  const SafetensorsEntry* saved = nullptr;  // a weight to take its place
};

bool IsEmbedding(const TargetCandidate& module) {
  return module.host->kind() == AdapterHost::Kind::kEmbedding;
}

std::string Where(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  return absl::StrCat(file.where(), ": tensor ", Quoted(entry.name));
}

absl::Status WrongShape(const SafetensorsFile& file, const SafetensorsEntry& entry,
                        absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(Where(file, entry), ": expected shape ", expected,
                                                 ", found ", ShapeText(entry.shape)));
}

// The stored values in f32 (f64 for f64 models), as the file lays them out.
absl::StatusOr<Tensor> ReadTensor(const SafetensorsFile& file, const SafetensorsEntry& entry,
                                  Backend& backend, DType dtype) {
  return layouts::LoadFactor({.where = Where(file, entry),
                              .type = entry.type,
                              .shape = entry.shape,
                              .bytes = file.Bytes(entry)},
                             static_cast<int>(entry.shape.size()), backend, dtype);
}

bool IsRouter(const Module* module) { return dynamic_cast<const nn::Router*>(module) != nullptr; }

bool IsHead(absl::string_view path) {
  return path == "lm_head" || absl::EndsWith(path, ".lm_head");
}

// The modules of the model by the names that the file has for them: an adapter of a text model that
// is part of a larger one may have been made for either.
std::vector<TargetCandidate> CandidatesOf(Module& root, const SafetensorsFile& file) {
  std::vector<TargetCandidate> candidates = ListTargetCandidates(root);
  const auto* model = dynamic_cast<const CausalLm*>(&root);
  if (model == nullptr || !model->config().text_part) return candidates;
  const std::string prefix = absl::StrCat(kPeftPrefix, "model.language_model.");
  const bool of_the_whole = std::any_of(
      file.entries().begin(), file.entries().end(),
      [&](const SafetensorsEntry& entry) { return absl::StartsWith(entry.name, prefix); });
  if (!of_the_whole) return candidates;
  for (TargetCandidate& candidate : candidates) candidate.path = PathOfTextPart(candidate.path);
  return candidates;
}

// The path in the model's tree.
std::string TreePath(const std::string& path) {
  std::string own = NameInTextPart(path);
  return own.empty() ? path : own;
}

// Tensors of routers that are saved in full go into `saved`.
absl::StatusOr<std::map<std::string, FoundModule>> SortKeys(
    const SafetensorsFile& file, const PeftConfig& config,
    const std::vector<TargetCandidate>& candidates, Backend& backend, DType compute,
    std::vector<SavedTensor>* saved) {
  std::map<std::string, TargetCandidate> by_path;
  std::vector<std::string> paths;
  for (const TargetCandidate& candidate : candidates) {
    paths.push_back(candidate.path);
    by_path.emplace(candidate.path, candidate);
  }
  std::map<std::string, FoundModule> found;
  for (const SafetensorsEntry& entry : file.entries()) {
    absl::string_view path = entry.name;
    const Suffix* suffix = nullptr;
    if (absl::ConsumePrefix(&path, kPeftPrefix)) {
      std::optional<SavedTensor> tensor = config.ParseSavedKey(path);
      const auto router = tensor.has_value() ? by_path.find(tensor->module) : by_path.end();
      if (router != by_path.end() && IsRouter(router->second.host)) {
        LORICA_ASSIGN_OR_RETURN(tensor->values,
                                ReadTensor(file, entry, backend, AccumulatorOf(compute)));
        saved->push_back(*std::move(tensor));
        continue;
      }
      for (const Suffix& candidate : kSuffixes) {
        if (absl::ConsumeSuffix(&path, candidate.text)) {
          suffix = &candidate;
          break;
        }
      }
    }
    if (suffix == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          Where(file, entry), ": expected a key such as base_model.model.<module>.lora_A.weight"));
    }
    const auto it = by_path.find(std::string(path));
    if (it == by_path.end()) {
      const std::string nearest = NearestName(path, paths);
      return absl::InvalidArgumentError(
          absl::StrCat(Where(file, entry), ": the model has no module ", Quoted(path),
                       " that can carry an adapter",
                       nearest.empty() ? "" : absl::StrCat("; the nearest is ", Quoted(nearest))));
    }
    const bool embedding_key =
        suffix->kind == FactorKind::kEmbeddingA || suffix->kind == FactorKind::kEmbeddingB;
    const bool factor =
        suffix->kind != FactorKind::kBaseWeight && suffix->kind != FactorKind::kWeight;
    if (factor && embedding_key != IsEmbedding(it->second)) {
      return absl::InvalidArgumentError(
          absl::StrCat(Where(file, entry), ": ", Quoted(path), " is ",
                       embedding_key ? "no embedding" : "an embedding", " in the model"));
    }
    FoundModule& module = found[std::string(path)];
    module.candidate = it->second;
    switch (suffix->kind) {
      case FactorKind::kA:
      case FactorKind::kEmbeddingA:
        module.a = &entry;
        break;
      case FactorKind::kB:
      case FactorKind::kEmbeddingB:
        module.b = &entry;
        break;
      case FactorKind::kBaseWeight:
        module.base = &entry;
        break;
      case FactorKind::kWeight:
        // PEFT writes a head that follows the embedding under its own name too.
        (config.Saves(path) || (config.ties_saved && it->second.host->tied()) ? module.saved
                                                                              : module.base) =
            &entry;
        break;
    }
  }
  return found;
}

// Only the embedding, the head and routers can be brought in full.
absl::Status CheckSavedNames(const SafetensorsFile& file, const PeftConfig& config,
                             const std::vector<TargetCandidate>& candidates) {
  for (const std::string& name : config.saved_modules) {
    if (std::none_of(candidates.begin(), candidates.end(), [&](const TargetCandidate& c) {
          return IsOrEnds(c.path, name) && (IsEmbedding(c) || IsHead(c.path) || IsRouter(c.host));
        })) {
      return absl::UnimplementedError(absl::StrCat(
          file.where(), ": modules_to_save of adapter_config.json names ", Quoted(name),
          ", but only the embedding, the head and routers can be saved in full"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBaseCopy(const SafetensorsFile& file, const FoundModule& module,
                           Backend& backend) {
  const Tensor own = module.candidate.host->weight().value();
  if (!(Shape(absl::MakeConstSpan(module.base->shape)) == own.shape())) {
    return WrongShape(file, *module.base, own.shape().ToString());
  }
  Tensor stored;
  LORICA_ASSIGN_OR_RETURN(stored, ReadTensor(file, *module.base, backend, own.dtype()));
  const std::vector<double> a = stored.ToDoubles(), b = own.ToDoubles();
  if (a != b) {
    return absl::InvalidArgumentError(
        absl::StrCat(Where(file, *module.base),
                     ": expected the model's own weights, found others: the adapter was trained "
                     "with changed base weights"));
  }
  return absl::OkStatus();
}

// The factors of one module, checked against the model and the configuration.
absl::StatusOr<LoraFactors> ReadFactors(const SafetensorsFile& file, const FoundModule& module,
                                        const PeftConfig& config, Backend& backend, DType compute,
                                        uint64_t seed) {
  const std::string& path = module.candidate.path;
  if (module.a == nullptr || module.b == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(file.where(), ": module ", Quoted(path),
                                                   " has no ",
                                                   module.a == nullptr ? "lora_A" : "lora_B"));
  }
  if (!config.Adapts(path)) {
    return absl::InvalidArgumentError(absl::StrCat(file.where(), ": has factors for ", Quoted(path),
                                                   ", which adapter_config.json doesn't name"));
  }
  const bool embedding = IsEmbedding(module.candidate);
  const Shape weight = module.candidate.host->weight_shape();
  const int64_t rank = config.RankOf(path);
  const Shape a_shape = {rank, embedding ? weight[0] : weight[1]};
  const Shape b_shape = {embedding ? weight[1] : weight[0], rank};
  if (!(Shape(absl::MakeConstSpan(module.a->shape)) == a_shape)) {
    return WrongShape(file, *module.a, a_shape.ToString());
  }
  if (!(Shape(absl::MakeConstSpan(module.b->shape)) == b_shape)) {
    return WrongShape(file, *module.b, b_shape.ToString());
  }
  const DType master = AccumulatorOf(compute);
  LoraFactors factors;
  LORICA_ASSIGN_OR_RETURN(factors.a, ReadTensor(file, *module.a, backend, master));
  LORICA_ASSIGN_OR_RETURN(factors.b, ReadTensor(file, *module.b, backend, master));
  if (embedding) factors.a = raw::Clone(factors.a.Transpose(0, 1));
  SetRequiresGrad(factors.a, true);
  SetRequiresGrad(factors.b, true);
  factors.alpha = config.AlphaOf(path);
  factors.scaling = config.scaling;
  factors.dropout = embedding ? 0 : config.dropout;
  factors.dropout_key = CombineKeys(seed, HashName(absl::StrCat(TreePath(path), ".lora_dropout")));
  return factors;
}

// The weights that the adapter brings in full. Where the embedding's is replaced, a head that
// shares it keeps the model's own unless it is replaced itself, as in PEFT.
absl::StatusOr<std::vector<ReplacedWeight>> ReadSavedModules(
    const SafetensorsFile& file, const std::map<std::string, FoundModule>& found,
    const PeftConfig& config, const std::vector<TargetCandidate>& candidates, Backend& backend,
    DType compute) {
  std::vector<ReplacedWeight> replaced;
  for (const TargetCandidate& candidate : candidates) {
    if (IsRouter(candidate.host)) continue;
    const auto it = found.find(candidate.path);
    const SafetensorsEntry* entry = it == found.end() ? nullptr : it->second.saved;
    if (entry == nullptr) {
      if (!config.Saves(candidate.path)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(file.where(), ": has no weight of ", Quoted(candidate.path),
                       ", which modules_to_save of adapter_config.json names"));
    }
    AdapterHost& host = *candidate.host;
    if (!(Shape(absl::MakeConstSpan(entry->shape)) == host.weight_shape())) {
      return WrongShape(file, *entry, host.weight_shape().ToString());
    }
    ReplacedWeight weight{
        .path = TreePath(candidate.path), .host = &host, .head_follows = config.ties_saved};
    LORICA_ASSIGN_OR_RETURN(weight.values, ReadTensor(file, *entry, backend, compute));
    if (!host.tied()) weight.original = host.weight().value().Detach();
    replaced.push_back(std::move(weight));
  }
  for (const TargetCandidate& candidate : candidates) {
    AdapterHost& host = *candidate.host;
    const bool owner_replaced =
        host.tied() && std::any_of(replaced.begin(), replaced.end(), [&](const ReplacedWeight& w) {
          return !w.host->tied() && &w.host->weight() == &host.weight();
        });
    const bool replaced_itself = std::any_of(
        replaced.begin(), replaced.end(), [&](const ReplacedWeight& w) { return w.host == &host; });
    if (!owner_replaced || replaced_itself || config.ties_saved) continue;
    replaced.push_back({.path = TreePath(candidate.path),
                        .host = &host,
                        .values = host.weight().value().Detach(),
                        .is_own = true});
  }
  return replaced;
}

}  // namespace

absl::StatusOr<AdapterSet> LoadPeftAdapter(const std::string& folder, Module& root,
                                           Backend& backend, DType compute, uint64_t seed,
                                           FileSystem& files) {
  const std::string factors_path = JoinPath(folder, "adapter_model.safetensors");
  std::shared_ptr<const SafetensorsFile> file;
  const absl::StatusOr<FileInfo> there = files.Stat(factors_path);
  if (there.ok()) {
    LORICA_ASSIGN_OR_RETURN(SafetensorsFile opened, SafetensorsFile::Open(factors_path, files));
    file = std::make_shared<const SafetensorsFile>(std::move(opened));
  }
  if (NeedsLayouts(folder, file.get(), files)) {
    return LoadByLayout(folder, root, backend, compute, seed, files, std::move(file));
  }
  const std::string config_path = JoinPath(folder, "adapter_config.json");
  std::string text;
  LORICA_ASSIGN_OR_RETURN(text, files.Read(config_path, kMaxConfigBytes));
  PeftConfig config;
  LORICA_ASSIGN_OR_RETURN(config, ParsePeftConfig(text, config_path));
  if (file == nullptr) return there.status();
  const std::vector<TargetCandidate> candidates = CandidatesOf(root, *file);
  LORICA_RETURN_IF_ERROR(CheckSavedNames(*file, config, candidates));
  std::map<std::string, FoundModule> found;
  std::vector<SavedTensor> saved;
  LORICA_ASSIGN_OR_RETURN(found, SortKeys(*file, config, candidates, backend, compute, &saved));

  std::vector<AdaptedModule> modules;
  for (const TargetCandidate& candidate : candidates) {
    const auto it = found.find(candidate.path);
    const bool has_factors =
        it != found.end() && (it->second.a != nullptr || it->second.b != nullptr);
    if (it != found.end() && it->second.base != nullptr) {
      LORICA_RETURN_IF_ERROR(CheckBaseCopy(*file, it->second, backend));
    }
    if (!has_factors) {
      // Names of modules don't reach stacked experts, which are parameters in transformers.
      const bool experts = candidate.host->kind() == AdapterHost::Kind::kGroupedLinear;
      if (!experts && !config.targets.all_linear() && config.Adapts(candidate.path)) {
        return absl::InvalidArgumentError(absl::StrCat(file->where(), ": has no factors for ",
                                                       Quoted(candidate.path),
                                                       ", which adapter_config.json names"));
      }
      continue;
    }
    LoraFactors factors;
    LORICA_ASSIGN_OR_RETURN(factors,
                            ReadFactors(*file, it->second, config, backend, compute, seed));
    auto adapter = std::make_shared<LoraAdapter>();
    adapter->AddSlot(std::move(factors));
    modules.push_back({TreePath(candidate.path), candidate.host, std::move(adapter)});
  }
  if (modules.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file->where(), ": holds no LoRA factors"));
  }
  std::vector<ReplacedWeight> replaced;
  LORICA_ASSIGN_OR_RETURN(replaced,
                          ReadSavedModules(*file, found, config, candidates, backend, compute));
  LORICA_ASSIGN_OR_RETURN(std::vector<SavedRouter> routers, FitRouters(saved, root, file->where()));
  LORICA_RETURN_IF_ERROR(CheckSavedRouters(config, root, routers, file->where()));
  Freeze(root);
  AdapterSet set(std::move(modules), std::move(replaced));
  set.set_routers(std::move(routers));
  set.Attach();
  return set;
}

}  // namespace lorica
