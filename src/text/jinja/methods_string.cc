// Methods of strings.
#include <algorithm>

#include "absl/strings/match.h"
#include "lorica/text/jinja/format.h"
#include "lorica/text/jinja/interpreter.h"
#include "lorica/text/jinja/operations.h"
#include "lorica/text/jinja/text_functions.h"
#include "lorica/text/jinja/unicode.h"

namespace lorica::jinja {

namespace {

using Arguments = CallArguments;

const std::string& RequireText(const Value& value, absl::string_view method) {
  RequireDefined(value);
  if (!value.is_string()) Raise(method, "() argument must be str, not ", TypeName(value));
  return value.as_string();
}

template <std::string (*kMap)(absl::string_view)>
Value Mapped(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("str method", arguments, {});
  in.budget().Bytes(static_cast<int64_t>(self.as_string().size()));
  return kMap(self.as_string());
}

template <bool kLeft, bool kRight>
Value Strip(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("strip", arguments, {"chars"});
  return StripText(self.as_string(), bound[0], kLeft, kRight, in.budget());
}

template <bool kFromRight>
Value Split(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("split", arguments, {"sep", "maxsplit"});
  return SplitText(self.as_string(), bound[0], bound.Int(1, -1), kFromRight, in.budget());
}

Value Lines(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("splitlines", arguments, {"keepends"});
  in.budget().Bytes(static_cast<int64_t>(self.as_string().size()));
  List lines;
  for (const absl::string_view line : SplitLines(self.as_string(), bound.Truth(0, false))) {
    in.budget().Bytes(static_cast<int64_t>(sizeof(Value) + sizeof(std::string)));
    lines.emplace_back(line);
  }
  return lines;
}

// self[start:end] in bytes, with Python's rules for bounds; `start` and `end` are arguments i and i
// + 1. `empty` where the bounds cross, so that not even "" is found.
absl::string_view Part(const Value& self, const Bound& bound, size_t i, Budget& budget,
                       bool* crossed) {
  const std::string& text = self.as_string();
  *crossed = false;
  if (bound[i].is_none() && bound[i + 1].is_none()) return text;
  budget.Bytes(static_cast<int64_t>(text.size() * sizeof(uint32_t)));
  const std::vector<uint32_t> offsets = CodePointOffsets(text);
  const auto size = static_cast<int64_t>(offsets.size()) - 1;
  const auto clamp = [&](size_t which, int64_t fallback) {
    if (bound[which].is_none()) return fallback;
    const int64_t at = bound.Int(which, 0);
    return at < 0 ? std::max<int64_t>(at < -size ? 0 : at + size, 0) : at;
  };
  const int64_t start = clamp(i, 0);
  const int64_t end = std::min(clamp(i + 1, size), size);
  if (start > end) {
    *crossed = true;
    return absl::string_view(text).substr(0, 0);
  }
  const uint32_t begin = offsets[static_cast<size_t>(start)];
  return absl::string_view(text).substr(begin, offsets[static_cast<size_t>(end)] - begin);
}

template <bool kAtEnd>
Value HasAffix(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound(kAtEnd ? "endswith" : "startswith", arguments, {"prefix", "start", "end"}, 1);
  bool crossed = false;
  const absl::string_view text = Part(self, bound, 1, in.budget(), &crossed);
  const auto matches = [&](const Value& affix) {
    const std::string& wanted = RequireText(affix, kAtEnd ? "endswith" : "startswith");
    return !crossed && (kAtEnd ? absl::EndsWith(text, wanted) : absl::StartsWith(text, wanted));
  };
  if (!bound[0].is_tuple()) return matches(bound[0]);
  const List& affixes = bound[0].as_list();
  in.budget().Step(static_cast<int64_t>(affixes.size()));
  return std::any_of(affixes.begin(), affixes.end(), matches);
}

// Where the argument occurs, in characters; -1 where it doesn't.
template <bool kFromRight>
int64_t Locate(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("find", arguments, {"sub", "start", "end"}, 1);
  const std::string& wanted = RequireText(bound[0], "find");
  bool crossed = false;
  const absl::string_view text = Part(self, bound, 1, in.budget(), &crossed);
  in.budget().Step(static_cast<int64_t>(self.as_string().size() / 64));
  const size_t found = kFromRight ? text.rfind(wanted) : text.find(wanted);
  if (crossed || found == absl::string_view::npos) return -1;
  const auto skipped = static_cast<size_t>(text.data() - self.as_string().data());
  return CountCodePoints(absl::string_view(self.as_string()).substr(0, skipped + found));
}

template <bool kFromRight>
Value Find(Interpreter& in, const Value& self, const Arguments& arguments) {
  return Locate<kFromRight>(in, self, arguments);
}

template <bool kFromRight>
Value Index(Interpreter& in, const Value& self, const Arguments& arguments) {
  const int64_t found = Locate<kFromRight>(in, self, arguments);
  if (found < 0) Raise("substring not found");
  return found;
}

Value CountOf(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"sub", "start", "end"}, 1);
  const std::string& wanted = RequireText(bound[0], "count");
  bool crossed = false;
  const absl::string_view text = Part(self, bound, 1, in.budget(), &crossed);
  in.budget().Step(static_cast<int64_t>(text.size() / 64));
  if (crossed) return 0;
  if (wanted.empty()) return CountCodePoints(text) + 1;
  int64_t count = 0;
  for (size_t at = text.find(wanted); at != absl::string_view::npos;
       at = text.find(wanted, at + wanted.size())) {
    ++count;
  }
  return count;
}

