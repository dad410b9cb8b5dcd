// LoraAdapter: the low-rank factors of one module, for one or more adapter slots.
#ifndef LORICA_PEFT_LORA_ADAPTER_H_
#define LORICA_PEFT_LORA_ADAPTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lorica/nn/linear.h"
#include "lorica/peft/lora_config.h"

namespace lorica {

// One adapter on one module. Masters are f32 (f64 when the module computes in f64) leaves.
struct LoraFactors {
  Tensor a;  // [R, in]; for an embedding [V, R], the transpose of PEFT's lora_embedding_A; for
             // experts [E, R, in], or [1, R, in] where they share it
  Tensor b;  // [out, R]; for an embedding [C, R]; for experts [E, out, R] or [1, out, R]
  double alpha = 1;
  LoraScaling scaling = LoraScaling::kStandard;
  double dropout = 0;
  uint64_t dropout_key = 0;

  int64_t rank() const { return b.dim(-1); }
  double scale() const { return LoraScale(scaling, rank(), alpha); }
};

// Holds the factors of every slot and their copies in the compute type: A rounded once, B
// multiplied by its scale and rounded once. Copies are made again when a master has changed, so
// once an optimizer step.
class LoraAdapter final : public LinearAdapter {
 public:
  // Appends a slot; its number is the count before.
  void AddSlot(LoraFactors factors);
  size_t slots() const { return factors_.size(); }
  LoraFactors& factors(int slot) { return factors_[slot]; }
  const LoraFactors& factors(int slot) const { return factors_[slot]; }

  absl::Span<const LoraBranch> Branches(DType compute, bool training) override;

 private:
  std::vector<LoraFactors> factors_;
  std::vector<LoraBranch> branches_;
  std::vector<std::pair<uint64_t, uint64_t>> versions_;  // of A's and B's storage when copied
};

// Start values of a slot for a module of `kind` with a weight of `weight_shape` ([out, in], [V,
// C]), keyed by (seed, path): the same whatever else is adapted. Drawn in f32 whatever `compute`
// is.
LoraFactors InitLoraFactors(Backend& backend, DType compute, AdapterHost::Kind kind,
                            const Shape& weight_shape, absl::string_view path,
                            const LoraConfig& config, int64_t rank, double alpha);

// The same for experts, `weight_shape` [E, out, in] of the part that is adapted. Each expert's A is
// drawn by itself, keyed by (seed, path, expert), with the bounds of its own two sides.
LoraFactors InitExpertFactors(Backend& backend, DType compute, const Shape& weight_shape,
                              bool shared_a, bool shared_b, absl::string_view path,
                              const LoraConfig& config, int64_t rank, double alpha);

}  // namespace lorica

#endif  // LORICA_PEFT_LORA_ADAPTER_H_
