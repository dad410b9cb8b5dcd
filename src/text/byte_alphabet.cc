#include "lorica/text/byte_alphabet.h"

#include <array>
#include <utility>

#include "lorica/text/utf8.h"

namespace lorica {
namespace {

constexpr bool IsPrintable(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
         (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  char text[256][2] = {};
  uint8_t size[256] = {};
  int16_t byte_of[0x144] = {};  // by code point, -1 where none
};

constexpr Alphabet MakeAlphabet() {
  Alphabet result;
  for (int16_t& byte : result.byte_of) byte = -1;
  uint32_t other = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const uint32_t c = IsPrintable(byte) ? byte : other++;
    result.byte_of[c] = static_cast<int16_t>(byte);
    result.size[byte] = c < 0x80 ? 1 : 2;
    result.text[byte][0] = static_cast<char>(c < 0x80 ? c : 0xC0 | c >> 6);
    result.text[byte][1] = static_cast<char>(0x80 | (c & 0x3F));
  }
  return result;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

absl::string_view AlphabetOf(unsigned char byte) {
  return {kAlphabet.text[byte], kAlphabet.size[byte]};
}

bool AppendAlphabetBytes(absl::string_view piece, std::string* bytes) {
  const size_t before = bytes->size();
  for (size_t i = 0; i < piece.size(); i += Utf8Length(piece[i])) {
    const uint32_t c = DecodeUtf8(piece, i);
    if (c >= std::size(kAlphabet.byte_of) || kAlphabet.byte_of[c] < 0) {
      bytes->resize(before);
      return false;
    }
    bytes->push_back(static_cast<char>(kAlphabet.byte_of[c]));
  }
  return true;
}

void SpellInAlphabet(MappedText* text, std::vector<ByteRange>* ranges) {
  TextRewriter out(*text);
  const absl::string_view source = text->text();
  // Between ranges nothing is read again, so that they need no gaps.
  for (ByteRange& range : *ranges) {
    const auto begin = static_cast<uint32_t>(out.size());
    uint32_t kept = range.begin;  // bytes from here on stay as they are
    for (uint32_t i = range.begin; i < range.end; ++i) {
      const auto byte = static_cast<unsigned char>(source[i]);
      if (byte > 0x20 && byte < 0x7F) continue;
      if (kept < i) out.Keep(kept, i);
      out.Replace(i, i + 1, AlphabetOf(byte));
      kept = i + 1;
    }
    if (kept < range.end) out.Keep(kept, range.end);
    range = {begin, static_cast<uint32_t>(out.size())};
  }
  *text = out.Finish();
}

}  // namespace lorica
