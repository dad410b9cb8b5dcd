#include "lorica/tensor/thread_pool.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "lorica/tensor/available_cores.h"
#include "lorica/tensor/check.h"

namespace lorica {
namespace {

TEST(ThreadPoolTest, RunsEveryTaskOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> count(static_cast<size_t>(tasks));
      pool.Run(tasks, [&](int64_t task, int thread) {
        EXPECT_GE(thread, 0);
        EXPECT_LT(thread, threads);
        count[static_cast<size_t>(task)].fetch_add(1);
      });
      for (const auto& c : count) ASSERT_EQ(c.load(), 1);
    }
  }
}

TEST(ThreadPoolTest, WritesOfBodiesAreVisibleToTheCaller) {
  ThreadPool pool(3);
  std::vector<int64_t> values(64);
  for (int64_t round = 0; round < 3000; ++round) {
    pool.Run(64, [&](int64_t task, int) { values[static_cast<size_t>(task)] = task * round; });
    for (int64_t task = 0; task < 64; ++task) {
      ASSERT_EQ(values[static_cast<size_t>(task)], task * round);
    }
  }
}

TEST(ThreadPoolTest, BodiesAtTheSameTimeHaveDistinctThreads) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads);
  std::vector<std::atomic<int>> inside(kThreads);
  std::atomic<bool> clash{false};
  for (int round = 0; round < 200; ++round) {
    pool.Run(40, [&](int64_t, int thread) {
      if (inside[static_cast<size_t>(thread)].fetch_add(1) != 0) clash = true;
      std::this_thread::yield();
      inside[static_cast<size_t>(thread)].fetch_sub(1);
    });
  }
  EXPECT_FALSE(clash);
}

TEST(ThreadPoolTest, WorkersTakePart) {
  ThreadPool pool(2);
  // Two tasks that wait for each other finish only on two threads.
  std::atomic<int> arrived{0};
  pool.Run(2, [&](int64_t, int) {
    arrived.fetch_add(1);
    while (arrived.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), 2);
}

TEST(ThreadPoolTest, SleepingWorkersWake) {
  ThreadPool pool(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::atomic<int> arrived{0};
    pool.Run(2, [&](int64_t, int) {
      arrived.fetch_add(1);
      while (arrived.load() < 2) std::this_thread::yield();
    });
  }
}

TEST(ThreadPoolTest, ManyMoreThreadsThanCores) {
  ThreadPool pool(4 * AvailableCores() + 3);
  std::atomic<int64_t> sum{0};
  for (int round = 0; round < 100; ++round) {
    pool.Run(100, [&](int64_t task, int) { sum.fetch_add(task); });
  }
  EXPECT_EQ(sum.load(), 100 * 4950);
}

TEST(ThreadPoolTest, CallersTakeTurns) {
  ThreadPool pool(2);
  std::atomic<int64_t> sum{0};
  const auto call = [&] {
    for (int round = 0; round < 200; ++round) {
      std::atomic<int> mine{0};
      pool.Run(5, [&](int64_t, int) { mine.fetch_add(1); });
      sum.fetch_add(mine.load());
    }
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_EQ(sum.load(), 2 * 200 * 5);
}

TEST(ThreadPoolTest, FlushesDenormalsOnEveryThreadAndRestores) {
  volatile float smallest = std::numeric_limits<float>::min();
  const auto halves_to_zero = [&] {
    volatile float half = smallest / 2;
    return half == 0;
  };
  ASSERT_FALSE(halves_to_zero());
  ThreadPool pool(2);
  for (bool flush : {true, false, true, false}) {
    std::atomic<int> arrived{0}, zeros{0};
    pool.Run(
        2,
        [&](int64_t, int) {
          arrived.fetch_add(1);
          while (arrived.load() < 2) std::this_thread::yield();
          if (halves_to_zero()) zeros.fetch_add(1);
        },
        flush);
    EXPECT_EQ(zeros.load(), flush ? 2 : 0);
    EXPECT_FALSE(halves_to_zero());
  }
  bool zero = false;
  pool.Run(1, [&](int64_t, int) { zero = halves_to_zero(); });
  EXPECT_TRUE(zero) << "a single task runs on the caller, in the same mode";
}

TEST(ThreadPoolTest, RefusesNoThreads) {
  EXPECT_THROW(ThreadPool(0), Error);
  EXPECT_THROW(ThreadPool(-1), Error);
}

TEST(AvailableCoresTest, AtLeastOneAndNoMoreThanTheMachine) {
  EXPECT_GE(AvailableCores(), 1);
  EXPECT_LE(AvailableCores(), static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
}

class CgroupTest : public testing::Test {
 protected:
  CgroupTest() {
    std::string pattern = testing::TempDir() + "cgroup_XXXXXX";
    mount_ = mkdtemp(pattern.data());
  }
  ~CgroupTest() override { std::filesystem::remove_all(mount_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = mount_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  std::string mount_;
};

TEST_F(CgroupTest, VersionTwo) {
  Write("/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(CgroupCores("0::/a/b\n", mount_), 0);
  Write("/a/cpu.max", "250000 100000\n");
  EXPECT_EQ(CgroupCores("0::/a/b\n", mount_), 3) << "the enclosing group limits too";
  Write("/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(CgroupCores("0::/a/b\n", mount_), 1);
}

TEST_F(CgroupTest, VersionTwoInAContainer) {
  Write("/cpu.max", "200000 100000");
  EXPECT_EQ(CgroupCores("0::/\n", mount_), 2);
  EXPECT_EQ(CgroupCores("0::/path/of/the/host\n", mount_), 2);
}

TEST_F(CgroupTest, VersionOne) {
  Write("/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "400000\n");
  Write("/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupCores("4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n", mount_), 4);
  Write("/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(CgroupCores("3:cpu,cpuacct:/docker/x\n", mount_), 0);
  EXPECT_EQ(CgroupCores("3:cpuset:/docker/x\n", mount_), 0);
}

TEST_F(CgroupTest, NonsenseIsUnlimited) {
  EXPECT_EQ(CgroupCores("", mount_), 0);
  EXPECT_EQ(CgroupCores("no colons\n0:\n::\n", mount_), 0);
  Write("/x/cpu.max", "banana");
  EXPECT_EQ(CgroupCores("0::/x\n", mount_), 0);
  Write("/x/cpu.max", "100000 0");
  EXPECT_EQ(CgroupCores("0::/x\n", mount_), 0);
}

}  // namespace
}  // namespace lorica
