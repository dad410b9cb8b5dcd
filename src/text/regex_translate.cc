// Oniguruma's syntax in PCRE2's. What differs in silence is what this is about: \s, \w and \b know
// other characters, \h and \v mean other things, {,n} and brackets inside brackets are literal in
// PCRE2, script properties take extensions in.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"
#include "lorica/text/regex.h"
#include "lorica/text/regex_classes.h"
#include "lorica/text/utf8.h"

namespace lorica {
namespace {

constexpr size_t kLongestPattern = 32 * 1024;
constexpr int kDeepestClass = 16;

// Members of a character class: `items` between brackets, or all but them.
struct Members {
  std::string items;
  bool negated = false;
};

class Translator {
 public:
  explicit Translator(absl::string_view pattern) : pattern_(pattern) {}

  absl::StatusOr<std::string> Run() {
    if (pattern_.size() > kLongestPattern) {
      return absl::InvalidArgumentError(absl::StrCat("a regular expression of ", pattern_.size(),
                                                     " bytes is longer than ", kLongestPattern));
    }
    while (!AtEnd()) {
      LORICA_RETURN_IF_ERROR(Step());
    }
    return std::move(out_);
  }

 private:
  bool AtEnd() const { return position_ == pattern_.size(); }
  char Peek(size_t ahead = 0) const {
    return position_ + ahead < pattern_.size() ? pattern_[position_ + ahead] : '\0';
  }
  bool Consume(absl::string_view text) {
    if (!absl::StartsWith(pattern_.substr(position_), text)) return false;
    position_ += text.size();
    return true;
  }

  absl::Status Unsupported(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("regular expression ", Quoted(pattern_),
                                                   " uses ", what, " before offset ", position_,
                                                   ", which isn't supported"));
  }

  // Appends something that a quantifier can follow.
  void Atom(absl::string_view text) {
    atom_ = out_.size();
    absl::StrAppend(&out_, text);
  }

  absl::Status Step() {
    const char c = Peek();
    switch (c) {
      case '\\': {
        ++position_;
        if (Consume("b")) return Boundary(false);
        if (Consume("B")) return Boundary(true);
        for (const char* anchor : {"A", "Z", "z", "G"}) {
          if (!Consume(anchor)) continue;
          absl::StrAppend(&out_, "\\", anchor);
          return absl::OkStatus();
        }
        LORICA_ASSIGN_OR_RETURN(const Members members, Escape());
        Atom(Bracket(members));
        return absl::OkStatus();
      }
      case '[': {
        ++position_;
        LORICA_ASSIGN_OR_RETURN(const std::string expression, Class(0));
        Atom(expression);
        return absl::OkStatus();
      }
      case '(':
        return Open();
      case ')':
        ++position_;
        atom_ = out_.size();
        if (!groups_.empty()) {
          atom_ = groups_.back();
          groups_.pop_back();
        }
        out_.push_back(')');
        return absl::OkStatus();
      case '{':
        return Interval();
      case '*':
      case '+':
      case '?':
      case '|':
      case '^':
      case '$':
        ++position_;
        out_.push_back(c);
        return absl::OkStatus();
      default: {
        const size_t length = Utf8Length(c);
        Atom(pattern_.substr(position_, length));
        position_ += length;
        return absl::OkStatus();
      }
    }
  }

  absl::Status Boundary(bool negated) {
    const std::string word = absl::StrCat("[", WordItems(), "]");
    absl::StrAppend(&out_, "(?:(?<=", word, negated ? ")(?=" : ")(?!", word, ")|(?<!", word,
                    negated ? ")(?!" : ")(?=", word, "))");
    return absl::OkStatus();
  }

  absl::Status Open() {
    const size_t begin = out_.size();
    for (const char* plain : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (!Consume(plain)) continue;
      absl::StrAppend(&out_, plain);
      groups_.push_back(begin);
      return absl::OkStatus();
    }
    if (Consume("(?")) {
      if (Peek() == '<' || Peek() == '\'') {
        return Unsupported("a named group");
      }
      // Options: i alone means the same in both; m is what PCRE2 calls s.
      std::string options;
      while (Peek() == 'i' || Peek() == 'm' || Peek() == '-') {
        options.push_back(Peek() == 'm' ? 's' : Peek());
        ++position_;
      }
      if (options.empty() || (Peek() != ')' && Peek() != ':')) {
        return Unsupported(absl::StrCat("the group (?", options, std::string(1, Peek())));
      }
      // Behind something else, a(?i)b|c is a(?i:b|c) here and a(?i:b)|(?i:c) there.
      if (Peek() == ')' && begin != 0) return Unsupported("options in its middle");
      if (Peek() == ':') groups_.push_back(begin);
      absl::StrAppend(&out_, "(?", options, std::string(1, Peek()));
      ++position_;
      return absl::OkStatus();
    }
    if (Consume("(*")) return Unsupported("(*");
    ++position_;
    // No back reference is supported, so nothing needs a capture.
    absl::StrAppend(&out_, "(?:");
    groups_.push_back(begin);
    return absl::OkStatus();
  }

