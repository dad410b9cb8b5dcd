// Generators, as filters such as map give them.
#ifndef LORICA_TEXT_JINJA_GENERATOR_H_
#define LORICA_TEXT_JINJA_GENERATOR_H_

#include <string>

#include "lorica/text/jinja/error.h"
#include "lorica/text/jinja/value.h"

namespace lorica::jinja {

// What `fill(&items)` puts into the list, to be used once. It runs now, but what it raises shows as
// in Python only when the generator is asked for more than the items before.
template <typename Fill>
Value MakeGenerator(const Fill& fill) {
  List items;
  std::string error;
  try {
    fill(&items);
  } catch (const TemplateError& raised) {
    error = raised.what();
  }
  return Value::FromIterator("generator", std::move(items), std::move(error));
}

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_GENERATOR_H_
