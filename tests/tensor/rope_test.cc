#include <cmath>

#include "kernel_fixture.h"
#include "simd_targets.h"

namespace lorica::test {
namespace {

struct Tables {
  HostTensor cos, sin;
};

Tables MakeTables(int64_t positions, int64_t half, DType dtype) {
  const DType type = AccumulatorOf(dtype);
  Tables tables{HostTensor({positions, half}, type), HostTensor({positions, half}, type)};
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * std::pow(10000.0, -static_cast<double>(i) / 9);
      tables.cos.Set(p * half + i, std::cos(angle));
      tables.sin.Set(p * half + i, std::sin(angle));
    }
  }
  return tables;
}

std::vector<double> Reference(const HostTensor& x, const Tables& tables,
                              const std::vector<int32_t>& positions, bool interleaved,
                              bool inverse) {
  const int64_t heads = x.shape()[1], size = x.shape()[2], half = tables.cos.shape()[1];
  std::vector<double> y = x.ToDoubles();
  for (int64_t row = 0; row < x.shape()[0] * heads; ++row) {
    const int64_t p = positions[static_cast<size_t>(row / heads)];
    for (int64_t i = 0; i < half; ++i) {
      const int64_t a = row * size + (interleaved ? 2 * i : i);
      const int64_t b = row * size + (interleaved ? 2 * i + 1 : i + half);
      const double c = tables.cos.At(p * half + i);
      const double s = tables.sin.At(p * half + i) * (inverse ? -1 : 1);
      y[static_cast<size_t>(a)] = x.At(a) * c - x.At(b) * s;
      y[static_cast<size_t>(b)] = x.At(b) * c + x.At(a) * s;
    }
  }
  return y;
}

TEST(RopeTest, MatchesReference) {
  const std::vector<int32_t> positions = {0, 1, 7, 3, 7};
  for (DType dtype : ComputeTypes()) {
    for (int64_t half : {1, 9, 32, 70}) {
      for (int64_t rest : {0, 5}) {
        for (bool interleaved : {false, true}) {
          for (bool inverse : {false, true}) {
            const Shape shape{5, 3, 2 * half + rest};
            const HostTensor x = HostTensor::Random(shape, dtype, 1);
            const Tables tables = MakeTables(8, half, dtype);
            const HostTensor y = SameOnAllThreads([&](Backend& backend) {
              HostTensor result(shape, dtype);
              backend.Rope({x.view(), positions, tables.cos.view(), tables.sin.view(), interleaved,
                            inverse, result.mutable_view()});
              return result;
            });
            ExpectClose(y, Reference(x, tables, positions, interleaved, inverse), 2);
            HostTensor in_place = x;
            Machine machine(1);
            machine->Rope({in_place.view(), positions, tables.cos.view(), tables.sin.view(),
                           interleaved, inverse, in_place.mutable_view()});
            EXPECT_TRUE(SameBits(in_place, y));
          }
        }
      }
    }
  }
}

TEST(RopeTest, InverseTurnsBack) {
  Machine machine(1);
  const std::vector<int32_t> positions = {5, 2};
  const HostTensor x = HostTensor::Random({2, 2, 20}, DType::kF64, 2);
  const Tables tables = MakeTables(8, 10, DType::kF64);
  HostTensor y = x;
  for (bool inverse : {false, true}) {
    machine->Rope({y.view(), positions, tables.cos.view(), tables.sin.view(), false, inverse,
                   y.mutable_view()});
  }
  ExpectClose(y, x.ToDoubles(), 4);
}

TEST(RopeTest, HeadsOfAWiderProjectionAndNoTokens) {
  Machine machine(2);
  const std::vector<int32_t> positions = {4, 1, 6};
  const Tables tables = MakeTables(8, 8, DType::kF32);
  // Two heads of 16 out of rows of 50.
  const HostTensor wide = HostTensor::Random({3, 50}, DType::kF32, 3);
  HostTensor x({3, 2, 16}, DType::kF32), y({3, 2, 16}, DType::kF32);
  for (int64_t i = 0; i < 96; ++i) x.Set(i, wide.At(i / 32 * 50 + 10 + i % 32));
  machine->Rope({wide.Strided({3, 2, 16}, {50, 16, 1}, 10), positions, tables.cos.view(),
                 tables.sin.view(), false, false, y.mutable_view()});
  ExpectClose(y, Reference(x, tables, positions, false, false), 2);
  HostTensor empty({0, 2, 16}, DType::kF32);
  machine->Rope(
      {empty.view(), {}, tables.cos.view(), tables.sin.view(), false, false, empty.mutable_view()});
}

TEST(RopeTest, InstructionSetsAgree) {
  const std::vector<int32_t> positions = {4, 1};
  const Tables tables = MakeTables(8, 21, DType::kF32);
  const HostTensor x = HostTensor::Random({2, 3, 44}, DType::kF32, 4);
  ForEachTarget([&] {
    Machine machine(1);
    HostTensor y = x;
    machine->Rope({y.view(), positions, tables.cos.view(), tables.sin.view(), false, false,
                   y.mutable_view()});
    ExpectClose(y, Reference(x, tables, positions, false, false), 2, 0, CpuTargetName());
  });
}

}  // namespace
}  // namespace lorica::test
