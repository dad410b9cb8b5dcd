// One suite for every communicator whose ranks are threads of this process.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "lorica/dist/communicator.h"
#include "lorica/tensor/check.h"

namespace lorica {
namespace {

template <typename T>
MutableTensorView View(std::vector<T>& values) {
  const Shape shape = {static_cast<int64_t>(values.size())};
  return {values.data(), shape, {1}, DTypeOf<T>::value};
}

class CommunicatorTest : public ::testing::TestWithParam<int> {
 protected:
  // Runs body(communicator) on one thread a rank.
  void OnEveryRank(const std::function<void(Communicator&)>& body) {
    std::vector<std::unique_ptr<Communicator>> ranks;
    if (GetParam() == 1) {
      ranks.push_back(MakeLocalCommunicator());
    } else {
      ranks = MakeThreadCommunicators(GetParam());
    }
    std::vector<std::thread> threads;
    for (auto& rank : ranks) threads.emplace_back([&body, &rank] { body(*rank); });
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_P(CommunicatorTest, AllReduceSumsInRankOrderOnEveryRank) {
  OnEveryRank([](Communicator& c) {
    std::vector<float> x = {1.0f + c.rank(), -2.0f};
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<float> sum = x;
      c.AllReduceSum(View(sum));
      const int n = c.size();
      EXPECT_EQ(sum[0], n + n * (n - 1) / 2.0f);
      EXPECT_EQ(sum[1], -2.0f * n);
    }
  });
}

TEST_P(CommunicatorTest, Bf16SumsAreRoundedOnce) {
  OnEveryRank([](Communicator& c) {
    // In bf16 steps 256 + 1 would stay 256 for every rank.
    std::vector<BF16> x = {BF16(c.rank() == 0 ? 256.0f : 1.0f)};
    c.AllReduceSum(View(x));
    EXPECT_EQ(float(x[0]), float(BF16(256.0f + static_cast<float>(c.size() - 1))));
  });
}

TEST_P(CommunicatorTest, GatherAndScatterAreInverse) {
  OnEveryRank([](Communicator& c) {
    std::vector<int64_t> x = {10 * c.rank(), 10 * c.rank() + 1}, all(2 * c.size());
    c.AllGather(View(x), View(all));
    for (int r = 0; r < c.size(); ++r) {
      EXPECT_EQ(all[2 * r], 10 * r);
      EXPECT_EQ(all[2 * r + 1], 10 * r + 1);
    }
    std::vector<int64_t> part(2);
    c.ReduceScatterSum(View(all), View(part));
    EXPECT_EQ(part[0], c.size() * x[0]);
    EXPECT_EQ(part[1], c.size() * x[1]);
  });
}

// Rank r sends r + to rows to rank `to`, some of them none.
TEST_P(CommunicatorTest, AllToAllMovesRaggedRows) {
  OnEveryRank([](Communicator& c) {
    std::vector<int64_t> send, receive;
    std::vector<int32_t> x;
    for (int to = 0; to < c.size(); ++to) {
      send.push_back(c.rank() + to);
      receive.push_back(to + c.rank());
      for (int i = 0; i < c.rank() + to; ++i) x.push_back(100 * c.rank() + to);
    }
    std::vector<int32_t> want;
    for (int from = 0; from < c.size(); ++from) {
      for (int i = 0; i < from + c.rank(); ++i) want.push_back(100 * from + c.rank());
    }
    std::vector<int32_t> y(want.size());
    c.AllToAllV(View(x), send, View(y), receive);
    EXPECT_EQ(y, want);
  });
}

TEST_P(CommunicatorTest, BroadcastCopiesTheRoot) {
  OnEveryRank([](Communicator& c) {
    std::vector<double> x = {static_cast<double>(c.rank())};
    c.Broadcast(View(x), c.size() - 1);
    EXPECT_EQ(x[0], c.size() - 1);
    c.Barrier();
  });
}

TEST_P(CommunicatorTest, DifferentCallsFailOnEveryRank) {
  if (GetParam() == 1) return;  // one rank agrees with itself
  OnEveryRank([](Communicator& c) {
    std::vector<float> x(c.rank() == 1 ? 2 : 1);
    EXPECT_THROW(c.AllReduceSum(View(x)), Error);
    // The group is usable afterwards.
    std::vector<float> y = {1};
    c.AllReduceSum(View(y));
    EXPECT_EQ(y[0], c.size());
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CommunicatorTest, ::testing::Values(1, 2, 3, 5));

TEST(AbsentTransportsTest, SayThatTheyAreAbsent) {
  EXPECT_FALSE(IsMpiBuiltIn());
  EXPECT_FALSE(IsNcclBuiltIn());
  EXPECT_EQ(MakeMpiCommunicator().status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(MakeNcclCommunicator(0).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace lorica
