#include "lorica/peft/layouts/factor_math.h"

#include <cmath>
#include <cstring>

#include "lorica/tensor/backend.h"
#include "lorica/tensor/check.h"

namespace lorica::layouts {
namespace {

void CopyInto(const Tensor& source, Tensor target) {
  source.backend().Copy(source.view(), target.mutable_view());
}

template <typename Predicate>
bool AllOf(const Tensor& x, const Predicate& predicate) {
  const Tensor flat = raw::Contiguous(x);
  const int64_t n = flat.numel();
  if (flat.dtype() == DType::kF64) {
    const double* values = flat.data<double>();
    for (int64_t i = 0; i < n; ++i) {
      if (!predicate(values[i])) return false;
    }
    return true;
  }
  const float* values = flat.data<float>();
  for (int64_t i = 0; i < n; ++i) {
    if (!predicate(static_cast<double>(values[i]))) return false;
  }
  return true;
}

}  // namespace

Tensor Concat(const Tensor& x, const Tensor& y, int axis) {
  Shape shape = x.shape();
  shape[axis] += y.dim(axis);
  const Tensor joined = Tensor::Empty(x.backend(), shape, x.dtype());
  CopyInto(x, joined.Narrow(axis, 0, x.dim(axis)));
  CopyInto(y, joined.Narrow(axis, x.dim(axis), y.dim(axis)));
  return joined;
}

Tensor BlockDiagonal(const Tensor& x, const Tensor& y) {
  const Tensor block =
      Tensor::Zeros(x.backend(), {x.dim(0), x.dim(1) + y.dim(1), x.dim(2) + y.dim(2)}, x.dtype());
  CopyInto(x, block.Narrow(1, 0, x.dim(1)).Narrow(2, 0, x.dim(2)));
  CopyInto(y, block.Narrow(1, x.dim(1), y.dim(1)).Narrow(2, x.dim(2), y.dim(2)));
  return block;
}

Tensor Expanded(const Tensor& x, int64_t experts) {
  if (x.dim(0) == experts) return x;
  const Tensor all = Tensor::Empty(x.backend(), {experts, x.dim(1), x.dim(2)}, x.dtype());
  for (int64_t e = 0; e < experts; ++e) CopyInto(x, all.Narrow(0, e, 1));
  return all;
}

Tensor Collapsed(const Tensor& x) {
  const Tensor first = x.Narrow(0, 0, 1);
  for (int64_t e = 1; e < x.dim(0); ++e) {
    if (!SameBits(first, x.Narrow(0, e, 1))) return x;
  }
  return raw::Clone(first);
}

Tensor Interleaved(const Tensor& x) {
  const Tensor whole = raw::Contiguous(x);
  const int64_t half = x.dim(1) / 2;
  return raw::Contiguous(whole.WithShape({x.dim(0), 2, half, x.dim(2)}).Transpose(1, 2))
      .WithShape(x.shape());
}

Tensor Deinterleaved(const Tensor& x) {
  const Tensor whole = raw::Contiguous(x);
  const int64_t half = x.dim(1) / 2;
  return raw::Contiguous(whole.WithShape({x.dim(0), half, 2, x.dim(2)}).Transpose(1, 2))
      .WithShape(x.shape());
}

Tensor FoldedA(const Tensor& a) {
  return raw::Contiguous(a).WithShape({a.dim(0) * a.dim(1), a.dim(2)});
}

Tensor FoldedB(const Tensor& b) {
  return raw::Contiguous(b.Transpose(0, 2).Transpose(0, 1))
      .WithShape({b.dim(1), b.dim(2) * b.dim(0)});
}

Tensor Plane(const Tensor& x, int64_t expert) {
  return raw::Contiguous(x.Narrow(0, x.dim(0) == 1 ? 0 : expert, 1))
      .WithShape({x.dim(1), x.dim(2)});
}

Tensor Scaled(const Tensor& x, double factor) {
  Tensor scaled = raw::Clone(raw::Contiguous(x));
  const int64_t n = scaled.numel();
  if (scaled.dtype() == DType::kF64) {
    double* values = scaled.mutable_data<double>();
    for (int64_t i = 0; i < n; ++i) values[i] *= factor;
  } else {
    float* values = scaled.mutable_data<float>();
    for (int64_t i = 0; i < n; ++i) {
      values[i] = static_cast<float>(static_cast<double>(values[i]) * factor);
    }
  }
  return scaled;
}

bool SameBits(const Tensor& x, const Tensor& y) {
  if (!(x.shape() == y.shape()) || x.dtype() != y.dtype()) return false;
  const Tensor a = raw::Contiguous(x), b = raw::Contiguous(y);
  return std::memcmp(a.data<uint8_t>(), b.data<uint8_t>(), a.bytes()) == 0;
}

bool AllZero(const Tensor& x) {
  return AllOf(x, [](double value) { return value == 0; });
}

bool AllFinite(const Tensor& x) {
  const Tensor flat = raw::Contiguous(x);
  // Squares of finite values fit a double, but for those of doubles.
  return std::isfinite(flat.backend().SumSquares(flat.view())) ||
         (flat.dtype() == DType::kF64 &&
          AllOf(flat, [](double value) { return std::isfinite(value); }));
}

}  // namespace lorica::layouts
