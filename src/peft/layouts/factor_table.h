// FactorTable: the pairs of factors in a safetensors file, by module.
#ifndef LORICA_PEFT_LAYOUTS_FACTOR_TABLE_H_
#define LORICA_PEFT_LAYOUTS_FACTOR_TABLE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/io/safetensors.h"
#include "lorica/peft/peft_config.h"
#include "lorica/peft/stored_adapter.h"
#include "lorica/tensor/tensor.h"

namespace lorica::layouts {

struct FactorPair {
  std::string path;  // of the module, as the file spells it, without PEFT's prefix
  bool embedding = false;
  const SafetensorsEntry* a = nullptr;
  const SafetensorsEntry* b = nullptr;
};

class FactorTable {
 public:
  enum class Names {
    kPeft,  // base_model.model.<path>.lora_A.weight, .lora_embedding_A
    kMlx,   // <path>.lora_a
  };
  // Keys of modules that `config` saves in full are kept apart. Errors: a key of another form, a
  // factor without its partner.
  static absl::StatusOr<FactorTable> Open(const std::string& path, Names names, FileSystem& files,
                                          const PeftConfig* config = nullptr);
  static absl::StatusOr<FactorTable> Of(std::shared_ptr<const SafetensorsFile> file, Names names,
                                        const PeftConfig* config = nullptr);

  const std::vector<FactorPair>& pairs() const { return pairs_; }  // sorted by path
  // Copies of base weights that PEFT stores beside adapted embeddings.
  const std::vector<std::string>& base_copies() const { return base_copies_; }
  const std::vector<std::pair<SavedTensor, const SafetensorsEntry*>>& saved() const {
    return saved_;
  }
  const std::string& where() const { return file_->where(); }

  // LoadFactor of a tensor of `rank` axes.
  absl::StatusOr<Tensor> Load(const SafetensorsEntry& entry, int rank, Backend& backend,
                              DType dtype) const;
  // "<file>: tensor "<name>": expected <expected>, found shape [...]".
  absl::Status Wrong(const SafetensorsEntry& entry, absl::string_view expected) const;

 private:
  explicit FactorTable(std::shared_ptr<const SafetensorsFile> file) : file_(std::move(file)) {}

  std::shared_ptr<const SafetensorsFile> file_;
  std::vector<FactorPair> pairs_;
  std::vector<std::string> base_copies_;
  std::vector<std::pair<SavedTensor, const SafetensorsEntry*>> saved_;
};

}  // namespace lorica::layouts

#endif  // LORICA_PEFT_LAYOUTS_FACTOR_TABLE_H_
