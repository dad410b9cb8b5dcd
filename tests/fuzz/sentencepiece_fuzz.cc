// Bytes as a sentencepiece .model file: parse, encode, decode.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lorica/text/sentencepiece_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view model(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = lorica::TokenizerFromSentencepiece(model, "fuzz");
  if (!tokenizer.ok()) {
    if (tokenizer.status().message().empty()) __builtin_trap();
    return 0;
  }
  for (const absl::string_view text :
       {"ab abc  cab b'a\n\t12", "a\xCC\x81\xE4\xB8\x96</s><s>\xE2\x96\x81 x", " "}) {
    const auto ids = tokenizer->Encode(text);
    const auto encoding = tokenizer->EncodeWithSpans(text);
    if (ids.ok() != encoding.ok()) __builtin_trap();
    if (!ids.ok()) continue;
    if (*ids != encoding->ids || ids->size() != encoding->spans.size()) __builtin_trap();
    for (const lorica::TokenSpan& span : encoding->spans) {
      if (span.begin > span.end || span.end > text.size()) __builtin_trap();
    }
    const auto decoded = tokenizer->Decode(*ids);
    if (!decoded.ok()) continue;
    lorica::StreamingDecoder decoder(*tokenizer);
    std::string streamed;
    for (const int32_t id : *ids) {
      const auto bytes = decoder.Push(id);
      if (!bytes.ok()) __builtin_trap();
      streamed += *bytes;
    }
    if (streamed + *decoder.Finish() != *decoded) __builtin_trap();
  }
  return 0;
}
