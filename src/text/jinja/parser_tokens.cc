// How the parser moves through its tokens.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lorica/text/jinja/error.h"
#include "lorica/text/jinja/parser.h"

namespace lorica::jinja {

using Type = Token::Type;

// --------------------------------------------------------------------------------------------------

const Token& Parser::Ahead() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }

Token Parser::Next() {
  const Token token = Current();
  if (token.type != Type::kEnd) ++position_;
  return token;
}

bool Parser::AtOperator(absl::string_view symbol) const {
  return Current().type == Type::kOperator && Current().text == symbol;
}

bool Parser::AtName(absl::string_view name) const {
  return Current().type == Type::kName && Current().text == name;
}

bool Parser::SkipOperator(absl::string_view symbol) {
  if (!AtOperator(symbol)) return false;
  ++position_;
  return true;
}

bool Parser::SkipName(absl::string_view name) {
  if (!AtName(name)) return false;
  ++position_;
  return true;
}

void Parser::ExpectOperator(absl::string_view symbol) {
  if (!SkipOperator(symbol)) FailExpected(std::string(symbol));
}

void Parser::ExpectName(absl::string_view name) {
  if (!SkipName(name)) FailExpected(std::string(name));
}

std::string Parser::ExpectAnyName() {
  if (Current().type != Type::kName) FailExpected("name");
  return Next().text;
}

void Parser::ExpectBlockEnd() {
  if (Current().type != Type::kBlockEnd) FailExpected("end of statement block");
  ++position_;
}

void Parser::Fail(const std::string& message) const {
  throw TemplateError(message, Current().line);
}

void Parser::FailExpected(const std::string& expected) const {
  if (Current().type == Type::kEnd) {
    Fail(absl::StrCat("unexpected end of template, expected '", expected, "'"));
  }
  Fail(absl::StrCat("expected token '", expected, "', got '", DescribeToken(Current()), "'"));
}

Symbol Parser::Intern(const std::string& name) {
  const auto [entry, is_new] =
      symbols_.try_emplace(name, static_cast<Symbol>(program_->symbols.size()));
  if (is_new) program_->symbols.push_back(name);
  return entry->second;
}

}  // namespace lorica::jinja
