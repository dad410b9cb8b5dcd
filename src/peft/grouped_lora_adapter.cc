#include "lorica/peft/grouped_lora_adapter.h"

#include <utility>

namespace lorica {

PartOutputs OutputsOf(HostPart part, nn::GroupedLinear::Outputs outputs, int64_t out) {
  if (part == HostPart::kAll) return {.count = out};
  LORICA_CHECK(outputs != nn::GroupedLinear::Outputs::kOne,
               "[lora] a stack without gate has no parts");
  const bool up = part == HostPart::kUp;
  if (outputs == nn::GroupedLinear::Outputs::kInterleaved) {
    return {.begin = up ? 1 : 0, .step = 2, .count = out / 2};
  }
  return {.begin = up ? out / 2 : 0, .count = out / 2};
}

GroupedLoraAdapter::GroupedLoraAdapter(std::vector<Part> parts, int64_t out,
                                       nn::GroupedLinear::Outputs outputs)
    : parts_(std::move(parts)), out_(out), outputs_(outputs) {
  LORICA_CHECK(!parts_.empty(), "[lora] a stack of experts without factors");
  for (const Part& part : parts_) {
    LORICA_CHECK(part.adapter->slots() == parts_[0].adapter->slots(),
                 "[lora] gate and up have different numbers of slots");
  }
}

absl::Span<const LoraBranch> GroupedLoraAdapter::Branches(DType, bool) {
  Fail("[lora] an adapter of experts serves a stack only");
}

const GroupedBranch& GroupedLoraAdapter::Grouped(DType compute, bool training, bool scale_in_b) {
  const int slots = static_cast<int>(parts_[0].adapter->slots());
  std::vector<Made> now;
  for (const Part& part : parts_) {
    for (int slot = 0; slot < slots; ++slot) {
      const LoraFactors& f = part.adapter->factors(slot);
      now.push_back({f.a.storage()->version(), f.b.storage()->version(), f.scale()});
    }
  }
  if (!branch_.defined() || compute != compute_ || scale_in_b != branch_.scale_in_b ||
      now != made_) {
    std::vector<GroupedBranch::Factor> factors;
    for (const Part& part : parts_) {
      const PartOutputs outputs = OutputsOf(part.part, outputs_, out_);
      for (int slot = 0; slot < slots; ++slot) {
        const LoraFactors& f = part.adapter->factors(slot);
        factors.push_back({.slot = slot,
                           .a = f.a,
                           .b = f.b,
                           .scale = f.scale(),
                           .out_begin = outputs.begin,
                           .out_step = outputs.step});
      }
    }
    branch_ = MakeGroupedBranch(std::move(factors), std::vector<GroupedBranch::Slot>(slots), out_,
                                compute, scale_in_b);
    compute_ = compute;
    made_ = std::move(now);
  }
  for (int slot = 0; slot < slots; ++slot) {
    // Parts share the branch's input, and with it what is dropped from it.
    const LoraFactors& f = parts_[0].adapter->factors(slot);
    branch_.slots[static_cast<size_t>(slot)] = {.dropout = training ? f.dropout : 0,
                                                .dropout_key = f.dropout_key};
  }
  return branch_;
}

}  // namespace lorica
