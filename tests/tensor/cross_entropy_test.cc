#include <cmath>
#include <limits>

#include "kernel_fixture.h"
#include "simd_targets.h"

namespace lorica::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Result {
  HostTensor loss, lse, dlogits;
};

Result RunCrossEntropy(Backend& backend, const HostTensor& logits,
                       const std::vector<int32_t>& targets, const HostTensor& dloss, bool alias) {
  const int64_t rows = logits.shape()[0];
  const DType acc = AccumulatorOf(logits.dtype());
  Result result{HostTensor({rows}, acc), HostTensor({rows}, acc),
                HostTensor(logits.shape(), logits.dtype())};
  backend.CrossEntropy(
      {logits.view(), targets, result.loss.mutable_view(), result.lse.mutable_view()});
  if (alias) result.dlogits = logits;
  backend.CrossEntropyGrad({alias ? result.dlogits.view() : logits.view(), targets,
                            result.lse.view(), dloss.view(), result.dlogits.mutable_view()});
  return result;
}

TEST(CrossEntropyTest, MatchesReferenceWithIgnoredRows) {
  for (DType dtype : ComputeTypes()) {
    for (int64_t vocabulary : {1, 2, 67, 1000}) {
      const int64_t rows = 30;
      const HostTensor logits = HostTensor::Random({rows, vocabulary}, dtype, 1, -12, 12);
      const HostTensor dloss = HostTensor::Random({rows}, AccumulatorOf(dtype), 2);
      std::vector<int32_t> targets;
      for (int64_t t = 0; t < rows; ++t) {
        targets.push_back(t % 7 == 3 ? -100 : static_cast<int32_t>(t * 31 % vocabulary));
      }
      Result first;
      for (int threads : {1, 2, 3}) {
        for (bool alias : {false, true}) {
          Machine machine(threads);
          Result result = RunCrossEntropy(*machine.backend, logits, targets, dloss, alias);
          if (first.loss.bytes().empty()) first = result;
          EXPECT_TRUE(SameBits(result.loss, first.loss));
          EXPECT_TRUE(SameBits(result.lse, first.lse));
          EXPECT_TRUE(SameBits(result.dlogits, first.dlogits));
        }
      }
      std::vector<double> loss, dlogits;
      for (int64_t t = 0; t < rows; ++t) {
        const int32_t target = targets[static_cast<size_t>(t)];
        double max = -kInfinity, sum = 0;
        for (int64_t c = 0; c < vocabulary; ++c) max = std::max(max, logits.At(t * vocabulary + c));
        for (int64_t c = 0; c < vocabulary; ++c) {
          sum += std::exp(logits.At(t * vocabulary + c) - max);
        }
        const double lse = max + std::log(sum);
        loss.push_back(target < 0 ? 0 : lse - logits.At(t * vocabulary + target));
        for (int64_t c = 0; c < vocabulary; ++c) {
          const double p = std::exp(logits.At(t * vocabulary + c) - lse);
          dlogits.push_back(target < 0 ? 0 : (p - (c == target)) * dloss.At(t));
        }
        if (target < 0) {
          EXPECT_EQ(first.loss.At(t), 0);
          EXPECT_EQ(first.lse.At(t), 0);
        }
      }
      ExpectClose(first.loss, loss, 8);
      // A unit of lse, of the size of the logits, is a relative error of p.
      ExpectClose(first.dlogits, dlogits, 24);
    }
  }
}

TEST(CrossEntropyTest, GradientMatchesCentralDifferences) {
  Machine machine(1);
  const HostTensor logits = HostTensor::Random({2, 9}, DType::kF64, 3);
  const HostTensor dloss({2}, DType::kF64, {0.7, -1.3});
  const std::vector<int32_t> targets = {4, 8};
  const Result result = RunCrossEntropy(*machine.backend, logits, targets, dloss, false);
  for (int64_t i = 0; i < 18; ++i) {
    double difference = 0;
    for (double h : {1e-5, -1e-5}) {
      HostTensor moved = logits;
      moved.Set(i, moved.At(i) + h);
      difference +=
          RunCrossEntropy(*machine.backend, moved, targets, dloss, false).loss.At(i / 9) / (2 * h);
    }
    EXPECT_NEAR(result.dlogits.At(i), difference * dloss.At(i / 9), 1e-9);
  }
}

