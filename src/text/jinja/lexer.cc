#include "lorica/text/jinja/lexer.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/text/jinja/error.h"
#include "lorica/text/jinja/string_literal.h"
#include "lorica/text/jinja/unicode.h"

namespace lorica::jinja {

namespace {

using Type = Token::Type;

// Line ends of every system become "\n", and one at the very end is dropped, as jinja2 does by
// default.
std::string NormalizeLineEnds(absl::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool IsDigitChar(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }

class Lexer {
 public:
  explicit Lexer(absl::string_view source) : normalized_(NormalizeLineEnds(source)) {
    source_ = normalized_;
  }

  std::vector<Token> Run() {
    while (position_ < source_.size()) LexText();
    Emit(Type::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void Fail(const std::string& message) const { throw TemplateError(message, line_); }

  Token& Emit(Type type, absl::string_view text) {
    Token token;
    token.type = type;
    token.line = line_;
    token.text = std::string(text);
    tokens_.push_back(std::move(token));
    return tokens_.back();
  }

  // Moves to `end`, counting lines.
  void AdvanceTo(size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(position_),
                                         source_.begin() + static_cast<ptrdiff_t>(end), '\n'));
    position_ = end;
  }

  size_t SkipSpace(size_t at) const {
    while (at < source_.size()) {
      size_t next = at;
      if (!IsSpace(NextCodePoint(source_, &next))) break;
      at = next;
    }
    return at;
  }

  // The end of the closing delimiter `closing` ("%}") at `at`, its sign and the whitespace it takes
  // included; 0 where there is none. Only block and comment ends know '+' and take one line end.
  size_t MatchClosing(size_t at, absl::string_view closing) const {
    const absl::string_view rest = source_.substr(at);
    const bool trims = closing != "}}";
    if (!rest.empty() && rest[0] == '-' && absl::StartsWith(rest.substr(1), closing)) {
      return SkipSpace(at + 1 + closing.size());
    }
    if (trims && !rest.empty() && rest[0] == '+' && absl::StartsWith(rest.substr(1), closing)) {
      return at + 1 + closing.size();
    }
    if (!absl::StartsWith(rest, closing)) return 0;
    const size_t end = at + closing.size();
    return trims && end < source_.size() && source_[end] == '\n' ? end + 1 : end;
  }

  // Notes whether what was just consumed, up to `end`, ended a line: then a tag that follows starts
  // one.
  void EndTag(size_t end) {
    line_starting_ = end > 0 && source_[end - 1] == '\n';
    AdvanceTo(end);
  }

  // Prints source_[position_, end), stripped for a tag with this sign that begins at `end`.
  void EmitText(size_t end, char sign, bool is_variable) {
    absl::string_view text = source_.substr(position_, end - position_);
    if (sign == '-') {
      text = StripSpace(text, false, true);
    } else if (sign != '+' && !is_variable) {
      const size_t line_begin = text.rfind('\n') + 1;  // npos + 1 == 0
      if ((line_begin > 0 || line_starting_) && StripSpace(text.substr(line_begin)).empty()) {
        text = text.substr(0, line_begin);
      }
    }
    if (!text.empty()) Emit(Type::kText, text);
    AdvanceTo(end);
  }

  char SignAt(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
  }

  void LexText() {
    size_t at = position_;
    for (;; ++at) {
      at = source_.find('{', at);
      if (at == absl::string_view::npos || at + 1 >= source_.size()) {
        at = source_.size();
        break;
      }
      const char next = source_[at + 1];
      if (next == '{' || next == '%' || next == '#') break;
    }
    if (at == source_.size()) {
      Emit(Type::kText, source_.substr(position_));
      AdvanceTo(at);
      return;
    }
    const char kind = source_[at + 1];
    const char sign = SignAt(at + 2);
    EmitText(at, sign, kind == '{');
    const size_t inside = at + 2 + (sign != '\0');
    if (kind == '%' && LexRaw(inside)) return;
    const int opened = line_;
    AdvanceTo(inside);
    if (kind == '#') {
      LexComment(opened);
    } else if (kind == '%') {
      Emit(Type::kBlockBegin, "{%");
      LexTag("%}", Type::kBlockEnd);
    } else {
      Emit(Type::kVariableBegin, "{{");
      LexTag("}}", Type::kVariableEnd);
    }
  }

  void LexComment(int opened) {
    size_t end = source_.find("#}", position_);
    if (end == absl::string_view::npos) {
      line_ = opened;
      Fail("Missing end of comment tag");
    }
    if (end > position_ && (source_[end - 1] == '-' || source_[end - 1] == '+')) --end;
    EndTag(MatchClosing(end, "#}"));
  }

  // {% raw %} ... {% endraw %}, where `inside` is behind its "{%" and sign; false where this is
  // another tag.
  bool LexRaw(size_t inside) {
    const size_t name = SkipSpace(inside);
    if (source_.substr(name, 3) != "raw") return false;
    const size_t closing = SkipSpace(name + 3);
    const bool strips = source_.substr(closing, 3) == "-%}";
    if (!strips && source_.substr(closing, 2) != "%}") return false;
    const int opened = line_;
    EndTag(strips ? SkipSpace(closing + 3) : closing + 2);
    for (size_t at = position_;; at += 2) {
      at = source_.find("{%", at);
      if (at == absl::string_view::npos) {
        line_ = opened;
        Fail("Missing end of raw directive");
      }
      const char sign = SignAt(at + 2);
      const size_t word = SkipSpace(at + 2 + (sign != '\0'));
      if (source_.substr(word, 6) != "endraw") continue;
      const size_t end = MatchClosing(SkipSpace(word + 6), "%}");
      if (end == 0) continue;
      EmitText(at, sign, false);
      EndTag(end);
      return true;
    }
  }

  void LexTag(absl::string_view closing, Type closing_type) {
    std::string open_brackets;  // the closing bracket that each open one waits for
    while (position_ < source_.size()) {
      if (open_brackets.empty()) {
        if (const size_t end = MatchClosing(position_, closing); end != 0) {
          Emit(closing_type, closing);
          EndTag(end);
          return;
        }
      }
      if (const size_t end = SkipSpace(position_); end != position_) {
        AdvanceTo(end);
      } else if (IsDigitChar(source_[position_])) {
        LexNumber();
      } else if (LexName() || LexString()) {
        continue;
      } else {
        LexOperator(&open_brackets);
      }
    }
  }

  // End of digits that single underscores may separate; `at` where there are none.
  template <typename IsDigitOf>
  size_t DigitsEnd(size_t at, const IsDigitOf& is_digit) const {
    const size_t begin = at;
    while (at < source_.size()) {
      if (is_digit(source_[at])) {
        ++at;
      } else if (source_[at] == '_' && at > begin && at + 1 < source_.size() &&
                 is_digit(source_[at + 1])) {
        ++at;
      } else {
        break;
      }
    }
    return at;
  }

  void LexNumber() {
    const size_t whole_end = DigitsEnd(position_, IsDigitChar);
    size_t end = whole_end;
    if (position_ == 0 || source_[position_ - 1] != '.') {
      if (end < source_.size() && source_[end] == '.') {
        const size_t fraction_end = DigitsEnd(end + 1, IsDigitChar);
        if (fraction_end > end + 1) end = fraction_end;
      }
      if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        size_t exponent = end + 1;
        if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) {
          ++exponent;
        }
        const size_t exponent_end = DigitsEnd(exponent, IsDigitChar);
        if (exponent_end > exponent) end = exponent_end;
      }
    }
    if (end != whole_end) {
      const std::string digits = WithoutUnderscores(position_, end);
      Emit(Type::kFloat, digits).number = std::strtod(digits.c_str(), nullptr);
    } else {
      end = LexInteger(whole_end);
    }
    AdvanceTo(end);
  }

