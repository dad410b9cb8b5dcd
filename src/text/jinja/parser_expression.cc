// The expression half of the parser, loosest binding first.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lorica/text/jinja/builtins.h"
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

// Each is compared with those before it.
constexpr size_t kMaxNamedArguments = 1000;

std::vector<ExpressionPtr> Children(ExpressionPtr a, ExpressionPtr b) {
  std::vector<ExpressionPtr> children;
  children.push_back(std::move(a));
  children.push_back(std::move(b));
  return children;
}

std::vector<ExpressionPtr> Children(ExpressionPtr a) {
  std::vector<ExpressionPtr> children;
  children.push_back(std::move(a));
  return children;
}

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
    std::vector<ExpressionPtr> children = Children(std::move(test), std::move(node));
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
    node = MakeExpression(Kind::kOr, line, Children(std::move(node), ParseAnd()));
  }
  return node;
}

ExpressionPtr Parser::ParseAnd() {
  ExpressionPtr node = ParseNot();
  while (AtName("and")) {
    const int line = Next().line;
    node = MakeExpression(Kind::kAnd, line, Children(std::move(node), ParseNot()));
  }
  return node;
}

ExpressionPtr Parser::ParseNot() {
  std::vector<int> lines;
  while (AtName("not")) lines.push_back(Next().line);
  ExpressionPtr node = ParseCompare();
  for (; !lines.empty(); lines.pop_back()) {
    node = MakeExpression(Kind::kNot, lines.back(), Children(std::move(node)));
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
                          Children(std::move(node), ParseConcatenation()));
  }
  return node;
}

ExpressionPtr Parser::ParseConcatenation() {
  const int line = Current().line;
  std::vector<ExpressionPtr> parts = Children(ParseProduct());
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
    node = MakeExpression(kind, symbol.line, Children(std::move(node), ParsePower()));
  }
  return node;
}

// Left-associative and looser than a sign, unlike Python's.
ExpressionPtr Parser::ParsePower() {
  ExpressionPtr node = ParseUnary(true);
  while (AtOperator("**")) {
    const int line = Next().line;
    node = MakeExpression(Kind::kPower, line, Children(std::move(node), ParseUnary(true)));
  }
  return node;
}

