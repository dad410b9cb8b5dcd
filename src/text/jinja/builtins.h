// The tables of filters, tests, methods and global functions.
#ifndef LORICA_TEXT_JINJA_BUILTINS_H_
#define LORICA_TEXT_JINJA_BUILTINS_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lorica/text/jinja/object.h"
#include "lorica/text/jinja/value.h"

namespace lorica::jinja {

using FilterFunction = Value (*)(Interpreter&, const Value& input, const CallArguments&);
using TestFunction = bool (*)(Interpreter&, const Value& input, const CallArguments&);
using MethodFunction = Value (*)(Interpreter&, const Value& self, const CallArguments&);

template <typename Function>
struct NamedFunction {
  const char* name;
  Function function;
};

// Null where there is none of that name.
FilterFunction FindFilter(absl::string_view name);
TestFunction FindTest(absl::string_view name);
// A method of the type of `self`: of strings, lists, tuples, dicts, numbers.
MethodFunction FindMethod(const Value& self, absl::string_view name);
// Whether Python's type has this method and the sandbox forbids it because it changes the object.
bool IsForbiddenMethod(const Value& self, absl::string_view name);
// A global function (range, namespace, ...); undefined where there is none of that name.
Value FindGlobal(absl::string_view name);

// Parts of the tables, by file.
FilterFunction FindTextFilter(absl::string_view name);
FilterFunction FindLayoutFilter(absl::string_view name);
FilterFunction FindNumberFilter(absl::string_view name);
FilterFunction FindSequenceFilter(absl::string_view name);
FilterFunction FindSelectionFilter(absl::string_view name);
MethodFunction FindStringMethod(absl::string_view name);
MethodFunction FindContainerMethod(const Value& self, absl::string_view name);

template <typename Function, size_t kSize>
Function FindIn(const NamedFunction<Function> (&table)[kSize], absl::string_view name) {
  for (const auto& entry : table) {
    if (name == entry.name) return entry.function;
  }
  return nullptr;
}

// A call's arguments laid out after a signature as Python does it: by position, then by name.
class Bound {
 public:
  // `names` are the parameters in order, of which the first `required` must be given. Throws where
  // the call doesn't fit. Holds on to `arguments`.
  Bound(absl::string_view function, const CallArguments& arguments,
        std::initializer_list<const char*> names, size_t required = 0);

  bool Has(size_t i) const { return values_[i] != nullptr; }
  // The argument; none where it wasn't given.
  const Value& operator[](size_t i) const;
  int64_t Int(size_t i, int64_t fallback) const;  // throws for other types
  bool Truth(size_t i, bool fallback) const;

 private:
  std::string function_;
  std::vector<const char*> names_;
  std::vector<const Value*> values_;
};

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_BUILTINS_H_
