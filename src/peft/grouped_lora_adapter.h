// GroupedLoraAdapter: the adapters of one stack of experts, as its op takes them.
#ifndef LORICA_PEFT_GROUPED_LORA_ADAPTER_H_
#define LORICA_PEFT_GROUPED_LORA_ADAPTER_H_

#include <memory>
#include <vector>

#include "lorica/nn/grouped_linear.h"
#include "lorica/peft/lora_adapter.h"
#include "lorica/peft/target_pattern.h"

namespace lorica {

// The outputs of a part of a stack of `out` outputs: `begin`, begin + step, ...
struct PartOutputs {
  int64_t begin = 0, step = 1, count = 0;
};
PartOutputs OutputsOf(HostPart part, nn::GroupedLinear::Outputs outputs, int64_t out);

// Holds the factors of the whole stack, or of gate and up apart (either may be absent), in copies
// that are made again when a master has changed. The rank is padded when they are made.
class GroupedLoraAdapter final : public LinearAdapter {
 public:
  struct Part {
    HostPart part = HostPart::kAll;
    std::shared_ptr<LoraAdapter> adapter;
  };
  // `out` and `outputs` are the host's.
  GroupedLoraAdapter(std::vector<Part> parts, int64_t out, nn::GroupedLinear::Outputs outputs);

  absl::Span<const LoraBranch> Branches(DType compute, bool training) override;
  const GroupedBranch& Grouped(DType compute, bool training, bool scale_in_b) override;

 private:
  // Versions and scales of every factor: what a copy was made from.
  struct Made {
    uint64_t a = 0, b = 0;
    double scale = 0;
    bool operator==(const Made&) const = default;
  };

  std::vector<Part> parts_;
  int64_t out_;
  nn::GroupedLinear::Outputs outputs_;
  GroupedBranch branch_;
  DType compute_ = DType::kF32;
  std::vector<Made> made_;
};

}  // namespace lorica

#endif  // LORICA_PEFT_GROUPED_LORA_ADAPTER_H_
