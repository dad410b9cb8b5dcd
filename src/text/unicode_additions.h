// Code points that Unicode 15 and 16 assigned, with their general categories.
//
// Hugging Face's tokenizers know Unicode 16, Debian 12's PCRE2 knows 14; later ones know these too,
// which does no harm.
#ifndef LORICA_TEXT_UNICODE_ADDITIONS_H_
#define LORICA_TEXT_UNICODE_ADDITIONS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace lorica {

struct UnicodeAddition {
  uint32_t first;
  uint32_t last;
  char category[3];  // "Lu", "Nd", ...
};

// In ascending order.
absl::Span<const UnicodeAddition> UnicodeAdditions();

}  // namespace lorica

#endif  // LORICA_TEXT_UNICODE_ADDITIONS_H_
