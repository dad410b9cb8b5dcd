// Merging: the adapters' products added into the base weights.
#ifndef LORICA_PEFT_MERGE_H_
#define LORICA_PEFT_MERGE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "lorica/peft/adapter_set.h"

namespace lorica {

// scale * B A of one module, [out, in] ([V, C] for an embedding; for experts [E, out, in], zero
// where the module is a part), in the accumulator type.
Tensor LoraDelta(const AdaptedModule& module, int slot = 0);

// While it lives, the base weights of a set's modules are W + scale * B A, summed in f32 (f64) and
// rounded once, and the adapters are detached. Weights that
// the adapter brings in full stay. A head that was tied to a merged embedding, or that
// is merged itself, has weights of its own meanwhile. Unmerge, or destruction, puts the former
// weights back, the same bytes. Keep drops them.
class MergedWeights {
 public:
  // InvalidArgument when a factor or a merged weight isn't finite; then nothing has changed.
  // `root` is the tree that the set is attached to.
  static absl::StatusOr<MergedWeights> Merge(Module& root, const AdapterSet& set, int slot = 0);

  MergedWeights(MergedWeights&&) = default;
  MergedWeights& operator=(MergedWeights&&) = delete;
  ~MergedWeights();

  void Unmerge();
  void Keep();

 private:
  struct Original {
    AdapterHost* host;
    Tensor values;  // undefined: the host is tied again
  };
  explicit MergedWeights(const AdapterSet& set) : set_(set) {}

  AdapterSet set_;
  std::vector<Original> originals_;  // empty once unmerged or kept
};

}  // namespace lorica

#endif  // LORICA_PEFT_MERGE_H_