  // {n}, {n,}, {,m} or {n,m}; anything else is literal.
  absl::Status Interval() {
    const size_t close = pattern_.find('}', position_);
    std::optional<std::string> interval;
    if (close != absl::string_view::npos) {
      interval = IntervalText(pattern_.substr(position_ + 1, close - position_ - 1));
    }
    if (!interval.has_value()) {
      ++position_;
      Atom("\\{");
      return absl::OkStatus();
    }
    position_ = close + 1;
    absl::StrAppend(&out_, *interval);
    // A + behind an interval repeats it here; it would make it possessive there. {n}? makes it
    // optional here.
    const bool fixed = !absl::StrContains(*interval, ',');
    if (Peek() == '+' || (fixed && Peek() == '?')) {
      out_ = absl::StrCat(out_.substr(0, atom_), "(?:", out_.substr(atom_), ")");
    }
    return absl::OkStatus();
  }

  static std::optional<std::string> IntervalText(absl::string_view inside) {
    const size_t comma = inside.find(',');
    const absl::string_view low = inside.substr(0, comma);
    const absl::string_view high =
        comma == absl::string_view::npos ? low : inside.substr(comma + 1);
    const auto is_number = [](absl::string_view text) {
      return !text.empty() && text.size() <= 5 &&
             std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    };
    if (!is_number(low) && !(low.empty() && is_number(high))) return std::nullopt;
    if (!is_number(high) && !high.empty()) return std::nullopt;
    if (comma == absl::string_view::npos) return absl::StrCat("{", low, "}");
    return absl::StrCat("{", low.empty() ? "0" : low, ",", high, "}");
  }

  static std::string Bracket(const Members& members) {
    return absl::StrCat(members.negated ? "[^" : "[", members.items, "]");
  }

  static std::string Literal(uint32_t code_point) { return absl::StrFormat("\\x{%X}", code_point); }

  // What follows a backslash, outside or inside a class.
  absl::StatusOr<Members> Escape() {
    if (AtEnd()) return Unsupported("a backslash at its end");
    const char c = Peek();
    const size_t length = Utf8Length(c);
    const absl::string_view character = pattern_.substr(position_, length);
    position_ += length;
    switch (c) {
      case 's':
        return Members{SpaceItems(), false};
      case 'S':
        return Members{SpaceItems(), true};
      case 'd':
        return Members{CategoryItems("Nd"), false};
      case 'D':
        return Members{CategoryItems("Nd"), true};
      case 'w':
        return Members{WordItems(), false};
      case 'W':
        return Members{WordItems(), true};
      case 'h':
        return Members{HexDigitItems(), false};
      case 'H':
        return Members{HexDigitItems(), true};
      case 't':
        return Members{Literal('\t'), false};
      case 'n':
        return Members{Literal('\n'), false};
      case 'r':
        return Members{Literal('\r'), false};
      case 'f':
        return Members{Literal('\f'), false};
      case 'v':
        return Members{Literal('\v'), false};
      case 'a':
        return Members{Literal('\a'), false};
      case 'e':
        return Members{Literal(0x1B), false};
      case 'p':
      case 'P':
        return Property(c == 'P');
      case 'x':
      case 'u':
        return HexCharacter(c);
      default:
        break;
    }
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      return Unsupported(absl::StrCat("\\", character));
    }
    return Members{Literal(DecodeUtf8(character, 0)), false};
  }

  absl::StatusOr<Members> Property(bool negated) {
    const size_t close = pattern_.find('}', position_);
    if (Peek() != '{' || close == absl::string_view::npos) {
      return Unsupported("\\p without braces");
    }
    absl::string_view name = pattern_.substr(position_ + 1, close - position_ - 1);
    position_ = close + 1;
    if (absl::ConsumePrefix(&name, "^")) negated = !negated;
    auto items = PropertyItems(name);
    if (!items.ok()) return Unsupported(items.status().message());
    return Members{*std::move(items), negated};
  }

