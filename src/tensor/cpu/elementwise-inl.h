// Pointwise formulas and their loops. A new unary op is one functor here and one line of
// LORICA_UNARY_OPS.
#if defined(LORICA_TENSOR_CPU_ELEMENTWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_TENSOR_CPU_ELEMENTWISE_INL_H_
#undef LORICA_TENSOR_CPU_ELEMENTWISE_INL_H_
#else
#define LORICA_TENSOR_CPU_ELEMENTWISE_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/cpu/lanes-inl.h"

#ifndef LORICA_UNARY_OPS
#define LORICA_UNARY_OPS(X) \
  X(kNeg, NegOp)            \
  X(kExp, ExpOp)            \
  X(kLog, LogOp)            \
  X(kSqrt, SqrtOp)          \
  X(kSquare, SquareOp)      \
  X(kSigmoid, SigmoidOp)    \
  X(kTanh, TanhOp)          \
  X(kRelu, ReluOp)          \
  X(kSilu, SiluOp)          \
  X(kGelu, GeluOp)          \
  X(kGeluTanh, GeluTanhOp)
#define LORICA_BINARY_OPS(X) \
  X(kAdd, AddOp)             \
  X(kSub, SubOp)             \
  X(kMul, MulOp)             \
  X(kDiv, DivOp)             \
  X(kMax, MaxOp)
#endif

HWY_BEFORE_NAMESPACE();
namespace lorica::cpu {
namespace HWY_NAMESPACE {

// --- Unary ops: Value(x) and Derivative(x) side by side.

struct NegOp {
  template <class D, class V>
  static HWY_INLINE V Value(D, V x) {
    return hn::Neg(x);
  }
  template <class D, class V>
  static HWY_INLINE V Derivative(D d, V) {
    return Constant(d, -1);
  }
};

struct ExpOp {
  template <class D, class V>
  static HWY_INLINE V Value(D d, V x) {
    return ExpLanes(d, x);
  }
  template <class D, class V>
  static HWY_INLINE V Derivative(D d, V x) {
    return ExpLanes(d, x);
  }
};

struct LogOp {
  template <class D, class V>
  static HWY_INLINE V Value(D d, V x) {
    return LogLanes(d, x);
  }
  template <class D, class V>
  static HWY_INLINE V Derivative(D d, V x) {
    return hn::Div(Constant(d, 1), x);
  }
};

struct SqrtOp {
  template <class D, class V>
  static HWY_INLINE V Value(D, V x) {
    return hn::Sqrt(x);
  }
  template <class D, class V>
  static HWY_INLINE V Derivative(D d, V x) {
    return hn::Div(Constant(d, 0.5), hn::Sqrt(x));
  }
};

struct SquareOp {
  template <class D, class V>
  static HWY_INLINE V Value(D, V x) {
    return hn::Mul(x, x);
  }
  template <class D, class V>
  static HWY_INLINE V Derivative(D, V x) {
    return hn::Add(x, x);
  }
};

struct SigmoidOp {
  template <class D, class V>
  static HWY_INLINE V Value(D d, V x) {
    return SigmoidLanes(d, x);
  }
  template <class D, class V>
  static HWY_INLINE V Derivative(D d, V x) {
    const V s = SigmoidLanes(d, x);
    return hn::NegMulAdd(s, s, s);
  }
};

struct TanhOp {
  template <class D, class V>
  static HWY_INLINE V Value(D d, V x) {
    return TanhLanes(d, x);
  }
  template <class D, class V>
  static HWY_INLINE V Derivative(D d, V x) {
    const V t = TanhLanes(d, x);
    return hn::NegMulAdd(t, t, Constant(d, 1));
  }
};

struct ReluOp {
  // A comparison, not Max: NaN stays NaN.
  template <class D, class V>
  static HWY_INLINE V Value(D d, V x) {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  }
  template <class D, class V>
  static HWY_INLINE V Derivative(D d, V x) {
    return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), Constant(d, 1));
  }
};

