// Filters that lay text out or mark it up: wordwrap, urlize, pprint.
#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "lorica/text/jinja/interpreter.h"
#include "lorica/text/jinja/operations.h"
#include "lorica/text/jinja/pretty.h"
#include "lorica/text/jinja/text_functions.h"
#include "lorica/text/jinja/unicode.h"
#include "lorica/text/jinja/word_wrap.h"
#include "lorica/text/regex.h"

namespace lorica::jinja {

namespace {

Value WordWrap(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("wordwrap", arguments,
                    {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  Budget& budget = interpreter.budget();
  RequireDefined(input);
  if (!input.is_string()) Raise("'", TypeName(input), "' object has no attribute 'splitlines'");
  WrapStyle style;
  style.width = bound.Int(0, 79);
  style.break_long_words = bound.Truth(1, true);
  style.break_on_hyphens = bound.Truth(3, true);
  std::string separator = "\n";
  if (!bound[2].is_none()) {
    if (!bound[2].is_string()) Raise("wrapstring must be a string, not ", TypeName(bound[2]));
    separator = bound[2].as_string();
  }
  std::string out;
  bool is_first = true;
  for (const absl::string_view line : SplitLines(input.as_string(), false)) {
    if (!is_first) out += separator;
    is_first = false;
    const std::vector<std::string> wrapped = WrapLine(line, style, budget);
    budget.Bytes(static_cast<int64_t>((wrapped.size() + 1) * separator.size() + line.size()));
    out += absl::StrJoin(wrapped, separator);
  }
  return out;
}

// What jinja2 takes for the address of a page, whatever its case, and for one of mail.
constexpr absl::string_view kPage =
    "^(?:(?:[hH][tT][tT][pP][sS]?://|[wW][wW][wW]\\.)(?:(?:[\\p{L}\\p{N}_%\\-]+\\.)+)?"
    "(?:[a-zA-Z]{2,63}|[xX][nN]--[\\p{L}\\p{N}_%]{2,59})"
    "|(?:[\\p{L}\\p{N}_%\\-]{2,63}\\.)+"
    "(?:[cC][oO][mM]|[nN][eE][tT]|[iI][nN][tT]|[eE][dD][uU]|[gG][oO][vV]|[oO][rR][gG]"
    "|[iI][nN][fF][oO]|[mM][iI][lL])"
    "|[hH][tT][tT][pP][sS]?://(?:\\p{Nd}{1,3}(?:\\.\\p{Nd}{1,3}){3}"
    "|\\[(?:[\\p{Nd}a-fA-F]{0,4}:){2}(?:[\\p{Nd}a-fA-F]{0,4}:?){1,6}\\]))"
    "(?::\\p{Nd}{1,5})?(?:[/?#]\\S*)?$";
constexpr absl::string_view kMail = "^\\S+@[\\p{L}\\p{N}_][\\p{L}\\p{N}_.\\-]*\\.[\\p{L}\\p{N}_]+$";
constexpr absl::string_view kScheme = "^[\\p{L}\\p{N}_.+\\-]{2,}:/{0,2}$";

class Pattern {
 public:
  explicit Pattern(absl::string_view source) : regex_(Regex::Compile(source).value()) {}
  bool Matches(const std::string& text) {
    const absl::Status status = regex_.FindAll(text, &scratch_, &found_);
    if (!status.ok()) throw LimitError(std::string(status.message()));
    return !found_.empty();
  }

 private:
  Regex regex_;
  Regex::Scratch scratch_;
  std::vector<ByteRange> found_;
};

struct LinkStyle {
  std::string attributes;  // of the element, with a space before each
  bool shortens = false;
  int64_t shown = 0;  // characters of a page's address that are shown, where it shortens
  std::vector<std::string> schemes;
};

class Linker {
 public:
  explicit Linker(LinkStyle style) : style_(std::move(style)) {}

  std::string Word(absl::string_view word) {
    absl::string_view middle_part = word;
    while (Drops(&middle_part, {"(", "<", "&lt;"}, true)) {
    }
    const absl::string_view head = word.substr(0, word.size() - middle_part.size());
    const absl::string_view behind_head = middle_part;
    while (Drops(&middle_part, {")", ">", ".", ",", "\n", "&gt;"}, false)) {
    }
    absl::string_view tail = behind_head.substr(middle_part.size());
    std::string middle(middle_part);
    for (const auto& [open, close] : {std::pair<absl::string_view, absl::string_view>("(", ")"),
                                      {"<", ">"},
                                      {"&lt;", "&gt;"}}) {
      const size_t opened = Count(middle, open);
      if (opened <= Count(middle, close)) continue;
      for (size_t moves = std::min(opened, Count(tail, close)); moves > 0; --moves) {
        const size_t end = tail.find(close) + close.size();
        middle.append(tail.data(), end);
        tail.remove_prefix(end);
      }
    }
    return absl::StrCat(head, Link(middle), tail);
  }

 private:
  static bool Drops(absl::string_view* text, std::initializer_list<absl::string_view> parts,
                    bool from_start) {
    for (const absl::string_view part : parts) {
      if (from_start ? absl::StartsWith(*text, part) : absl::EndsWith(*text, part)) {
        from_start ? text->remove_prefix(part.size()) : text->remove_suffix(part.size());
        return true;
      }
    }
    return false;
  }

  static size_t Count(absl::string_view text, absl::string_view part) {
    size_t count = 0;
    for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) {
      ++count;
    }
    return count;
  }

  std::string Shown(const std::string& address) const {
    const int64_t length = CountCodePoints(address);
    if (!style_.shortens || length <= style_.shown) return address;
    const int64_t kept =
        style_.shown < 0 ? std::max<int64_t>(length + style_.shown, 0) : style_.shown;
    size_t end = 0;
    for (int64_t i = 0; i < kept; ++i) NextCodePoint(address, &end);
    return address.substr(0, end) + "...";
  }

  std::string Link(const std::string& text) {
    if (page_.Matches(text)) {
      const bool complete = absl::StartsWith(text, "https://") || absl::StartsWith(text, "http://");
      return absl::StrCat("<a href=\"", complete ? "" : "https://", text, "\"", style_.attributes,
                          ">", Shown(text), "</a>");
    }
    if (absl::StartsWith(text, "mailto:") && mail_.Matches(text.substr(7))) {
      return absl::StrCat("<a href=\"", text, "\">", text.substr(7), "</a>");
    }
    if (absl::StrContains(text, "@") && !absl::StartsWith(text, "www.") && text[0] != '@' &&
        !absl::StrContains(text, ":") && mail_.Matches(text)) {
      return absl::StrCat("<a href=\"mailto:", text, "\">", text, "</a>");
    }
    std::string link = text;
    for (const std::string& scheme : style_.schemes) {
      if (link == scheme || !absl::StartsWith(link, scheme)) continue;
      link = absl::StrCat("<a href=\"", link, "\"", style_.attributes, ">", link, "</a>");
    }
    return link;
  }

  LinkStyle style_;
  Pattern page_{kPage};
  Pattern mail_{kMail};
};

Value Urlize(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("urlize", arguments,
                    {"trim_url_limit", "nofollow", "target", "rel", "extra_schemes"});
  Budget& budget = interpreter.budget();
  LinkStyle style;
  style.shortens = !bound[0].is_none();
  if (style.shortens) style.shown = bound.Int(0, 0);
  std::set<std::string> relations = {"noopener"};
  if (bound.Truth(1, false)) relations.insert("nofollow");
  if (Truthy(bound[3])) {
    for (const Value& part : SplitText(Str(bound[3], budget), nullptr, -1, false, budget)) {
      relations.insert(part.as_string());
    }
  }
  style.attributes =
      absl::StrCat(" rel=\"", EscapeHtml(absl::StrJoin(relations, " "), budget), "\"");
  if (Truthy(bound[2])) {
    absl::StrAppend(&style.attributes, " target=\"", EscapeHtml(Str(bound[2], budget), budget),
                    "\"");
  }
  if (Truthy(bound[4])) {
    Pattern valid(kScheme);
    for (const Value& scheme : ToList(bound[4], budget)) {
      if (!scheme.is_string() || !valid.Matches(scheme.as_string())) {
        Raise(Repr(scheme, budget), " is not a valid URI scheme prefix.");
      }
      style.schemes.push_back(scheme.as_string());
    }
  }
  const std::string text = EscapeHtml(Str(input, budget), budget);
  Linker linker(std::move(style));
  std::string out;
  const auto put_word = [&](absl::string_view word) {
    const std::string linked = linker.Word(word);
    budget.Bytes(static_cast<int64_t>(linked.size()));
    out += linked;
  };
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t at = i;
    if (!IsSpace(NextCodePoint(text, &i))) continue;
    put_word(absl::string_view(text).substr(begin, at - begin));
    out.append(text, at, i - at);
    begin = i;
  }
  put_word(absl::string_view(text).substr(begin));
  return out;
}

Value PrettyPrint(Interpreter& interpreter, const Value& input, const CallArguments& arguments) {
  const Bound bound("pprint", arguments, {});
  return PrettyRepr(input, interpreter.budget());
}

Value RefuseRandom(Interpreter&, const Value&, const CallArguments&) {
  Raise(
      "the filter 'random' isn't supported in chat templates: what is trained must be the same "
      "every time");
}

constexpr NamedFunction<FilterFunction> kFilters[] = {
    {"pprint", PrettyPrint},
    {"random", RefuseRandom},
    {"urlize", Urlize},
    {"wordwrap", WordWrap},
};

}  // namespace

FilterFunction FindLayoutFilter(absl::string_view name) { return FindIn(kFilters, name); }

}  // namespace lorica::jinja