Value Replace(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  return ReplaceText(self.as_string(), RequireText(bound[0], "replace"),
                     RequireText(bound[1], "replace"), bound.Int(2, -1), in.budget());
}

Value Join(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("join", arguments, {"iterable"}, 1);
  if (!IsIterable(bound[0])) Raise("can only join an iterable");
  std::string out;
  int64_t position = 0;
  for (const Value& item : ToList(bound[0], in.budget())) {
    if (!item.is_string()) {
      Raise("sequence item ", position, ": expected str instance, ", TypeName(item), " found");
    }
    in.budget().Bytes(static_cast<int64_t>(self.as_string().size() + item.as_string().size()));
    if (position++ > 0) out += self.as_string();
    out += item.as_string();
  }
  return out;
}

template <bool kFromRight>
Value Partition(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("partition", arguments, {"sep"}, 1);
  const std::string& separator = RequireText(bound[0], "partition");
  if (separator.empty()) Raise("empty separator");
  const std::string& text = self.as_string();
  in.budget().Bytes(static_cast<int64_t>(text.size()));
  const size_t found = kFromRight ? text.rfind(separator) : text.find(separator);
  if (found == std::string::npos) {
    return kFromRight ? Value::Tuple({"", "", self}) : Value::Tuple({self, "", ""});
  }
  return Value::Tuple(
      {Value(text.substr(0, found)), bound[0], Value(text.substr(found + separator.size()))});
}

template <bool kAtEnd>
Value RemoveAffix(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("removeprefix", arguments, {"affix"}, 1);
  const std::string& affix = RequireText(bound[0], kAtEnd ? "removesuffix" : "removeprefix");
  absl::string_view text = self.as_string();
  in.budget().Bytes(static_cast<int64_t>(text.size()));
  if (affix.empty()) return self;
  if (kAtEnd && absl::EndsWith(text, affix)) text.remove_suffix(affix.size());
  if (!kAtEnd && absl::StartsWith(text, affix)) text.remove_prefix(affix.size());
  return text;
}

template <bool kLeft, bool kRight>
Value Pad(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("center", arguments, {"width", "fillchar"}, 1);
  const std::string fill = bound.Has(1) ? RequireText(bound[1], "center") : " ";
  if (CountCodePoints(fill) != 1) Raise("The fill character must be exactly one character long");
  return PadText(self.as_string(), bound.Int(0, 0), fill, kLeft, kRight, in.budget());
}

Value ZeroFill(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("zfill", arguments, {"width"}, 1);
  const std::string& text = self.as_string();
  const size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  const int64_t width = bound.Int(0, 0);
  if (width <= CountCodePoints(text)) return self;
  return text.substr(0, sign) + PadText(absl::string_view(text).substr(sign),
                                        width - static_cast<int64_t>(sign), "0", true, false,
                                        in.budget());
}

