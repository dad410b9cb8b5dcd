#include "lorica/text/jinja/objects.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "lorica/text/jinja/operations.h"

namespace lorica::jinja {

std::string Object::Repr() const { return absl::StrCat("<", type_name(), " object>"); }

Value Object::Call(Interpreter&, const CallArguments&) {
  Raise("'", type_name(), "' object is not callable");
}

std::optional<Value> Object::GetAttribute(Interpreter&, absl::string_view) { return std::nullopt; }

// ---- Namespace
// ---------------------------------------------------------------------------------------------------

std::optional<Value> NamespaceObject::GetAttribute(Interpreter&, absl::string_view name) {
  const Value* found = attributes_.FindText(name);
  if (found == nullptr) return std::nullopt;
  return *found;
}

void NamespaceObject::Set(const std::string& name, Value value) {
  if (absl::StartsWith(name, "_")) {
    Raise("a namespace can't have attributes that start with an underscore, but got '", name, "'");
  }
  attributes_.Set(Value(name), std::move(value));
}

// ---- Callables
// ---------------------------------------------------------------------------------------------------

Value MacroObject::Call(Interpreter& interpreter, const CallArguments& arguments) {
  return interpreter.CallMacro(*this, arguments);
}

std::optional<Value> MacroObject::GetAttribute(Interpreter&, absl::string_view name) {
  if (name == "name") return Value(syntax->name);
  if (name == "caller") return Value(syntax->uses_caller);
  if (name == "catch_kwargs") return Value(syntax->uses_kwargs);
  if (name == "catch_varargs") return Value(syntax->uses_varargs);
  return std::nullopt;
}

Value BoundMethod::Call(Interpreter& interpreter, const CallArguments& arguments) {
  return method_(interpreter, self_, arguments);
}

std::optional<Value> FunctionObject::GetAttribute(Interpreter&, absl::string_view name) {
  if (name_ != "dict" || name != "fromkeys") return std::nullopt;
  return FindGlobal("dict.fromkeys");
}

// ---- Loop
// --------------------------------------------------------------------------------------------------------

LoopObject::LoopObject(const Statement& statement, Value items, ScopePtr outer, int depth)
    : statement_(statement),
      held_(std::move(items)),
      items_(&held_.as_list()),
      outer_(std::move(outer)),
      depth_(depth),
      nesting_(held_.nesting() + 1) {}

bool LoopObject::FetchAhead(Interpreter& interpreter) {
  const bool has_filter = statement_.expressions[1] != nullptr;
  while (fetched_ < items_->size()) {
    const Value& item = (*items_)[fetched_++];
    if (!has_filter || (outer_ != nullptr && interpreter.PassesFilter(statement_, outer_, item))) {
      ahead_.push_back(item);
      return true;
    }
  }
  return false;
}

bool LoopObject::Next(Interpreter& interpreter, Value* item) {
  if (ahead_.empty() && !FetchAhead(interpreter)) return false;
  ++index0_;
  previous_ = std::move(current_);
  current_ = std::move(ahead_.front());
  ahead_.pop_front();
  *item = current_;
  return true;
}

void LoopObject::Finish() {
  outer_ = nullptr;
  last_changed_.reset();  // may lead back to this object
}

int64_t LoopObject::Length(Interpreter& interpreter) {
  if (statement_.expressions[1] == nullptr) return static_cast<int64_t>(items_->size());
  while (FetchAhead(interpreter)) {
  }
  return index0_ + 1 + static_cast<int64_t>(ahead_.size());
}

Value LoopObject::Call(Interpreter& interpreter, const CallArguments& arguments) {
  const Bound bound("loop", arguments, {"iterable"}, 1);
  return interpreter.CallLoop(*this, bound[0]);
}

Value LoopObject::Cycle(const CallArguments& arguments) const {
  if (arguments.positional.empty()) Raise("no items for cycling given");
  return arguments.positional[static_cast<size_t>(index0_) % arguments.positional.size()];
}

Value LoopObject::Changed(Interpreter& interpreter, const CallArguments& arguments) {
  const List& now = arguments.positional;
  const bool same = last_changed_.has_value() && last_changed_->size() == now.size() &&
                    std::equal(now.begin(), now.end(), last_changed_->begin(),
                               [&](const Value& a, const Value& b) {
                                 return Equals(a, b, &interpreter.budget());
                               });
  last_changed_ = now;
  return !same;
}

std::optional<Value> LoopObject::GetAttribute(Interpreter& interpreter, absl::string_view name) {
  if (name == "index") return Value(index0_ + 1);
  if (name == "index0") return Value(index0_);
  if (name == "first") return Value(index0_ == 0);
  if (name == "last") return Value(ahead_.empty() && !FetchAhead(interpreter));
  if (name == "length") return Value(Length(interpreter));
  if (name == "revindex") return Value(Length(interpreter) - index0_);
  if (name == "revindex0") return Value(Length(interpreter) - index0_ - 1);
  if (name == "depth") return Value(depth_ + 1);
  if (name == "depth0") return Value(depth_);
  if (name == "previtem") {
    return index0_ == 0 ? Value::Undefined("there is no previous item") : previous_;
  }
  if (name == "nextitem") {
    if (ahead_.empty() && !FetchAhead(interpreter)) {
      return Value::Undefined("there is no next item");
    }
    return ahead_.front();
  }
  if (name == "cycle") {
    return Value::FromObject(std::make_shared<ObjectMethod>(
        shared_from_this(), [](Interpreter&, Object& self, const CallArguments& arguments) {
          return static_cast<LoopObject&>(self).Cycle(arguments);
        }));
  }
  if (name == "changed") {
    return Value::FromObject(std::make_shared<ObjectMethod>(
        shared_from_this(), [](Interpreter& in, Object& self, const CallArguments& arguments) {
          return static_cast<LoopObject&>(self).Changed(in, arguments);
        }));
  }
  return std::nullopt;
}

// ---- Cycler, Joiner
// ------------------------------------------------------------------------------------------------

std::optional<Value> CyclerObject::GetAttribute(Interpreter&, absl::string_view name) {
  if (name == "current") return items_.as_list()[position_];
  if (name == "next") {
    return Value::FromObject(std::make_shared<ObjectMethod>(
        shared_from_this(), [](Interpreter&, Object& self, const CallArguments&) {
          auto& cycler = static_cast<CyclerObject&>(self);
          const List& items = cycler.items_.as_list();
          Value current = items[cycler.position_];
          cycler.position_ = (cycler.position_ + 1) % items.size();
          return current;
        }));
  }
  if (name == "reset") {
    return Value::FromObject(std::make_shared<ObjectMethod>(
        shared_from_this(), [](Interpreter&, Object& self, const CallArguments&) {
          static_cast<CyclerObject&>(self).position_ = 0;
          return Value(nullptr);
        }));
  }
  return std::nullopt;
}

Value JoinerObject::Call(Interpreter&, const CallArguments&) {
  if (used_) return separator_;
  used_ = true;
  return Value("");
}

}  // namespace lorica::jinja
