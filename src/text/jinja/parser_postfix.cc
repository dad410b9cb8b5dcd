// What follows a primary expression: subscripts, calls, filters and tests.
#include "absl/strings/str_cat.h"
#include "lorica/text/jinja/builtins.h"
#include "lorica/text/jinja/error.h"
#include "lorica/text/jinja/parser.h"

namespace lorica::jinja {

namespace {

using Type = Token::Type;
using Kind = Expression::Kind;

// Each is compared with those before it.
constexpr size_t kMaxNamedArguments = 1000;

}  // namespace

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
      node = MakeExpression(Kind::kGetAttribute, opening.line, ChildList(std::move(node)));
      node->name = attribute.text;
      return node;
    }
    if (attribute.type != Type::kInteger) {
      throw TemplateError("expected name or number", attribute.line);
    }
    return MakeExpression(
        Kind::kGetItem, opening.line,
        ChildList(std::move(node), MakeConstant(attribute.integer, attribute.line)));
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
  return MakeExpression(Kind::kGetItem, opening.line, ChildList(std::move(node), std::move(index)));
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
  node = MakeExpression(Kind::kCall, line, ChildList(std::move(node)));
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
  node = MakeExpression(Kind::kFilter, line, ChildList(std::move(node)));
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
  node = MakeExpression(Kind::kTest, line, ChildList(std::move(node)));
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
  return MakeExpression(Kind::kNot, line, ChildList(std::move(node)));
}

}  // namespace lorica::jinja
