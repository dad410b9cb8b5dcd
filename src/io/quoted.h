// Names from files inside error texts.
#ifndef LORICA_IO_QUOTED_H_
#define LORICA_IO_QUOTED_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace lorica {

// `text` in double quotes, control and invalid bytes escaped, cut after 120 bytes: a hostile file
// can neither flood a message nor break a terminal with it.
std::string Quoted(absl::string_view text);

// `text` is well-formed UTF-8 (no surrogates, no overlong forms, at most U+10FFFF), so it can be
// shown and written as JSON.
bool IsUtf8(absl::string_view text);

// "[8, 512]".
std::string ShapeText(absl::Span<const int64_t> shape);

// The closest of `candidates` by edit distance, or "" where none is close enough to be a likely
// slip.
std::string NearestName(absl::string_view name, absl::Span<const std::string> candidates);

}  // namespace lorica

#endif  // LORICA_IO_QUOTED_H_
