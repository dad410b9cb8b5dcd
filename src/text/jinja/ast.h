// The parsed form of a template.
#ifndef LORICA_TEXT_JINJA_AST_H_
#define LORICA_TEXT_JINJA_AST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lorica/text/jinja/builtins.h"
#include "lorica/text/jinja/template.h"
#include "lorica/text/jinja/value.h"

namespace lorica::jinja {

// A variable's name, as an index into Program::symbols.
using Symbol = int;

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using Body = std::vector<std::unique_ptr<Statement>>;

// f(a, name=b, *c, **d)
struct CallSyntax {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr star;
  ExpressionPtr double_star;
};

enum class CompareOperator : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Expression {
  enum class Kind : uint8_t {
    kConstant,  // constant
    kName,      // symbol
    kList,      // children
    kTuple,     // children
    kDict,      // children: key, value, key, value, ...
    kNegate,    // child
    kPlus,      // child
    kNot,       // child
    kAdd,       // two children, so all binary operators
    kSubtract,
    kMultiply,
    kDivide,
    kFloorDivide,
    kModulo,
    kPower,
    kAnd,
    kOr,
    kConcatenate,   // children (a ~ b ~ c)
    kCompare,       // children[0] comparisons[0] children[1] comparisons[1] ...
    kConditional,   // children: test, then, else (null where absent)
    kGetAttribute,  // child, name
    kGetItem,       // child, index
    kSlice,         // child, start, stop, step (null where absent)
    kCall,          // child, call
    kFilter,        // child (null inside a filter or set block: the block's text), name, call
    kTest,          // child, name, call
  };

  Kind kind;
  int line = 0;
  int depth = 1;  // nodes on the longest way down
  Symbol symbol = -1;
  std::string name;
  Value constant;
  std::vector<ExpressionPtr> children;
  std::vector<CompareOperator> comparisons;
  std::unique_ptr<CallSyntax> call;
  // What `name` stands for, of kFilter and kTest; null where there is no such filter or test.
  FilterFunction filter = nullptr;
  TestFunction test = nullptr;
};

// The left side of an assignment: a name, an attribute of a namespace, or a tuple of those.
struct Target {
  int line = 0;
  Symbol symbol = -1;
  std::string attribute;  // `symbol.attribute`, where not empty
  std::vector<Target> parts;
  bool is_tuple = false;
};

struct MacroSyntax {
  std::string name;
  std::vector<Symbol> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  Body body;
  // Whether the body mentions these without their being parameters: only then does the macro accept
  // them.
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

struct Statement {
  enum class Kind : uint8_t {
    kText,         // text
    kOutput,       // expressions
    kIf,           // branches (test null: else)
    kFor,          // target, expressions: iterable, filter (or null); body, else_body, recursive
    kSet,          // target, expressions: value
    kSetBlock,     // target, expressions: filter (or null); body
    kMacro,        // symbol, macro
    kCallBlock,    // macro (the caller), expressions: call
    kFilterBlock,  // expressions: filter; body
    kWith,         // targets, expressions; body
    kGeneration,   // macro (no parameters)
    kBlock,        // body
    kBreak,
    kContinue,
    kUnsupported,  // text: the tag's name
  };

  struct Branch {
    ExpressionPtr test;
    Body body;
  };

  Kind kind;
  int line = 0;
  std::string text;
  Symbol symbol = -1;
  std::vector<ExpressionPtr> expressions;
  Target target;
  std::vector<Target> targets;
  std::vector<Branch> branches;
  Body body;
  Body else_body;
  bool recursive = false;
  bool scoped = false;
  std::shared_ptr<const MacroSyntax> macro;
};

struct Template::Program {
  // The names that the interpreter itself binds come first, in this order.
  enum : Symbol { kLoop, kCaller, kVarargs, kKwargs, kFirstFree };

  std::vector<std::string> symbols{"loop", "caller", "varargs", "kwargs"};
  Body body;
  bool has_generation = false;
};

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_AST_H_
