// The expression half of the interpreter.
#include <algorithm>

#include "absl/strings/match.h"
#include "lorica/text/jinja/interpreter.h"
#include "lorica/text/jinja/objects.h"
#include "lorica/text/jinja/operations.h"

namespace lorica::jinja {

using Kind = Expression::Kind;

Value Interpreter::EvaluateOptional(const ExpressionPtr& node) {
  return node == nullptr ? Value(nullptr) : Evaluate(*node);
}

Value Interpreter::Evaluate(const Expression& node) {
  const DepthGuard guard(this);
  switch (node.kind) {
    case Kind::kConstant:
      return node.constant;
    case Kind::kName:
      return Lookup(node.symbol);
    case Kind::kList:
    case Kind::kTuple: {
      budget_.Bytes(static_cast<int64_t>(node.children.size() * sizeof(Value)));
      List items;
      items.reserve(node.children.size());
      for (const ExpressionPtr& child : node.children) items.push_back(Evaluate(*child));
      return node.kind == Kind::kList ? Value(std::move(items)) : Value::Tuple(std::move(items));
    }
    case Kind::kDict:
      return EvaluateDict(node);
    case Kind::kNot:
      return !Truthy(EvaluateChild(node, 0));
    case Kind::kAnd: {
      Value left = EvaluateChild(node, 0);
      return Truthy(left) ? EvaluateChild(node, 1) : left;
    }
    case Kind::kOr: {
      Value left = EvaluateChild(node, 0);
      return Truthy(left) ? left : EvaluateChild(node, 1);
    }
    case Kind::kConcatenate:
      return EvaluateConcatenation(node);
    case Kind::kCompare:
      return EvaluateCompare(node);
    case Kind::kConditional:
      if (Truthy(EvaluateChild(node, 0))) return EvaluateChild(node, 1);
      if (node.children[2] != nullptr) return EvaluateChild(node, 2);
      return Value::Undefined(absl::StrCat("the inline if-expression on line ", node.line,
                                           " evaluated to false and no else section was defined."));
    case Kind::kGetAttribute: {
      const Value object = EvaluateChild(node, 0);
      line_ = node.line;
      return GetAttribute(object, node.name);
    }
    case Kind::kGetItem: {
      const Value object = EvaluateChild(node, 0);
      const Value index = EvaluateChild(node, 1);
      line_ = node.line;
      return GetItem(object, index);
    }
    case Kind::kSlice: {
      const Value object = EvaluateChild(node, 0);
      const Value start = EvaluateOptional(node.children[1]);
      const Value stop = EvaluateOptional(node.children[2]);
      const Value step = EvaluateOptional(node.children[3]);
      line_ = node.line;
      return Slice(object, start, stop, step, budget_);
    }
    case Kind::kCall:
      return EvaluateCall(node, nullptr);
    case Kind::kFilter:
      return EvaluateFilter(node, nullptr);
    case Kind::kTest: {
      const Value input = EvaluateChild(node, 0);
      const CallArguments arguments = EvaluateArguments(*node.call);
      line_ = node.line;
      if (node.test == nullptr) Raise("No test named '", node.name, "' found.");
      return node.test(*this, input, arguments);
    }
    default:
      return EvaluateBinary(node);
  }
}

// Arithmetic of one and two operands.
Value Interpreter::EvaluateBinary(const Expression& node) {
  const Value a = EvaluateChild(node, 0);
  const Value b = node.children.size() > 1 ? EvaluateChild(node, 1) : Value();
  line_ = node.line;
  switch (node.kind) {
    case Kind::kNegate:
      return Negate(a);
    case Kind::kPlus:
      return Plus(a);
    case Kind::kAdd:
      return Add(a, b, budget_);
    case Kind::kSubtract:
      return Subtract(a, b);
    case Kind::kMultiply:
      return Multiply(a, b, budget_);
    case Kind::kDivide:
      return Divide(a, b);
    case Kind::kFloorDivide:
      return FloorDivide(a, b);
    case Kind::kModulo:
      return Modulo(a, b, budget_);
    default:
      return Power(a, b);
  }
}

namespace {

bool IsNan(const Value& value) {
  return value.is_float() && value.as_double() != value.as_double();
}

}  // namespace

Value Interpreter::EvaluateCompare(const Expression& node) {
  Value left = EvaluateChild(node, 0);
  for (size_t i = 0; i < node.comparisons.size(); ++i) {
    Value right = EvaluateChild(node, i + 1);
    line_ = node.line;
    const auto ordered = [&](absl::string_view symbol, auto holds) {
      const int order = Compare(left, right, symbol, budget_);
      return !IsNan(left) && !IsNan(right) && holds(order);
    };
    bool holds = false;
    switch (node.comparisons[i]) {
      case CompareOperator::kEqual:
        holds = Equals(left, right, &budget_);
        break;
      case CompareOperator::kNotEqual:
        holds = !Equals(left, right, &budget_);
        break;
      case CompareOperator::kLess:
        holds = ordered("<", [](int order) { return order < 0; });
        break;
      case CompareOperator::kLessEqual:
        holds = ordered("<=", [](int order) { return order <= 0; });
        break;
      case CompareOperator::kGreater:
        holds = ordered(">", [](int order) { return order > 0; });
        break;
      case CompareOperator::kGreaterEqual:
        holds = ordered(">=", [](int order) { return order >= 0; });
        break;
      case CompareOperator::kIn:
        holds = Contains(right, left, budget_);
        break;
      case CompareOperator::kNotIn:
        holds = !Contains(right, left, budget_);
        break;
    }
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::EvaluateConcatenation(const Expression& node) {
  std::string text;
  for (const ExpressionPtr& child : node.children) {
    const Value part = Evaluate(*child);
    if (part.is_string()) {
      budget_.Bytes(static_cast<int64_t>(part.as_string().size()));
      text += part.as_string();
    } else {
      text += Str(part, budget_);
    }
  }
  return text;
}

Value Interpreter::EvaluateDict(const Expression& node) {
  budget_.Bytes(static_cast<int64_t>(node.children.size() * sizeof(Value)));
  Dict dict;
  for (size_t i = 0; i < node.children.size(); i += 2) {
    Value key = EvaluateChild(node, i);
    Value value = EvaluateChild(node, i + 1);
    RequireHashable(key);
    dict.Set(std::move(key), std::move(value));
  }
  return dict;
}

Value Interpreter::Apply(FilterFunction filter, const Value& input,
                         const CallArguments& arguments) {
  const DepthGuard guard(this);
  return filter(*this, input, arguments);
}

Value Interpreter::EvaluateFilter(const Expression& node, const std::string* block_text) {
  const DepthGuard guard(this);
  Value input;
  if (node.children[0] == nullptr) {
    input = Value(block_text == nullptr ? "" : *block_text);
  } else if (block_text != nullptr && node.children[0]->kind == Kind::kFilter) {
    input = EvaluateFilter(*node.children[0], block_text);
  } else {
    input = EvaluateChild(node, 0);
  }
  const CallArguments arguments = EvaluateArguments(*node.call);
  line_ = node.line;
  if (node.filter == nullptr) Raise("No filter named '", node.name, "' found.");
  return node.filter(*this, input, arguments);
}

namespace {

// How jinja2 calls an object in "... has no attribute ...".
std::string Describe(const Value& value) {
  return value.is_none() ? "None" : absl::StrCat(TypeName(value), " object");
}

}  // namespace

Value Interpreter::GetAttribute(const Value& value, absl::string_view name) {
  RequireDefined(value);
  if (const MethodFunction method = FindMethod(value, name); method != nullptr) {
    return Value::FromObject(std::make_shared<BoundMethod>(value, std::string(name), method));
  }
  if (IsForbiddenMethod(value, name)) {
    return Value::Undefined(absl::StrCat("access to attribute '", name, "' of '", TypeName(value),
                                         "' object is unsafe."));
  }
  if (value.is_object()) {
    if (std::optional<Value> found = value.as_object().GetAttribute(*this, name)) return *found;
  } else if (value.is_dict()) {
    if (const Value* found = value.as_dict().FindText(name); found != nullptr) return *found;
  }
  // What groupby gives are tuples with names for their two parts; other pairs don't miss them.
  if (value.is_tuple() && value.as_list().size() == 2) {
    if (name == "grouper") return value.as_list()[0];
    if (name == "list") return value.as_list()[1];
  }
  return Value::Undefined(absl::StrCat("'", Describe(value), "' has no attribute '", name, "'"));
}

Value Interpreter::GetItem(const Value& value, const Value& index) {
  Value found;
  if (Subscript(value, index, budget_, &found)) return found;
  if (index.is_string()) return GetAttribute(value, index.as_string());
  return Value::Undefined(absl::StrCat(Describe(value), " has no element ", Repr(index, budget_)));
}

}  // namespace lorica::jinja
