#include "lorica/tensor/storage.h"

#include <atomic>

#include "lorica/tensor/backend.h"
#include "lorica/tensor/check.h"

namespace lorica {
namespace {

uint64_t NextId() {
  // Identity only, no state that a result could depend on.
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Storage::Storage(Backend& backend, void* data, size_t bytes, std::shared_ptr<const void> owner)
    : backend_(&backend), data_(data), bytes_(bytes), owner_(std::move(owner)), id_(NextId()) {}

std::shared_ptr<Storage> Storage::Allocate(Backend& backend, size_t bytes) {
  void* data = backend.allocator().Allocate(bytes);
  return std::shared_ptr<Storage>(new Storage(backend, data, bytes, nullptr));
}

std::shared_ptr<Storage> Storage::Borrow(Backend& backend, const void* data, size_t bytes,
                                         std::shared_ptr<const void> owner) {
  LORICA_CHECK(owner != nullptr, "[storage] borrowed bytes need an owner");
  return std::shared_ptr<Storage>(
      new Storage(backend, const_cast<void*>(data), bytes, std::move(owner)));
}

Storage::~Storage() {
  if (owner_ == nullptr) backend_->allocator().Free(data_, bytes_);
}

void* Storage::mutable_data() {
  LORICA_CHECK(!read_only(), "[storage] these bytes are read-only (a mapped file)");
  ++version_;
  return data_;
}

}  // namespace lorica
