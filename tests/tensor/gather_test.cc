#include <cmath>

#include "kernel_fixture.h"

namespace lorica::test {
namespace {

TEST(GatherTest, CopiesRowsOfAnyTypeIntoAnyType) {
  const std::vector<int32_t> ids = {3, 0, 6, 3, 3};
  for (DType from : ComputeTypes()) {
    for (DType to : ComputeTypes()) {
      const HostTensor table = HostTensor::Random({7, 67}, from, 1);
      const HostTensor y = SameOnAllThreads([&](Backend& backend) {
        HostTensor result({5, 67}, to);
        backend.Gather(table.view(), ids, result.mutable_view());
        return result;
      });
      for (int64_t t = 0; t < 5; ++t) {
        for (int64_t c = 0; c < 67; ++c) {
          HostTensor want({1}, to, {table.At(ids[static_cast<size_t>(t)] * 67 + c)});
          EXPECT_EQ(y.At(t * 67 + c), want.At(0)) << from << " to " << to;
        }
      }
    }
  }
}

TEST(GatherTest, DoubleToBF16RoundsOnce) {
  Machine machine(1);
  // Just above the middle of 1 and 1 + 2^-7; by way of f32 it would become the middle, then 1.
  const HostTensor table({1, 2}, DType::kF64,
                         {1 + 0x1p-8 + 0x1p-40, -(1 + 0x1p-7 + 0x1p-8 - 0x1p-40)});
  const std::vector<int32_t> ids = {0};
  HostTensor y({1, 2}, DType::kBF16);
  machine->Gather(table.view(), ids, y.mutable_view());
  EXPECT_EQ(y.At(0), 1 + 0x1p-7);
  EXPECT_EQ(y.At(1), -(1 + 0x1p-7));
}

TEST(GatherTest, NoTokensAreFine) {
  Machine machine(2);
  const HostTensor table = HostTensor::Random({7, 3}, DType::kF32, 2);
  HostTensor y({0, 3}, DType::kF32), acc = table;
  machine->Gather(table.view(), {}, y.mutable_view());
  machine->ScatterAdd({}, y.view(), 1, acc.mutable_view());
  EXPECT_TRUE(SameBits(acc, table));
}

TEST(ScatterAddTest, AddsEveryTokenInOrder) {
  const std::vector<int32_t> ids = {2, 0, 2, 2, 4, 0};
  for (DType dtype : ComputeTypes()) {
    const DType acc_type = AccumulatorOf(dtype);
    const int64_t n = 301;
    const HostTensor dy = HostTensor::Random({6, n}, dtype, 3);
    const HostTensor start = HostTensor::Random({5, n}, acc_type, 4);
    const HostTensor acc = SameOnAllThreads([&](Backend& backend) {
      HostTensor result = start;
      backend.ScatterAdd(ids, dy.view(), 1.0, result.mutable_view());
      return result;
    });
    HostTensor want = start;
    for (int64_t t = 0; t < 6; ++t) {
      for (int64_t c = 0; c < n; ++c) {
        const int64_t at = ids[static_cast<size_t>(t)] * n + c;
        want.Set(at, want.At(at) + dy.At(t * n + c));  // rounds to the accumulator type
      }
    }
    EXPECT_TRUE(SameBits(acc, want)) << dtype;

    Machine machine(1);
    HostTensor scaled({5, n}, acc_type, std::vector<double>(static_cast<size_t>(5 * n), 0.0));
    machine->ScatterAdd(ids, dy.view(), 0.3, scaled.mutable_view());
    std::vector<double> want_scaled(static_cast<size_t>(5 * n));
    for (int64_t i = 0; i < 6 * n; ++i) {
      want_scaled[static_cast<size_t>(ids[static_cast<size_t>(i / n)] * n + i % n)] +=
          0.3 * dy.At(i);
    }
    ExpectClose(scaled, want_scaled, 4);
  }
}

}  // namespace
}  // namespace lorica::test
