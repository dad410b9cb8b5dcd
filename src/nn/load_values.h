// One tensor of a file into memory of a backend. Internal to src/nn.
#ifndef LORICA_NN_LOAD_VALUES_H_
#define LORICA_NN_LOAD_VALUES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lorica/io/tensor_source.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/tensor.h"

namespace lorica::internal {

struct ValuesRequest {
  std::string name;  // in the source
  Shape shape;       // the tensor's shape there, checked by the caller
  DType dtype = DType::kF32;
  int64_t interleaved_heads = 0;  // GgufPlace
  bool borrow = false;            // the source's own bytes where they fit
  bool check_finite = true;
};

// Converts a stretch of rows at a time; at most a few MiB are held besides the result.
absl::StatusOr<Tensor> LoadValues(const std::shared_ptr<const TensorSource>& source,
                                  const ValuesRequest& request, Backend& backend);

// The index of the first NaN or infinity among `count` values of a compute type; -1 without one.
int64_t FindNonFinite(const void* values, int64_t count, DType dtype);

}  // namespace lorica::internal

#endif  // LORICA_NN_LOAD_VALUES_H_
