// Paths such as "author.name" or "items.0" by which sort, map, groupby and others look into items.
#ifndef LORICA_TEXT_JINJA_ATTRIBUTE_PATH_H_
#define LORICA_TEXT_JINJA_ATTRIBUTE_PATH_H_

#include <vector>

#include "lorica/text/jinja/interpreter.h"
#include "lorica/text/jinja/value.h"

namespace lorica::jinja {

class AttributePath {
 public:
  // `path` is a string (parts joined by dots), an integer, or none for the item itself.
  AttributePath(const Value& path, Interpreter& interpreter);

  // `fallback` stands in for undefined parts unless it is none.
  Value Of(const Value& item, const Value& fallback = nullptr) const;

 private:
  Interpreter& interpreter_;
  std::vector<Value> parts_;
};

// In lower case where it is a string and case doesn't matter.
Value CaseFolded(const Value& value, bool case_sensitive, Budget& budget);

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_ATTRIBUTE_PATH_H_
