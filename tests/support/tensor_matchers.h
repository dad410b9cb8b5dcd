// One error metric for all tests: the largest |got - want| relative to the largest |want|, with the
// worst coordinate.
#ifndef LORICA_TESTS_SUPPORT_TENSOR_MATCHERS_H_
#define LORICA_TESTS_SUPPORT_TENSOR_MATCHERS_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "lorica/tensor/tensor.h"

namespace lorica::testing {

// max |got - want| / max |want|; where all of want is zero, got must be exactly zero.
inline ::testing::AssertionResult Near(const std::vector<double>& got,
                                       const std::vector<double>& want, double tolerance) {
  if (got.size() != want.size()) {
    return ::testing::AssertionFailure() << got.size() << " values, expected " << want.size();
  }
  double scale = 0;
  for (double w : want) scale = std::max(scale, std::abs(w));
  const double bound = scale == 0 ? 0 : tolerance * scale;
  size_t worst = 0;
  double error = -1;
  for (size_t i = 0; i < got.size(); ++i) {
    const double e = std::abs(got[i] - want[i]);
    if (!(e <= error)) {  // a NaN counts as the worst
      error = e;
      worst = i;
      if (std::isnan(e)) break;
    }
  }
  if (got.empty() || error <= bound) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "element " << worst << ": got " << got[worst] << ", expected " << want[worst]
         << "; error " << error << ", allowed " << bound;
}

inline ::testing::AssertionResult Near(const Tensor& got, const std::vector<double>& want,
                                       double tolerance) {
  if (!got.defined()) return ::testing::AssertionFailure() << "undefined tensor";
  return Near(got.ToDoubles(), want, tolerance) << " in a tensor of shape " << got.shape();
}

inline ::testing::AssertionResult Near(const Tensor& got, const Tensor& want, double tolerance) {
  if (!got.defined() || !want.defined()) {
    return ::testing::AssertionFailure() << "undefined tensor";
  }
  if (!(got.shape() == want.shape())) {
    return ::testing::AssertionFailure()
           << "shape " << got.shape() << ", expected " << want.shape();
  }
  return Near(got, want.ToDoubles(), tolerance);
}

// Every bit equal.
inline ::testing::AssertionResult SameBits(const Tensor& got, const Tensor& want) {
  if (!got.defined() || !want.defined()) {
    return ::testing::AssertionFailure() << "undefined tensor";
  }
  if (!(got.shape() == want.shape()) || got.dtype() != want.dtype()) {
    return ::testing::AssertionFailure() << got.dtype() << " " << got.shape() << ", expected "
                                         << want.dtype() << " " << want.shape();
  }
  const Tensor a = raw::Contiguous(got), b = raw::Contiguous(want);
  const char *pa = a.data<char>(), *pb = b.data<char>();
  const size_t width = SizeOf(a.dtype());
  for (int64_t i = 0; i < a.numel(); ++i) {
    if (std::memcmp(pa + i * width, pb + i * width, width) != 0) {
      return ::testing::AssertionFailure() << "element " << i << " of " << a.shape() << ": got "
                                           << a.ToDoubles()[i] << ", expected " << b.ToDoubles()[i];
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace lorica::testing

#endif  // LORICA_TESTS_SUPPORT_TENSOR_MATCHERS_H_
