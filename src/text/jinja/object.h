// Values with an identity: callables, namespaces, loops. They live for one render.
#ifndef LORICA_TEXT_JINJA_OBJECT_H_
#define LORICA_TEXT_JINJA_OBJECT_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "lorica/text/jinja/value.h"

namespace lorica::jinja {

class Interpreter;

// Arguments of one call, evaluated.
struct CallArguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Object : public std::enable_shared_from_this<Object> {
 public:
  virtual ~Object() = default;

  // Python's type name, for messages.
  virtual std::string type_name() const = 0;
  virtual std::string Repr() const;
  virtual bool is_callable() const { return false; }
  virtual Value Call(Interpreter& interpreter, const CallArguments& arguments);
  // The attribute `name`, or nothing where the object has none.
  virtual std::optional<Value> GetAttribute(Interpreter& interpreter, absl::string_view name);
  // As Value::nesting(): objects that hold values count them, so that no chain of owners grows
  // without bound (its destruction recurses). Those that the interpreter keeps alive itself are 0.
  virtual int nesting() const { return 0; }
};

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_OBJECT_H_
