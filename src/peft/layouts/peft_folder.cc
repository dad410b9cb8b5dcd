// PEFT folders: configuration, dense modules, and which form their experts have.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/peft/layouts/layout_files.h"
#include "lorica/tensor/status.h"

namespace lorica::layouts {
namespace {

// Modules that read or write the residual stream, in which experts stand too.
constexpr absl::string_view kReadsStream[] = {"q_proj", "k_proj", "v_proj", "q_a_proj",
                                              "kv_a_proj_with_mqa"};

int64_t HiddenFrom(const StoredAdapter& adapter) {
  for (const StoredModule& module : adapter.modules) {
    const absl::string_view name = LastName(module.path);
    if (name == "o_proj") return module.out();
    for (const absl::string_view reads : kReadsStream) {
      if (name == reads) return module.in();
    }
  }
  return 0;
}

// A name of a base model whose experts have a form of their own.
bool HasOwnForm(const std::string& base_model) {
  const std::string name = absl::AsciiStrToLower(base_model);
  for (const char* part : {"gpt-oss", "gpt_oss", "llama-4", "llama4"}) {
    if (absl::StrContains(name, part)) return true;
  }
  return false;
}

absl::StatusOr<StoredModule> ReadDense(const FactorTable& table, const PeftLayoutConfig& config,
                                       const FactorPair& pair, Backend& backend, DType dtype) {
  if (!config.Names(pair.path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        table.where(), ": has factors for ", Quoted(pair.path),
        ", which neither target_modules nor target_parameters of adapter_config.json names"));
  }
  StoredModule module;
  module.path = pair.path;
  module.kind = pair.embedding ? StoredModule::Kind::kEmbedding : StoredModule::Kind::kLinear;
  LORICA_ASSIGN_OR_RETURN(module.a, table.Load(*pair.a, 2, backend, dtype));
  LORICA_ASSIGN_OR_RETURN(module.b, table.Load(*pair.b, 2, backend, dtype));
  const int64_t rank = config.RankOf(pair.path);
  if (module.a.dim(0) != rank) {
    return table.Wrong(*pair.a, absl::StrCat("rank ", rank, " along axis 0"));
  }
  if (module.b.dim(1) != rank) {
    return table.Wrong(*pair.b, absl::StrCat("rank ", rank, " along axis 1"));
  }
  module.alpha = config.AlphaOf(pair.path);
  module.scaling = config.peft.scaling;
  return module;
}

absl::StatusOr<std::vector<SavedTensor>> ReadSaved(const FactorTable& table,
                                                   const PeftConfig& config, Backend& backend,
                                                   DType dtype) {
  std::vector<SavedTensor> tensors;
  for (const auto& [tensor, entry] : table.saved()) {
    tensors.push_back(tensor);
    LORICA_ASSIGN_OR_RETURN(
        tensors.back().values,
        table.Load(*entry, static_cast<int>(entry->shape.size()), backend, dtype));
  }
  const auto missing = [&](const std::string& name) {
    return absl::InvalidArgumentError(
        absl::StrCat(table.where(), ": has no weight of ", Quoted(name),
                     ", which modules_to_save of adapter_config.json names"));
  };
  std::set<std::string> weighted;  // modules
  for (const SavedTensor& tensor : tensors) {
    if (tensor.name == "weight") weighted.insert(tensor.module);
  }
  for (const std::string& name : config.saved_modules) {
    if (std::none_of(weighted.begin(), weighted.end(),
                     [&](const std::string& module) { return IsOrEnds(module, name); })) {
      return missing(name);
    }
  }
  // A router's bias comes with its weight.
  for (const SavedTensor& tensor : tensors) {
    if (weighted.count(tensor.module) == 0) return missing(tensor.module);
  }
  return tensors;
}

// What target_parameters names has factors. (Where the file has some of experts, names of theirs
// are looked at with their layout.)
absl::Status CheckParameters(const FactorTable& table, const PeftLayoutConfig& config,
                             bool has_experts) {
  for (const std::string& name : config.target_parameters) {
    if (has_experts && !absl::EndsWith(name, ".weight")) continue;
    if (std::any_of(table.pairs().begin(), table.pairs().end(), [&](const FactorPair& pair) {
          return IsOrEnds(absl::StrCat(pair.path, ".weight"), name);
        })) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(table.where(), ": has no factors for ", Quoted(name),
                     ", which target_parameters of adapter_config.json names"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReadAdapter> ReadPeftFolder(const std::string& folder, Backend& backend,
                                           const AdapterReadOptions& options, FileSystem& files) {
  LORICA_ASSIGN_OR_RETURN(const PeftLayoutConfig config,
                          PeftLayoutConfig::Read(JoinPath(folder, "adapter_config.json"), files));
  LORICA_ASSIGN_OR_RETURN(
      const FactorTable table,
      options.opened != nullptr
          ? FactorTable::Of(options.opened, FactorTable::Names::kPeft, &config.peft)
          : FactorTable::Open(JoinPath(folder, "adapter_model.safetensors"),
                              FactorTable::Names::kPeft, files, &config.peft));
  ReadAdapter result;
  StoredAdapter& adapter = result.adapter;
  adapter.base_model = config.peft.base_model;
  adapter.task_type = config.task_type;
  adapter.dropout = config.trained_dropout.value_or(config.peft.dropout);
  adapter.init = config.init;
  adapter.left_behind = table.base_copies();
  LORICA_ASSIGN_OR_RETURN(adapter.saved, ReadSaved(table, config.peft, backend, options.dtype));

  KeyedPairs experts;
  for (const FactorPair& pair : table.pairs()) {
    absl::StatusOr<ExpertKey> key = ParseExpertKey(pair.path);
    if (!key.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(table.where(), ": ", key.status().message()));
    }
    if (key->form == ExpertKey::Form::kDense) {
      StoredModule module;
      LORICA_ASSIGN_OR_RETURN(module, ReadDense(table, config, pair, backend, options.dtype));
      adapter.modules.push_back(std::move(module));
      continue;
    }
    if (!experts.empty() && experts[0].first.form != key->form) {
      return absl::InvalidArgumentError(absl::StrCat(
          table.where(), ": holds experts in two layouts: ", Quoted(experts[0].second->path),
          " and ", Quoted(pair.path)));
    }
    experts.emplace_back(*std::move(key), &pair);
  }
  if (options.base != nullptr) {
    adapter.form = options.base->form;
  } else if (config.interleaved.has_value()) {
    adapter.form.interleaved = *config.interleaved;
    adapter.form.transposed = *config.interleaved;
  }
  LORICA_RETURN_IF_ERROR(CheckParameters(table, config, !experts.empty()));
  // Dense weights are named as parameters where modules of their name are taken for experts.
  adapter.form.in_model = adapter.form.in_model || !config.target_parameters.empty();
  for (const auto& [key, pair] : experts) {
    adapter.form.numbered_names = adapter.form.numbered_names || key.numbered_names;
  }
  if (experts.empty()) return result;

  PeftInput input{table, config, options, backend, adapter.form};
  input.form_known = options.base != nullptr || config.interleaved.has_value() ||
                     !HasOwnForm(config.peft.base_model);
  input.hidden = options.base != nullptr ? options.base->hidden : HiddenFrom(adapter);
  ExpertFactorMap map;
  switch (experts[0].first.form) {
    case ExpertKey::Form::kDense:
      break;
    case ExpertKey::Form::kSingle:
      LORICA_RETURN_IF_ERROR(ReadSingleExperts(input, experts, map));
      break;
    case ExpertKey::Form::kGrouped: {
      LORICA_RETURN_IF_ERROR(ReadGroupedExperts(input, experts, map));
      const bool shared = std::any_of(map.begin(), map.end(), [](const auto& entry) {
        return std::any_of(
            entry.second.projections.begin(), entry.second.projections.end(), [&](const auto& f) {
              return entry.second.experts > 1 && (f.second.a.dim(0) == 1 || f.second.b.dim(0) == 1);
            });
      });
      result.layout = shared ? AdapterLayout::kSglangSharedOuter : AdapterLayout::kSglang;
      break;
    }
    case ExpertKey::Form::kPacked: {
      LORICA_ASSIGN_OR_RETURN(const ExpertOrientation orientation,
                              ReadPackedExperts(input, experts, map));
      result.layout = orientation == ExpertOrientation::kInOut ? AdapterLayout::kPeft3d
                                                               : AdapterLayout::kPeft3d018;
      break;
    }
  }
  LORICA_RETURN_IF_ERROR(
      AppendExperts(std::move(map), config.expert_kind, options.base, table.where(), adapter));
  return result;
}

}  // namespace lorica::layouts
