// Models in files: a Hugging Face folder or a GGUF file into a CausalLm, and back into a folder.
#ifndef LORICA_NN_MODEL_LOADER_H_
#define LORICA_NN_MODEL_LOADER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/io/atomic_commit.h"
#include "lorica/io/tensor_source.h"
#include "lorica/nn/decoder.h"

namespace lorica {

struct LoadOptions {
  // Use the file's own bytes where they are of the compute type: no copy is made, and the file
  // stays mapped while the model lives.
  bool borrow = true;
  // NaN and infinity in a tensor are an error that names it.
  bool check_finite = true;
};

// The files of a model, opened and its configuration read; no weights are read yet.
struct ModelFiles {
  ModelConfig config;
  std::shared_ptr<const TensorSource> stored;   // as the files have them
  std::shared_ptr<const TensorSource> tensors;  // by this engine's names, experts stacked
  bool gguf = false;
};

absl::StatusOr<ModelFiles> OpenModel(const std::string& path);

// Gives every parameter of `model` its values. All names and shapes are checked before the first
// value is read: a tensor that is missing, too many or of another shape is an error with tensor,
// file, expected and found shape. Extra tensors are fine where they are known to carry nothing:
// stored rotary frequencies, a head that equals the embedding it is tied to.
absl::Status LoadWeights(CausalLm& model, const ModelFiles& files, Backend& backend,
                         const LoadOptions& options = {});

struct LoadedModel {
  std::unique_ptr<CausalLm> model;
  std::string fingerprint;
};

// OpenModel, a CausalLm in `compute`, LoadWeights, Fingerprint. `backend` must outlive the model.
absl::StatusOr<LoadedModel> LoadModel(const std::string& path, Backend& backend, DType compute,
                                      const LoadOptions& options = {});

// 16 hexadecimal digits that tell this base model from others: configuration, names, shapes and
// types of all tensors, and some bytes of each. Cheap: it reads a few pages of each tensor.
absl::StatusOr<std::string> Fingerprint(const ModelFiles& files);

// Writes config.json and model.safetensors (in the compute type) into an open folder, to which the
// caller may add more files before it commits.
absl::Status WriteModelFiles(CausalLm& model, DirectoryCommit& folder);
// The same as a folder of its own, complete or not at all. AlreadyExists where `path` exists.
absl::Status SaveModel(CausalLm& model, const std::string& path, FileSystem& files = PosixFiles());

// Which part of which parameter a tensor of a Hugging Face folder is.
struct FolderPlace {
  std::string path;
  int64_t expert = -1;              // of a stack; -1: all of the parameter
  int64_t first_row = 0, rows = 0;  // of that expert
  bool transposed = false;          // the file swaps the last two axes
};
// `name` is the file's. For a name of no parameter the path is one that no parameter has.
FolderPlace PlaceInFolder(absl::string_view name, const ModelConfig& config);

// Where the parameter `path` of a model stands in a GGUF file: name and how its rows are ordered.
struct GgufPlace {
  std::string name;
  // The architecture `llama` stores rows of q and k with the two rotation halves of a head
  // interleaved: row 2 j + h of a head there is row h * head_dim / 2 + j here. 0: as here.
  int64_t interleaved_heads = 0;
  // The file has this much added to every value: norms that multiply by 1 + weight (Gemma).
  double added = 0;
};
// An empty name for a path that GGUF has no place for.
GgufPlace PlaceInGguf(absl::string_view path, const ModelConfig& config);

// Half of a parameter that GGUF files may have as two tensors: gate and up of experts, keys (each
// head transposed) and values of kv_b_proj.
struct GgufHalf {
  std::string name;
  Tensor values;  // a view
};
// Both halves of the parameter `path`, whose values are `values`; empty for other parameters.
std::vector<GgufHalf> HalvesInGguf(absl::string_view path, const Tensor& values,
                                   const ModelConfig& config);

// What may stand between "model.layers.N." and ".weight" in a path that GGUF has a place for, of
// all families together.
std::vector<absl::string_view> GgufLayerModules();

}  // namespace lorica

#endif  // LORICA_NN_MODEL_LOADER_H_