ExpressionPtr Parser::ParseUnary(bool with_filters) {
  ExpressionPtr node;
  if (AtOperator("-") || AtOperator("+")) {
    if (++nesting_ > kMaxNesting) Fail("too many signs in a row");
    const Token sign = Next();
    node = MakeExpression(sign.text == "-" ? Kind::kNegate : Kind::kPlus, sign.line,
                          Children(ParseUnary(false)));
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

ExpressionPtr Parser::ParsePostfix(ExpressionPtr node) {
  while (true) {
    if (AtOperator(".") || AtOperator("[")) {
      node = ParseSubscript(std::move(node));
    } else if (AtOperator("(")) {
      node = ParseCall(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr Parser::ParseFiltersAndTests(ExpressionPtr node) {
  while (true) {
    if (SkipOperator("|")) {
      node = ParseFilter(std::move(node));
    } else if (AtName("is")) {
      node = ParseTest(std::move(node));
    } else if (AtOperator("(")) {
      node = ParseCall(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr Parser::ParseSubscript(ExpressionPtr node) {
  const Token opening = Next();
  if (opening.text == ".") {
    const Token attribute = Next();
    if (attribute.type == Type::kName) {
      node = MakeExpression(Kind::kGetAttribute, opening.line, Children(std::move(node)));
      node->name = attribute.text;
      return node;
    }
    if (attribute.type != Type::kInteger) {
      throw TemplateError("expected name or number", attribute.line);
    }
    return MakeExpression(
        Kind::kGetItem, opening.line,
        Children(std::move(node), MakeConstant(attribute.integer, attribute.line)));
  }
  std::vector<ExpressionPtr> items;
  std::vector<ExpressionPtr> slice;  // of the last item, where it is one
  while (!AtOperator("]")) {
    if (!items.empty() || !slice.empty()) ExpectOperator(",");
    if (!slice.empty()) Fail("a slice among several subscripts isn't supported");
    ExpressionPtr start;
    if (!AtOperator(":")) {
      start = ParseExpression();
      if (!AtOperator(":")) {
        items.push_back(std::move(start));
        continue;
      }
    }
    if (!items.empty()) Fail("a slice among several subscripts isn't supported");
    slice.push_back(std::move(start));
    for (int part = 0; part < 2; ++part) {
      ExpressionPtr bound;
      if (SkipOperator(":") && !AtOperator(":") && !AtOperator("]") && !AtOperator(",")) {
        bound = ParseExpression();
      }
      slice.push_back(std::move(bound));
    }
  }
  ExpectOperator("]");
  if (!slice.empty()) {
    slice.insert(slice.begin(), std::move(node));
    return MakeExpression(Kind::kSlice, opening.line, std::move(slice));
  }
  ExpressionPtr index = items.size() == 1
                            ? std::move(items[0])
                            : MakeExpression(Kind::kTuple, opening.line, std::move(items));
  return MakeExpression(Kind::kGetItem, opening.line, Children(std::move(node), std::move(index)));
}

std::unique_ptr<CallSyntax> Parser::ParseCallArguments() {
  ExpectOperator("(");
  auto call = std::make_unique<CallSyntax>();
  const auto ensure = [this](bool condition) {
    if (!condition) Fail("invalid syntax for function call expression");
  };
  bool first = true;
  while (!AtOperator(")")) {
    if (!first) {
      ExpectOperator(",");
      if (AtOperator(")")) break;
    }
    first = false;
    if (SkipOperator("*")) {
      ensure(call->star == nullptr && call->double_star == nullptr);
      call->star = ParseExpression();
    } else if (SkipOperator("**")) {
      ensure(call->double_star == nullptr);
      call->double_star = ParseExpression();
    } else if (Current().type == Type::kName && Ahead().type == Type::kOperator &&
               Ahead().text == "=") {
      ensure(call->double_star == nullptr);
      std::string name = Next().text;
      ++position_;
      if (call->named.size() > kMaxNamedArguments) Fail("too many keyword arguments");
      for (const auto& earlier : call->named) {
        if (earlier.first == name) Fail(absl::StrCat("keyword argument repeated: ", name));
      }
      ExpressionPtr value = ParseExpression();
      call->named.emplace_back(std::move(name), std::move(value));
    } else {
      ensure(call->star == nullptr && call->double_star == nullptr && call->named.empty());
      call->positional.push_back(ParseExpression());
    }
  }
  ExpectOperator(")");
  return call;
}

ExpressionPtr Parser::ParseCall(ExpressionPtr node) {
  const int line = Current().line;
  node = MakeExpression(Kind::kCall, line, Children(std::move(node)));
  node->call = ParseCallArguments();
  return Sealed(std::move(node));
}

// Behind the bar: a name and its arguments.
ExpressionPtr Parser::ParseFilter(ExpressionPtr node) {
  const int line = Current().line;
  std::string name = ExpectAnyName();
  while (SkipOperator(".")) absl::StrAppend(&name, ".", ExpectAnyName());
  const FilterFunction filter = FindFilter(name);
  if (condition_depth_ == 0 && filter == nullptr) {
    Fail(absl::StrCat("No filter named '", name, "'."));
  }
  node = MakeExpression(Kind::kFilter, line, Children(std::move(node)));
  node->filter = filter;
  node->name = std::move(name);
  node->call = AtOperator("(") ? ParseCallArguments() : std::make_unique<CallSyntax>();
  return Sealed(std::move(node));
}

// Whether a test's one argument follows without parentheses: `x is divisibleby 3`.
bool Parser::AtTestArgument() const {
  switch (Current().type) {
    case Type::kName:
      return !AtName("else") && !AtName("or") && !AtName("and");
    case Type::kString:
    case Type::kInteger:
    case Type::kFloat:
      return true;
    default:
      return AtOperator("[") || AtOperator("{");
  }
}

ExpressionPtr Parser::ParseTest(ExpressionPtr node) {
  const int line = Next().line;
  const bool negated = SkipName("not");
  std::string name = ExpectAnyName();
  while (SkipOperator(".")) absl::StrAppend(&name, ".", ExpectAnyName());
  const TestFunction test = FindTest(name);
  if (condition_depth_ == 0 && test == nullptr) {
    Fail(absl::StrCat("No test named '", name, "'."));
  }
  node = MakeExpression(Kind::kTest, line, Children(std::move(node)));
  node->test = test;
  node->name = std::move(name);
  if (AtOperator("(")) {
    node->call = ParseCallArguments();
  } else {
    node->call = std::make_unique<CallSyntax>();
    if (AtTestArgument()) {
      if (AtName("is")) Fail("You cannot chain multiple tests with is");
      node->call->positional.push_back(ParsePostfix(ParsePrimary()));
    }
  }
  node = Sealed(std::move(node));
  if (!negated) return node;
  return MakeExpression(Kind::kNot, line, Children(std::move(node)));
}

}  // namespace lorica::jinja
