// From tokens to the tree of ast.h. The grammar is that of jinja2's own parser (operator
// precedence, where tuples may stand without parentheses, what a test takes as its argument).
#ifndef LORICA_TEXT_JINJA_PARSER_H_
#define LORICA_TEXT_JINJA_PARSER_H_

#include <initializer_list>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/strings/string_view.h"
#include "lorica/text/jinja/ast.h"
#include "lorica/text/jinja/lexer.h"

namespace lorica::jinja {

// Throws TemplateError with the line.
std::shared_ptr<const Template::Program> ParseTemplate(absl::string_view source);

// The parser itself; statements are in parser.cc, expressions in parser_expression.cc and
// parser_postfix.cc, the way through the tokens in parser_tokens.cc.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens);
  std::shared_ptr<const Template::Program> Run();

 private:
  using Words = std::initializer_list<const char*>;
  class Nesting;  // counts recursion

  // ---- Tokens
  const Token& Current() const { return tokens_[position_]; }
  const Token& Ahead() const;
  Token Next();
  bool AtOperator(absl::string_view symbol) const;
  bool AtName(absl::string_view name) const;
  bool SkipOperator(absl::string_view symbol);
  bool SkipName(absl::string_view name);
  void ExpectOperator(absl::string_view symbol);
  void ExpectName(absl::string_view name);
  std::string ExpectAnyName();
  void ExpectBlockEnd();
  [[noreturn]] void Fail(const std::string& message) const;
  [[noreturn]] void FailExpected(const std::string& expected) const;

  Symbol Intern(const std::string& name);

  // ---- Statements
  // Until a tag with one of the names `ends`, which is left current; to the end of the template
  // where there are none.
  Body ParseBody(Words ends, absl::string_view opened_by);
  // The rest of a tag's line and its body up to {% end %}, which is consumed.
  Body ParseBlock(const char* end, absl::string_view opened_by);
  void ParseOutput(Body* body);
  std::unique_ptr<Statement> ParseStatement();
  std::unique_ptr<Statement> ParseIf();
  std::unique_ptr<Statement> ParseFor();
  std::unique_ptr<Statement> ParseSet();
  std::unique_ptr<Statement> ParseMacro();
  std::unique_ptr<Statement> ParseCallBlock();
  std::unique_ptr<Statement> ParseFilterBlock();
  std::unique_ptr<Statement> ParseWith();
  std::unique_ptr<Statement> ParseGeneration();
  std::unique_ptr<Statement> ParseNamedBlock();
  std::unique_ptr<Statement> ParsePrint();
  std::unique_ptr<Statement> ParseLoopControl(Statement::Kind kind);
  std::unique_ptr<Statement> ParseUnsupported(bool has_body);
  std::unique_ptr<Statement> Make(Statement::Kind kind) const;
  void ParseSignature(MacroSyntax* macro);
  // The body of a macro, call block or generation block, in which loops outside can't be left.
  void ParseMacroBody(const char* end, absl::string_view opened_by, MacroSyntax* macro);
  Target ParseTarget(Words ends, bool with_attributes);
  Target ParseTargetPart(bool with_attributes);

  // ---- Expressions
  ExpressionPtr ParseExpression();
  ExpressionPtr ParseOr();
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseCompare();
  ExpressionPtr ParseSum();
  ExpressionPtr ParseConcatenation();
  ExpressionPtr ParseProduct();
  ExpressionPtr ParsePower();
  ExpressionPtr ParseUnary(bool with_filters);
  ExpressionPtr ParsePrimary();
  ExpressionPtr ParseDict();
  ExpressionPtr ParseList();
  // One expression, or a tuple where commas follow. `with_conditional`: whether "a if b else c" may
  // occur.
  ExpressionPtr ParseTuple(bool with_conditional, bool in_parentheses, Words ends = {});
  ExpressionPtr ParsePostfix(ExpressionPtr node);
  ExpressionPtr ParseFiltersAndTests(ExpressionPtr node);
  ExpressionPtr ParseSubscript(ExpressionPtr node);
  ExpressionPtr ParseCall(ExpressionPtr node);
  ExpressionPtr ParseFilter(ExpressionPtr node);
  ExpressionPtr ParseTest(ExpressionPtr node);
  std::unique_ptr<CallSyntax> ParseCallArguments();
  bool AtTupleEnd(Words ends) const;
  bool AtTestArgument() const;

  ExpressionPtr MakeExpression(Expression::Kind kind, int line,
                               std::vector<ExpressionPtr> children = {}) const;
  ExpressionPtr MakeConstant(Value value, int line) const;
  // Sets the depth of `node` from its parts and refuses one that is too deep.
  ExpressionPtr Sealed(ExpressionPtr node) const;

  std::vector<Token> tokens_;
  size_t position_ = 0;
  std::shared_ptr<Template::Program> program_;
  std::unordered_map<std::string, Symbol> symbols_;
  std::unordered_set<std::string> blocks_;  // names of {% block %}
  int nesting_ = 0;
  int loop_depth_ = 0;       // loops around the current tag, up to the nearest macro
  int condition_depth_ = 0;  // ifs around: only outside of them must filters and tests exist
};

// `parts` as the children of a node.
template <typename... Parts>
std::vector<ExpressionPtr> ChildList(Parts... parts) {
  std::vector<ExpressionPtr> children;
  (children.push_back(std::move(parts)), ...);
  return children;
}

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_PARSER_H_
