// kv_b_proj of latent attention, absorbed: (W_K c)ᵀ q = cᵀ (W_Kᵀ q), so the query goes through the
// projection once instead of every cached token. An adapter on it is a second, low-rank path:
//   keys:   q' = q (W_K + B_K A)           values: y = u (W_V + B_V A)ᵀ
// Without gradient.
#ifndef LORICA_NN_MLA_ABSORBED_H_
#define LORICA_NN_MLA_ABSORBED_H_

#include <cstdint>

#include "lorica/autograd/ops.h"

namespace lorica::nn {

// The weight [H (key_rows + value_rows), L] of `args`: for each head first the rows that make its
// key, then those of its value. No bias.
struct AbsorbedProjection {
  int64_t heads = 0, key_rows = 0, value_rows = 0;
  LinearArgs args;
};

// The first key_rows channels of every head of q [T, H D] -> the first L channels of every head of
// y [T, H, D'].
void AbsorbKeys(const AbsorbedProjection& projection, const Tensor& q, Tensor& y);

// u [T, H, L] -> y [T, H, value_rows].
void AbsorbValues(const AbsorbedProjection& projection, const Tensor& u, Tensor& y);

}  // namespace lorica::nn

#endif  // LORICA_NN_MLA_ABSORBED_H_
