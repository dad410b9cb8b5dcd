// The alphabet of byte-level vocabularies: each byte stands as one printable character. The
// printable bytes of Latin-1 are themselves; the other 68 are U+0100 and up, in order (GPT-2,
// https://github.com/openai/gpt-2/blob/master/src/encoder.py).
#ifndef LORICA_TEXT_BYTE_ALPHABET_H_
#define LORICA_TEXT_BYTE_ALPHABET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lorica/text/pieces.h"

namespace lorica {

// The character of a byte, in UTF-8: two bytes at most.
absl::string_view AlphabetOf(unsigned char byte);

// Whether each character of `piece` (valid UTF-8) is of the alphabet; if so, appends the bytes it
// spells.
bool AppendAlphabetBytes(absl::string_view piece, std::string* bytes);

// Respells the text in the alphabet; `ranges`, in its bytes, come to cover the same characters in
// the new one.
void SpellInAlphabet(MappedText* text, std::vector<ByteRange>* ranges);

}  // namespace lorica

#endif  // LORICA_TEXT_BYTE_ALPHABET_H_