Value ExpandTabs(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("expandtabs", arguments, {"tabsize"});
  const int64_t size = std::min<int64_t>(bound.Int(0, 8), 1000);
  const std::string& text = self.as_string();
  std::string out;
  int64_t column = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const uint32_t c = NextCodePoint(text, &i);
    if (c == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      in.budget().Bytes(spaces);
      out.append(static_cast<size_t>(spaces), ' ');
      column += spaces;
    } else {
      out.append(text, begin, i - begin);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  in.budget().Bytes(static_cast<int64_t>(text.size()));
  return out;
}

// Whether all characters (and at least one, unless `kEmpty`) are of a class.
template <bool (*kIs)(uint32_t), bool kEmpty = false>
Value AllAre(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("str method", arguments, {});
  const std::string& text = self.as_string();
  in.budget().Step(static_cast<int64_t>(text.size() / 64));
  if (text.empty()) return kEmpty;
  for (size_t i = 0; i < text.size();) {
    if (!kIs(NextCodePoint(text, &i))) return false;
  }
  return true;
}

bool IsAlphaNumeric(uint32_t c) { return IsAlpha(c) || IsNumeric(c); }
bool IsAsciiCharacter(uint32_t c) { return c < 0x80; }

template <bool (*kWanted)(uint32_t), bool (*kOther)(uint32_t)>
Value HasCase(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("str method", arguments, {});
  const std::string& text = self.as_string();
  in.budget().Step(static_cast<int64_t>(text.size() / 64));
  bool found = false;
  for (size_t i = 0; i < text.size();) {
    const uint32_t c = NextCodePoint(text, &i);
    if (kOther(c)) return false;
    found = found || kWanted(c);
  }
  return found;
}

Value IsTitle(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("istitle", arguments, {});
  const std::string& text = self.as_string();
  in.budget().Step(static_cast<int64_t>(text.size() / 64));
  bool found = false;
  bool after_cased = false;
  for (size_t i = 0; i < text.size();) {
    const uint32_t c = NextCodePoint(text, &i);
    if (IsUpper(c) ? after_cased : IsLower(c) && !after_cased) return false;
    after_cased = IsUpper(c) || IsLower(c);
    found = found || after_cased;
  }
  return found;
}

Value IsIdentifier(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("isidentifier", arguments, {});
  const std::string& text = self.as_string();
  in.budget().Step(static_cast<int64_t>(text.size() / 64));
  for (size_t i = 0; i < text.size();) {
    const bool is_first = i == 0;
    const uint32_t c = NextCodePoint(text, &i);
    if (!(c == '_' || IsAlpha(c) || (!is_first && IsDecimal(c)))) return false;
  }
  return !text.empty();
}

Value FormatNamed(Interpreter& in, const Value& self, const CallArguments& arguments) {
  const FieldLookup lookup = [&in](const Value& value, absl::string_view name, bool is_attribute) {
    if (is_attribute) return in.GetAttribute(value, name);
    const bool is_index =
        !name.empty() && name.size() < 19 &&
        std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    const Value key = is_index ? Value(int64_t{std::stoll(std::string(name))}) : Value(name);
    Value found;
    if (!Subscript(value, key, in.budget(), &found)) Raise(Repr(key, in.budget()));
    return found;
  };
  return FormatFields(self.as_string(), arguments, lookup, in.budget());
}

Value FormatMap(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Bound bound("format_map", arguments, {"mapping"}, 1);
  if (!bound[0].is_dict()) Raise("format_map() expects a mapping");
  CallArguments named;
  for (const auto& [key, value] : bound[0].as_dict().entries()) {
    if (key.is_string()) named.named.emplace_back(key.as_string(), value);
  }
  return FormatNamed(in, self, named);
}

constexpr NamedFunction<MethodFunction> kMethods[] = {
    {"strip", Strip<true, true>},
    {"lstrip", Strip<true, false>},
    {"rstrip", Strip<false, true>},
    {"split", Split<false>},
    {"rsplit", Split<true>},
    {"splitlines", Lines},
    {"startswith", HasAffix<false>},
    {"endswith", HasAffix<true>},
    {"replace", Replace},
    {"join", Join},
    {"find", Find<false>},
    {"rfind", Find<true>},
    {"index", Index<false>},
    {"rindex", Index<true>},
    {"count", CountOf},
    {"partition", Partition<false>},
    {"rpartition", Partition<true>},
    {"removeprefix", RemoveAffix<false>},
    {"removesuffix", RemoveAffix<true>},
    {"upper", Mapped<ToUpper>},
    {"lower", Mapped<ToLower>},
    {"capitalize", Mapped<Capitalize>},
    {"title", Mapped<TitleCase>},
    {"swapcase", Mapped<SwapCase>},
    {"casefold", Mapped<CaseFold>},
    {"center", Pad<true, true>},
    {"ljust", Pad<false, true>},
    {"rjust", Pad<true, false>},
    {"zfill", ZeroFill},
    {"expandtabs", ExpandTabs},
    {"format", FormatNamed},
    {"format_map", FormatMap},
    {"isalnum", AllAre<IsAlphaNumeric>},
    {"isalpha", AllAre<IsAlpha>},
    {"isascii", AllAre<IsAsciiCharacter, true>},
    {"isdecimal", AllAre<IsDecimal>},
    {"isdigit", AllAre<IsDigit>},
    {"isnumeric", AllAre<IsNumeric>},
    {"isprintable", AllAre<IsPrintable, true>},
    {"isspace", AllAre<IsSpace>},
    {"isidentifier", IsIdentifier},
    {"islower", HasCase<IsLower, IsUpper>},
    {"isupper", HasCase<IsUpper, IsLower>},
    {"istitle", IsTitle},
};

}  // namespace

MethodFunction FindStringMethod(absl::string_view name) { return FindIn(kMethods, name); }

}  // namespace lorica::jinja
