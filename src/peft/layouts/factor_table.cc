#include "lorica/peft/layouts/factor_table.h"

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lorica/io/quoted.h"
#include "lorica/peft/layouts/load_factor.h"
#include "lorica/tensor/status.h"

namespace lorica::layouts {
namespace {

struct Suffix {
  FactorTable::Names names;
  absl::string_view text;
  bool is_a;
  bool embedding;
};
constexpr Suffix kSuffixes[] = {
    {FactorTable::Names::kPeft, ".lora_A.weight", true, false},
    {FactorTable::Names::kPeft, ".lora_B.weight", false, false},
    {FactorTable::Names::kPeft, ".lora_embedding_A", true, true},
    {FactorTable::Names::kPeft, ".lora_embedding_B", false, true},
    {FactorTable::Names::kMlx, ".lora_a", true, false},
    {FactorTable::Names::kMlx, ".lora_b", false, false},
};
constexpr absl::string_view kBaseCopy = ".base_layer.weight";

const Suffix* FindSuffix(FactorTable::Names names, absl::string_view& path) {
  for (const Suffix& suffix : kSuffixes) {
    if (suffix.names == names && absl::ConsumeSuffix(&path, suffix.text)) return &suffix;
  }
  return nullptr;
}

std::string Where(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  return absl::StrCat(file.where(), ": tensor ", Quoted(entry.name));
}

}  // namespace

absl::StatusOr<FactorTable> FactorTable::Open(const std::string& path, Names names,
                                              FileSystem& files, const PeftConfig* config) {
  LORICA_ASSIGN_OR_RETURN(SafetensorsFile opened, SafetensorsFile::Open(path, files));
  return Of(std::make_shared<const SafetensorsFile>(std::move(opened)), names, config);
}

absl::StatusOr<FactorTable> FactorTable::Of(std::shared_ptr<const SafetensorsFile> opened,
                                            Names names, const PeftConfig* config) {
  FactorTable table(std::move(opened));
  const SafetensorsFile& file = *table.file_;
  std::map<std::string, FactorPair> pairs;
  for (const SafetensorsEntry& entry : file.entries()) {
    absl::string_view module = entry.name;
    if (names == Names::kPeft) absl::ConsumePrefix(&module, kPeftPrefix);
    if (names == Names::kPeft && absl::EndsWith(module, kBaseCopy)) {
      table.base_copies_.push_back(entry.name);
      continue;
    }
    if (config != nullptr) {
      if (std::optional<SavedTensor> saved = config->ParseSavedKey(module)) {
        table.saved_.emplace_back(*std::move(saved), &entry);
        continue;
      }
    }
    const Suffix* suffix = FindSuffix(names, module);
    if (suffix == nullptr || module.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          Where(file, entry), ": expected a key such as ",
          names == Names::kPeft ? "base_model.model.<module>.lora_A.weight" : "<module>.lora_a"));
    }
    FactorPair& pair = pairs[std::string(module)];
    const SafetensorsEntry*& slot = suffix->is_a ? pair.a : pair.b;
    if (slot != nullptr ||
        ((pair.a != nullptr || pair.b != nullptr) && pair.embedding != suffix->embedding)) {
      return absl::InvalidArgumentError(
          absl::StrCat(Where(file, entry), ": the module has this factor twice"));
    }
    slot = &entry;
    pair.embedding = suffix->embedding;
  }
  for (auto& [module, pair] : pairs) {
    pair.path = module;
    if (pair.a == nullptr || pair.b == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(file.where(), ": module ", Quoted(module),
                                                     " has no ",
                                                     pair.a == nullptr ? "lora_A" : "lora_B"));
    }
    table.pairs_.push_back(std::move(pair));
  }
  if (table.pairs_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file.where(), ": holds no LoRA factors"));
  }
  return table;
}

absl::Status FactorTable::Wrong(const SafetensorsEntry& entry, absl::string_view expected) const {
  return absl::InvalidArgumentError(absl::StrCat(Where(*file_, entry), ": expected ", expected,
                                                 ", found shape ", ShapeText(entry.shape)));
}

absl::StatusOr<Tensor> FactorTable::Load(const SafetensorsEntry& entry, int rank, Backend& backend,
                                         DType dtype) const {
  return LoadFactor({.where = Where(*file_, entry),
                     .type = entry.type,
                     .shape = entry.shape,
                     .bytes = file_->Bytes(entry)},
                    rank, backend, dtype);
}

}  // namespace lorica::layouts
