// The expression half of the parser, loosest binding first.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lorica/text/jinja/error.h"
#include "lorica/text/jinja/parser.h"

namespace lorica::jinja {

namespace {

using Type = Token::Type;
using Kind = Expression::Kind;

// Nodes on one way down the tree of an expression: a chain of additions or filters grows it without
// recursion here, but evaluation and destruction recurse.
constexpr int kMaxExpressionDepth = 300;

// Parentheses within parentheses.
constexpr int kMaxNesting = 150;

void Deepen(const ExpressionPtr& part, int* depth) {
  if (part != nullptr) *depth = std::max(*depth, part->depth + 1);
}

}  // namespace

ExpressionPtr Parser::Sealed(ExpressionPtr node) const {
  for (const ExpressionPtr& child : node->children) Deepen(child, &node->depth);
  if (node->call != nullptr) {
    for (const ExpressionPtr& argument : node->call->positional) Deepen(argument, &node->depth);
    for (const auto& argument : node->call->named) Deepen(argument.second, &node->depth);
    Deepen(node->call->star, &node->depth);
    Deepen(node->call->double_star, &node->depth);
  }
  if (node->depth > kMaxExpressionDepth) {
    throw TemplateError(
        absl::StrCat("an expression has more than ", kMaxExpressionDepth, " nested operations"),
        node->line);
  }
  return node;
}

ExpressionPtr Parser::MakeExpression(Kind kind, int line,
                                     std::vector<ExpressionPtr> children) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  node->children = std::move(children);
  return Sealed(std::move(node));
}

ExpressionPtr Parser::MakeConstant(Value value, int line) const {
  ExpressionPtr node = MakeExpression(Kind::kConstant, line);
  node->constant = std::move(value);
  return node;
}

ExpressionPtr Parser::ParseExpression() {
  if (++nesting_ > kMaxNesting) {
    Fail(absl::StrCat("parentheses nest more than ", kMaxNesting, " levels"));
  }
  const int line = Current().line;
  ExpressionPtr node = ParseOr();
  while (SkipName("if")) {
    ++condition_depth_;
    ExpressionPtr test = ParseOr();
    ExpressionPtr otherwise = SkipName("else") ? ParseExpression() : nullptr;
    --condition_depth_;
    std::vector<ExpressionPtr> children = ChildList(std::move(test), std::move(node));
    children.push_back(std::move(otherwise));
    node = MakeExpression(Kind::kConditional, line, std::move(children));
  }
  --nesting_;
  return node;
}

ExpressionPtr Parser::ParseOr() {
  ExpressionPtr node = ParseAnd();
  while (AtName("or")) {
    const int line = Next().line;
    node = MakeExpression(Kind::kOr, line, ChildList(std::move(node), ParseAnd()));
  }
  return node;
}

ExpressionPtr Parser::ParseAnd() {
  ExpressionPtr node = ParseNot();
  while (AtName("and")) {
    const int line = Next().line;
    node = MakeExpression(Kind::kAnd, line, ChildList(std::move(node), ParseNot()));
  }
  return node;
}

ExpressionPtr Parser::ParseNot() {
  std::vector<int> lines;
  while (AtName("not")) lines.push_back(Next().line);
  ExpressionPtr node = ParseCompare();
  for (; !lines.empty(); lines.pop_back()) {
    node = MakeExpression(Kind::kNot, lines.back(), ChildList(std::move(node)));
  }
  return node;
}

ExpressionPtr Parser::ParseCompare() {
  static constexpr std::pair<const char*, CompareOperator> kOperators[] = {
      {"==", CompareOperator::kEqual},  {"!=", CompareOperator::kNotEqual},
      {"<", CompareOperator::kLess},    {"<=", CompareOperator::kLessEqual},
      {">", CompareOperator::kGreater}, {">=", CompareOperator::kGreaterEqual},
  };
  const int line = Current().line;
  std::vector<ExpressionPtr> operands;
  std::vector<CompareOperator> comparisons;
  operands.push_back(ParseSum());
  const auto at_comparison = [&](CompareOperator* comparison) {
    for (const auto& [symbol, which] : kOperators) {
      if (!SkipOperator(symbol)) continue;
      *comparison = which;
      return true;
    }
    *comparison = CompareOperator::kIn;
    if (SkipName("in")) return true;
    if (AtName("not") && Ahead().type == Type::kName && Ahead().text == "in") {
      position_ += 2;
      *comparison = CompareOperator::kNotIn;
      return true;
    }
    return false;
  };
  for (CompareOperator comparison; at_comparison(&comparison);) {
    comparisons.push_back(comparison);
    operands.push_back(ParseSum());
  }
  if (comparisons.empty()) return std::move(operands[0]);
  ExpressionPtr node = MakeExpression(Kind::kCompare, line, std::move(operands));
  node->comparisons = std::move(comparisons);
  return node;
}

ExpressionPtr Parser::ParseSum() {
  ExpressionPtr node = ParseConcatenation();
  while (AtOperator("+") || AtOperator("-")) {
    const Token symbol = Next();
    node = MakeExpression(symbol.text == "+" ? Kind::kAdd : Kind::kSubtract, symbol.line,
                          ChildList(std::move(node), ParseConcatenation()));
  }
  return node;
}