struct SiluOp {
  template <class D, class V>
  static HWY_INLINE V Value(D d, V x) {
    return hn::Mul(x, SigmoidLanes(d, x));
  }
  // s + x s (1 - s)
  template <class D, class V>
  static HWY_INLINE V Derivative(D d, V x) {
    const V s = SigmoidLanes(d, x);
    return hn::MulAdd(hn::Mul(x, s), hn::Sub(Constant(d, 1), s), s);
  }
};

struct GeluOp {
  // Through erfc, whose relative precision holds in the tail, too.
  template <class D, class V>
  static HWY_INLINE V NormalCdf(D d, V x) {
    const V half = Constant(d, 0.5);
    return hn::Mul(half, ErfcLanes(d, hn::Mul(x, Constant(d, -0.70710678118654752440))));
  }
  template <class D, class V>
  static HWY_INLINE V Value(D d, V x) {
    return hn::Mul(x, NormalCdf(d, x));
  }
  template <class D, class V>
  static HWY_INLINE V Derivative(D d, V x) {
    const V density = hn::Mul(ExpLanes(d, hn::Mul(Constant(d, -0.5), hn::Mul(x, x))),
                              Constant(d, 0.39894228040143267794));
    return hn::MulAdd(x, density, NormalCdf(d, x));
  }
};

// D. Hendrycks, K. Gimpel, "Gaussian error linear units", 2016: x / 2 (1 + tanh(u)) with
// u = sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluTanhOp {
  template <class D, class V>
  static HWY_INLINE V Inner(D d, V x) {
    const V cubic = hn::MulAdd(hn::Mul(Constant(d, 0.044715), x), hn::Mul(x, x), x);
    return hn::Mul(Constant(d, 0.79788456080286535588), cubic);
  }
  // (1 + tanh(u)) / 2 = sigmoid(2 u), without cancellation for negative u.
  template <class D, class V>
  static HWY_INLINE V Value(D d, V x) {
    const V u = Inner(d, x);
    return hn::Mul(x, SigmoidLanes(d, hn::Add(u, u)));
  }
  template <class D, class V>
  static HWY_INLINE V Derivative(D d, V x) {
    const V u = Inner(d, x);
    const V s = SigmoidLanes(d, hn::Add(u, u));
    const V inner_slope = hn::MulAdd(Constant(d, 3 * 0.044715 * 0.79788456080286535588),
                                     hn::Mul(x, x), Constant(d, 0.79788456080286535588));
    const V s_slope = hn::Mul(Constant(d, 2), hn::NegMulAdd(s, s, s));
    return hn::MulAdd(hn::Mul(x, s_slope), inner_slope, s);
  }
};

// --- Binary ops.

struct AddOp {
  template <class V>
  static HWY_INLINE V Value(V a, V b) {
    return hn::Add(a, b);
  }
};
struct SubOp {
  template <class V>
  static HWY_INLINE V Value(V a, V b) {
    return hn::Sub(a, b);
  }
};
struct MulOp {
  template <class V>
  static HWY_INLINE V Value(V a, V b) {
    return hn::Mul(a, b);
  }
};
struct DivOp {
  template <class V>
  static HWY_INLINE V Value(V a, V b) {
    return hn::Div(a, b);
  }
};
struct MaxOp {
  // A NaN on either side is the result.
  template <class V>
  static HWY_INLINE V Value(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  }
};

// --- Loops over n contiguous values of the accumulator type; outputs may be inputs.

template <class Op, typename T>
HWY_NOINLINE void UnaryLoop(const T* x, T* y, size_t n) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(Op::Value(d, hn::LoadU(d, x + i)), d, y + i);
  if (i < n) StoreSome(Op::Value(d, LoadSome(d, x + i, n - i, T{1})), d, y + i, n - i);
}

