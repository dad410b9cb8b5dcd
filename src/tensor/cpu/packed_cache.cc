#include "lorica/tensor/cpu/packed_cache.h"

namespace lorica::cpu {

PackedCache::~PackedCache() {
  for (const auto& [key, entry] : entries_) allocator_.Free(entry.data, entry.bytes);
}

const void* PackedCache::Find(const PackedKey& key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() ? nullptr : it->second.data;
}

void* PackedCache::Insert(const PackedKey& key, size_t bytes) {
  PackedKey first;
  first.storage_id = key.storage_id;
  for (auto it = entries_.lower_bound(first);
       it != entries_.end() && it->first.storage_id == key.storage_id;) {
    if (it->first.version == key.version) {
      ++it;
      continue;
    }
    bytes_ -= it->second.bytes;
    allocator_.Free(it->second.data, it->second.bytes);
    it = entries_.erase(it);
  }
  if (bytes > capacity_ - bytes_) return nullptr;
  void* data = allocator_.Allocate(bytes);
  entries_[key] = {data, bytes};
  bytes_ += bytes;
  return data;
}

}  // namespace lorica::cpu
