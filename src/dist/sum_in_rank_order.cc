#include "lorica/dist/sum_in_rank_order.h"

#include "lorica/tensor/check.h"

namespace lorica {
namespace {

template <typename T, typename Wide>
void Sum(absl::Span<const void* const> parts, int64_t begin, int64_t count, void* out) {
  for (int64_t i = 0; i < count; ++i) {
    Wide sum{};
    for (const void* part : parts) sum += static_cast<Wide>(static_cast<const T*>(part)[begin + i]);
    static_cast<T*>(out)[i] = static_cast<T>(sum);
  }
}

}  // namespace

void SumInRankOrder(DType dtype, absl::Span<const void* const> parts, int64_t begin, int64_t count,
                    void* out) {
  switch (dtype) {
    case DType::kF32:
      return Sum<float, float>(parts, begin, count, out);
    case DType::kBF16:
      return Sum<BF16, float>(parts, begin, count, out);
    case DType::kF64:
      return Sum<double, double>(parts, begin, count, out);
    case DType::kI32:
      return Sum<int32_t, int32_t>(parts, begin, count, out);
    case DType::kI64:
      return Sum<int64_t, int64_t>(parts, begin, count, out);
    default:
      Fail("[communicator] values of type ", dtype, " aren't summed");
  }
}

}  // namespace lorica
