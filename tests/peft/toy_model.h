// A small module tree with the names that target patterns care about.
#ifndef LORICA_TESTS_PEFT_TOY_MODEL_H_
#define LORICA_TESTS_PEFT_TOY_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lorica/nn/embedding.h"
#include "lorica/nn/grouped_linear.h"
#include "lorica/nn/linear.h"
#include "lorica/nn/rms_norm.h"
#include "lorica/tensor/random.h"

namespace lorica::testing {

inline Tensor RandomTensor(Backend& backend, const Shape& shape, DType dtype, uint64_t seed) {
  RandomStream random(seed, 1);
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (double& v : values) v = 0.3 * random.Normal();
  return raw::Cast(Tensor::FromHost<double>(backend, shape, values), dtype);
}

// embed_tokens; layers 0..11 with q_proj, kv_a_proj_with_mqa, proj_drop, mlp.{gate, up_proj,
// down_proj}, mlp.shared_experts.up_proj, mlp.experts; lm_head. Hidden size 6.
class ToyModel : public Module {
 public:
  ToyModel(Backend& backend, DType dtype, int layers = 12) {
    uint64_t seed = 100;
    const auto values = [&](const Shape& shape) {
      return RandomTensor(backend, shape, dtype, ++seed);
    };
    embed_ = std::make_unique<nn::Embedding>(Parameter(values({9, 6})));
    for (int i = 0; i < layers; ++i) {
      const std::string at = absl::StrCat("layers.", i, ".");
      AddLinear(at + "self_attn.q_proj", values({8, 6}));
      AddLinear(at + "self_attn.kv_a_proj_with_mqa", values({5, 6}));
      AddLinear(at + "self_attn.proj_drop", values({5, 6}));
      AddLinear(at + "mlp.gate", values({3, 6}));
      AddLinear(at + "mlp.up_proj", values({7, 6}));
      AddLinear(at + "mlp.down_proj", values({6, 7}));
      AddLinear(at + "mlp.shared_experts.up_proj", values({7, 6}));
      Add(at + "mlp.experts.up_proj",
          std::make_unique<nn::GroupedLinear>(Parameter(values({2, 7, 6}))));
    }
    AddLinear("lm_head", values({9, 6}));
  }

  void Visit(ModuleVisitor& visitor) override {
    visitor.OnChild("embed_tokens", *embed_);
    for (auto& [name, child] : children_) visitor.OnChild(name, *child);
  }

  nn::Embedding& embed() { return *embed_; }
  nn::Linear& linear(const std::string& name) {
    for (auto& [child_name, child] : children_) {
      if (child_name == name) return dynamic_cast<nn::Linear&>(*child);
    }
    Fail("no such linear: ", name);
  }

 private:
  void Add(const std::string& name, std::unique_ptr<Module> module) {
    children_.emplace_back(name, std::move(module));
  }
  void AddLinear(const std::string& name, Tensor weight) {
    Add(name, std::make_unique<nn::Linear>(std::move(weight)));
  }

  std::unique_ptr<nn::Embedding> embed_;
  std::vector<std::pair<std::string, std::unique_ptr<Module>>> children_;
};

}  // namespace lorica::testing

#endif  // LORICA_TESTS_PEFT_TOY_MODEL_H_
