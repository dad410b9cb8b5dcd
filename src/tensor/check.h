// Errors of API misuse and broken invariants.
//
// A wrong shape, dtype or device in an op, or any other misuse of the API, throws lorica::Error
// with a message that starts with the name of the op in brackets: "[matmul] inner dimensions
// differ: [8, 512] x [768, 640]". Files, configurations and other data from outside never throw:
// they return absl::Status (status.h).
#ifndef LORICA_TENSOR_CHECK_H_
#define LORICA_TENSOR_CHECK_H_

#include <cassert>
#include <sstream>
#include <stdexcept>
#include <string>

namespace lorica {

// Misuse of the API by the caller.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

// A device or its library failed (CUDA, NCCL, out of device memory).
class DeviceError : public std::runtime_error {
 public:
  explicit DeviceError(const std::string& message) : std::runtime_error(message) {}
};

namespace internal {
template <typename... Parts>
std::string Concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}
}  // namespace internal

// Throws Error with `parts` streamed together.
template <typename... Parts>
[[noreturn]] void Fail(const Parts&... parts) {
  throw Error(internal::Concat(parts...));
}

}  // namespace lorica

// LORICA_CHECK(condition, parts...): throws Error with the streamed parts unless `condition` holds.
// For user input of the C++ API. The parts are evaluated only on failure.
#define LORICA_CHECK(condition, ...) \
  do {                               \
    if (!(condition)) [[unlikely]] { \
      ::lorica::Fail(__VA_ARGS__);   \
    }                                \
  } while (false)

// An invariant of our own; compiled out in release builds.
#define LORICA_DCHECK(condition) assert(condition)

#endif  // LORICA_TENSOR_CHECK_H_