TEST(CrossEntropyTest, WhatIsNotFiniteShowsInTheLoss) {
  Machine machine(1);
  for (DType dtype : ComputeTypes()) {
    for (int64_t at : {0, 20, 66}) {
      const HostTensor dloss({1}, AccumulatorOf(dtype), {1});
      HostTensor logits = HostTensor::Random({1, 67}, dtype, 4);
      for (double bad : {kNan, kInfinity}) {
        logits.Set(at, bad);
        const Result result = RunCrossEntropy(*machine.backend, logits, {5}, dloss, false);
        EXPECT_FALSE(std::isfinite(result.loss.At(0))) << dtype << " " << at << " " << bad;
        EXPECT_TRUE(std::isnan(result.dlogits.At(7))) << dtype << " " << at << " " << bad;
        // Where nobody asks for the row, nothing happens.
        const Result ignored = RunCrossEntropy(*machine.backend, logits, {-1}, dloss, false);
        EXPECT_EQ(ignored.loss.At(0), 0);
        for (int64_t c = 0; c < 67; ++c) EXPECT_EQ(ignored.dlogits.At(c), 0);
      }
      logits.Set(at, -kInfinity);
      const Result result = RunCrossEntropy(*machine.backend, logits, {5}, dloss, false);
      EXPECT_TRUE(std::isfinite(result.loss.At(0)));
      EXPECT_EQ(result.dlogits.At(at), 0);
    }
  }
}

TEST(CrossEntropyTest, RowDoesNotDependOnTheOthers) {
  Machine machine(1);
  const HostTensor logits = HostTensor::Random({10, 301}, DType::kBF16, 5);
  const HostTensor dloss = HostTensor::Random({10}, DType::kF32, 6);
  const std::vector<int32_t> targets = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const Result all = RunCrossEntropy(*machine.backend, logits, targets, dloss, false);
  HostTensor loss({1}, DType::kF32), lse({1}, DType::kF32);
  const std::vector<int32_t> target = {6};
  machine->CrossEntropy({logits.Strided({1, 301}, {301, 1}, 6 * 301), target, loss.mutable_view(),
                         lse.mutable_view()});
  EXPECT_EQ(loss.At(0), all.loss.At(6));
  EXPECT_EQ(lse.At(0), all.lse.At(6));
}

TEST(CrossEntropyTest, NoRows) {
  Machine machine(2);
  HostTensor logits({0, 5}, DType::kF32), loss({0}, DType::kF32), lse({0}, DType::kF32);
  machine->CrossEntropy({logits.view(), {}, loss.mutable_view(), lse.mutable_view()});
  machine->CrossEntropyGrad({logits.view(), {}, lse.view(), loss.view(), logits.mutable_view()});
}

TEST(CrossEntropyTest, InstructionSetsAgree) {
  const HostTensor logits = HostTensor::Random({4, 1001}, DType::kF32, 7);
  const HostTensor dloss = HostTensor::Random({4}, DType::kF32, 8);
  Result first;
  ForEachTarget([&] {
    Machine machine(1);
    const Result result =
        RunCrossEntropy(*machine.backend, logits, {1, 2, 900, 1000}, dloss, false);
    if (first.loss.bytes().empty()) first = result;
    ExpectClose(result.loss, first.loss.ToDoubles(), 8, 0, CpuTargetName());
    ExpectClose(result.dlogits, first.dlogits.ToDoubles(), 8, 0, CpuTargetName());
  });
}

}  // namespace
}  // namespace lorica::test
