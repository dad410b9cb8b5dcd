// The readers and writers behind adapter_layout.h, one pair a container format.
#ifndef LORICA_PEFT_LAYOUTS_LAYOUT_FILES_H_
#define LORICA_PEFT_LAYOUTS_LAYOUT_FILES_H_

#include <string>
#include <utility>
#include <vector>

#include "lorica/io/safetensors.h"
#include "lorica/peft/layouts/adapter_layout.h"
#include "lorica/peft/layouts/expert_factors.h"
#include "lorica/peft/layouts/factor_table.h"
#include "lorica/peft/layouts/peft_layout_config.h"

namespace lorica::layouts {

absl::StatusOr<ReadAdapter> ReadPeftFolder(const std::string& folder, Backend& backend,
                                           const AdapterReadOptions& options, FileSystem& files);
absl::StatusOr<ReadAdapter> ReadMlxFolder(const std::string& folder, Backend& backend,
                                          const AdapterReadOptions& options, FileSystem& files);
absl::StatusOr<ReadAdapter> ReadGgufAdapter(const std::string& path, Backend& backend,
                                            const AdapterReadOptions& options, FileSystem& files);

absl::Status WritePeft2d(const StoredAdapter& adapter, const std::string& folder,
                         FileSystem& files);
absl::Status WritePeft3d(const StoredAdapter& adapter, AdapterLayout layout,
                         const std::string& folder, FileSystem& files);
absl::Status WriteSglang(const StoredAdapter& adapter, bool shared_outer, const std::string& folder,
                         FileSystem& files);
absl::Status WriteMlx(const StoredAdapter& adapter, const std::string& folder, FileSystem& files);
absl::Status WriteGgufAdapter(const StoredAdapter& adapter, const BaseFacts& base,
                              const std::string& path, FileSystem& files);

// What a PEFT folder holds, for the readers of its forms of experts.
struct PeftInput {
  const FactorTable& table;
  const PeftLayoutConfig& config;
  const AdapterReadOptions& options;
  Backend& backend;
  ExpertForm form;
  bool form_known = false;  // else `form` is a default
  // Width of the experts' input, from the model or from modules around them; 0: unknown.
  int64_t hidden = 0;
};
using KeyedPairs = std::vector<std::pair<ExpertKey, const FactorPair*>>;

// One pair of tensors an expert.
absl::Status ReadSingleExperts(const PeftInput& input, const KeyedPairs& pairs,
                               ExpertFactorMap& map);
// One pair of 3-D tensors a projection.
absl::Status ReadGroupedExperts(const PeftInput& input, const KeyedPairs& pairs,
                                ExpertFactorMap& map);
// Parameters with folded ranks; says which orientation the file has.
absl::StatusOr<ExpertOrientation> ReadPackedExperts(const PeftInput& input, const KeyedPairs& pairs,
                                                    ExpertFactorMap& map);

// Tensors of a file that is written, kept alive until it is.
class TensorList {
 public:
  // Values are rounded to f32.
  void Add(std::string name, const Tensor& values);
  // Widths, order and names as given; an error where a value overflows f32.
  absl::Status Write(FileSystem& files, const std::string& path) const;

 private:
  std::vector<std::string> names_;
  std::vector<Tensor> tensors_;
};

}  // namespace lorica::layouts

#endif  // LORICA_PEFT_LAYOUTS_LAYOUT_FILES_H_