  // \xHH, \x{H...}, \uHHHH.
  absl::StatusOr<Members> HexCharacter(char kind) {
    size_t digits = kind == 'x' ? 2 : 4, begin = position_, end = position_ + digits;
    if (kind == 'x' && Peek() == '{') {
      begin = position_ + 1;
      end = pattern_.find('}', begin);
      if (end == absl::string_view::npos) return Unsupported("\\x{ without }");
      digits = end - begin;
    }
    uint32_t value = 0;
    const absl::string_view text = pattern_.substr(std::min(begin, pattern_.size()), digits);
    if (text.size() != digits || digits == 0 || digits > 8 ||
        !std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::StrContains("0123456789abcdefABCDEF", c); }) ||
        !absl::SimpleHexAtoi(text, &value) || value > 0x10FFFF || (value >> 11) == 0x1B) {
      return Unsupported(absl::StrCat("a bad \\", std::string(1, kind)));
    }
    // Two digits stand for a byte of UTF-8 there.
    if (kind == 'x' && begin == position_ && value >= 0x80) return Unsupported("\\x of one byte");
    position_ = begin == position_ ? end : end + 1;
    return Members{Literal(value), false};
  }

  // A class whose [ has been read, as an expression that matches one character.
  absl::StatusOr<std::string> Class(int depth) {
    if (depth > kDeepestClass) return Unsupported("brackets nested too deeply");
    const bool negated = Consume("^");
    std::vector<std::string> operands;
    std::string items;
    std::vector<std::string> nested;
    const auto finish_operand = [&] {
      if (!items.empty()) nested.insert(nested.begin(), absl::StrCat("[", items, "]"));
      operands.push_back(nested.size() == 1 ? nested[0]
                                            : absl::StrCat("(?:", absl::StrJoin(nested, "|"), ")"));
      items.clear();
      nested.clear();
    };
    if (Peek() == ']') return Unsupported("an empty class or one that begins with ]");
    while (true) {
      if (AtEnd()) return Unsupported("a class without its ]");
      if (Consume("]")) break;
      if (Consume("&&")) {
        if (items.empty() && nested.empty()) return Unsupported("&& without a left side");
        finish_operand();
        continue;
      }
      if (Consume("[:")) {
        const size_t close = pattern_.find(":]", position_);
        if (close == absl::string_view::npos) return Unsupported("[: without :]");
        absl::string_view name = pattern_.substr(position_, close - position_);
        const bool without = absl::ConsumePrefix(&name, "^");
        auto members = PropertyItems(name);
        if (!members.ok()) return Unsupported(absl::StrCat("[:", name, ":]"));
        position_ = close + 2;
        Add({*std::move(members), without}, &items, &nested);
        continue;
      }
      if (Consume("[")) {
        LORICA_ASSIGN_OR_RETURN(std::string inner, Class(depth + 1));
        nested.push_back(std::move(inner));
        continue;
      }
      if (Consume("\\")) {
        if (Consume("b")) {
          absl::StrAppend(&items, Literal('\b'));
          continue;
        }
        LORICA_ASSIGN_OR_RETURN(const Members members, Escape());
        Add(members, &items, &nested);
        continue;
      }
      const char c = Peek();
      const size_t length = Utf8Length(c);
      if (c == '^') items.push_back('\\');
      items.append(pattern_.data() + position_, length);
      position_ += length;
    }
    const bool plain = operands.empty() && nested.empty();
    if (plain) return absl::StrCat(negated ? "[^" : "[", items, "]");
    if (items.empty() && nested.empty()) return Unsupported("&& without a right side");
    finish_operand();
    std::string expression = "(?:";
    for (size_t i = 0; i + 1 < operands.size(); ++i) {
      absl::StrAppend(&expression, "(?=", operands[i], ")");
    }
    absl::StrAppend(&expression, operands.back(), ")");
    if (negated) expression = absl::StrCat("(?:(?!", expression, ")(?s:.))");
    return expression;
  }

  static void Add(const Members& members, std::string* items, std::vector<std::string>* nested) {
    if (members.negated) {
      nested->push_back(Bracket(members));
    } else {
      absl::StrAppend(items, members.items);
    }
  }

  absl::string_view pattern_;
  size_t position_ = 0;
  std::string out_;
  size_t atom_ = 0;             // where in out_ the last thing that can be repeated begins
  std::vector<size_t> groups_;  // where in out_ the open groups begin
};

}  // namespace

absl::StatusOr<std::string> TranslateToPcre2(absl::string_view pattern) {
  if (FirstInvalidUtf8(pattern) != pattern.size()) {
    return absl::InvalidArgumentError("a regular expression isn't valid UTF-8");
  }
  return Translator(pattern).Run();
}

}  // namespace lorica
