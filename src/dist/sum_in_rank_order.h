#ifndef LORICA_DIST_SUM_IN_RANK_ORDER_H_
#define LORICA_DIST_SUM_IN_RANK_ORDER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "lorica/tensor/dtype.h"

namespace lorica {

// out[i] = sum over `parts` of part[begin + i], i < count, in the order of the parts, in the
// accumulator type, rounded once. Throws Error for types that aren't summed.
void SumInRankOrder(DType dtype, absl::Span<const void* const> parts, int64_t begin, int64_t count,
                    void* out);

}  // namespace lorica

#endif  // LORICA_DIST_SUM_IN_RANK_ORDER_H_