  std::string WithoutUnderscores(size_t begin, size_t end) const {
    std::string digits(source_.substr(begin, end - begin));
    digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
    return digits;
  }

  size_t LexInteger(size_t decimal_end) {
    size_t begin = position_;
    size_t end = decimal_end;
    int base = 10;
    if (source_[begin] == '0') {
      // Decimal numbers don't start with 0, unless they are 0: "012" is 0 and 12.
      end = DigitsEnd(begin, [](char c) { return c == '0'; });
      const char marker =
          begin + 1 < source_.size() ? static_cast<char>(std::tolower(source_[begin + 1])) : '\0';
      const int prefixed = marker == 'x' ? 16 : marker == 'o' ? 8 : marker == 'b' ? 2 : 0;
      if (prefixed != 0) {
        const auto is_digit = [prefixed](char c) {
          if (prefixed == 16) return std::isxdigit(static_cast<unsigned char>(c)) != 0;
          return c >= '0' && c < '0' + prefixed;
        };
        size_t digits = begin + 2;
        if (digits < source_.size() && source_[digits] == '_') ++digits;
        const size_t digits_end = DigitsEnd(digits, is_digit);
        if (digits_end > digits) {
          begin = digits;
          end = digits_end;
          base = prefixed;
        }
      }
    }
    const std::string digits = WithoutUnderscores(begin, end);
    errno = 0;
    const int64_t value = std::strtoll(digits.c_str(), nullptr, base);
    if (errno != 0) Fail(absl::StrCat("the integer ", digits, " needs more than 64 bits"));
    Emit(Type::kInteger, digits).integer = value;
    return end;
  }

