// Shared bytes on a device.
#ifndef LORICA_TENSOR_STORAGE_H_
#define LORICA_TENSOR_STORAGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lorica/tensor/device.h"

namespace lorica {

class Backend;

// Bytes that one or more tensors view. Knows the backend whose allocator made it; the backend must
// outlive it. Every mutable access counts the version up, so that a tensor saved for the backward
// pass can tell that it was overwritten. Not synchronised: whoever writes makes sure that nobody
// else reads.
class Storage {
 public:
  // Uninitialised bytes from `backend`'s allocator.
  static std::shared_ptr<Storage> Allocate(Backend& backend, size_t bytes);
  // Bytes owned by someone else (a mapped file), read-only; `owner` is kept alive with the storage.
  static std::shared_ptr<Storage> Borrow(Backend& backend, const void* data, size_t bytes,
                                         std::shared_ptr<const void> owner);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  const void* data() const { return data_; }
  // Throws Error for borrowed bytes.
  void* mutable_data();
  size_t bytes() const { return bytes_; }
  bool read_only() const { return owner_ != nullptr; }
  uint64_t version() const { return version_; }
  Backend& backend() const { return *backend_; }
  // Distinct for every storage of the process, never reused: the key of caches of derived forms.
  uint64_t id() const { return id_; }

 private:
  Storage(Backend& backend, void* data, size_t bytes, std::shared_ptr<const void> owner);

  Backend* backend_;
  void* data_;
  size_t bytes_;
  std::shared_ptr<const void> owner_;
  uint64_t version_ = 0;
  uint64_t id_;
};

}  // namespace lorica

#endif  // LORICA_TENSOR_STORAGE_H_
