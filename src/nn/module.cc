#include "lorica/nn/module.h"

#include <utility>

namespace lorica {
namespace {

std::string Join(const std::string& path, absl::string_view name) {
  std::string joined = path;
  if (!joined.empty() && !name.empty()) joined += '.';
  joined.append(name.data(), name.size());
  return joined;
}

// Walks the tree; each of the two functions may be null.
class Walker final : public ModuleVisitor {
 public:
  using OnParameterFunction = std::function<void(const std::string&, Parameter&)>;
  using OnModuleFunction = std::function<void(const std::string&, Module&)>;

  Walker(const OnParameterFunction* on_parameter, const OnModuleFunction* on_module)
      : on_parameter_(on_parameter), on_module_(on_module) {}

  void Walk(const std::string& path, Module& module) {
    if (on_module_ != nullptr) (*on_module_)(path, module);
    const std::string outer = std::move(path_);
    path_ = path;
    module.Visit(*this);
    path_ = outer;
  }

  void OnParameter(absl::string_view name, Parameter& parameter) override {
    if (on_parameter_ != nullptr && parameter.defined()) {
      (*on_parameter_)(Join(path_, name), parameter);
    }
  }
  void OnChild(absl::string_view name, Module& child) override { Walk(Join(path_, name), child); }

 private:
  const OnParameterFunction* on_parameter_;
  const OnModuleFunction* on_module_;
  std::string path_;
};

}  // namespace

void ForEachParameter(Module& root,
                      const std::function<void(const std::string& path, Parameter&)>& body) {
  Walker(&body, nullptr).Walk("", root);
}

void ForEachModule(Module& root,
                   const std::function<void(const std::string& path, Module&)>& body) {
  Walker(nullptr, &body).Walk("", root);
}

Module* FindModule(Module& root, absl::string_view path) {
  Module* found = nullptr;
  ForEachModule(root, [&](const std::string& candidate, Module& module) {
    if (candidate == path) found = &module;
  });
  return found;
}

int64_t CountParameters(Module& root) {
  int64_t count = 0;
  ForEachParameter(root, [&](const std::string&, Parameter& p) {
    if (!p.buffer()) count += p.numel();
  });
  return count;
}

void MakeTrainable(Module& root) {
  ForEachParameter(root, [](const std::string&, Parameter& p) { p.MakeTrainable(); });
}

void Freeze(Module& root) {
  ForEachParameter(root, [](const std::string&, Parameter& p) { p.Freeze(); });
}

}  // namespace lorica
