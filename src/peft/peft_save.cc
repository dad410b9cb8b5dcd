// Writing of PEFT adapter folders; peft_files.cc reads them.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lorica/io/atomic_commit.h"
#include "lorica/nn/text_part.h"
#include "lorica/peft/expert_files.h"
#include "lorica/peft/layouts/layout_files.h"
#include "lorica/peft/peft_config.h"
#include "lorica/peft/peft_files.h"
#include "lorica/peft/saved_router.h"
#include "lorica/tensor/status.h"

namespace lorica {
std::string PeftKey(const AdaptedModule& module, bool is_a) {
  const bool embedding = module.host->kind() == AdapterHost::Kind::kEmbedding;
  const absl::string_view suffix = embedding ? (is_a ? ".lora_embedding_A" : ".lora_embedding_B")
                                             : (is_a ? ".lora_A.weight" : ".lora_B.weight");
  return absl::StrCat(kPeftPrefix, module.path, suffix);
}

Tensor PeftTensor(const AdaptedModule& module, const Tensor& factor, bool is_a) {
  const bool embedding = module.host->kind() == AdapterHost::Kind::kEmbedding;
  return raw::Contiguous(is_a && embedding ? factor.Transpose(0, 1) : factor.Detach());
}

absl::Status SavePeftAdapter(FileSystem& files, const std::string& folder, const AdapterSet& set,
                             const PeftSaveOptions& options) {
  LORICA_CHECK(!set.empty(), "[adapter] nothing to save");
  const bool experts =
      options.form.in_model || !set.routers().empty() ||
      std::any_of(set.modules().begin(), set.modules().end(), [](const AdaptedModule& module) {
        return module.host->kind() == AdapterHost::Kind::kGroupedLinear;
      });
  if (experts) {
    LORICA_CHECK(set.replaced().empty(), "[adapter] whole weights beside experts can't be saved");
    StoredAdapter stored = StoredAdapterOf(set, options.slot, options.form, options.base_model);
    stored.init = std::string(Name(options.init));
    LORICA_ASSIGN_OR_RETURN(DirectoryCommit commit, DirectoryCommit::Begin(files, folder));
    LORICA_RETURN_IF_ERROR(
        WriteStoredAdapter(stored, options.layout, commit.temporary_path(), nullptr, files));
    return commit.Commit();
  }
  PeftConfigFields fields;
  const LoraFactors& first = set.modules()[0].adapter->factors(options.slot);
  fields.rank = first.rank();
  fields.alpha = first.alpha;
  fields.scaling = first.scaling;
  fields.init = options.init;
  fields.base_model = options.base_model;
  layouts::TensorList tensors;
  const auto file_path = [&](const std::string& path) {
    return options.text_part ? PathOfTextPart(path) : path;
  };
  for (AdaptedModule module : set.modules()) {
    module.path = file_path(module.path);
    const LoraFactors& f = module.adapter->factors(options.slot);
    fields.dropout = std::max(fields.dropout, f.dropout);
    fields.modules.push_back({module.path, f.rank(), f.alpha});
    for (const bool is_a : {true, false}) {
      tensors.Add(PeftKey(module, is_a), PeftTensor(module, is_a ? f.a : f.b, is_a));
    }
  }
  for (const ReplacedWeight& weight : set.replaced()) {
    if (weight.is_own) continue;
    fields.saved_modules.push_back(file_path(weight.path));
    fields.ties_saved = fields.ties_saved || weight.head_follows;
    tensors.Add(absl::StrCat(kPeftPrefix, fields.saved_modules.back(), ".weight"), weight.values);
  }
  std::string config;
  LORICA_ASSIGN_OR_RETURN(config, FormatPeftConfig(fields));
  absl::StatusOr<DirectoryCommit> commit = DirectoryCommit::Begin(files, folder);
  if (!commit.ok()) return commit.status();
  LORICA_RETURN_IF_ERROR(commit->WriteFile("adapter_config.json", config));
  LORICA_RETURN_IF_ERROR(
      tensors.Write(files, JoinPath(commit->temporary_path(), "adapter_model.safetensors")));
  return commit->Commit();
}

}  // namespace lorica
