// Rows of tables: conversion and scaled addition.
#if defined(LORICA_TENSOR_CPU_GATHER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_GATHER_INL_H_
#undef LORICA_TENSOR_CPU_GATHER_INL_H_
#else
#define LORICA_TENSOR_CPU_GATHER_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "lorica/tensor/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

// f32 and bf16 in any pair.
template <typename From, typename To>
HWY_INLINE void ConvertLanes(const void* from_data, void* to_data, size_t n) {
  const hn::ScalableTag<float> d;
  const From* from = static_cast<const From*>(from_data);
  To* to = static_cast<To*>(to_data);
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    StoreUpTo(LoadUpTo(d, from + i, n - i), d, to + i, n - i);
  }
}

void ConvertF32ToBF16(const void* from, void* to, size_t n) {
  ConvertLanes<float, BF16>(from, to, n);
}
void ConvertBF16ToF32(const void* from, void* to, size_t n) {
  ConvertLanes<BF16, float>(from, to, n);
}

template <typename T>
HWY_INLINE void AddScaledRowOf(const void* x_data, double alpha, void* acc_data, size_t n) {
  using Acc = AccumulatorType<T>;
  const LanesOf<T> d;
  const T* x = static_cast<const T*>(x_data);
  Acc* acc = static_cast<Acc*>(acc_data);
  const auto factor = hn::Set(d, static_cast<Acc>(alpha));
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto sum = hn::MulAdd(LoadUpTo(d, x + i, n - i), factor, LoadUpTo(d, acc + i, n - i));
    StoreUpTo(sum, d, acc + i, n - i);
  }
}

// acc[i] += alpha * x[i]; x of `dtype`, acc of its accumulator type.
void AddScaledRow(DType dtype, const void* x, double alpha, void* acc, size_t n) {
  LORICA_CALL_FOR_DTYPE(dtype, AddScaledRowOf, x, alpha, acc, n);
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_GATHER_INL_H_
