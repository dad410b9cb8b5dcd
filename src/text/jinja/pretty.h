// Python's pprint.pformat, as the filter `pprint` calls it.
#ifndef LORICA_TEXT_JINJA_PRETTY_H_
#define LORICA_TEXT_JINJA_PRETTY_H_

#include <string>

#include "lorica/text/jinja/error.h"
#include "lorica/text/jinja/value.h"

namespace lorica::jinja {

// repr() with sorted keys, broken into lines of at most 80 characters where it is longer.
std::string PrettyRepr(const Value& value, Budget& budget);

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_PRETTY_H_
