// Calls: of functions and methods, of macros with their caller blocks, of recursive loops.
#include <algorithm>

#include "lorica/text/jinja/interpreter.h"
#include "lorica/text/jinja/objects.h"
#include "lorica/text/jinja/operations.h"

namespace lorica::jinja {

CallArguments Interpreter::EvaluateArguments(const CallSyntax& call) {
  CallArguments arguments;
  for (const ExpressionPtr& argument : call.positional) {
    arguments.positional.push_back(Evaluate(*argument));
  }
  for (const auto& [name, argument] : call.named) {
    arguments.named.emplace_back(name, Evaluate(*argument));
  }
  if (call.star != nullptr) {
    const Value star = Evaluate(*call.star);
    if (!IsIterable(star)) Raise("argument after * must be an iterable, not ", TypeName(star));
    for (Value& value : ToList(star, budget_)) arguments.positional.push_back(std::move(value));
  }
  if (call.double_star != nullptr) {
    const Value mapping = Evaluate(*call.double_star);
    if (!mapping.is_dict()) Raise("argument after ** must be a mapping, not ", TypeName(mapping));
    budget_.Bytes(static_cast<int64_t>(mapping.as_dict().size() * sizeof(Value)));
    for (const auto& [key, value] : mapping.as_dict().entries()) {
      if (!key.is_string()) Raise("keywords must be strings");
      for (const auto& given : arguments.named) {
        budget_.Step();
        if (given.first == key.as_string()) {
          Raise("got multiple values for keyword argument '", given.first, "'");
        }
      }
      arguments.named.emplace_back(key.as_string(), value);
    }
  }
  return arguments;
}

Value Interpreter::EvaluateCall(const Expression& node, const Value* caller) {
  const auto arguments_of_call = [&] {
    CallArguments arguments = EvaluateArguments(*node.call);
    if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
    line_ = node.line;
    return arguments;
  };
  const Expression& function = *node.children[0];
  if (function.kind != Expression::Kind::kGetAttribute) {
    const Value callee = Evaluate(function);
    return Call(callee, arguments_of_call());
  }
  // value.method(...): the common case needs no object for the method.
  const Value self = EvaluateChild(function, 0);
  line_ = function.line;
  if (const MethodFunction method = FindMethod(self, function.name); method != nullptr) {
    return method(*this, self, arguments_of_call());
  }
  const Value callee = GetAttribute(self, function.name);
  return Call(callee, arguments_of_call());
}

Value Interpreter::Call(const Value& callee, const CallArguments& arguments) {
  RequireDefined(callee);
  if (!callee.is_object() || !callee.as_object().is_callable()) {
    Raise("'", TypeName(callee), "' object is not callable");
  }
  const DepthGuard guard(this);
  return callee.as_object().Call(*this, arguments);
}

// ------------------------------------------------------------------------------------------------------

std::shared_ptr<MacroObject> Interpreter::MakeMacro(std::shared_ptr<const MacroSyntax> syntax) {
  budget_.Bytes(sizeof(MacroObject) + 64);
  auto macro = std::make_shared<MacroObject>(std::move(syntax), scope_);
  macros_.push_back(macro);
  return macro;
}

void Interpreter::ExecuteCallBlock(const Statement& statement) {
  const Value caller = Value::FromObject(MakeMacro(statement.macro));
  Write(Str(EvaluateCall(*statement.expressions[0], &caller), budget_));
}

Value Interpreter::CallMacro(const MacroObject& macro, const CallArguments& arguments) {
  const MacroSyntax& syntax = *macro.syntax;
  if (macro.closure == nullptr) Raise("a macro can't be called after its render");
  const size_t parameters = syntax.parameters.size();
  const ScopeGuard guard(this, std::make_shared<Scope>(macro.closure));
  const int line = line_;

  auto named = arguments.named;
  const auto take = [&](const std::string& name, Value* value) {
    const auto found = std::find_if(named.begin(), named.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    if (found == named.end()) return false;
    *value = std::move(found->second);
    named.erase(found);
    return true;
  };
  const size_t first_default = parameters - syntax.defaults.size();
  std::vector<bool> given(parameters, true);
  for (size_t i = 0; i < parameters; ++i) {
    const Symbol symbol = syntax.parameters[i];
    Value value;
    if (i < arguments.positional.size()) {
      value = arguments.positional[i];
    } else {
      given[i] = take(program_.symbols[static_cast<size_t>(symbol)], &value);
    }
    // Every parameter hides the variables outside, also while the defaults are evaluated.
    if (!given[i]) {
      value = Value::Undefined(absl::StrCat(
          "parameter '", program_.symbols[static_cast<size_t>(symbol)], "' was not provided"));
    }
    scope_->variables.emplace_back(symbol, std::move(value));
  }
  for (size_t i = first_default; i < parameters; ++i) {
    if (!given[i]) {
      scope_->variables[i].second = Evaluate(*syntax.defaults[i - first_default]);
    }
  }
  if (syntax.uses_caller) {
    Value caller = Value::Undefined("No caller defined");
    take("caller", &caller);
    scope_->variables.emplace_back(Template::Program::kCaller, std::move(caller));
  }
  if (syntax.uses_kwargs) {
    Dict rest;
    for (auto& [name, value] : named) rest.Set(Value(name), std::move(value));
    scope_->variables.emplace_back(Template::Program::kKwargs, Value(std::move(rest)));
  } else if (!named.empty()) {
    Raise("macro '", syntax.name, "' takes no keyword argument '", named[0].first, "'");
  }
  if (syntax.uses_varargs) {
    List rest;
    for (size_t i = parameters; i < arguments.positional.size(); ++i) {
      rest.push_back(arguments.positional[i]);
    }
    scope_->variables.emplace_back(Template::Program::kVarargs, Value::Tuple(std::move(rest)));
  } else if (arguments.positional.size() > parameters) {
    Raise("macro '", syntax.name, "' takes not more than ", parameters, " argument(s)");
  }
  std::string text;
  Capture(syntax.body, &text);
  line_ = line;
  return text;
}

Value Interpreter::CallLoop(const LoopObject& loop, const Value& items) {
  if (!loop.statement().recursive) {
    Raise("The loop must have the 'recursive' marker to be called recursively.");
  }
  if (loop.outer() == nullptr) Raise("a loop can't be called after its end");
  std::string text;
  std::string* const outside = std::exchange(out_, &text);
  ++captures_;
  {
    const ScopeGuard guard(this, loop.outer());
    RunLoop(loop.statement(), items, loop.depth() + 1);
  }
  --captures_;
  out_ = outside;
  return text;
}

}  // namespace lorica::jinja
