// The kinds of objects that templates meet.
#ifndef LORICA_TEXT_JINJA_OBJECTS_H_
#define LORICA_TEXT_JINJA_OBJECTS_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lorica/text/jinja/builtins.h"
#include "lorica/text/jinja/interpreter.h"
#include "lorica/text/jinja/object.h"

namespace lorica::jinja {

// namespace(...): the one thing whose attributes a template may set.
class NamespaceObject : public Object {
 public:
  std::string type_name() const override { return "Namespace"; }
  std::optional<Value> GetAttribute(Interpreter& interpreter, absl::string_view name) override;
  void Set(const std::string& name, Value value);  // throws for names that start with "_"
  void Clear() { attributes_ = Dict(); }

 private:
  Dict attributes_;
};

class MacroObject : public Object {
 public:
  MacroObject(std::shared_ptr<const MacroSyntax> macro, ScopePtr scope)
      : syntax(std::move(macro)), closure(std::move(scope)) {}
  std::string type_name() const override { return "Macro"; }
  bool is_callable() const override { return true; }
  Value Call(Interpreter& interpreter, const CallArguments& arguments) override;
  std::optional<Value> GetAttribute(Interpreter& interpreter, absl::string_view name) override;

  std::shared_ptr<const MacroSyntax> syntax;
  ScopePtr closure;  // null once the render is over
};

// A method of a value, looked up and not yet called.
class BoundMethod : public Object {
 public:
  BoundMethod(Value self, std::string name, MethodFunction method)
      : self_(std::move(self)), name_(std::move(name)), method_(method) {}
  std::string type_name() const override { return "builtin_function_or_method"; }
  bool is_callable() const override { return true; }
  Value Call(Interpreter& interpreter, const CallArguments& arguments) override;
  int nesting() const override { return self_.nesting() + 1; }

 private:
  Value self_;
  std::string name_;
  MethodFunction method_;
};

// A method of one of the objects below, such as loop.cycle.
class ObjectMethod : public Object {
 public:
  using Function = Value (*)(Interpreter&, Object& self, const CallArguments&);
  ObjectMethod(std::shared_ptr<Object> self, Function function)
      : self_(std::move(self)), function_(function) {}
  std::string type_name() const override { return "method"; }
  bool is_callable() const override { return true; }
  Value Call(Interpreter& interpreter, const CallArguments& arguments) override {
    return function_(interpreter, *self_, arguments);
  }
  int nesting() const override { return self_->nesting() + 1; }

 private:
  std::shared_ptr<Object> self_;
  Function function_;
};

// A global function.
class FunctionObject : public Object {
 public:
  using Function = Value (*)(Interpreter&, const CallArguments&);
  FunctionObject(std::string name, Function function)
      : name_(std::move(name)), function_(function) {}
  std::string type_name() const override { return "function"; }
  bool is_callable() const override { return true; }
  Value Call(Interpreter& interpreter, const CallArguments& arguments) override {
    return function_(interpreter, arguments);
  }
  std::optional<Value> GetAttribute(Interpreter& interpreter, absl::string_view name) override;

 private:
  std::string name_;
  Function function_;
};

// `loop` inside a for loop, and the state of that loop.
class LoopObject : public Object {
 public:
  LoopObject(const Statement& statement, Value items, ScopePtr outer, int depth);
  std::string type_name() const override { return "LoopContext"; }
  bool is_callable() const override { return true; }
  Value Call(Interpreter& interpreter, const CallArguments& arguments) override;
  std::optional<Value> GetAttribute(Interpreter& interpreter, absl::string_view name) override;
  int nesting() const override { return nesting_; }

  // Moves to the next item that passes the loop's filter; false at the end.
  bool Next(Interpreter& interpreter, Value* item);
  // The loop is over; what still holds this object can no longer run its body.
  void Finish();

  const Statement& statement() const { return statement_; }
  const ScopePtr& outer() const { return outer_; }
  int depth() const { return depth_; }

 private:
  // Fetches the next item into ahead_; whether there was one.
  bool FetchAhead(Interpreter& interpreter);
  Value Cycle(const CallArguments& arguments) const;
  Value Changed(Interpreter& interpreter, const CallArguments& arguments);
  int64_t Length(Interpreter& interpreter);

  const Statement& statement_;
  Value held_;               // keeps items_ alive
  const List* items_;        // all, before the filter
  size_t fetched_ = 0;       // of items_
  std::deque<Value> ahead_;  // fetched and passed, not reached yet
  ScopePtr outer_;
  int depth_;
  int nesting_;
  int64_t index0_ = -1;
  Value current_;
  Value previous_;
  std::optional<List> last_changed_;
};

// cycler(...) and joiner(...).
class CyclerObject : public Object {
 public:
  explicit CyclerObject(const List& items) : items_(items) {}
  std::string type_name() const override { return "Cycler"; }
  std::optional<Value> GetAttribute(Interpreter& interpreter, absl::string_view name) override;
  int nesting() const override { return items_.nesting() + 1; }

 private:
  Value items_;
  size_t position_ = 0;
};

class JoinerObject : public Object {
 public:
  explicit JoinerObject(Value separator) : separator_(std::move(separator)) {}
  std::string type_name() const override { return "Joiner"; }
  bool is_callable() const override { return true; }
  Value Call(Interpreter& interpreter, const CallArguments& arguments) override;
  int nesting() const override { return separator_.nesting() + 1; }

 private:
  Value separator_;
  bool used_ = false;
};

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_OBJECTS_H_
