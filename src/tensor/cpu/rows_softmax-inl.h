// The sum of exponentials of a row, shared by softmax and cross entropy.
#if defined(LORICA_TENSOR_CPU_ROWS_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_ROWS_SOFTMAX_INL_H_
#undef LORICA_TENSOR_CPU_ROWS_SOFTMAX_INL_H_
#else
#define LORICA_TENSOR_CPU_ROWS_SOFTMAX_INL_H_
#endif

#include <cstddef>
#include <limits>

#include "hwy/highway.h"
#include "lorica/tensor/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

// exp(x[i] - max). Lanes beyond the row are -infinity, which adds exactly zero, whatever max is
// (infinity or NaN make the sum NaN, as they should).
template <typename T>
struct ExpTerm {
  const T* x;
  AccumulatorType<T> max;
  template <class D, class V>
  HWY_INLINE V Add(D d, V sum, size_t i, size_t count) const {
    constexpr auto kLowest = -std::numeric_limits<AccumulatorType<T>>::infinity();
    const V shifted = hn::Sub(LoadUpTo(d, x + i, count, kLowest), hn::Set(d, max));
    return hn::Add(sum, ExpLanes(d, shifted));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_ROWS_SOFTMAX_INL_H_
