#include <algorithm>

#include "lorica/text/jinja/builtins.h"
#include "lorica/text/jinja/error.h"
#include "lorica/text/jinja/operations.h"

namespace lorica::jinja {

Bound::Bound(absl::string_view function, const CallArguments& arguments,
             std::initializer_list<const char*> names, size_t required)
    : function_(function), names_(names), values_(names.size(), nullptr) {
  if (arguments.positional.size() > names.size()) {
    Raise(function, "() takes at most ", names.size(), " argument(s) (",
          arguments.positional.size(), " given)");
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find_if(names_.begin(), names_.end(),
                                    [&name = name](const char* known) { return name == known; });
    if (found == names_.end()) {
      Raise(function, "() got an unexpected keyword argument '", name, "'");
    }
    const Value*& slot = values_[static_cast<size_t>(found - names_.begin())];
    if (slot != nullptr) Raise(function, "() got multiple values for argument '", name, "'");
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) {
      Raise(function, "() missing 1 required positional argument: '", names_[i], "'");
    }
  }
}

const Value& Bound::operator[](size_t i) const {
  static const Value none(nullptr);
  return values_[i] == nullptr ? none : *values_[i];
}

int64_t Bound::Int(size_t i, int64_t fallback) const {
  if (values_[i] == nullptr) return fallback;
  RequireDefined(*values_[i]);
  if (!values_[i]->is_integral()) {
    Raise(function_, "() argument '", names_[i], "' must be int, not ", TypeName(*values_[i]));
  }
  return values_[i]->as_int();
}

bool Bound::Truth(size_t i, bool fallback) const {
  return values_[i] == nullptr ? fallback : Truthy(*values_[i]);
}

FilterFunction FindFilter(absl::string_view name) {
  for (const auto find : {FindTextFilter, FindSequenceFilter, FindSelectionFilter, FindNumberFilter,
                          FindLayoutFilter}) {
    if (const FilterFunction filter = find(name); filter != nullptr) return filter;
  }
  return nullptr;
}

MethodFunction FindMethod(const Value& self, absl::string_view name) {
  return self.is_string() ? FindStringMethod(name) : FindContainerMethod(self, name);
}

bool IsForbiddenMethod(const Value& self, absl::string_view name) {
  static constexpr const char* kOfLists[] = {"append", "clear", "pop",    "reverse",
                                             "insert", "sort",  "extend", "remove"};
  static constexpr const char* kOfDicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
  const auto is_name = [name](const char* known) { return name == known; };
  if (self.is_list()) return std::any_of(std::begin(kOfLists), std::end(kOfLists), is_name);
  if (self.is_dict()) return std::any_of(std::begin(kOfDicts), std::end(kOfDicts), is_name);
  return false;
}

}  // namespace lorica::jinja
