#include "lorica/text/jinja/pretty.h"

#include <algorithm>
#include <vector>

#include "lorica/text/jinja/operations.h"
#include "lorica/text/jinja/unicode.h"

namespace lorica::jinja {
namespace {

using Kind = Value::Kind;

constexpr int64_t kWidth = 80;

// Keys without an order among themselves go by the names of their types.
std::vector<Dict::Entry> SortedEntries(const Dict& dict, Budget& budget) {
  std::vector<Dict::Entry> entries = dict.entries();
  std::stable_sort(entries.begin(), entries.end(), [&](const Dict::Entry& a, const Dict::Entry& b) {
    try {
      return Less(a.first, b.first, budget);
    } catch (const TemplateError&) {
      return TypeName(a.first) < TypeName(b.first);
    }
  });
  return entries;
}

std::string SortedRepr(const Value& value, Budget& budget) {
  budget.Step();
  std::string out;
  switch (value.kind()) {
    case Kind::kDict:
      for (const auto& [key, item] : SortedEntries(value.as_dict(), budget)) {
        out += out.empty() ? "" : ", ";
        out += SortedRepr(key, budget) + ": " + SortedRepr(item, budget);
      }
      out = "{" + out + "}";
      break;
    case Kind::kList:
    case Kind::kTuple:
      for (const Value& item : value.as_list()) {
        out += out.empty() ? "" : ", ";
        out += SortedRepr(item, budget);
      }
      if (value.is_tuple()) {
        out = "(" + out + (value.as_list().size() == 1 ? ",)" : ")");
      } else {
        out = "[" + out + "]";
      }
      break;
    default:
      return Repr(value, budget);
  }
  budget.Bytes(static_cast<int64_t>(out.size()));
  return out;
}

// Words, each with the space behind it.
std::vector<absl::string_view> WordsWithSpace(absl::string_view text) {
  std::vector<absl::string_view> words;
  size_t begin = 0;
  bool in_space = false;
  for (size_t i = 0; i < text.size();) {
    const size_t at = i;
    const bool space = IsSpace(NextCodePoint(text, &i));
    if (in_space && !space) {
      words.push_back(text.substr(begin, at - begin));
      begin = at;
    }
    in_space = space;
  }
  words.push_back(text.substr(begin));
  return words;
}

class Printer {
 public:
  explicit Printer(Budget& budget) : budget_(budget) {}

  std::string Print(const Value& value) {
    Format(value, 0, 0, 0);
    return std::move(out_);
  }

 private:
  // `indent` columns are taken on the left; `allowance` must stay free on the last line.
  void Format(const Value& value, int64_t indent, int64_t allowance, int level) {
    const std::string flat = SortedRepr(value, budget_);
    if (CountCodePoints(flat) <= kWidth - indent - allowance) {
      out_ += flat;
      return;
    }
    switch (value.kind()) {
      case Kind::kDict:
        FormatDict(value.as_dict(), indent, allowance, level + 1);
        break;
      case Kind::kList:
        out_ += '[';
        FormatItems(value.as_list(), indent, allowance + 1, level + 1);
        out_ += ']';
        break;
      case Kind::kTuple: {
        const std::string end = value.as_list().size() == 1 ? ",)" : ")";
        out_ += '(';
        FormatItems(value.as_list(), indent, allowance + static_cast<int64_t>(end.size()),
                    level + 1);
        out_ += end;
        break;
      }
      case Kind::kString:
        FormatText(value.as_string(), indent, allowance, level + 1);
        break;
      default:
        out_ += flat;
    }
  }

  void NewLine(int64_t indent) {
    budget_.Bytes(indent + 1);
    out_ += '\n';
    out_.append(static_cast<size_t>(indent), ' ');
  }

  void FormatItems(const List& items, int64_t indent, int64_t allowance, int level) {
    ++indent;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) {
        out_ += ',';
        NewLine(indent);
      }
      Format(items[i], indent, i + 1 == items.size() ? allowance : 1, level);
    }
  }

  void FormatDict(const Dict& dict, int64_t indent, int64_t allowance, int level) {
    out_ += '{';
    ++indent;
    size_t left = dict.size();
    for (const auto& [key, item] : SortedEntries(dict, budget_)) {
      const std::string name = SortedRepr(key, budget_);
      out_ += name + ": ";
      --left;
      Format(item, indent + CountCodePoints(name) + 2, left == 0 ? allowance + 1 : 1, level);
      if (left > 0) {
        out_ += ',';
        NewLine(indent);
      }
    }
    out_ += '}';
  }

  // A long text becomes several literals, between brackets where nothing else surrounds it.
  void FormatText(absl::string_view text, int64_t indent, int64_t allowance, int level) {
    if (level == 1) {
      ++indent;
      ++allowance;
    }
    const int64_t width = kWidth - indent;
    std::vector<std::string> literals;
    std::string whole;
    const std::vector<absl::string_view> lines = SplitLines(text, true);
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool last_line = i + 1 == lines.size();
      whole = QuoteString(lines[i]);
      budget_.Bytes(static_cast<int64_t>(whole.size()));
      if (CountCodePoints(whole) <= width - (last_line ? allowance : 0)) {
        literals.push_back(whole);
        continue;
      }
      std::string current;
      const std::vector<absl::string_view> words = WordsWithSpace(lines[i]);
      for (size_t j = 0; j < words.size(); ++j) {
        const bool last = last_line && j + 1 == words.size();
        const std::string candidate = current + std::string(words[j]);
        budget_.Bytes(static_cast<int64_t>(candidate.size()));
        if (CountCodePoints(QuoteString(candidate)) <= width - (last ? allowance : 0)) {
          current = candidate;
          continue;
        }
        if (!current.empty()) literals.push_back(QuoteString(current));
        current = std::string(words[j]);
      }
      if (!current.empty()) literals.push_back(QuoteString(current));
    }
    if (literals.size() <= 1) {
      out_ += text.empty() ? "''" : whole;
      return;
    }
    if (level == 1) out_ += '(';
    for (size_t i = 0; i < literals.size(); ++i) {
      if (i > 0) NewLine(indent);
      out_ += literals[i];
    }
    if (level == 1) out_ += ')';
  }

  Budget& budget_;
  std::string out_;
};

}  // namespace

std::string PrettyRepr(const Value& value, Budget& budget) { return Printer(budget).Print(value); }

}  // namespace lorica::jinja
