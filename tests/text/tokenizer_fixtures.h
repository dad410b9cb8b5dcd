// What the tests of tokenizers share: the committed small tokenizers, and comparison with what was
// expected.
#ifndef LORICA_TESTS_TEXT_TOKENIZER_FIXTURES_H_
#define LORICA_TESTS_TEXT_TOKENIZER_FIXTURES_H_

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "io/io_fixture.h"
#include "lorica/text/tokenizer.h"

namespace lorica {

inline std::string TokenizerFixture(absl::string_view name) {
  return absl::StrCat(LORICA_SOURCE_ROOT, "/tests/golden/tokenizers/", name);
}

inline std::string SharedFile(absl::string_view name) {
  const char* folder = std::getenv("LORICA_SHARED_DIR");
  return folder != nullptr ? absl::StrCat(folder, "/", name)
                           : absl::StrCat(LORICA_SOURCE_ROOT, "/../shared/", name);
}

inline bool Exists(const std::string& path) { return PosixFiles().Stat(path).ok(); }

inline nlohmann::json ReadJson(const std::string& path) {
  return nlohmann::json::parse(ReadOrDie(path));
}

// Checks what holds for any encoding: spans give the same ids and lie in the text, and decoding
// piece by piece gives the same bytes as at once, in whole characters as long as there are any.
inline void CheckConsistency(const Tokenizer& tokenizer, const std::string& text,
                             const std::vector<int32_t>& ids, const EncodeOptions& options) {
  const auto encoding = tokenizer.EncodeWithSpans(text, options);
  ASSERT_OK(encoding);
  EXPECT_EQ(encoding->ids, ids) << text;
  ASSERT_EQ(encoding->spans.size(), ids.size());
  for (const TokenSpan& span : encoding->spans) {
    EXPECT_LE(span.begin, span.end) << text;
    EXPECT_LE(span.end, text.size()) << text;
  }
  const auto decoded = tokenizer.Decode(ids);
  ASSERT_OK(decoded);
  StreamingDecoder decoder(tokenizer);
  std::string streamed;
  for (const int32_t id : ids) {
    const auto bytes = decoder.Push(id);
    ASSERT_OK(bytes);
    streamed += *bytes;
  }
  const auto rest = decoder.Finish();
  ASSERT_OK(rest);
  EXPECT_EQ(streamed + *rest, *decoded) << text;
}

}  // namespace lorica

#endif  // LORICA_TESTS_TEXT_TOKENIZER_FIXTURES_H_
