#include "lorica/text/jinja/interpreter.h"

#include <algorithm>

#include "lorica/text/jinja/objects.h"
#include "lorica/text/jinja/operations.h"

namespace lorica::jinja {

Interpreter::Interpreter(const Template::Program& program, const Value& context,
                         const RenderOptions& options)
    : program_(program),
      options_(options),
      context_(context),
      budget_(options.limits),
      root_(std::make_shared<Scope>(nullptr)),
      scope_(root_),
      outer_values_(program.symbols.size()),
      outer_known_(program.symbols.size(), false) {}

Interpreter::~Interpreter() {
  for (const auto& macro : macros_) macro->closure.reset();
  for (const auto& object : namespaces_) object->Clear();
}

RenderResult Interpreter::Run() {
  out_ = &result_.text;
  Execute(program_.body);
  return std::move(result_);
}

// ---- Variables
// ---------------------------------------------------------------------------------------------------

Value Interpreter::Lookup(Symbol symbol) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [name, value] : scope->variables) {
      if (name == symbol) return value;
    }
  }
  const auto i = static_cast<size_t>(symbol);
  if (!outer_known_[i]) {
    const std::string& name = program_.symbols[i];
    const Value* found = context_.is_dict() ? context_.as_dict().FindText(name) : nullptr;
    outer_values_[i] = found != nullptr ? *found : FindGlobal(name);
    if (found == nullptr && outer_values_[i].is_undefined()) {
      outer_values_[i] = Value::Undefined(absl::StrCat("'", name, "' is undefined"));
    }
    outer_known_[i] = true;
  }
  return outer_values_[i];
}

void Interpreter::Assign(Symbol symbol, Value value) {
  for (auto& [name, held] : scope_->variables) {
    if (name == symbol) {
      held = std::move(value);
      return;
    }
  }
  scope_->variables.emplace_back(symbol, std::move(value));
}

void Interpreter::Assign(const Target& target, const Value& value) {
  if (target.is_tuple) {
    RequireDefined(value);
    if (!IsIterable(value)) Raise("cannot unpack non-iterable ", TypeName(value), " object");
    const List parts = ToList(value, budget_);
    if (parts.size() < target.parts.size()) {
      Raise("not enough values to unpack (expected ", target.parts.size(), ", got ", parts.size(),
            ")");
    }
    if (parts.size() > target.parts.size()) {
      Raise("too many values to unpack (expected ", target.parts.size(), ")");
    }
    for (size_t i = 0; i < parts.size(); ++i) Assign(target.parts[i], parts[i]);
    return;
  }
  if (target.attribute.empty()) {
    Assign(target.symbol, value);
    return;
  }
  const Value object = Lookup(target.symbol);
  auto* space = object.is_object() ? dynamic_cast<NamespaceObject*>(&object.as_object()) : nullptr;
  if (space == nullptr) Raise("cannot assign attribute on non-namespace object");
  space->Set(target.attribute, value);
}

void Interpreter::Keep(std::shared_ptr<NamespaceObject> object) {
  budget_.Bytes(sizeof(NamespaceObject) + 64);
  namespaces_.push_back(std::move(object));
}

// ---- Statements
// --------------------------------------------------------------------------------------------------

void Interpreter::Write(absl::string_view text) {
  budget_.Bytes(static_cast<int64_t>(text.size()));
  out_->append(text.data(), text.size());
}

Interpreter::Flow Interpreter::Capture(const Body& body, std::string* text) {
  std::string* const outside = std::exchange(out_, text);
  ++captures_;
  const Flow flow = Execute(body);
  --captures_;
  out_ = outside;
  return flow;
}

Interpreter::Flow Interpreter::Execute(const Body& body) {
  if (++depth_ > budget_.limits().depth) {
    throw LimitError(absl::StrCat("the template nests more than ", budget_.limits().depth,
                                  " evaluations (endless recursion?)"));
  }
  Flow flow = Flow::kNormal;
  for (const auto& statement : body) {
    budget_.Step();
    flow = Execute(*statement);
    if (flow != Flow::kNormal) break;
  }
  --depth_;
  return flow;
}

