// map, select, reject and their relatives: filters that apply another filter or a test to every
// item. What they give is computed at once, though it can be used only once, as Python's
// generators.
#include "lorica/text/jinja/attribute_path.h"
#include "lorica/text/jinja/generator.h"
#include "lorica/text/jinja/interpreter.h"
#include "lorica/text/jinja/operations.h"

namespace lorica::jinja {

namespace {

const std::string& RequireName(const Value& value, absl::string_view what) {
  RequireDefined(value);
  if (!value.is_string()) Raise("the name of a ", what, " must be a string, not ", TypeName(value));
  return value.as_string();
}

// `arguments` without the first `count` positional ones.
CallArguments Without(const CallArguments& arguments, size_t count) {
  CallArguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<ptrdiff_t>(count),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

Value Map(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  return MakeGenerator([&](List* mapped) {
    Budget& budget = interpreter.budget();
    if (!Truthy(input)) return;
    if (arguments.positional.empty() && !arguments.named.empty()) {
      const Bound bound("map", arguments, {"attribute", "default"}, 1);
      const AttributePath path(bound[0], interpreter);
      for (const Value& item : ToList(input, budget)) mapped->push_back(path.Of(item, bound[1]));
      return;
    }
    if (arguments.positional.empty()) Raise("map requires a filter argument");
    const std::string& name = RequireName(arguments.positional[0], "filter");
    const FilterFunction filter = FindFilter(name);
    if (filter == nullptr) Raise("No filter named '", name, "'.");
    const CallArguments rest = Without(arguments, 1);
    for (const Value& item : ToList(input, budget)) {
      mapped->push_back(interpreter.Apply(filter, item, rest));
    }
  });
}

Value Choose(Interpreter& interpreter, const Value& input, const CallArguments& arguments,
             bool by_attribute, bool wanted) {
  return MakeGenerator([&](List* kept) {
    if (!Truthy(input)) return;
    const size_t offset = by_attribute ? 1 : 0;
    if (arguments.positional.size() < offset) Raise("Missing parameter for attribute name");
    const AttributePath path(by_attribute ? arguments.positional[0] : Value(nullptr), interpreter);
    TestFunction test = nullptr;
    CallArguments rest;
    if (arguments.positional.size() > offset) {
      const std::string& name = RequireName(arguments.positional[offset], "test");
      test = FindTest(name);
      if (test == nullptr) Raise("No test named '", name, "'.");
      rest = Without(arguments, offset + 1);
    }
    for (const Value& item : ToList(input, interpreter.budget())) {
      const Value subject = path.Of(item);
      const bool holds = test == nullptr ? Truthy(subject) : test(interpreter, subject, rest);
      if (holds == wanted) kept->push_back(item);
    }
  });
}

Value Select(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  return Choose(interpreter, input, arguments, false, true);
}

Value Reject(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  return Choose(interpreter, input, arguments, false, false);
}

Value SelectAttribute(Interpreter& interpreter, const Value& input,
                      const CallArguments& arguments) {
  return Choose(interpreter, input, arguments, true, true);
}

Value RejectAttribute(Interpreter& interpreter, const Value& input,
                      const CallArguments& arguments) {
  return Choose(interpreter, input, arguments, true, false);
}

constexpr NamedFunction<FilterFunction> kFilters[] = {
    {"map", Map},
    {"select", Select},
    {"reject", Reject},
    {"selectattr", SelectAttribute},
    {"rejectattr", RejectAttribute},
};

}  // namespace

FilterFunction FindSelectionFilter(absl::string_view name) { return FindIn(kFilters, name); }

}  // namespace lorica::jinja
