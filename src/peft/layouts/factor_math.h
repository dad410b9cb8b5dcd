// Rearranging low-rank factors: exact but for Scaled, any strides, f32 or f64, CPU tensors.
#ifndef LORICA_PEFT_LAYOUTS_FACTOR_MATH_H_
#define LORICA_PEFT_LAYOUTS_FACTOR_MATH_H_

#include "lorica/tensor/tensor.h"

namespace lorica::layouts {

// x and y joined along `axis`.
Tensor Concat(const Tensor& x, const Tensor& y, int axis);
// [E, m, R] and [E, n, S] to [E, m + n, R + S] with zeros off the diagonal.
Tensor BlockDiagonal(const Tensor& x, const Tensor& y);
// [1, m, n] repeated to [E, m, n]; [E, m, n] as it is.
Tensor Expanded(const Tensor& x, int64_t experts);
// [1, m, n] where all experts of [E, m, n] have the same bits, else as it is.
Tensor Collapsed(const Tensor& x);
// Rows in pairs: [E, 2 I, R] of [first half; second half] to alternating rows, and back.
Tensor Interleaved(const Tensor& x);
Tensor Deinterleaved(const Tensor& x);
// A pair of [E, R, in] and [E, out, R] as the parameter of all experts has it: rows e R + r of
// [E R, in]; columns r E + e of [out, R E].
Tensor FoldedA(const Tensor& a);
Tensor FoldedB(const Tensor& b);
// [m, n] of one expert, from [E, m, n] or [1, m, n].
Tensor Plane(const Tensor& x, int64_t expert);
// x * factor, rounded once to x's type.
Tensor Scaled(const Tensor& x, double factor);

bool SameBits(const Tensor& x, const Tensor& y);
bool AllZero(const Tensor& x);
bool AllFinite(const Tensor& x);  // of any type

}  // namespace lorica::layouts

#endif  // LORICA_PEFT_LAYOUTS_FACTOR_MATH_H_
