#include "lorica/peft/layouts/load_factor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/peft/layouts/factor_math.h"
#include "lorica/tensor/status.h"

namespace lorica::layouts {

absl::StatusOr<Tensor> LoadFactor(const StoredFactor& stored, int axes, Backend& backend,
                                  DType dtype) {
  const bool empty =
      std::any_of(stored.shape.begin(), stored.shape.end(), [](int64_t n) { return n < 1; });
  if (empty || static_cast<int>(stored.shape.size()) != axes) {
    return absl::InvalidArgumentError(absl::StrCat(stored.where, ": expected ", axes,
                                                   " axes, none empty, found shape ",
                                                   ShapeText(stored.shape)));
  }
  if (!IsConvertible(stored.type, dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(
        stored.where, ": expected floating-point values, found type ", Name(stored.type)));
  }
  Tensor tensor = Tensor::Empty(backend, Shape(stored.shape), dtype);
  LORICA_RETURN_IF_ERROR(ConvertElements(stored.type, stored.bytes, tensor.numel(), dtype,
                                         tensor.mutable_view().data));
  if (!AllFinite(tensor)) {
    return absl::DataLossError(
        absl::StrCat(stored.where, ": expected finite values, found NaN or infinity"));
  }
  return tensor;
}

}  // namespace lorica::layouts
