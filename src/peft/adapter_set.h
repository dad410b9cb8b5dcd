// AdapterSet: LoRA attached to a module tree.
#ifndef LORICA_PEFT_ADAPTER_SET_H_
#define LORICA_PEFT_ADAPTER_SET_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/nn/linear.h"
#include "lorica/peft/lora_adapter.h"
#include "lorica/peft/lora_config.h"
#include "lorica/peft/saved_router.h"
#include "lorica/peft/target_pattern.h"

namespace lorica {

struct AdaptedModule {
  std::string path;
  AdapterHost* host = nullptr;
  std::shared_ptr<LoraAdapter> adapter;
  HostPart part = HostPart::kAll;
};

// A weight that an adapter brings in full (PEFT's modules_to_save).
struct ReplacedWeight {
  std::string path;
  AdapterHost* host = nullptr;
  Tensor values;    // in the compute type
  Tensor original;  // the model's own; undefined where the host is tied to another
  // A head that goes on with the model's own weight while that of the embedding is replaced.
  bool is_own = false;
  // A head that shares this embedding's weight follows it (ensure_weight_tying).
  bool head_follows = false;
};

// The adapted modules of one tree, in the tree's order, and the weights that are replaced. The tree
// must outlive the set.
class AdapterSet {
 public:
  AdapterSet() = default;
  explicit AdapterSet(std::vector<AdaptedModule> modules, std::vector<ReplacedWeight> replaced = {})
      : modules_(std::move(modules)), replaced_(std::move(replaced)) {}

  const std::vector<AdaptedModule>& modules() const { return modules_; }
  // Not trained on: they are frozen like the rest of the base.
  const std::vector<ReplacedWeight>& replaced() const { return replaced_; }
  // Routers that stand in the adapter's file in full.
  const std::vector<SavedRouter>& routers() const { return routers_; }
  void set_routers(std::vector<SavedRouter> routers) { routers_ = std::move(routers); }
  bool empty() const { return modules_.empty(); }
  // How the file that the set was read from has factors of experts: folded into one pair a
  // parameter, or a pair an expert.
  bool experts_folded() const { return experts_folded_; }
  void set_experts_folded(bool folded) { experts_folded_ = folded; }
  // What whoever injected them should know: a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }
  void set_notes(std::vector<std::string> notes) { notes_ = std::move(notes); }
  // Values of all factors of `slot`.
  int64_t CountParameters(int slot = 0) const;
  // Every master of `slot` in tree order: name is path + ".lora_A" or ".lora_B".
  void ForEachFactor(
      int slot, const std::function<void(const std::string& name, Tensor& master)>& body) const;
  // Hangs the adapters on their modules and puts the replaced weights and routers in, or undoes it;
  // the factors stay. A tied head whose weight is replaced, or that of its owner, has one of its
  // own meanwhile. Adapters of gate and up of one stack of experts become one.
  void Attach() const;
  void Detach() const;
  // The adapters alone.
  void AttachBranches() const;
  void DetachBranches() const;

 private:
  std::vector<AdaptedModule> modules_;
  std::vector<ReplacedWeight> replaced_;
  std::vector<SavedRouter> routers_;
  bool experts_folded_ = false;
  std::vector<std::string> notes_;
};

// Freezes every parameter of the tree, then adds one slot of fresh factors to each module that the
// configuration's patterns name, and attaches them. Base weights keep their storage and type.
// InvalidArgument for a pattern (target, exclude, rank, alpha) that matches nothing, for values out
// of range, and for targets that don't support LoRA. `base_dtype` is the compute type.
absl::StatusOr<AdapterSet> InjectLora(Module& root, Backend& backend, DType compute,
                                      const LoraConfig& config);

// The rank and alpha of a module: the first pattern in order that matches its path, else the
// configuration's.
// Of experts it is divided by expert_rank_divisor and may come out as 0.
int64_t RankOf(const LoraConfig& config, const TargetCandidate& module);
double AlphaOf(const LoraConfig& config, const TargetCandidate& module);

}  // namespace lorica

#endif  // LORICA_PEFT_ADAPTER_SET_H_
