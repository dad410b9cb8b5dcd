#include "lorica/peft/saved_router.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/peft/peft_config.h"

namespace lorica {

Tensor RouterPart::Values() const {
  return parameter->trainable() ? parameter->master().Detach() : parameter->value().Detach();
}

std::vector<RouterPart> PartsOf(nn::Router& router) {
  std::vector<RouterPart> parts = {{"weight", &router.weight()}};
  if (router.bias().defined()) parts.push_back({"bias", &router.bias()});
  if (router.correction_bias().defined()) {
    parts.push_back({"e_score_correction_bias", &router.correction_bias()});
  }
  return parts;
}

std::vector<RouterPart> TrainablePartsOf(nn::Router& router) {
  std::vector<RouterPart> parts = PartsOf(router);
  std::erase_if(parts, [](const RouterPart& part) { return !part.parameter->differentiable(); });
  return parts;
}

std::vector<SavedRouter> ListRouters(Module& root) {
  std::vector<SavedRouter> routers;
  ForEachModule(root, [&](const std::string& path, Module& module) {
    if (auto* router = dynamic_cast<nn::Router*>(&module)) routers.push_back({path, router});
  });
  return routers;
}

absl::StatusOr<std::vector<SavedRouter>> FitRouters(const std::vector<SavedTensor>& tensors,
                                                    Module& root, absl::string_view where) {
  std::map<std::string, std::map<std::string, const Tensor*>> by_module;
  for (const SavedTensor& tensor : tensors) by_module[tensor.module][tensor.name] = &tensor.values;
  std::vector<SavedRouter> fitted;
  for (SavedRouter& router : ListRouters(root)) {
    const auto found = by_module.find(router.path);
    if (found == by_module.end()) continue;
    std::map<std::string, const Tensor*>& values = found->second;
    for (const RouterPart& part : PartsOf(*router.router)) {
      const auto it = values.find(std::string(part.name));
      if (it == values.end()) {
        return absl::InvalidArgumentError(absl::StrCat(where, ": has no ", part.name,
                                                       " of the router ", Quoted(router.path),
                                                       ", which it brings in full"));
      }
      const Shape& shape = part.parameter->shape();
      if (!(it->second->shape() == shape)) {
        return absl::InvalidArgumentError(absl::StrCat(
            where, ": ", part.name, " of the router ", Quoted(router.path), ": expected shape ",
            shape.ToString(), ", found ", it->second->shape().ToString()));
      }
      router.values.push_back(
          raw::Contiguous(raw::Cast(*it->second, part.parameter->compute_dtype())));
      router.originals.push_back(part.parameter->value().Detach());
      values.erase(it);
    }
    if (values.empty()) by_module.erase(found);
    fitted.push_back(std::move(router));
  }
  if (by_module.empty()) return fitted;
  const auto& [module, names] = *by_module.begin();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": brings ", Quoted(absl::StrCat(module, ".", names.begin()->first)),
                   " in full, and the model has no router with it"));
}

absl::Status CheckSavedRouters(const PeftConfig& config, Module& root,
                               const std::vector<SavedRouter>& routers, absl::string_view where) {
  for (const SavedRouter& router : ListRouters(root)) {
    if (!config.Saves(router.path)) continue;
    if (std::none_of(routers.begin(), routers.end(),
                     [&](const SavedRouter& r) { return r.path == router.path; })) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": has no weight of ", Quoted(router.path),
                       ", which modules_to_save of adapter_config.json names"));
    }
  }
  return absl::OkStatus();
}

}  // namespace lorica
