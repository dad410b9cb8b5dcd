// One AdamW step on contiguous values of the accumulator type.
#if defined(LORICA_TENSOR_CPU_ADAMW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_ADAMW_INL_H_
#undef LORICA_TENSOR_CPU_ADAMW_INL_H_
#else
#define LORICA_TENSOR_CPU_ADAMW_INL_H_
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

template <typename T>
HWY_INLINE void AdamWRangeOf(const AdamWArgs& args, int64_t begin, int64_t end) {
  const hn::ScalableTag<T> d;
  const double step = static_cast<double>(args.step);
  const double correction1 = 1.0 - std::pow(args.beta1, step);
  const double correction2 = 1.0 - std::pow(args.beta2, step);
  const auto decay = Constant(d, 1.0 - args.lr * args.weight_decay);
  const auto grad_scale = Constant(d, args.grad_scale);
  const auto rest1 = Constant(d, 1.0 - args.beta1);
  const auto beta2 = Constant(d, args.beta2), rest2 = Constant(d, 1.0 - args.beta2);
  const auto root2 = Constant(d, 1.0 / std::sqrt(correction2)), eps = Constant(d, args.eps);
  const auto rate = Constant(d, args.lr / correction1);
  T* param = args.param.as<T>();
  T* moment1 = args.moment1.as<T>();
  T* moment2 = args.moment2.as<T>();
  const T* grad = args.grad.as<T>();
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = begin; i < end; i += lanes) {
    const size_t n = static_cast<size_t>(end - i);
    const auto g = hn::Mul(LoadUpTo(d, grad + i, n), grad_scale);
    auto m = LoadUpTo(d, moment1 + i, n);
    m = hn::MulAdd(rest1, hn::Sub(g, m), m);
    const auto v = hn::MulAdd(hn::Mul(rest2, g), g, hn::Mul(beta2, LoadUpTo(d, moment2 + i, n)));
    const auto denominator = hn::MulAdd(hn::Sqrt(v), root2, eps);
    const auto decayed = hn::Mul(LoadUpTo(d, param + i, n), decay);
    StoreUpTo(hn::NegMulAdd(rate, hn::Div(m, denominator), decayed), d, param + i, n);
    StoreUpTo(m, d, moment1 + i, n);
    StoreUpTo(v, d, moment2 + i, n);
  }
}

void AdamWRange(const AdamWArgs& args, int64_t begin, int64_t end) {
  if (args.param.dtype == DType::kF64) {
    AdamWRangeOf<double>(args, begin, end);
  } else {
    AdamWRangeOf<float>(args, begin, end);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_ADAMW_INL_H_
