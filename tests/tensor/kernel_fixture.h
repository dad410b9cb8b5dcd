// What the tests of CPU kernels share: host values of any compute type, one error metric, backends
// with several thread counts.
#ifndef LORICA_TESTS_TENSOR_KERNEL_FIXTURE_H_
#define LORICA_TESTS_TENSOR_KERNEL_FIXTURE_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lorica/tensor/backend.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/random.h"
#include "lorica/tensor/thread_pool.h"

namespace lorica::test {

inline const std::vector<DType>& ComputeTypes() {
  static const auto& types = *new std::vector<DType>{DType::kF32, DType::kBF16, DType::kF64};
  return types;
}

// A contiguous tensor in a vector of its own.
class HostTensor {
 public:
  HostTensor() = default;
  HostTensor(const Shape& shape, DType dtype)
      : shape_(shape),
        dtype_(dtype),
        bytes_(static_cast<size_t>(shape.numel()) * SizeOf(dtype) + 1, 0xA5) {
    bytes_.pop_back();  // data() of an empty tensor isn't null
  }
  HostTensor(const Shape& shape, DType dtype, const std::vector<double>& values)
      : HostTensor(shape, dtype) {
    for (int64_t i = 0; i < numel(); ++i) Set(i, values[static_cast<size_t>(i)]);
  }

  static HostTensor Random(const Shape& shape, DType dtype, uint64_t stream, double low = -2,
                           double high = 2) {
    HostTensor tensor(shape, dtype);
    RandomStream random(17, stream);
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      tensor.Set(i, low + (high - low) * random.Uniform());
    }
    return tensor;
  }

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  int64_t numel() const { return shape_.numel(); }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

  double At(int64_t i) const {
    const uint8_t* p = bytes_.data() + static_cast<size_t>(i) * SizeOf(dtype_);
    if (dtype_ == DType::kF64) return Read<double>(p);
    if (dtype_ == DType::kBF16) return static_cast<float>(Read<BF16>(p));
    return Read<float>(p);
  }
  void Set(int64_t i, double value) {
    uint8_t* p = bytes_.data() + static_cast<size_t>(i) * SizeOf(dtype_);
    if (dtype_ == DType::kF64) {
      std::memcpy(p, &value, sizeof value);
    } else if (dtype_ == DType::kBF16) {
      const BF16 rounded(static_cast<float>(value));
      std::memcpy(p, &rounded, sizeof rounded);
    } else {
      const float rounded = static_cast<float>(value);
      std::memcpy(p, &rounded, sizeof rounded);
    }
  }
  std::vector<double> ToDoubles() const {
    std::vector<double> values(static_cast<size_t>(numel()));
    for (int64_t i = 0; i < numel(); ++i) values[static_cast<size_t>(i)] = At(i);
    return values;
  }

  TensorView view() const { return {bytes_.data(), shape_, ContiguousStrides(shape_), dtype_}; }
  MutableTensorView mutable_view() {
    return {bytes_.data(), shape_, ContiguousStrides(shape_), dtype_};
  }
  // The same memory under other extents and strides (in elements), from element `offset` on.
  TensorView Strided(const Shape& shape, const Shape& strides, int64_t offset = 0) const {
    return {bytes_.data() + static_cast<size_t>(offset) * SizeOf(dtype_), shape, strides, dtype_};
  }
  MutableTensorView MutableStrided(const Shape& shape, const Shape& strides, int64_t offset = 0) {
    return {bytes_.data() + static_cast<size_t>(offset) * SizeOf(dtype_), shape, strides, dtype_};
  }

 private:
  template <typename T>
  static T Read(const uint8_t* p) {
    T value;
    std::memcpy(&value, p, sizeof value);
    return value;
  }

  Shape shape_;
  DType dtype_ = DType::kF32;
  std::vector<uint8_t> bytes_;
};

inline bool SameBits(const HostTensor& a, const HostTensor& b) { return a.bytes() == b.bytes(); }

// Spacing of values next to 1.
inline double Epsilon(DType dtype) {
  return dtype == DType::kF64 ? 0x1p-52 : dtype == DType::kBF16 ? 0x1p-7 : 0x1p-23;
}

// |got - want| <= half a unit of the stored type in want + `units` units of the accumulator type in
// `scale` (the size of the terms that were added up; the greatest |want| by default).
inline void ExpectClose(const HostTensor& got, const std::vector<double>& want, double units,
                        double scale = 0, const std::string& what = "") {
  ASSERT_EQ(static_cast<size_t>(got.numel()), want.size()) << what;
  if (scale == 0) {
    for (double value : want) {
      if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
    }
  }
  double worst = 0;
  int64_t worst_index = -1;
  for (int64_t i = 0; i < got.numel(); ++i) {
    const double w = want[static_cast<size_t>(i)], g = got.At(i);
    if (std::isnan(w) ? std::isnan(g) : g == w) continue;
    const double allowed = 0.5 * Epsilon(got.dtype()) * std::abs(w) +
                           units * Epsilon(AccumulatorOf(got.dtype())) * scale + 1e-37;
    const double excess = std::abs(g - w) / allowed;
    if (!(excess <= worst)) {
      worst = excess;
      worst_index = i;
      if (std::isnan(excess)) break;
    }
  }
  if (worst_index >= 0) {
    EXPECT_LE(worst, 1.0) << what << " " << got.dtype() << " element " << worst_index << ": got "
                          << got.At(worst_index) << ", want "
                          << want[static_cast<size_t>(worst_index)];
  }
}

// A pool and a backend of its own.
struct Machine {
  explicit Machine(int threads) : pool(threads), backend(MakeCpuBackend(pool)) {}
  ThreadPool pool;
  std::unique_ptr<Backend> backend;
  Backend* operator->() const { return backend.get(); }
};

// Runs `run` on 1, 2 and 3 threads and expects the same bits from each; returns them.
inline HostTensor SameOnAllThreads(const std::function<HostTensor(Backend&)>& run) {
  HostTensor first;
  for (int threads : {1, 2, 3}) {
    Machine machine(threads);
    HostTensor result = run(*machine.backend);
    if (threads == 1) {
      first = result;
    } else {
      EXPECT_TRUE(SameBits(first, result)) << threads << " threads";
    }
  }
  return first;
}

}  // namespace lorica::test

#endif  // LORICA_TESTS_TENSOR_KERNEL_FIXTURE_H_
