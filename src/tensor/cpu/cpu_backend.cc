#include "lorica/tensor/cpu_backend.h"

#include <algorithm>

#include "lorica/tensor/cpu/cpu_backend_impl.h"
#include "lorica/tensor/cpu/packed_cache.h"
#include "lorica/tensor/cpu/target_name.h"

namespace lorica {
namespace cpu {

Workspace::~Workspace() {
  if (data_ != nullptr) allocator_.Free(data_, bytes_);
}

void* Workspace::Reserve(size_t bytes) {
  if (bytes > bytes_) {
    if (data_ != nullptr) allocator_.Free(data_, bytes_);
    data_ = nullptr;
    bytes_ = 0;
    data_ = allocator_.Allocate(bytes);
    bytes_ = bytes;
  }
  return data_;
}

CpuBackend::CpuBackend(ThreadPool& pool, const CpuBackendOptions& options)
    : pool_(pool),
      options_(options),
      packed_cache_(std::make_unique<PackedCache>(allocator_, options.packed_cache_bytes)) {
  for (int thread = 0; thread < pool.threads(); ++thread) {
    thread_scratch_.push_back(std::make_unique<Workspace>(allocator_));
  }
}

CpuBackend::~CpuBackend() = default;

}  // namespace cpu

std::unique_ptr<Backend> MakeCpuBackend(ThreadPool& pool, const CpuBackendOptions& options) {
  return std::make_unique<cpu::CpuBackend>(pool, options);
}

std::string CpuTargetName() { return cpu::TargetName(); }

}  // namespace lorica