template <class Op, typename T>
HWY_NOINLINE void UnaryGradLoop(const T* x, const T* dy, T* dx, size_t n) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto slope = Op::Derivative(d, hn::LoadU(d, x + i));
    hn::StoreU(hn::Mul(hn::LoadU(d, dy + i), slope), d, dx + i);
  }
  if (i < n) {
    const auto slope = Op::Derivative(d, LoadSome(d, x + i, n - i, T{1}));
    StoreSome(hn::Mul(LoadSome(d, dy + i, n - i), slope), d, dx + i, n - i);
  }
}

template <class Op, typename T>
HWY_NOINLINE void BinaryLoop(const T* a, const T* b, T* y, size_t n) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(Op::Value(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i);
  }
  if (i < n) {
    const auto va = LoadSome(d, a + i, n - i);
    StoreSome(Op::Value(va, LoadSome(d, b + i, n - i, T{1})), d, y + i, n - i);
  }
}

template <typename T>
HWY_INLINE void AffineLoop(const T* x, T factor, T bias, T* y, size_t n) {
  const hn::ScalableTag<T> d;
  const auto f = hn::Set(d, factor), b = hn::Set(d, bias);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, x + i), f, b), d, y + i);
  }
  if (i < n) StoreSome(hn::MulAdd(LoadSome(d, x + i, n - i), f, b), d, y + i, n - i);
}

template <typename T>
HWY_INLINE void RunUnary(UnaryOp op, const T* x, T* y, size_t n) {
  switch (op) {
#define LORICA_CASE(name, functor) \
  case UnaryOp::name:              \
    return UnaryLoop<functor>(x, y, n);
    LORICA_UNARY_OPS(LORICA_CASE)
#undef LORICA_CASE
  }
}
template <typename T>
HWY_INLINE void RunUnaryGrad(UnaryOp op, const T* x, const T* dy, T* dx, size_t n) {
  switch (op) {
#define LORICA_CASE(name, functor) \
  case UnaryOp::name:              \
    return UnaryGradLoop<functor>(x, dy, dx, n);
    LORICA_UNARY_OPS(LORICA_CASE)
#undef LORICA_CASE
  }
}
template <typename T>
HWY_INLINE void RunBinary(BinaryOp op, const T* a, const T* b, T* y, size_t n) {
  switch (op) {
#define LORICA_CASE(name, functor) \
  case BinaryOp::name:             \
    return BinaryLoop<functor>(a, b, y, n);
    LORICA_BINARY_OPS(LORICA_CASE)
#undef LORICA_CASE
  }
}

void UnaryF32(UnaryOp op, const float* x, float* y, size_t n) { RunUnary(op, x, y, n); }
void UnaryF64(UnaryOp op, const double* x, double* y, size_t n) { RunUnary(op, x, y, n); }
void UnaryGradF32(UnaryOp op, const float* x, const float* dy, float* dx, size_t n) {
  RunUnaryGrad(op, x, dy, dx, n);
}
void UnaryGradF64(UnaryOp op, const double* x, const double* dy, double* dx, size_t n) {
  RunUnaryGrad(op, x, dy, dx, n);
}
void BinaryF32(BinaryOp op, const float* a, const float* b, float* y, size_t n) {
  RunBinary(op, a, b, y, n);
}
void BinaryF64(BinaryOp op, const double* a, const double* b, double* y, size_t n) {
  RunBinary(op, a, b, y, n);
}
void AffineF32(const float* x, float factor, float bias, float* y, size_t n) {
  AffineLoop(x, factor, bias, y, n);
}
void AffineF64(const double* x, double factor, double bias, double* y, size_t n) {
  AffineLoop(x, factor, bias, y, n);
}

void WidenBF16(const BF16* x, float* y, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < n; i += lanes) StoreUpTo(LoadUpTo(d, x + i, n - i), d, y + i, n - i);
}
void NarrowToBF16(const float* x, BF16* y, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < n; i += lanes) StoreUpTo(LoadUpTo(d, x + i, n - i), d, y + i, n - i);
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica::cpu
HWY_AFTER_NAMESPACE();

#endif  // LORICA_TENSOR_CPU_ELEMENTWISE_INL_H_
