#include <cmath>
#include <limits>

#include "kernel_fixture.h"
#include "simd_targets.h"

namespace lorica::test {
namespace {

TEST(SumToTest, SumsOverAnyAxes) {
  const std::vector<std::pair<Shape, Shape>> cases = {
      {{7, 300}, {7, 1}},
      {{7, 300}, {1, 300}},
      {{7, 300}, {1, 1}},
      {{7, 300}, {7, 300}},
      {{3, 4, 5}, {3, 1, 5}},
      {{3, 4, 5}, {1, 4, 1}},
      {{3, 4, 5}, {1, 1, 5}},
      {{3, 40, 5}, {3, 1, 1}},
      {{1, 1}, {1, 1}},
      {{0, 6}, {1, 6}},
      {{6, 0}, {6, 1}},
      {{2, 0}, {2, 0}},
      {{}, {}},
      {{1000, 3}, {1, 3}},
  };
  for (DType dtype : ComputeTypes()) {
    for (const auto& [from, to] : cases) {
      const HostTensor x = HostTensor::Random(from, dtype, 1);
      const HostTensor y = SameOnAllThreads([&, &to = to](Backend& backend) {
        HostTensor result(to, dtype);
        backend.SumTo(x.view(), result.mutable_view());
        return result;
      });
      std::vector<double> want(static_cast<size_t>(to.numel()));
      const Shape to_strides = ContiguousStrides(to);
      for (int64_t i = 0; i < x.numel(); ++i) {
        int64_t rest = i, at = 0;
        for (int axis = from.rank() - 1; axis >= 0; --axis) {
          if (to[axis] != 1) at += rest % from[axis] * to_strides[axis];
          rest /= from[axis];
        }
        want[static_cast<size_t>(at)] += x.At(i);
      }
      const double addends =
          to.numel() == 0 ? 1 : static_cast<double>(x.numel()) / static_cast<double>(to.numel());
      ExpectClose(y, want, addends, 2 * std::sqrt(std::max(addends, 1.0)),
                  from.ToString() + " to " + to.ToString());
    }
  }
}

TEST(SumToTest, AddsInRowMajorOrder) {
  // 1 vanishes next to 1e8 in f32, so the order shows.
  const std::vector<double> values = {1, 1e8, -1e8, 1};
  Machine machine(1);
  HostTensor y({1}, DType::kF32);
  machine->SumTo(HostTensor({4}, DType::kF32, values).view(), y.mutable_view());
  EXPECT_EQ(y.At(0), 1.0);
  std::vector<double> columns;
  for (double value : values) columns.insert(columns.end(), 20, value);
  HostTensor z({1, 20}, DType::kF32);
  machine->SumTo(HostTensor({4, 20}, DType::kF32, columns).view(), z.mutable_view());
  for (int64_t c = 0; c < 20; ++c) EXPECT_EQ(z.At(c), 1.0);
}

TEST(SumToTest, ReadsStridedInput) {
  Machine machine(2);
  const HostTensor x = HostTensor::Random({6, 10}, DType::kF64, 2);
  HostTensor y({10, 1}, DType::kF64);
  machine->SumTo(x.Strided({10, 6}, {1, 10}), y.mutable_view());
  std::vector<double> want(10);
  for (int64_t i = 0; i < 60; ++i) want[static_cast<size_t>(i % 10)] += x.At(i);
  ExpectClose(y, want, 8);
}

TEST(SumSquaresTest, IsExactToDoubleAndIndependentOfThreads) {
  for (DType dtype : ComputeTypes()) {
    for (int64_t n : {0, 1, 513, 40000}) {
      const HostTensor x = HostTensor::Random({n}, dtype, 3);
      long double want = 0;
      for (double value : x.ToDoubles()) want += static_cast<long double>(value) * value;
      double first = -1;
      for (int threads : {1, 2, 3}) {
        Machine machine(threads);
        const double got = machine->SumSquares(x.view());
        if (first < 0) first = got;
        EXPECT_EQ(got, first);
        EXPECT_NEAR(got, static_cast<double>(want), 1e-13 * static_cast<double>(want));
      }
    }
    HostTensor x = HostTensor::Random({30000}, dtype, 4);
    x.Set(29999, std::numeric_limits<double>::quiet_NaN());
    Machine machine(2);
    EXPECT_TRUE(std::isnan(machine->SumSquares(x.view())));
  }
}

// The chain that TokenSumDesc describes, in the accumulator type.
template <typename Acc>
std::vector<double> BlockedSum(const HostTensor& dy, const Sequences& sequences,
                               const HostTensor& start) {
  const int64_t n = dy.shape()[1];
  std::vector<double> result;
  for (int64_t c = 0; c < n; ++c) {
    Acc acc = static_cast<Acc>(start.At(c));
    for (int s = 0; s < sequences.groups(); ++s) {
      for (int64_t i = 0; i < sequences.size(s);) {
        Acc sum = 0;
        for (int64_t b = 0; b < kTokenBlock && i < sequences.size(s); ++b, ++i) {
          sum += static_cast<Acc>(dy.At((sequences.begin(s) + i) * n + c));
        }
        acc += sum;
      }
    }
    result.push_back(acc);
  }
  return result;
}

TEST(ColumnSumTest, FollowsTheBlockOrderExactly) {
  const Sequences sequences{{0, 300, 300, 305, 1000}};
  for (DType dtype : ComputeTypes()) {
    for (int64_t columns : {1, 5, 67, 300}) {
      const HostTensor dy = HostTensor::Random({1000, columns}, dtype, 5);
      const HostTensor start = HostTensor::Random({columns}, AccumulatorOf(dtype), 6);
      const HostTensor acc = SameOnAllThreads([&](Backend& backend) {
        HostTensor result = start;
        backend.ColumnSum(dy.view(), sequences, 1.0, result.mutable_view());
        return result;
      });
      const std::vector<double> want = dtype == DType::kF64
                                           ? BlockedSum<double>(dy, sequences, start)
                                           : BlockedSum<float>(dy, sequences, start);
      EXPECT_EQ(acc.ToDoubles(), want) << dtype << " " << columns;
    }
  }
}

TEST(ColumnSumTest, MicroBatchesGiveTheSameBits) {
  Machine machine(2);
  const HostTensor dy = HostTensor::Random({700, 40}, DType::kF32, 7);
  HostTensor whole = HostTensor::Random({40}, DType::kF32, 8), parts = whole;
  machine->ColumnSum(dy.view(), {{0, 270, 700}}, 0.7, whole.mutable_view());
  machine->ColumnSum(dy.Strided({270, 40}, {40, 1}), {{0, 270}}, 0.7, parts.mutable_view());
  machine->ColumnSum(dy.Strided({430, 40}, {40, 1}, 270 * 40), {{0, 430}}, 0.7,
                     parts.mutable_view());
  EXPECT_TRUE(SameBits(whole, parts));
}

TEST(ColumnSumTest, NoTokensLeaveTheAccumulatorAlone) {
  Machine machine(2);
  HostTensor acc = HostTensor::Random({10}, DType::kF32, 9);
  const HostTensor before = acc, dy({0, 10}, DType::kF32);
  machine->ColumnSum(dy.view(), {{0}}, 1, acc.mutable_view());
  machine->ColumnSum(dy.view(), {{0, 0, 0}}, 1, acc.mutable_view());
  EXPECT_TRUE(SameBits(acc, before));
}

TEST(ReduceTest, InstructionSetsAgree) {
  const HostTensor x = HostTensor::Random({500, 77}, DType::kF32, 10);
  const Sequences sequences{{0, 123, 500}};
  std::vector<double> first;
  ForEachTarget([&] {
    const std::string target = CpuTargetName();
    Machine machine(1);
    HostTensor acc({77}, DType::kF32, std::vector<double>(77, 0.0));
    machine->ColumnSum(x.view(), sequences, 0.5, acc.mutable_view());
    if (first.empty()) first = acc.ToDoubles();
    ExpectClose(acc, first, 4, 0, target);
  });
}

}  // namespace
}  // namespace lorica::test
