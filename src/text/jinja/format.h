// Python's two ways to format text: `"%5.2f" % value` and `"{:>5}".format(value)`.
#ifndef LORICA_TEXT_JINJA_FORMAT_H_
#define LORICA_TEXT_JINJA_FORMAT_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "lorica/text/jinja/error.h"
#include "lorica/text/jinja/object.h"
#include "lorica/text/jinja/value.h"

namespace lorica::jinja {

// `%` with `arguments` as Python has it: a tuple gives one value per field, a dict the named ones,
// anything else is the one value.
std::string PercentFormat(absl::string_view format, const Value& arguments, Budget& budget);

// format(value, spec): the part behind the colon of a replacement field.
std::string FormatWithSpec(const Value& value, absl::string_view spec, Budget& budget);

// str.format. `lookup(value, name, is_attribute)` resolves ".name" and "[name]" behind a field's
// first part.
using FieldLookup =
    std::function<Value(const Value& value, absl::string_view name, bool is_attribute)>;
std::string FormatFields(absl::string_view format, const CallArguments& arguments,
                         const FieldLookup& lookup, Budget& budget);

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_FORMAT_H_
