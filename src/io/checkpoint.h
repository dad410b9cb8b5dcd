// Checkpoints: a folder of step folders, each committed as a whole.
//
//   checkpoints/step-00001200/MANIFEST.json
//   checkpoints/step-00001200/shard-00000-of-00001.safetensors
//   checkpoints/LATEST                                          a hint for people; nothing here
//   reads it
//
// The names, shapes and bytes of the tensors are the caller's; this file knows neither adapters nor
// optimizers.
#ifndef LORICA_IO_CHECKPOINT_H_
#define LORICA_IO_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lorica/io/file_system.h"
#include "lorica/io/manifest.h"
#include "lorica/io/safetensors.h"
#include "lorica/io/stored_type.h"

namespace lorica {

struct CheckpointTensor {
  std::string name;
  StoredType type;
  std::vector<int64_t> shape;
  std::string role;
  std::vector<std::string> axes;    // one a dimension, or none
  absl::Span<const uint8_t> bytes;  // all of it, dense, row-major
};

struct CheckpointContents {
  int64_t step = 0;
  std::string run_id;
  std::string base_fingerprint;
  std::map<std::string, int64_t> layout;
  std::map<std::string, ManifestScalar> scalars;
  std::vector<CheckpointTensor> tensors;
};

// Writes `folder`/step-XXXXXXXX, and the hint LATEST after it; makes `folder` where it is absent.
// Returns the step's path. On error nothing new is visible, except when only the hint failed.
// AlreadyExists where the step is there already.
absl::StatusOr<std::string> WriteCheckpoint(FileSystem& files, const std::string& folder,
                                            const CheckpointContents& contents);

// One complete step folder. Thread-safe once opened.
class CheckpointReader {
 public:
  // Checks the manifest and, against it, the folder: exactly the files listed, their sizes, and the
  // headers of the shards. Doesn't read the tensors.
  static absl::StatusOr<CheckpointReader> Open(const std::string& path,
                                               FileSystem& files = PosixFiles());

  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }
  // Null where there is no such tensor.
  const ManifestTensor* Find(absl::string_view name) const;

  // The checkpoint has these tensors and no others; the error names the first that is missing or
  // left over.
  absl::Status ExpectTensors(absl::Span<const std::string> names) const;

  // A tensor by its global name into `out`, which has room for exactly its bytes. NotFound, or
  // InvalidArgument where type or shape differ from those given; DataLoss where a checksum differs.
  absl::Status Load(absl::string_view name, StoredType type, absl::Span<const int64_t> shape,
                    absl::Span<uint8_t> out) const;
  // The box [offset, offset + shape) of it, dense, row-major. A box outside of the tensor throws
  // Error.
  absl::Status LoadBox(absl::string_view name, absl::Span<const int64_t> offset,
                       absl::Span<const int64_t> shape, absl::Span<uint8_t> out) const;

  // Typed scalars; the error names the key.
  absl::StatusOr<int64_t> GetInt(const std::string& key) const;
  absl::StatusOr<double> GetDouble(const std::string& key) const;
  absl::StatusOr<std::string> GetString(const std::string& key) const;

  // Reads every byte: checksums of files and of chunks.
  absl::Status VerifyAll() const;

 private:
  CheckpointReader() = default;
  absl::Status CheckFolder(FileSystem& files);
  absl::Status CheckShards() const;
  absl::StatusOr<absl::Span<const uint8_t>> ChunkBytes(const ManifestTensor& tensor,
                                                       size_t index) const;
  absl::Status Bad(absl::string_view message) const;

  std::string path_;
  Manifest manifest_;
  std::map<std::string, size_t> index_;            // tensor name -> manifest_.tensors
  std::map<std::string, SafetensorsFile> shards_;  // by file name
  std::map<std::string, std::shared_ptr<const MappedFile>> mappings_;
};

struct CheckpointPlace {
  std::string path;
  int64_t step;
};

struct CheckpointList {
  std::vector<CheckpointPlace> complete;  // newest first
  std::vector<absl::Status> damaged;      // step folders that don't open, and why
};

// The step folders in `folder`, temporary and trash folders left out; an absent folder has none.
// Opens each, so that only what can be loaded counts as complete.
absl::StatusOr<CheckpointList> ListCheckpoints(const std::string& folder,
                                               FileSystem& files = PosixFiles());

// Removes complete steps except the newest `keep` and those in `also_keep`. A step is renamed to a
// trash name before it is deleted, so no half-deleted step is ever seen. Damaged ones stay: a
// person should look at them.
absl::Status KeepNewest(FileSystem& files, const std::string& folder, int64_t keep,
                        absl::Span<const int64_t> also_keep = {});

// Removes temporary and trash entries that dead processes left. Only call it while nobody else
// writes there.
absl::Status RemoveLeftovers(FileSystem& files, const std::string& folder);

// "step-00001200"
std::string CheckpointName(int64_t step);

}  // namespace lorica

#endif  // LORICA_IO_CHECKPOINT_H_
