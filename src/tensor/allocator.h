// Memory of tensors.
#ifndef LORICA_TENSOR_ALLOCATOR_H_
#define LORICA_TENSOR_ALLOCATOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace lorica {

// Counted in bytes except `raw_allocations`.
struct MemoryStats {
  size_t active = 0;             // handed out now
  size_t cached = 0;             // kept for reuse, not handed out
  size_t peak = 0;               // highest `active + cached` so far
  uint64_t raw_allocations = 0;  // calls to the system so far
};

// Bytes aligned to kAlignment. Thread-safe.
class Allocator {
 public:
  // A cache line and an AVX-512 vector.
  static constexpr size_t kAlignment = 64;

  virtual ~Allocator() = default;
  // Never null; a zero size gives a valid pointer. Throws DeviceError when memory runs out.
  virtual void* Allocate(size_t bytes) = 0;
  // `bytes` as passed to Allocate.
  virtual void Free(void* data, size_t bytes) noexcept = 0;
  virtual MemoryStats stats() const = 0;
  // Gives cached blocks back to the system.
  virtual void Trim() noexcept = 0;
};

// Keeps freed blocks for the next request of a similar size: a training step repeats its shapes, so
// after two steps no memory comes from the system any more (first touch of fresh pages runs at a
// tenth of memory speed).
class CachingAllocator : public Allocator {
 public:
  struct Source {
    std::function<void*(size_t)> allocate;       // null when out of memory
    std::function<void(void*, size_t)> release;  // never fails
  };
  // The system's memory, in huge pages where that pays.
  CachingAllocator();
  explicit CachingAllocator(Source source) : source_(std::move(source)) {}
  ~CachingAllocator() override;

  void* Allocate(size_t bytes) override;
  void Free(void* data, size_t bytes) noexcept override;
  MemoryStats stats() const override;
  void Trim() noexcept override;

 private:
  static size_t RoundUp(size_t bytes);
  void TrimLocked() noexcept;

  Source source_;
  mutable std::mutex mutex_;
  std::multimap<size_t, void*> free_;  // by rounded size
  std::map<void*, size_t> live_;       // the true size of each block handed out
  MemoryStats stats_;
};

}  // namespace lorica

#endif  // LORICA_TENSOR_ALLOCATOR_H_
