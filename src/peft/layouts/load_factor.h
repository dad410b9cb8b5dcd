// The values of one tensor of an adapter file, whatever the file's format.
#ifndef LORICA_PEFT_LAYOUTS_LOAD_FACTOR_H_
#define LORICA_PEFT_LAYOUTS_LOAD_FACTOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lorica/io/stored_type.h"
#include "lorica/tensor/tensor.h"

namespace lorica::layouts {

struct StoredFactor {
  std::string where;  // "<file>: tensor "<name>"": starts error texts
  StoredType type = StoredType::kF32;
  absl::Span<const int64_t> shape;
  absl::Span<const uint8_t> bytes;  // as many as type and shape say
};

// In `dtype`, which is no narrower than f32 but for copies of base weights. Errors: another number
// of axes than `axes`, an empty axis, no floating-point type, values that aren't finite.
absl::StatusOr<Tensor> LoadFactor(const StoredFactor& stored, int axes, Backend& backend,
                                  DType dtype);

}  // namespace lorica::layouts

#endif  // LORICA_PEFT_LAYOUTS_LOAD_FACTOR_H_
