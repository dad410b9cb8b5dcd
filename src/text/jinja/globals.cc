// Global functions.
#include <algorithm>
#include <ctime>

#include "lorica/text/jinja/objects.h"
#include "lorica/text/jinja/operations.h"

namespace lorica::jinja {

namespace {

// As jinja2's sandbox.
constexpr int64_t kMaxRange = 100'000;

Value MakeRange(Interpreter&, const CallArguments& arguments) {
  const List& given = arguments.positional;
  if (given.empty()) Raise("range expected at least 1 argument, got 0");
  if (given.size() > 3) Raise("range expected at most 3 arguments, got ", given.size());
  if (!arguments.named.empty()) Raise("range() takes no keyword arguments");
  for (const Value& value : given) {
    RequireDefined(value);
    if (!value.is_integral()) {
      Raise("'", TypeName(value), "' object cannot be interpreted as an integer");
    }
  }
  Range range;
  range.start = given.size() > 1 ? given[0].as_int() : 0;
  range.stop = given[given.size() > 1 ? 1 : 0].as_int();
  range.step = given.size() > 2 ? given[2].as_int() : 1;
  if (range.step == 0) Raise("range() arg 3 must not be zero");
  if (range.size() > kMaxRange) {
    Raise("Range too big. The sandbox blocks ranges larger than MAX_RANGE (", kMaxRange, ").");
  }
  return Value::FromRange(range);
}

// dict(mapping_or_pairs, **named)
Dict DictFrom(Interpreter& interpreter, absl::string_view function,
              const CallArguments& arguments) {
  Budget& budget = interpreter.budget();
  if (arguments.positional.size() > 1) {
    Raise(function, " expected at most 1 argument, got ", arguments.positional.size());
  }
  Dict dict;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is_dict()) {
      budget.Bytes(static_cast<int64_t>(source.as_dict().size() * sizeof(Dict::Entry)));
      dict = source.as_dict();
    } else {
      size_t position = 0;
      for (const Value& pair : ToList(source, budget)) {
        if (!IsIterable(pair)) {
          Raise("cannot convert dictionary update sequence element #", position, " to a sequence");
        }
        List parts = ToList(pair, budget);
        if (parts.size() != 2) {
          Raise("dictionary update sequence element #", position, " has length ", parts.size(),
                "; 2 is required");
        }
        RequireHashable(parts[0]);
        dict.Set(std::move(parts[0]), std::move(parts[1]));
        ++position;
      }
    }
  }
  for (const auto& [name, value] : arguments.named) dict.Set(Value(name), value);
  return dict;
}

Value MakeDict(Interpreter& interpreter, const CallArguments& arguments) {
  return DictFrom(interpreter, "dict", arguments);
}

Value DictFromKeys(Interpreter& interpreter, const CallArguments& arguments) {
  const Bound bound("fromkeys", arguments, {"iterable", "value"}, 1);
  Dict dict;
  for (Value& key : ToList(bound[0], interpreter.budget())) {
    RequireHashable(key);
    dict.Set(std::move(key), bound[1]);
  }
  return dict;
}

Value MakeNamespace(Interpreter& interpreter, const CallArguments& arguments) {
  auto space = std::make_shared<NamespaceObject>();
  interpreter.Keep(space);
  const Dict attributes = DictFrom(interpreter, "namespace", arguments);
  for (const auto& [key, value] : attributes.entries()) {
    if (!key.is_string()) Raise("names of a namespace must be strings");
    space->Set(key.as_string(), value);
  }
  return Value::FromObject(std::move(space));
}

Value MakeCycler(Interpreter& interpreter, const CallArguments& arguments) {
  if (arguments.positional.empty()) Raise("at least one item has to be provided");
  interpreter.budget().Bytes(static_cast<int64_t>(arguments.positional.size() * sizeof(Value)));
  return Value::FromObject(std::make_shared<CyclerObject>(arguments.positional));
}

Value MakeJoiner(Interpreter&, const CallArguments& arguments) {
  const Bound bound("joiner", arguments, {"sep"});
  return Value::FromObject(std::make_shared<JoinerObject>(bound.Has(0) ? bound[0] : Value(", ")));
}

Value RaiseException(Interpreter& interpreter, const CallArguments& arguments) {
  const Bound bound("raise_exception", arguments, {"message"}, 1);
  Raise(Str(bound[0], interpreter.budget()));
}

// datetime.strftime of a time without a zone: %z and %Z are empty, microseconds 0, the rest is the
// C library's.
Value StrftimeNow(Interpreter& interpreter, const CallArguments& arguments) {
  const Bound bound("strftime_now", arguments, {"format"}, 1);
  if (!bound[0].is_string()) {
    RequireDefined(bound[0]);
    Raise("strftime() argument 1 must be str, not ", TypeName(bound[0]));
  }
  std::tm now{};
  if (interpreter.options().now.has_value()) {
    now = *interpreter.options().now;
    std::tm filled = now;  // computes the day of the week and of the year
    if (timegm(&filled) != -1) {
      now.tm_wday = filled.tm_wday;
      now.tm_yday = filled.tm_yday;
    }
  } else {
    const std::time_t seconds = std::time(nullptr);
    localtime_r(&seconds, &now);
  }
  const std::string& given = bound[0].as_string();
  std::string format;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] != '%' || i + 1 == given.size()) {
      format += given[i];
      continue;
    }
    const char directive = given[++i];
    if (directive == 'f') {
      format += "000000";
    } else if (directive != 'z' && directive != 'Z') {
      format += '%';
      format += directive;
    }
  }
  if (format.empty()) return Value("");
  constexpr size_t kMaxSize = size_t{1} << 16;
  if (format.size() > kMaxSize / 16) Raise("the format of strftime_now() is too long");
  std::string text(kMaxSize, '\0');
  text.resize(std::strftime(text.data(), text.size(), format.c_str(), &now));
  interpreter.budget().Bytes(static_cast<int64_t>(kMaxSize));
  return text;
}

constexpr NamedFunction<FunctionObject::Function> kGlobals[] = {
    {"range", MakeRange},
    {"dict", MakeDict},
    {"dict.fromkeys", DictFromKeys},
    {"namespace", MakeNamespace},
    {"cycler", MakeCycler},
    {"joiner", MakeJoiner},
    {"raise_exception", RaiseException},
    {"strftime_now", StrftimeNow},
};

}  // namespace

Value FindGlobal(absl::string_view name) {
  const auto function = FindIn(kGlobals, name);
  if (function == nullptr) return Value();
  return Value::FromObject(std::make_shared<FunctionObject>(std::string(name), function));
}

}  // namespace lorica::jinja
