// Packed forms of right operands, kept from call to call.
#ifndef LORICA_TENSOR_CPU_PACKED_CACHE_H_
#define LORICA_TENSOR_CPU_PACKED_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "lorica/tensor/allocator.h"
#include "lorica/tensor/gemm.h"

namespace lorica::cpu {

// What a packed form was made from, and for which kernel.
struct PackedKey {
  uint64_t storage_id = 0;
  uint64_t version = 0;
  const void* data = nullptr;
  GemmLayout layout = GemmLayout::kNT;
  DType type = DType::kF32;
  int64_t n = 0, k = 0, stride = 0;
  int64_t panel_width = 0;

  auto operator<=>(const PackedKey&) const = default;
};

// Holds at most `capacity` bytes; when full it takes nothing more in, except in place of what older
// versions of the same storage took. Not thread-safe.
class PackedCache {
 public:
  PackedCache(Allocator& allocator, size_t capacity) : allocator_(allocator), capacity_(capacity) {}
  ~PackedCache();
  PackedCache(const PackedCache&) = delete;
  PackedCache& operator=(const PackedCache&) = delete;

  // The packed form, or null.
  const void* Find(const PackedKey& key) const;
  // Room for a packed form that Find didn't find, for the caller to fill; null when it doesn't fit.
  void* Insert(const PackedKey& key, size_t bytes);

  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    void* data;
    size_t bytes;
  };

  Allocator& allocator_;
  size_t capacity_;
  size_t bytes_ = 0;
  std::map<PackedKey, Entry> entries_;
};

}  // namespace lorica::cpu

#endif  // LORICA_TENSOR_CPU_PACKED_CACHE_H_
