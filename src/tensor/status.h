// Status plumbing: files, configurations, adapters and data report trouble through absl::Status,
// never by throwing. A message is one sentence: what was expected, what was found, and where (path,
// record, tensor, byte offset).
#ifndef LORICA_TENSOR_STATUS_H_
#define LORICA_TENSOR_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define LORICA_STATUS_CONCAT_INNER(a, b) a##b
#define LORICA_STATUS_CONCAT(a, b) LORICA_STATUS_CONCAT_INNER(a, b)

// Returns from the enclosing function when `expression` (an absl::Status) is not OK.
#define LORICA_RETURN_IF_ERROR(expression) \
  LORICA_RETURN_IF_ERROR_INNER(LORICA_STATUS_CONCAT(lorica_status_, __LINE__), expression)
#define LORICA_RETURN_IF_ERROR_INNER(status, expression)                   \
  do {                                                                     \
    if (::absl::Status status = (expression); !status.ok()) return status; \
  } while (false)

// Evaluates `expression` (a StatusOr); returns its status when not OK, else moves the value into
// `target`.
#define LORICA_ASSIGN_OR_RETURN(target, expression) \
  LORICA_ASSIGN_OR_RETURN_INNER(LORICA_STATUS_CONCAT(lorica_or_, __LINE__), target, expression)
#define LORICA_ASSIGN_OR_RETURN_INNER(temporary, target, expression) \
  auto temporary = (expression);                                     \
  if (!temporary.ok()) return std::move(temporary).status();         \
  target = *std::move(temporary)

#endif  // LORICA_TENSOR_STATUS_H_
