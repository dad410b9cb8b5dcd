// StoredAdapter: what an adapter file says, whatever its layout, apart from any model.
//
// Readers of all layouts (layouts/adapter_layout.h) bring their file into this one form and writers
// start from it, so a conversion is a read and a write. Paths are those of Hugging Face as
// transformers 5 names modules; experts of a layer are `<layer>.mlp.experts.gate_up_proj` and
// `.down_proj`, or `.gate_proj`, `.up_proj` and `.down_proj` where gate and up have an A of their
// own.
//
// E experts, R rank.
#ifndef LORICA_PEFT_STORED_ADAPTER_H_
#define LORICA_PEFT_STORED_ADAPTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lorica/peft/lora_config.h"
#include "lorica/tensor/tensor.h"

namespace lorica {

struct StoredModule {
  enum class Kind { kLinear, kEmbedding, kExperts };

  std::string path;
  Kind kind = Kind::kLinear;
  int64_t experts = 0;  // E; 0 where the module has none
  // [R, in]; an embedding's [R, V]; of experts [E, R, in], or [1, R, in] where all share it.
  Tensor a;
  // [out, R]; an embedding's [C, R]; of experts [E, out, R] or [1, out, R]. Rows of gate_up_proj
  // are [gate; up], also where the base model interleaves them.
  Tensor b;
  double alpha = 0;
  LoraScaling scaling = LoraScaling::kStandard;

  int64_t rank() const { return a.dim(-2); }
  int64_t in() const { return a.dim(-1); }
  int64_t out() const { return b.dim(-2); }
  double scale() const { return LoraScale(scaling, rank(), alpha); }
};

// How a base model stores the experts that an adapter was made for.
struct ExpertForm {
  // Rows of gate_up_proj alternate (gpt-oss: even gate, odd up) instead of [gate; up].
  bool interleaved = false;
  // Parameters are [E, in, out] (gpt-oss, Llama 4) instead of [E, out, in].
  bool transposed = false;
  // Files of the model with one tensor an expert say block_sparse_moe.experts.N.w1, w3, w2 for
  // gate, up, down (Mixtral, MiniMax).
  bool numbered_names = false;
  // The model has experts, whether the adapter is for some or not: PEFT then takes names such as
  // gate_proj for theirs.
  bool in_model = false;
};

// A parameter or buffer that an adapter brings in full (PEFT's modules_to_save).
struct SavedTensor {
  std::string module;  // path
  std::string name;    // "weight", ...
  Tensor values;
};

struct StoredAdapter {
  std::vector<StoredModule> modules;  // paths differ
  std::vector<SavedTensor> saved;
  ExpertForm form;
  std::string base_model;  // base_model_name_or_path; may be empty
  std::string task_type = "CAUSAL_LM";
  double dropout = 0;  // what it was trained with
  std::string init;    // how its factors began (lora_config.h); empty where nobody said
  // Keys of the file that an adapter doesn't need: copies of base weights.
  std::vector<std::string> left_behind;
};

// Of two dots, `model.layers.1.mlp.experts` and `gate_up_proj`: the parts of an expert module's
// path.
absl::string_view ExpertsOf(absl::string_view path);
absl::string_view LastName(absl::string_view path);
// `name` is `path`, or its end from a whole name on, as lists of modules name them.
bool IsOrEnds(absl::string_view path, absl::string_view name);

// "fused", "split" (gate and up have an A each) or "shared-outer" (experts share the A of gate and
// up and the B of down); "" without experts.
absl::string_view ExpertKindName(const StoredAdapter& adapter);

// What the adapter adds to a weight: scale * B A, [out, in] row by row; of an embedding (B A)^T,
// [V, C]. `expert` counts for experts only. CPU tensors.
std::vector<double> DeltaOf(const StoredModule& module, int64_t expert);

// OK where both add the same to every weight and bring the same tensors in full. Factors are
// compared bit by bit, without the rank columns that carry nothing (zero in A or in B: what layouts
// are padded with), so it costs a pass over the factors and no product. B times the scale may
// differ by two roundings to f32 where the scales do, since one of them was folded. The error
// (DataLoss) names the module.
absl::Status CompareDeltas(const StoredAdapter& got, const StoredAdapter& want);

}  // namespace lorica

#endif  // LORICA_PEFT_STORED_ADAPTER_H_