  bool LexName() {
    size_t end = position_;
    while (end < source_.size()) {
      if (IsNameStart(source_[end]) || (end > position_ && IsDigitChar(source_[end]))) {
        ++end;
        continue;
      }
      size_t next = end;
      const uint32_t c = NextCodePoint(source_, &next);
      if (c < 0x80 || !(IsAlpha(c) || (end > position_ && IsDecimal(c)))) break;
      end = next;
    }
    if (end == position_) return false;
    Emit(Type::kName, source_.substr(position_, end - position_));
    AdvanceTo(end);
    return true;
  }

  bool LexString() {
    const char quote = source_[position_];
    if (quote != '\'' && quote != '"') return false;
    size_t end = position_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size())
      Fail(absl::StrCat("unexpected char ", std::string(1, quote), ", a string without end"));
    std::string error;
    Token& token = Emit(Type::kString, "");
    if (!DecodeStringLiteral(source_.substr(position_ + 1, end - position_ - 1), &token.text,
                             &error)) {
      Fail(error);
    }
    AdvanceTo(end + 1);
    return true;
  }

  void LexOperator(std::string* open_brackets) {
    static constexpr const char* kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                 "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                 ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (const char* symbol : kOperators) {
      if (!absl::StartsWith(source_.substr(position_), symbol)) continue;
      const char c = symbol[0];
      if (c == '(') open_brackets->push_back(')');
      if (c == '[') open_brackets->push_back(']');
      if (c == '{') open_brackets->push_back('}');
      if (c == ')' || c == ']' || c == '}') {
        if (open_brackets->empty()) Fail(absl::StrCat("unexpected '", symbol, "'"));
        if (open_brackets->back() != c) {
          Fail(absl::StrCat("unexpected '", symbol, "', expected '",
                            std::string(1, open_brackets->back()), "'"));
        }
        open_brackets->pop_back();
      }
      const absl::string_view text(symbol);
      Emit(Type::kOperator, text);
      AdvanceTo(position_ + text.size());
      return;
    }
    size_t end = position_;
    NextCodePoint(source_, &end);
    Fail(absl::StrCat("unexpected char '", source_.substr(position_, end - position_), "'"));
  }

  std::string normalized_;
  absl::string_view source_;
  size_t position_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(absl::string_view source) { return Lexer(source).Run(); }

std::string DescribeToken(const Token& token) {
  switch (token.type) {
    case Type::kText:
      return "template data / text";
    case Type::kBlockBegin:
      return "begin of statement block";
    case Type::kBlockEnd:
      return "end of statement block";
    case Type::kVariableBegin:
      return "begin of print statement";
    case Type::kVariableEnd:
      return "end of print statement";
    case Type::kString:
      return "string";
    case Type::kInteger:
      return "integer";
    case Type::kFloat:
      return "float";
    case Type::kEnd:
      return "end of template";
    default:
      return token.text;
  }
}

}  // namespace lorica::jinja
