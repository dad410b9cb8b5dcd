// Bytes as a tokenizer.json, and what follows a zero byte as a text for it: parse, encode, decode.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lorica/text/tokenizer.h"

namespace {

void Check(const lorica::Tokenizer& tokenizer, absl::string_view text) {
  for (const bool parse_special : {true, false}) {
    const lorica::EncodeOptions options = {.add_special_tokens = true,
                                           .parse_special = parse_special};
    const auto ids = tokenizer.Encode(text, options);
    const auto encoding = tokenizer.EncodeWithSpans(text, options);
    if (ids.ok() != encoding.ok()) __builtin_trap();
    if (!ids.ok()) return;
    if (*ids != encoding->ids || ids->size() != encoding->spans.size()) __builtin_trap();
    for (const lorica::TokenSpan& span : encoding->spans) {
      if (span.begin > span.end || span.end > text.size()) __builtin_trap();
    }
    const auto decoded = tokenizer.Decode(*ids);
    if (!decoded.ok()) continue;  // an expression of the decoder may give up
    lorica::StreamingDecoder decoder(tokenizer);
    std::string streamed;
    for (const int32_t id : *ids) {
      const auto bytes = decoder.Push(id);
      if (!bytes.ok()) __builtin_trap();
      streamed += *bytes;
    }
    if (streamed + *decoder.Finish() != *decoded) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  const auto tokenizer = lorica::ParseTokenizerJson(input.substr(0, zero), "fuzz");
  if (!tokenizer.ok()) return 0;
  Check(*tokenizer, "ab abc cab  b'a\n\t1234 a\xCC\x81\xE4\xB8\x96<|end|>\xE2\x96\x81 x");
  if (zero != absl::string_view::npos) Check(*tokenizer, input.substr(zero + 1));
  return 0;
}
