// Filters that make text.
#include <algorithm>
#include <cctype>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lorica/text/jinja/format.h"
#include "lorica/text/jinja/interpreter.h"
#include "lorica/text/jinja/operations.h"
#include "lorica/text/jinja/text_functions.h"
#include "lorica/text/jinja/unicode.h"

namespace lorica::jinja {

namespace {

template <std::string (*kMap)(absl::string_view)>
Value Mapped(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("filter", arguments, {});
  const std::string text = Str(input, interpreter.budget());
  interpreter.budget().Bytes(static_cast<int64_t>(text.size()));
  return kMap(text);
}

// Words start at the beginning and behind whitespace and the characters - ( { [ <.
std::string TitleWords(absl::string_view text) {
  std::string out;
  bool at_start = true;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const uint32_t c = NextCodePoint(text, &i);
    const absl::string_view character = text.substr(begin, i - begin);
    out += at_start ? ToUpper(character) : ToLower(character);
    at_start = IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  }
  return out;
}

Value String(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("string", arguments, {});
  return Str(input, interpreter.budget());
}

Value Trim(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("trim", arguments, {"chars"});
  Budget& budget = interpreter.budget();
  return StripText(Str(input, budget), bound[0], true, true, budget);
}

Value Replace(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  Budget& budget = interpreter.budget();
  const int64_t count = bound[2].is_none() ? -1 : bound.Int(2, -1);
  return ReplaceText(Str(input, budget), Str(bound[0], budget), Str(bound[1], budget), count,
                     budget);
}

const std::string& RequireText(const Value& input) {
  RequireDefined(input);
  if (!input.is_string()) Raise("expected a string, not ", TypeName(input));
  return input.as_string();
}

Value Indent(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("indent", arguments, {"width", "first", "blank"});
  Budget& budget = interpreter.budget();
  std::string indentation;
  if (bound[0].is_string()) {
    indentation = bound[0].as_string();
  } else {
    const int64_t width = std::max<int64_t>(bound.Int(0, 4), 0);
    budget.Bytes(width);
    indentation.assign(static_cast<size_t>(width), ' ');
  }
  const std::string text = RequireText(input) + "\n";
  budget.Bytes(static_cast<int64_t>(text.size()));
  std::string out;
  bool is_first = true;
  for (const absl::string_view line : SplitLines(text, false)) {
    budget.Bytes(static_cast<int64_t>(indentation.size() + line.size() + 1));
    if (!is_first) out += '\n';
    const bool indents = is_first ? bound.Truth(1, false) : !line.empty() || bound.Truth(2, false);
    if (indents) out += indentation;
    out.append(line.data(), line.size());
    is_first = false;
  }
  return out;
}

Value Truncate(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  Budget& budget = interpreter.budget();
  const int64_t length = bound.Int(0, 255);
  const std::string end = bound.Has(2) ? RequireText(bound[2]) : "...";
  const int64_t end_length = CountCodePoints(end);
  const int64_t leeway = bound[3].is_none() ? 5 : bound.Int(3, 5);
  if (length < end_length) Raise("expected length >= ", end_length, ", got ", length);
  if (leeway < 0) Raise("expected leeway >= 0, got ", leeway);
  if (input.is_undefined()) return input;
  if (Length(input) - leeway <= length) return input;  // a short list comes through, too
  const std::string& text = RequireText(input);
  budget.Bytes(static_cast<int64_t>(text.size()));
  size_t cut = 0;
  for (int64_t i = 0; i < length - end_length; ++i) NextCodePoint(text, &cut);
  std::string kept = text.substr(0, cut);
  if (!bound.Truth(1, false)) kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
  return kept + end;
}

Value Center(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("center", arguments, {"width"});
  Budget& budget = interpreter.budget();
  return PadText(Str(input, budget), bound.Int(0, 80), " ", true, true, budget);
}

Value WordCount(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("wordcount", arguments, {});
  const std::string text = Str(input, interpreter.budget());
  int64_t words = 0;
  bool inside = false;
  for (size_t i = 0; i < text.size();) {
    const uint32_t c = NextCodePoint(text, &i);
    const bool is_word = c == '_' || IsAlpha(c) || IsNumeric(c);
    words += is_word && !inside;
    inside = is_word;
  }
  return words;
}

Value Escape(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("escape", arguments, {});
  return EscapeHtml(Str(input, interpreter.budget()), interpreter.budget());
}

// Without comments and tags, common entities decoded, runs of whitespace made one space.
Value StripTags(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("striptags", arguments, {});
  Budget& budget = interpreter.budget();
  std::string text = Str(input, budget);
  for (const auto& [open, close] : {std::pair("<!--", "-->"), std::pair("<", ">")}) {
    std::string kept;
    size_t begin = 0;
    while (true) {
      const size_t from = text.find(open, begin);
      const size_t to = from == std::string::npos ? from : text.find(close, from);
      if (to == std::string::npos) break;
      kept.append(text, begin, from - begin);
      begin = to + absl::string_view(close).size();
    }
    text = kept + text.substr(begin);
  }
  static constexpr std::pair<const char*, const char*> kEntities[] = {
      {"&lt;", "<"},  {"&gt;", ">"},          {"&quot;", "\""}, {"&#34;", "\""},
      {"&#39;", "'"}, {"&nbsp;", "\xC2\xA0"}, {"&amp;", "&"}};
  for (const auto& [entity, character] : kEntities) {
    text = ReplaceText(text, entity, character, -1, budget);
  }
  std::string out;
  for (const Value& word : SplitText(text, nullptr, -1, false, budget)) {
    if (!out.empty()) out += ' ';
    out += word.as_string();
  }
  return out;
}

std::string QuoteUrl(absl::string_view text, bool in_query, Budget& budget) {
  budget.Bytes(static_cast<int64_t>(3 * text.size()));
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 ||
        absl::StrContains("_.-~", std::string(1, c)) || (c == '/' && !in_query)) {
      out += c;
    } else if (c == ' ' && in_query) {
      out += '+';
    } else {
      absl::StrAppendFormat(&out, "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

Value UrlEncode(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("urlencode", arguments, {});
  Budget& budget = interpreter.budget();
  if (input.is_string() || !IsIterable(input)) {
    return QuoteUrl(Str(input, budget), false, budget);
  }
  std::vector<std::string> parts;
  const auto put = [&](const Value& key, const Value& value) {
    parts.push_back(absl::StrCat(QuoteUrl(Str(key, budget), true, budget), "=",
                                 QuoteUrl(Str(value, budget), true, budget)));
  };
  if (input.is_dict()) {
    for (const auto& [key, value] : input.as_dict().entries()) put(key, value);
  } else {
    for (const Value& pair : ToList(input, budget)) {
      const List entry = ToList(pair, budget);
      if (entry.size() != 2) Raise("urlencode expects pairs");
      put(entry[0], entry[1]);
    }
  }
  return absl::StrJoin(parts, "&");
}

Value XmlAttributes(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("xmlattr", arguments, {"autospace"});
  Budget& budget = interpreter.budget();
  RequireDefined(input);
  if (!input.is_dict()) Raise("'", TypeName(input), "' object has no attribute 'items'");
  std::string out;
  for (const auto& [key, value] : input.as_dict().entries()) {
    if (value.is_none() || value.is_undefined()) continue;
    const std::string name = Str(key, budget);
    if (name.find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      Raise("Invalid character in attribute name: ", QuoteString(name));
    }
    if (!out.empty() || bound.Truth(0, true)) out += ' ';
    absl::StrAppend(&out, EscapeHtml(name, budget), "=\"", EscapeHtml(Str(value, budget), budget),
                    "\"");
  }
  return out;
}

Value Format(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  Budget& budget = interpreter.budget();
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    Raise("can't handle positional and keyword arguments at the same time");
  }
  if (arguments.named.empty()) {
    return PercentFormat(Str(input, budget), Value::Tuple(arguments.positional), budget);
  }
  Dict named;
  for (const auto& [name, value] : arguments.named) named.Set(Value(name), value);
  return PercentFormat(Str(input, budget), Value(std::move(named)), budget);
}

// json.dumps with the arguments that Hugging Face passes on.
Value Json(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  Budget& budget = interpreter.budget();
  JsonStyle style;
  style.ensure_ascii = bound.Truth(0, false);
  style.sort_keys = bound.Truth(3, false);
  style.pretty = !bound[1].is_none();
  if (bound[1].is_string()) {
    style.indent = bound[1].as_string();
  } else if (style.pretty) {
    const int64_t width = std::max<int64_t>(bound.Int(1, 0), 0);
    budget.Bytes(width);
    style.indent.assign(static_cast<size_t>(width), ' ');
  }
  if (style.pretty) style.item_separator.assign(1, ',');
  if (!bound[2].is_none()) {
    const List separators = ToList(bound[2], budget);
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      Raise("separators must be a pair of strings");
    }
    style.item_separator = separators[0].as_string();
    style.key_separator = separators[1].as_string();
  }
  return ToJson(input, style, budget);
}

constexpr NamedFunction<FilterFunction> kFilters[] = {
    {"trim", Trim},
    {"tojson", Json},
    {"string", String},
    {"upper", Mapped<ToUpper>},
    {"lower", Mapped<ToLower>},
    {"capitalize", Mapped<Capitalize>},
    {"title", Mapped<TitleWords>},
    {"replace", Replace},
    {"indent", Indent},
    {"truncate", Truncate},
    {"center", Center},
    {"wordcount", WordCount},
    {"format", Format},
    {"safe", String},
    {"e", Escape},
    {"escape", Escape},
    {"forceescape", Escape},
    {"striptags", StripTags},
    {"urlencode", UrlEncode},
    {"xmlattr", XmlAttributes},
};

}  // namespace

FilterFunction FindTextFilter(absl::string_view name) { return FindIn(kFilters, name); }

}  // namespace lorica::jinja
