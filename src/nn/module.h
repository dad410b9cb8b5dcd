// Module: a tree of named parameters and children.
//
// One function, Visit, lists them; counting, freezing, loading, saving, LoRA targets, sharding and
// gradient reduction are loops over that list. Dotted paths are those of Hugging Face checkpoints
// ("model.layers.0.self_attn.q_proj").
//
// Layers live in the namespace lorica::nn, because ops carry the same names: nn::Linear is the
// module, Linear (autograd/ops.h) the function.
#ifndef LORICA_NN_MODULE_H_
#define LORICA_NN_MODULE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "lorica/nn/parameter.h"

namespace lorica {

class Module;

// Receives the entries of one module, in their order of declaration.
class ModuleVisitor {
 public:
  virtual ~ModuleVisitor() = default;
  virtual void OnParameter(absl::string_view name, Parameter& parameter) = 0;
  virtual void OnChild(absl::string_view name, Module& child) = 0;
};

// Moved, never copied: a copy would share its parameters without saying so. A module that took part
// in a forward pass stays where it is until the backward pass is over.
class Module {
 public:
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
  virtual ~Module() = default;

  // Calls `visitor` for every parameter that is defined and every child. Names may hold dots
  // ("layers.0"); a parameter named "" has the path of its module. A parameter that two modules
  // share is listed by one of them.
  virtual void Visit(ModuleVisitor& visitor) = 0;
};

// Depth-first, in order of declaration, a module's parameters and children as Visit lists them,
// with full dotted paths. `root` itself has the path "".
void ForEachParameter(Module& root,
                      const std::function<void(const std::string& path, Parameter&)>& body);
void ForEachModule(Module& root, const std::function<void(const std::string& path, Module&)>& body);

// Null where there is no module of that path.
Module* FindModule(Module& root, absl::string_view path);

// Number of values of all parameters below `root` (adapters not included).
int64_t CountParameters(Module& root);

// Every parameter below `root`.
void MakeTrainable(Module& root);
void Freeze(Module& root);

}  // namespace lorica

#endif  // LORICA_NN_MODULE_H_
