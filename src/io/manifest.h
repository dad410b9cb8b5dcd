// The manifest of a checkpoint folder: what is in it, in canonical global coordinates, and how to
// tell that all of it is there.
//
// The file MANIFEST.json is one JSON object whose first member, alone on the second line, is the
// CRC-32C of everything behind that line. Tensors are canonical global ones; each is cut into boxes
// (chunks) that lie in files of the folder, so that another number of writers or another parallel
// layout is a matter of intersecting boxes.
#ifndef LORICA_IO_MANIFEST_H_
#define LORICA_IO_MANIFEST_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/io/stored_type.h"

namespace lorica {

inline constexpr char kManifestName[] = "MANIFEST.json";
inline constexpr int64_t kManifestVersion = 1;

// A box of a tensor: elements [offset, offset + shape) in every dimension, dense and row-major in
// bytes [begin, end) of `file`.
struct ManifestChunk {
  std::string file;
  std::vector<int64_t> offset;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint32_t crc32c = 0;  // of these bytes
};

struct ManifestTensor {
  std::string name;
  StoredType type = StoredType::kF32;  // not quantised
  std::vector<int64_t> shape;          // global
  std::string role;                    // "lora_a", "lora_b", "adam_m", "adam_v", "master", ...
  std::vector<std::string> axes;      // a name a dimension ("expert", "rank", "in", "out"), or none
  std::vector<ManifestChunk> chunks;  // tile the shape exactly once
};

struct ManifestFile {
  std::string name;
  uint64_t size = 0;
  uint32_t crc32c = 0;
};

// Doubles keep every bit but the payload of a NaN.
using ManifestScalar = std::variant<int64_t, double, std::string>;

struct Manifest {
  int64_t step = 0;
  std::string run_id;
  std::string nonce;                      // of the attempt to save
  int64_t writers = 1;                    // files hold what these wrote
  std::map<std::string, int64_t> layout;  // parallel sizes when it was written, for information
  std::string base_fingerprint;           // of the frozen model that it belongs to
  std::map<std::string, ManifestScalar> scalars;
  std::vector<ManifestTensor> tensors;
  std::vector<ManifestFile> files;
};

// The name of a chunk's tensor in its safetensors file: "<tensor>#<index>".
std::string ChunkName(absl::string_view tensor, size_t index);

// The text of MANIFEST.json. The same errors as ParseManifest.
absl::StatusOr<std::string> FormatManifest(const Manifest& manifest);

// Strict: unknown keys, another version, a wrong checksum, names outside of the folder, duplicates,
// ranges outside of their file or on top of each other, boxes that don't tile their tensor are
// errors that start with `where`.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text, absl::string_view where);

// What holds between the parts of a manifest, whatever it was made from.
absl::Status CheckManifest(const Manifest& manifest, absl::string_view where);

}  // namespace lorica

#endif  // LORICA_IO_MANIFEST_H_