Interpreter::Flow Interpreter::Execute(const Statement& statement) {
  line_ = statement.line;
  switch (statement.kind) {
    case Statement::Kind::kText:
      Write(statement.text);
      break;
    case Statement::Kind::kOutput:
      for (const ExpressionPtr& expression : statement.expressions) {
        const Value value = Evaluate(*expression);
        if (value.is_string()) {
          Write(value.as_string());
        } else {
          Write(Str(value, budget_));
        }
      }
      break;
    case Statement::Kind::kIf:
      return ExecuteIf(statement);
    case Statement::Kind::kFor:
      return ExecuteFor(statement);
    case Statement::Kind::kSet:
      Assign(statement.target, Evaluate(*statement.expressions[0]));
      break;
    case Statement::Kind::kSetBlock:
      return ExecuteSetBlock(statement);
    case Statement::Kind::kMacro:
      Assign(statement.symbol, Value::FromObject(MakeMacro(statement.macro)));
      break;
    case Statement::Kind::kCallBlock:
      ExecuteCallBlock(statement);
      break;
    case Statement::Kind::kFilterBlock:
      return ExecuteFilterBlock(statement);
    case Statement::Kind::kWith:
      return ExecuteWith(statement);
    case Statement::Kind::kGeneration:
      ExecuteGeneration(statement);
      break;
    case Statement::Kind::kBlock: {
      const ScopeGuard guard(this, std::make_shared<Scope>(statement.scoped ? scope_ : root_));
      Execute(statement.body);
      break;
    }
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
    case Statement::Kind::kUnsupported:
      Raise("the tag '", statement.text, "' isn't supported in chat templates");
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::ExecuteIf(const Statement& statement) {
  for (const Statement::Branch& branch : statement.branches) {
    if (branch.test == nullptr || Truthy(Evaluate(*branch.test))) return Execute(branch.body);
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::ExecuteFor(const Statement& statement) {
  const Value items = Evaluate(*statement.expressions[0]);
  if (!statement.recursive) return RunLoop(statement, items, 0);
  std::string text;
  std::string* const outside = std::exchange(out_, &text);
  ++captures_;
  RunLoop(statement, items, 0);
  --captures_;
  out_ = outside;
  Write(text);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::RunLoop(const Statement& statement, const Value& items, int depth) {
  // Lists are looped over in place; everything else is turned into one.
  const Value list = items.is_list() || items.is_tuple() ? items : Value(ToList(items, budget_));
  const auto loop = std::make_shared<LoopObject>(statement, list, scope_, depth);
  struct Finisher {
    LoopObject* loop;
    ~Finisher() { loop->Finish(); }
  } const finisher{loop.get()};
  const Value loop_value = Value::FromObject(loop);

  bool reached_an_end = false;
  ScopePtr scope;
  for (Value item; loop->Next(*this, &item);) {
    budget_.Step();
    if (scope != nullptr && scope.use_count() == 1) {
      scope->variables.clear();
    } else {  // the first, or a macro holds on to the last one
      scope = std::make_shared<Scope>(scope_);
    }
    const ScopeGuard guard(this, scope);
    Assign(statement.target, item);
    Assign(Template::Program::kLoop, loop_value);
    const Flow flow = Execute(statement.body);
    if (flow == Flow::kBreak) break;
    // jinja2 runs the else part unless a body was run to its end.
    if (flow == Flow::kNormal) reached_an_end = true;
  }
  if (reached_an_end || statement.else_body.empty()) return Flow::kNormal;
  const ScopeGuard guard(this, std::make_shared<Scope>(scope_));
  return Execute(statement.else_body);
}

bool Interpreter::PassesFilter(const Statement& loop, const ScopePtr& outer, const Value& item) {
  budget_.Step();
  const ScopeGuard guard(this, std::make_shared<Scope>(outer));
  Assign(loop.target, item);
  return Truthy(Evaluate(*loop.expressions[1]));
}

Interpreter::Flow Interpreter::ExecuteSetBlock(const Statement& statement) {
  std::string text;
  Value value;
  {
    const ScopeGuard guard(this, std::make_shared<Scope>(scope_));
    const Flow flow = Capture(statement.body, &text);
    if (flow != Flow::kNormal) return flow;
    const ExpressionPtr& filter = statement.expressions[0];
    value = filter == nullptr ? Value(std::move(text)) : EvaluateFilter(*filter, &text);
  }
  Assign(statement.target, value);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::ExecuteFilterBlock(const Statement& statement) {
  std::string text;
  Value value;
  {
    const ScopeGuard guard(this, std::make_shared<Scope>(scope_));
    const Flow flow = Capture(statement.body, &text);
    if (flow != Flow::kNormal) return flow;
    value = EvaluateFilter(*statement.expressions[0], &text);
  }
  Write(Str(value, budget_));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::ExecuteWith(const Statement& statement) {
  const auto scope = std::make_shared<Scope>(scope_);
  List values;  // all of them are evaluated outside
  for (const ExpressionPtr& expression : statement.expressions) {
    values.push_back(Evaluate(*expression));
  }
  const ScopeGuard guard(this, scope);
  for (size_t i = 0; i < values.size(); ++i) Assign(statement.targets[i], values[i]);
  return Execute(statement.body);
}

void Interpreter::ExecuteGeneration(const Statement& statement) {
  const ScopeGuard guard(this, std::make_shared<Scope>(scope_));
  const bool is_outermost = !std::exchange(in_generation_, true);
  const size_t begin = out_->size();
  Execute(statement.macro->body);
  if (!is_outermost) return;
  in_generation_ = false;
  if (captures_ > 0) {
    result_.generation_captured = true;
  } else {
    result_.generation_spans.push_back({begin, out_->size()});
  }
}

}  // namespace lorica::jinja