ExpressionPtr Parser::ParseConcatenation() {
  const int line = Current().line;
  std::vector<ExpressionPtr> parts = ChildList(ParseProduct());
  while (SkipOperator("~")) parts.push_back(ParseProduct());
  if (parts.size() == 1) return std::move(parts[0]);
  return MakeExpression(Kind::kConcatenate, line, std::move(parts));
}

ExpressionPtr Parser::ParseProduct() {
  ExpressionPtr node = ParsePower();
  while (AtOperator("*") || AtOperator("/") || AtOperator("//") || AtOperator("%")) {
    const Token symbol = Next();
    const Kind kind = symbol.text == "*"    ? Kind::kMultiply
                      : symbol.text == "/"  ? Kind::kDivide
                      : symbol.text == "//" ? Kind::kFloorDivide
                                            : Kind::kModulo;
    node = MakeExpression(kind, symbol.line, ChildList(std::move(node), ParsePower()));
  }
  return node;
}

// Left-associative and looser than a sign, unlike Python's.
ExpressionPtr Parser::ParsePower() {
  ExpressionPtr node = ParseUnary(true);
  while (AtOperator("**")) {
    const int line = Next().line;
    node = MakeExpression(Kind::kPower, line, ChildList(std::move(node), ParseUnary(true)));
  }
  return node;
}

ExpressionPtr Parser::ParseUnary(bool with_filters) {
  ExpressionPtr node;
  if (AtOperator("-") || AtOperator("+")) {
    if (++nesting_ > kMaxNesting) Fail("too many signs in a row");
    const Token sign = Next();
    node = MakeExpression(sign.text == "-" ? Kind::kNegate : Kind::kPlus, sign.line,
                          ChildList(ParseUnary(false)));
    --nesting_;
  } else {
    node = ParsePrimary();
  }
  node = ParsePostfix(std::move(node));
  return with_filters ? ParseFiltersAndTests(std::move(node)) : std::move(node);
}

ExpressionPtr Parser::ParsePrimary() {
  const Token& token = Current();
  const int line = token.line;
  switch (token.type) {
    case Type::kName: {
      const std::string name = Next().text;
      if (name == "true" || name == "True") return MakeConstant(true, line);
      if (name == "false" || name == "False") return MakeConstant(false, line);
      if (name == "none" || name == "None") return MakeConstant(nullptr, line);
      ExpressionPtr node = MakeExpression(Kind::kName, line);
      node->symbol = Intern(name);
      return node;
    }
    case Type::kString: {
      std::string text;  // adjacent literals are one
      while (Current().type == Type::kString) text += Next().text;
      return MakeConstant(std::move(text), line);
    }
    case Type::kInteger:
      return MakeConstant(Next().integer, line);
    case Type::kFloat:
      return MakeConstant(Next().number, line);
    case Type::kOperator:
      if (token.text == "(") {
        ++position_;
        ExpressionPtr node = ParseTuple(true, true);
        ExpectOperator(")");
        return node;
      }
      if (token.text == "[") return ParseList();
      if (token.text == "{") return ParseDict();
      break;
    default:
      break;
  }
  if (token.type == Type::kEnd) Fail("unexpected end of template");
  Fail(absl::StrCat("unexpected '", DescribeToken(token), "'"));
}

ExpressionPtr Parser::ParseList() {
  const int line = Next().line;
  std::vector<ExpressionPtr> items;
  while (!AtOperator("]")) {
    if (!items.empty()) ExpectOperator(",");
    if (AtOperator("]")) break;
    items.push_back(ParseExpression());
  }
  ExpectOperator("]");
  return MakeExpression(Kind::kList, line, std::move(items));
}

ExpressionPtr Parser::ParseDict() {
  const int line = Next().line;
  std::vector<ExpressionPtr> items;
  while (!AtOperator("}")) {
    if (!items.empty()) ExpectOperator(",");
    if (AtOperator("}")) break;
    items.push_back(ParseExpression());
    ExpectOperator(":");
    items.push_back(ParseExpression());
  }
  ExpectOperator("}");
  return MakeExpression(Kind::kDict, line, std::move(items));
}

bool Parser::AtTupleEnd(Words ends) const {
  const Token& token = Current();
  if (token.type == Type::kVariableEnd || token.type == Type::kBlockEnd) return true;
  if (token.type == Type::kOperator && token.text == ")") return true;
  return token.type == Type::kName &&
         std::any_of(ends.begin(), ends.end(), [&](const char* end) { return token.text == end; });
}

ExpressionPtr Parser::ParseTuple(bool with_conditional, bool in_parentheses, Words ends) {
  const int line = Current().line;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) ExpectOperator(",");
    if (AtTupleEnd(ends)) break;
    items.push_back(with_conditional ? ParseExpression() : ParseOr());
    if (!AtOperator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items[0]);
    if (!in_parentheses) {
      Fail(absl::StrCat("Expected an expression, got '", DescribeToken(Current()), "'"));
    }
  }
  return MakeExpression(Kind::kTuple, line, std::move(items));
}

}  // namespace lorica::jinja
