// The bytes of a file, read-only, mapped where possible.
#ifndef LORICA_IO_MAPPED_FILE_H_
#define LORICA_IO_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace lorica {

// Owns a read-only mapping of a whole regular file; where the file system can't map, a copy in
// memory. Move-only; the span stays valid when the object moves. A file that somebody truncates
// while it is mapped ends the process (SIGBUS), as with every mapping: writers replace files by
// rename.
class MappedFile {
 public:
  // Errors name the path: absent, no permission, not a regular file.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::Span<const uint8_t> bytes() const { return {data_, size_}; }

 private:
  MappedFile() = default;

  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  std::unique_ptr<uint8_t[]> copy_;  // set where data_ isn't a mapping
};

}  // namespace lorica

#endif  // LORICA_IO_MAPPED_FILE_H_
