#include "lorica/tensor/allocator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "lorica/tensor/check.h"

namespace lorica {
namespace {

// The system's memory, counted, and refused above a limit.
struct CountedSource {
  size_t live = 0, limit = SIZE_MAX;
  int calls = 0;
  std::set<void*> blocks;

  CachingAllocator::Source source() {
    return {[this](size_t bytes) -> void* {
              ++calls;
              if (live + bytes > limit) return nullptr;
              void* data = std::aligned_alloc(Allocator::kAlignment, bytes);
              blocks.insert(data);
              live += bytes;
              return data;
            },
            [this](void* data, size_t bytes) {
              EXPECT_EQ(blocks.erase(data), 1u);
              live -= bytes;
              std::free(data);
            }};
  }
};

TEST(CachingAllocatorTest, AlignsAndHoldsWhatWasAskedFor) {
  CachingAllocator allocator;
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{511},
                       size_t{513}, size_t{100000}, size_t{5} << 20}) {
    void* data = allocator.Allocate(bytes);
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % Allocator::kAlignment, 0u) << bytes;
    std::memset(data, 1, bytes);
    allocator.Free(data, bytes);
  }
}

TEST(CachingAllocatorTest, ReusesFreedBlocks) {
  CountedSource source;
  {
    CachingAllocator allocator(source.source());
    void* first = allocator.Allocate(1000);
    allocator.Free(first, 1000);
    EXPECT_EQ(allocator.Allocate(1000), first);
    allocator.Free(first, 1000);
    void* similar = allocator.Allocate(950);
    EXPECT_EQ(similar, first);
    allocator.Free(similar, 950);
    EXPECT_EQ(source.calls, 1);
    // A small request doesn't take a large block away.
    void* small = allocator.Allocate(64);
    EXPECT_NE(small, first);
    allocator.Free(small, 64);
  }
  EXPECT_EQ(source.live, 0u) << "everything is given back in the end";
}

TEST(CachingAllocatorTest, WastesLessThanAnEighth) {
  for (size_t bytes = 512; bytes < 3000000; bytes += bytes / 7 + 1) {
    CountedSource source;
    CachingAllocator allocator(source.source());
    void* data = allocator.Allocate(bytes);
    EXPECT_GE(source.live, bytes);
    EXPECT_LE(source.live, bytes + bytes / 8 + 64);
    allocator.Free(data, bytes);
  }
}

TEST(CachingAllocatorTest, CountsBytes) {
  CountedSource source;
  CachingAllocator allocator(source.source());
  void* a = allocator.Allocate(1024);
  void* b = allocator.Allocate(2048);
  EXPECT_EQ(allocator.stats().active, source.live);
  EXPECT_EQ(allocator.stats().cached, 0u);
  EXPECT_EQ(allocator.stats().raw_allocations, 2u);
  allocator.Free(a, 1024);
  EXPECT_EQ(allocator.stats().cached, 1024u);
  EXPECT_EQ(allocator.stats().active, 2048u);
  EXPECT_EQ(allocator.stats().peak, source.live);
  allocator.Trim();
  EXPECT_EQ(allocator.stats().cached, 0u);
  EXPECT_EQ(source.live, 2048u);
  EXPECT_EQ(allocator.stats().peak, 3072u) << "the peak stays";
  allocator.Free(b, 2048);
}

TEST(CachingAllocatorTest, GivesCachedBlocksBackBeforeItFails) {
  CountedSource source;
  source.limit = 4096;
  CachingAllocator allocator(source.source());
  void* a = allocator.Allocate(3072);
  allocator.Free(a, 3072);
  void* b = allocator.Allocate(1024 * 4);  // fits only without the cached block
  EXPECT_EQ(source.live, 4096u);
  EXPECT_THROW(allocator.Allocate(1), DeviceError);
  allocator.Free(b, 4096);
  void* c = allocator.Allocate(64);  // usable after a failure
  allocator.Free(c, 64);
}

TEST(CachingAllocatorTest, ThreadsShareIt) {
  CachingAllocator allocator;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&allocator, t] {
      for (int i = 0; i < 500; ++i) {
        const size_t bytes = static_cast<size_t>(64 + (i * 37 + t * 11) % 5000);
        char* data = static_cast<char*>(allocator.Allocate(bytes));
        std::memset(data, t, bytes);
        for (size_t k = 0; k < bytes; k += 61) ASSERT_EQ(data[k], t);
        allocator.Free(data, bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator.stats().active, 0u);
}

}  // namespace
}  // namespace lorica
