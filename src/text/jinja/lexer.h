// Cuts template source into tokens; whitespace control (trim_blocks, lstrip_blocks, the signs in
// {%- -%} {%+) is all done here, so that the parser sees only text that will be printed.
#ifndef LORICA_TEXT_JINJA_LEXER_H_
#define LORICA_TEXT_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace lorica::jinja {

struct Token {
  enum class Type : uint8_t {
    kText,           // outside of tags
    kBlockBegin,     // {%
    kBlockEnd,       // %}
    kVariableBegin,  // {{
    kVariableEnd,    // }}
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,  // `text` holds it: "+", "==", "(", ...
    kEnd,
  };

  Type type = Type::kEnd;
  int line = 1;
  std::string text;  // decoded for strings
  int64_t integer = 0;
  double number = 0;
};

// All tokens, kEnd last. Throws TemplateError with the line.
std::vector<Token> Tokenize(absl::string_view source);

// How errors call a token: "end of template", "'endif'".
std::string DescribeToken(const Token& token);

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_LEXER_H_
