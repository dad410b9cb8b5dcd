#include "lorica/train/adapter_gradients.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lorica/autograd/autograd.h"
#include "lorica/io/safetensors.h"
#include "lorica/peft/expert_files.h"
#include "lorica/peft/peft_config.h"
#include "lorica/peft/peft_files.h"

namespace lorica {

void MakeRoutersTrainable(const AdapterSet& adapters) {
  for (const SavedRouter& router : adapters.routers()) {
    for (const RouterPart& part : TrainablePartsOf(*router.router)) {
      part.parameter->MakeTrainable();
    }
  }
}

absl::Status WriteAdapterGradients(const AdapterSet& adapters, const ExpertForm& form, double scale,
                                   Backend& backend, FileSystem& files, const std::string& path) {
  const auto scaled = [&](const Tensor& leaf) {
    const Tensor& sum = GradAccumulator(leaf);
    Tensor out = Tensor::Empty(backend, sum.shape(), sum.dtype());
    if (sum.numel() > 0) backend.Affine(sum.view(), scale, 0, out.mutable_view());
    return out;
  };
  const auto is_experts = [](const AdaptedModule& module) {
    return module.host->kind() == AdapterHost::Kind::kGroupedLinear;
  };
  std::map<std::string, int> stacks;  // adapted ones of each layer's experts
  for (const AdaptedModule& module : adapters.modules()) {
    if (is_experts(module)) ++stacks[std::string(ExpertsOf(module.path))];
  }
  const AdapterLayout layout =
      adapters.experts_folded() ? AdapterLayout::kPeft3d : AdapterLayout::kPeft2d;
  std::vector<std::pair<std::string, Tensor>> kept;
  for (const AdaptedModule& module : adapters.modules()) {
    const LoraFactors& factors = module.adapter->factors(0);
    const Tensor a = scaled(factors.a), b = scaled(factors.b);
    if (!is_experts(module)) {
      kept.emplace_back(PeftKey(module, true), PeftTensor(module, a, true));
      kept.emplace_back(PeftKey(module, false), PeftTensor(module, b, false));
      continue;
    }
    for (auto& tensor :
         ExpertTensors(module, a, b, layout, form, stacks[std::string(ExpertsOf(module.path))])) {
      kept.push_back(std::move(tensor));
    }
  }
  for (const SavedRouter& router : adapters.routers()) {
    for (const RouterPart& part : TrainablePartsOf(*router.router)) {
      kept.emplace_back(absl::StrCat(kPeftPrefix, router.path, ".", part.name),
                        scaled(part.parameter->master()));
    }
  }
  std::vector<SafetensorsTensor> tensors;
  for (const auto& [key, tensor] : kept) {
    tensors.push_back({key,
                       tensor.dtype() == DType::kF64 ? StoredType::kF64 : StoredType::kF32,
                       {tensor.shape().begin(), tensor.shape().end()},
                       {static_cast<const uint8_t*>(tensor.view().data), tensor.bytes()}});
  }
  return WriteSafetensors(files, path, tensors, {{"format", "pt"}});
}

}  // namespace lorica
