// Named tensors in files, whatever the format: one safetensors file, a Hugging Face folder, a GGUF
// file.
#ifndef LORICA_IO_TENSOR_SOURCE_H_
#define LORICA_IO_TENSOR_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lorica/io/file_system.h"
#include "lorica/io/gguf.h"
#include "lorica/io/safetensors.h"
#include "lorica/io/stored_type.h"

namespace lorica {

struct StoredTensorInfo {
  StoredType type;
  std::vector<int64_t> shape;
};

// Thread-safe once built. Names are those of the file.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // In file order.
  virtual const std::vector<std::string>& names() const = 0;
  // Null where there is no such tensor.
  virtual const StoredTensorInfo* Find(absl::string_view name) const = 0;
  // The stored bytes (blocks where the type is quantised; any alignment). They live as long as the
  // source. NotFound names the source and, where one is near, the likely meant name.
  virtual absl::StatusOr<absl::Span<const uint8_t>> Bytes(absl::string_view name) const = 0;
  // "model-00001-of-00002.safetensors: tensor "lm_head.weight"", to start an error text.
  virtual std::string Where(absl::string_view name) const = 0;

  // Rows [first_row, first_row + rows) of the tensor seen as [shape[0], rest], converted to
  // `target` (stored_type.h) into `out`; a tensor of rank 0 has one row. Rows of a quantised rank-1
  // tensor must fall on blocks. Rows out of range throw Error; an unsupported type is a Status. May
  // run on several threads.
  virtual absl::Status Read(absl::string_view name, int64_t first_row, int64_t rows, DType target,
                            void* out) const;
  // All of it.
  absl::Status ReadAll(absl::string_view name, DType target, void* out) const;
};

// Each of the files stays mapped while the source lives.
absl::StatusOr<std::unique_ptr<TensorSource>> OpenSafetensorsSource(
    const std::string& path, FileSystem& files = PosixFiles());

// A folder with `model.safetensors`, or the shards of `model.safetensors.index.json`, or without an
// index `model-0000i-of-0000n.safetensors` (all n), or any other *.safetensors (all of them).
// Errors: a shard that is missing, a tensor that the index names and its shard lacks or the
// reverse, a tensor in two shards, no weights at all.
absl::StatusOr<std::unique_ptr<TensorSource>> OpenFolderSource(const std::string& folder,
                                                               FileSystem& files = PosixFiles());

// Names and row order as in the GGUF file.
std::unique_ptr<TensorSource> MakeGgufSource(GgufFile file);

// How companions with scales end, and the types of weights that have one.
inline constexpr absl::string_view kBlockScaleEnding = "_scale_inv";
bool HasBlockScale(StoredType type);

// The tensors of `source`, where each 8-bit weight `X` of shape [..., rows, columns] has a
// companion `X_scale_inv` of floats [..., ceil(rows / block_rows), ceil(columns / block_columns)],
// one for each block of the matrix. Read multiplies by it: one product in f32, rounded once to the
// target. The companions don't appear among the names; Bytes are the stored ones. Errors: a weight
// without scales or the reverse, a shape that doesn't fit.
absl::StatusOr<std::unique_ptr<TensorSource>> MakeBlockScaledSource(
    std::unique_ptr<TensorSource> source, int64_t block_rows, int64_t block_columns);

}  // namespace lorica

#endif  // LORICA_IO_TENSOR_SOURCE_H_
