#include "lorica/text/jinja/parser.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lorica/text/jinja/error.h"

namespace lorica::jinja {

namespace {

using Type = Token::Type;
using Kind = Statement::Kind;

// Tags within tags, parentheses within parentheses: Python's own parser stops at about 200.
constexpr int kMaxNesting = 150;

bool Contains(std::initializer_list<const char*> words, const std::string& word) {
  return std::any_of(words.begin(), words.end(), [&](const char* w) { return word == w; });
}

}  // namespace

class Parser::Nesting {
 public:
  explicit Nesting(Parser* parser) : parser_(parser) {
    if (++parser_->nesting_ > kMaxNesting) {
      parser_->Fail(absl::StrCat("tags or parentheses nest more than ", kMaxNesting, " levels"));
    }
  }
  ~Nesting() { --parser_->nesting_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  Parser* parser_;
};

std::shared_ptr<const Template::Program> ParseTemplate(absl::string_view source) {
  return Parser(Tokenize(source)).Run();
}

Parser::Parser(std::vector<Token> tokens)
    : tokens_(std::move(tokens)), program_(std::make_shared<Template::Program>()) {
  for (size_t i = 0; i < program_->symbols.size(); ++i) {
    symbols_[program_->symbols[i]] = static_cast<Symbol>(i);
  }
}

std::shared_ptr<const Template::Program> Parser::Run() {
  program_->body = ParseBody({}, "");
  return program_;
}

// ---- Statements
// ------------------------------------------------------------------------------------------------

std::unique_ptr<Statement> Parser::Make(Kind kind) const {
  auto statement = std::make_unique<Statement>();
  statement->kind = kind;
  statement->line = Current().line;
  return statement;
}

Body Parser::ParseBody(Words ends, absl::string_view opened_by) {
  const Nesting nesting(this);
  Body body;
  while (true) {
    switch (Current().type) {
      case Type::kText: {
        auto text = Make(Kind::kText);
        text->text = Next().text;
        body.push_back(std::move(text));
        break;
      }
      case Type::kVariableBegin:
        ParseOutput(&body);
        break;
      case Type::kBlockBegin:
        ++position_;
        if (Current().type == Type::kName && Contains(ends, Current().text)) return body;
        if (Current().type != Type::kName) Fail("tag name expected");
        if (auto statement = ParseStatement(); statement != nullptr) {
          body.push_back(std::move(statement));
          ExpectBlockEnd();
          break;
        }
        if (ends.size() == 0) {
          Fail(absl::StrCat("Encountered unknown tag '", Current().text, "'."));
        }
        Fail(absl::StrCat("Encountered unknown tag '", Current().text,
                          "'. Jinja was looking for the following tags: '",
                          absl::StrJoin(ends, "' or '"),
                          "'. The innermost block that needs to be closed is '", opened_by, "'."));
      default:
        if (ends.size() != 0) {
          Fail(absl::StrCat(
              "Unexpected end of template. Jinja was looking for the following tags: '",
              absl::StrJoin(ends, "' or '"), "'. The innermost block that needs to be closed is '",
              opened_by, "'."));
        }
        return body;
    }
  }
}

Body Parser::ParseBlock(const char* end, absl::string_view opened_by) {
  SkipOperator(":");
  ExpectBlockEnd();
  Body body = ParseBody({end}, opened_by);
  ++position_;
  return body;
}

void Parser::ParseOutput(Body* body) {
  auto output = Make(Kind::kOutput);
  ++position_;
  output->expressions.push_back(ParseTuple(true, false));
  if (Current().type != Type::kVariableEnd) FailExpected("end of print statement");
  ++position_;
  body->push_back(std::move(output));
}

// Null for an unknown tag, which is left current.
std::unique_ptr<Statement> Parser::ParseStatement() {
  const std::string& tag = Current().text;
  if (tag == "if") return ParseIf();
  if (tag == "for") return ParseFor();
  if (tag == "set") return ParseSet();
  if (tag == "macro") return ParseMacro();
  if (tag == "call") return ParseCallBlock();
  if (tag == "filter") return ParseFilterBlock();
  if (tag == "with") return ParseWith();
  if (tag == "generation") return ParseGeneration();
  if (tag == "block") return ParseNamedBlock();
  if (tag == "print") return ParsePrint();
  if (tag == "break") return ParseLoopControl(Kind::kBreak);
  if (tag == "continue") return ParseLoopControl(Kind::kContinue);
  if (tag == "autoescape") return ParseUnsupported(true);
  if (tag == "extends" || tag == "include" || tag == "import" || tag == "from") {
    return ParseUnsupported(false);
  }
  return nullptr;
}

std::unique_ptr<Statement> Parser::ParseIf() {
  auto statement = Make(Kind::kIf);
  ++condition_depth_;
  bool has_else = false;
  for (bool more = true; more;) {
    ++position_;  // if, elif or else
    Statement::Branch branch;
    if (!has_else) branch.test = ParseTuple(false, false);
    SkipOperator(":");
    ExpectBlockEnd();
    branch.body =
        has_else ? ParseBody({"endif"}, "if") : ParseBody({"elif", "else", "endif"}, "if");
    statement->branches.push_back(std::move(branch));
    more = !AtName("endif");
    has_else = AtName("else");
  }
  ++position_;
  --condition_depth_;
  return statement;
}

std::unique_ptr<Statement> Parser::ParseFor() {
  auto statement = Make(Kind::kFor);
  ++position_;
  statement->target = ParseTarget({"in"}, false);
  ExpectName("in");
  statement->expressions.push_back(ParseTuple(false, false, {"recursive"}));
  statement->expressions.push_back(SkipName("if") ? ParseExpression() : nullptr);
  statement->recursive = SkipName("recursive");
  SkipOperator(":");
  ExpectBlockEnd();
  ++loop_depth_;
  statement->body = ParseBody({"endfor", "else"}, "for");
  --loop_depth_;
  if (Next().text == "else") statement->else_body = ParseBlock("endfor", "for");
  return statement;
}

std::unique_ptr<Statement> Parser::ParseSet() {
  auto statement = Make(Kind::kSet);
  ++position_;
  statement->target = ParseTarget({}, true);
  if (SkipOperator("=")) {
    statement->expressions.push_back(ParseTuple(true, false));
    return statement;
  }
  statement->kind = Kind::kSetBlock;
  ExpressionPtr filter;
  while (SkipOperator("|")) filter = ParseFilter(std::move(filter));
  statement->expressions.push_back(std::move(filter));
  statement->body = ParseBlock("endset", "set");
  return statement;
}

Target Parser::ParseTargetPart(bool with_attributes) {
  Target target;
  target.line = Current().line;
  if (SkipOperator("(")) {
    const Nesting nesting(this);
    target = ParseTarget({}, with_attributes);
    ExpectOperator(")");
    return target;
  }
  if (Current().type != Type::kName) {
    Fail(absl::StrCat("can't assign to '", DescribeToken(Current()), "'"));
  }
  const std::string name = Next().text;
  if (Contains({"true", "false", "none", "True", "False", "None"}, name)) {
    throw TemplateError(absl::StrCat("can't assign to '", name, "'"), target.line);
  }
  target.symbol = Intern(name);
  if (with_attributes && SkipOperator(".")) {
    target.attribute = ExpectAnyName();
  } else if (name == "loop" && loop_depth_ > 0) {
    throw TemplateError("Can't assign to special loop variable in for-loop target", target.line);
  }
  return target;
}

Target Parser::ParseTarget(Words ends, bool with_attributes) {
  Target first = ParseTargetPart(with_attributes);
  if (!AtOperator(",")) return first;
  Target tuple;
  tuple.line = first.line;
  tuple.is_tuple = true;
  tuple.parts.push_back(std::move(first));
  while (SkipOperator(",")) {
    if (AtTupleEnd(ends) || AtOperator("=")) break;
    tuple.parts.push_back(ParseTargetPart(with_attributes));
  }
  return tuple;
}

void Parser::ParseSignature(MacroSyntax* macro) {
  ExpectOperator("(");
  while (!AtOperator(")")) {
    if (!macro->parameters.empty()) ExpectOperator(",");
    const Symbol name = Intern(ExpectAnyName());
    if (std::find(macro->parameters.begin(), macro->parameters.end(), name) !=
        macro->parameters.end()) {
      Fail(absl::StrCat("duplicate argument '", program_->symbols[static_cast<size_t>(name)],
                        "' of a macro"));
    }
    macro->parameters.push_back(name);
    if (SkipOperator("=")) {
      macro->defaults.push_back(ParseExpression());
    } else if (!macro->defaults.empty()) {
      Fail("non-default argument follows default argument");
    }
  }
  ExpectOperator(")");
}

void Parser::ParseMacroBody(const char* end, absl::string_view opened_by, MacroSyntax* macro) {
  const int outer_loops = std::exchange(loop_depth_, 0);
  const int outer_conditions = std::exchange(condition_depth_, 0);
  const size_t begin = position_;
  macro->body = ParseBlock(end, opened_by);
  loop_depth_ = outer_loops;
  condition_depth_ = outer_conditions;
  const auto uses = [&](Symbol symbol) {
    const std::string& name = program_->symbols[static_cast<size_t>(symbol)];
    const bool is_parameter = std::find(macro->parameters.begin(), macro->parameters.end(),
                                        symbol) != macro->parameters.end();
    return !is_parameter && std::any_of(tokens_.begin() + static_cast<ptrdiff_t>(begin),
                                        tokens_.begin() + static_cast<ptrdiff_t>(position_),
                                        [&](const Token& token) {
                                          return token.type == Type::kName && token.text == name;
                                        });
  };
  macro->uses_caller = uses(Template::Program::kCaller);
  macro->uses_varargs = uses(Template::Program::kVarargs);
  macro->uses_kwargs = uses(Template::Program::kKwargs);
}

std::unique_ptr<Statement> Parser::ParseMacro() {
  auto statement = Make(Kind::kMacro);
  ++position_;
  auto macro = std::make_shared<MacroSyntax>();
  macro->name = ExpectAnyName();
  statement->symbol = Intern(macro->name);
  ParseSignature(macro.get());
  ParseMacroBody("endmacro", "macro", macro.get());
  statement->macro = std::move(macro);
  return statement;
}

std::unique_ptr<Statement> Parser::ParseCallBlock() {
  auto statement = Make(Kind::kCallBlock);
  ++position_;
  auto macro = std::make_shared<MacroSyntax>();
  macro->name = "caller";
  if (AtOperator("(")) ParseSignature(macro.get());
  statement->expressions.push_back(ParseExpression());
  if (statement->expressions[0]->kind != Expression::Kind::kCall) Fail("expected call");
  ParseMacroBody("endcall", "call", macro.get());
  statement->macro = std::move(macro);
  return statement;
}

std::unique_ptr<Statement> Parser::ParseFilterBlock() {
  auto statement = Make(Kind::kFilterBlock);
  ++position_;
  ExpressionPtr filter = ParseFilter(nullptr);
  while (SkipOperator("|")) filter = ParseFilter(std::move(filter));
  statement->expressions.push_back(std::move(filter));
  statement->body = ParseBlock("endfilter", "filter");
  return statement;
}

std::unique_ptr<Statement> Parser::ParseWith() {
  auto statement = Make(Kind::kWith);
  ++position_;
  while (Current().type != Type::kBlockEnd && !AtOperator(":")) {
    if (!statement->targets.empty()) ExpectOperator(",");
    statement->targets.push_back(ParseTargetPart(false));
    ExpectOperator("=");
    statement->expressions.push_back(ParseExpression());
  }
  statement->body = ParseBlock("endwith", "with");
  return statement;
}

std::unique_ptr<Statement> Parser::ParseGeneration() {
  auto statement = Make(Kind::kGeneration);
  ++position_;
  auto macro = std::make_shared<MacroSyntax>();
  ParseMacroBody("endgeneration", "generation", macro.get());
  statement->macro = std::move(macro);
  program_->has_generation = true;
  return statement;
}

std::unique_ptr<Statement> Parser::ParseNamedBlock() {
  auto statement = Make(Kind::kBlock);
  ++position_;
  const std::string name = ExpectAnyName();
  if (!blocks_.insert(name).second) Fail(absl::StrCat("block '", name, "' defined twice"));
  statement->scoped = SkipName("scoped");
  SkipName("required");
  const int outer_loops = std::exchange(loop_depth_, 0);
  statement->body = ParseBlock("endblock", "block");
  loop_depth_ = outer_loops;
  SkipName(name);
  return statement;
}

std::unique_ptr<Statement> Parser::ParsePrint() {
  auto statement = Make(Kind::kOutput);
  ++position_;
  while (Current().type != Type::kBlockEnd) {
    if (!statement->expressions.empty()) ExpectOperator(",");
    statement->expressions.push_back(ParseExpression());
  }
  return statement;
}

std::unique_ptr<Statement> Parser::ParseLoopControl(Kind kind) {
  if (loop_depth_ == 0) Fail(absl::StrCat("'", Current().text, "' outside loop"));
  auto statement = Make(kind);
  ++position_;
  return statement;
}

// Tags that need a loader, or escaping: an error only where they are reached.
std::unique_ptr<Statement> Parser::ParseUnsupported(bool has_body) {
  auto statement = Make(Kind::kUnsupported);
  statement->text = Next().text;
  while (Current().type != Type::kBlockEnd && Current().type != Type::kEnd) ++position_;
  if (has_body) statement->body = ParseBlock("endautoescape", "autoescape");
  return statement;
}

}  // namespace lorica::jinja
