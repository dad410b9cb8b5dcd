// Rotary position embedding: pairs of channels turned by an angle that grows with the position.
#if defined(LORICA_TENSOR_CPU_ROPE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_ROPE_INL_H_
#undef LORICA_TENSOR_CPU_ROPE_INL_H_
#else
#define LORICA_TENSOR_CPU_ROPE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

// (u, v) -> (u cos - v sin, v cos + u sin) for n pairs; outputs may be the inputs. `sign` -1 turns
// back.
template <typename Acc, typename T>
HWY_INLINE void RotatePairs(const T* u, const T* v, const Acc* cos, const Acc* sin, Acc sign,
                            size_t n, T* u_out, T* v_out) {
  const hn::ScalableTag<Acc> d;
  const auto direction = hn::Set(d, sign);
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    const size_t count = n - i;
    const auto a = LoadUpTo(d, u + i, count), b = LoadUpTo(d, v + i, count);
    const auto c = LoadUpTo(d, cos + i, count);
    const auto s = hn::Mul(LoadUpTo(d, sin + i, count), direction);
    StoreUpTo(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, u_out + i, count);
    StoreUpTo(hn::MulAdd(a, s, hn::Mul(b, c)), d, v_out + i, count);
  }
}

template <typename T>
HWY_INLINE void RopeTokensOf(const RopeArgs& args, int64_t begin, int64_t end) {
  using Acc = AccumulatorType<T>;
  constexpr int64_t kPairs = 64;
  const Shape& shape = args.x.shape;
  const int64_t heads = shape[1], head_size = shape[2], half = args.cos.shape[1];
  const Acc sign = args.inverse ? Acc{-1} : Acc{1};
  for (int64_t t = begin; t < end; ++t) {
    const int64_t position = args.positions[static_cast<size_t>(t)];
    const Acc* cos = args.cos.as<Acc>() + position * args.cos.strides[0];
    const Acc* sin = args.sin.as<Acc>() + position * args.sin.strides[0];
    for (int64_t h = 0; h < heads; ++h) {
      const T* x = args.x.as<T>() + t * args.x.strides[0] + h * args.x.strides[1];
      T* y = args.y.as<T>() + t * args.y.strides[0] + h * args.y.strides[1];
      if (!args.interleaved) {
        RotatePairs(x, x + half, cos, sin, sign, static_cast<size_t>(half), y, y + half);
      } else {
        for (int64_t i = 0; i < half; i += kPairs) {
          const int64_t n = std::min(kPairs, half - i);
          T u[kPairs], v[kPairs];
          for (int64_t j = 0; j < n; ++j) {
            u[j] = x[2 * (i + j)];
            v[j] = x[2 * (i + j) + 1];
          }
          RotatePairs(u, v, cos + i, sin + i, sign, static_cast<size_t>(n), u, v);
          for (int64_t j = 0; j < n; ++j) {
            y[2 * (i + j)] = u[j];
            y[2 * (i + j) + 1] = v[j];
          }
        }
      }
      if (x != y) std::copy(x + 2 * half, x + head_size, y + 2 * half);
    }
  }
}

void RopeTokens(const RopeArgs& args, int64_t begin, int64_t end) {
  LORICA_CALL_FOR_DTYPE(args.x.dtype, RopeTokensOf, args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_ROPE_INL_H_
