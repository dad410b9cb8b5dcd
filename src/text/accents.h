// Which marks normalizers that strip accents take out.
#ifndef LORICA_TEXT_ACCENTS_H_
#define LORICA_TEXT_ACCENTS_H_

#include <cstdint>

namespace lorica {

// Combining marks (M*) as Hugging Face's StripAccents knows them.
bool IsStrippedAccent(uint32_t code_point);
// Nonspacing marks (Mn) as its BertNormalizer knows them.
bool IsStrippedByBert(uint32_t code_point);

}  // namespace lorica

#endif  // LORICA_TEXT_ACCENTS_H_
