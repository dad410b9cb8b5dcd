// Walks the tree of a template and writes its output: one object per render.
//
// Scopes follow jinja2: `if` bodies share their surroundings; loops, macros, set, call, filter,
// with and generation blocks have a scope of their own whose assignments end with it, a loop a
// fresh one for each item. Macros see the variables around their definition as they are when the
// macro runs.
#ifndef LORICA_TEXT_JINJA_INTERPRETER_H_
#define LORICA_TEXT_JINJA_INTERPRETER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lorica/text/jinja/ast.h"
#include "lorica/text/jinja/error.h"
#include "lorica/text/jinja/object.h"
#include "lorica/text/jinja/template.h"

namespace lorica::jinja {

class LoopObject;
class MacroObject;
class NamespaceObject;

struct Scope {
  explicit Scope(std::shared_ptr<Scope> outer) : parent(std::move(outer)) {}
  std::vector<std::pair<Symbol, Value>> variables;
  std::shared_ptr<Scope> parent;
};
using ScopePtr = std::shared_ptr<Scope>;

class Interpreter {
 public:
  // Holds on to all three.
  Interpreter(const Template::Program& program, const Value& context, const RenderOptions& options);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Once. Throws TemplateError without a line; line() tells where.
  RenderResult Run();
  int line() const { return line_; }

  // ---- For filters, methods and objects
  Budget& budget() { return budget_; }
  const RenderOptions& options() const { return options_; }
  // `value.name` and `value[index]` as templates see them: attributes and items stand in for each
  // other.
  Value GetAttribute(const Value& value, absl::string_view name);
  Value GetItem(const Value& value, const Value& index);
  Value Call(const Value& callee, const CallArguments& arguments);
  Value Apply(FilterFunction filter, const Value& input, const CallArguments& arguments);
  Value CallMacro(const MacroObject& macro, const CallArguments& arguments);
  // The output of a recursive loop's body over `items`, one level down.
  Value CallLoop(const LoopObject& loop, const Value& items);
  // Whether `item` passes the `if` of a loop, evaluated in the loop's surroundings.
  bool PassesFilter(const Statement& loop, const ScopePtr& outer, const Value& item);
  // Namespaces and macros may end up in cycles; the interpreter owns them and cuts those at its
  // end.
  void Keep(std::shared_ptr<NamespaceObject> object);

 private:
  enum class Flow : uint8_t { kNormal, kBreak, kContinue };
  class DepthGuard;
  class ScopeGuard;

  // ---- Statements (interpreter.cc)
  Flow Execute(const Body& body);
  Flow Execute(const Statement& statement);
  Flow ExecuteIf(const Statement& statement);
  Flow ExecuteFor(const Statement& statement);
  Flow RunLoop(const Statement& statement, const Value& items, int depth);
  Flow ExecuteSetBlock(const Statement& statement);
  Flow ExecuteFilterBlock(const Statement& statement);
  Flow ExecuteWith(const Statement& statement);
  void ExecuteCallBlock(const Statement& statement);
  void ExecuteGeneration(const Statement& statement);
  void Write(absl::string_view text);
  // What `body` writes, taken out of the output.
  Flow Capture(const Body& body, std::string* text);
  std::shared_ptr<MacroObject> MakeMacro(std::shared_ptr<const MacroSyntax> syntax);

  // ---- Variables (interpreter.cc)
  Value Lookup(Symbol symbol);
  void Assign(Symbol symbol, Value value);
  void Assign(const Target& target, const Value& value);

  // ---- Expressions (evaluate.cc)
  Value Evaluate(const Expression& node);
  Value EvaluateChild(const Expression& node, size_t i) { return Evaluate(*node.children[i]); }
  Value EvaluateOptional(const ExpressionPtr& node);
  Value EvaluateBinary(const Expression& node);
  Value EvaluateCompare(const Expression& node);
  Value EvaluateConcatenation(const Expression& node);
  Value EvaluateDict(const Expression& node);
  Value EvaluateCall(const Expression& node, const Value* caller);
  // `block_text` is the input of the innermost filter without one.
  Value EvaluateFilter(const Expression& node, const std::string* block_text);
  CallArguments EvaluateArguments(const CallSyntax& call);

  const Template::Program& program_;
  const RenderOptions& options_;
  const Value& context_;
  Budget budget_;
  int depth_ = 0;
  int line_ = 0;

  ScopePtr root_;
  ScopePtr scope_;
  // By symbol: what the context or the globals hold under that name, looked up once.
  std::vector<Value> outer_values_;
  std::vector<bool> outer_known_;

  std::string* out_ = nullptr;
  int captures_ = 0;  // blocks around that take the output away
  bool in_generation_ = false;
  RenderResult result_;

  std::vector<std::shared_ptr<NamespaceObject>> namespaces_;
  std::vector<std::shared_ptr<MacroObject>> macros_;
};

// Counts nested evaluation as long as it lives.
class Interpreter::DepthGuard {
 public:
  explicit DepthGuard(Interpreter* interpreter) : interpreter_(interpreter) {
    const int limit = interpreter->budget_.limits().depth;
    if (++interpreter->depth_ > limit) {
      throw LimitError(absl::StrCat("the template nests more than ", limit,
                                    " evaluations (endless recursion?)"));
    }
    interpreter->budget_.Step();
  }
  ~DepthGuard() { --interpreter_->depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  Interpreter* interpreter_;
};

// Swaps the current scope for another one as long as it lives.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter* interpreter, ScopePtr scope)
      : interpreter_(interpreter), saved_(std::exchange(interpreter->scope_, std::move(scope))) {}
  ~ScopeGuard() { interpreter_->scope_ = std::move(saved_); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Interpreter* interpreter_;
  ScopePtr saved_;
};

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_INTERPRETER_H_
