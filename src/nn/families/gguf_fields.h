// Numbers of GGUF metadata within bounds. Internal to src/nn.
#ifndef LORICA_NN_FAMILIES_GGUF_FIELDS_H_
#define LORICA_NN_FAMILIES_GGUF_FIELDS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/gguf.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {

// "<file>: <key>: <parts>".
template <typename... Parts>
absl::Status Wrong(const GgufFile& file, const std::string& key, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(file.where(), ": ", key, ": ", parts...));
}

inline absl::StatusOr<int64_t> Bounded(const GgufFile& file, const std::string& key, int64_t least,
                                       int64_t most) {
  LORICA_ASSIGN_OR_RETURN(const int64_t value, file.GetI64(key));
  if (value >= least && value <= most) return value;
  return Wrong(file, key, "expected a number from ", least, " to ", most, ", found ", value);
}

// 0 where the key is absent.
inline absl::StatusOr<int64_t> BoundedOrZero(const GgufFile& file, const std::string& key,
                                             int64_t most) {
  return file.Has(key) ? Bounded(file, key, 0, most) : absl::StatusOr<int64_t>(0);
}

}  // namespace lorica::internal

#endif  // LORICA_NN_FAMILIES_GGUF_FIELDS_H_
