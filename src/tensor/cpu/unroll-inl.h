// Loops over registers: an array of vectors stays in registers only when every index is a constant
// before the compiler looks at arrays, which pragmas don't ensure.
#if defined(LORICA_TENSOR_CPU_UNROLL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_UNROLL_INL_H_
#undef LORICA_TENSOR_CPU_UNROLL_INL_H_
#else
#define LORICA_TENSOR_CPU_UNROLL_INL_H_
#endif

#include <type_traits>
#include <utility>

#include "hwy/highway.h"

// Lambdas don't inherit the instruction set of the function around them.
#undef LORICA_LAMBDA
#define LORICA_LAMBDA HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

template <typename Body, int... kIndices>
HWY_INLINE void UnrollOver(const Body& body, std::integer_sequence<int, kIndices...>) {
  (body(std::integral_constant<int, kIndices>()), ...);
}

// body(0), body(1), ... with constants.
template <int kCount, typename Body>
HWY_INLINE void Unroll(const Body& body) {
  UnrollOver(body, std::make_integer_sequence<int, kCount>());
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_UNROLL_INL_H_
