#include "lorica/text/jinja/text_functions.h"

#include <algorithm>

#include "lorica/text/jinja/operations.h"
#include "lorica/text/jinja/unicode.h"

namespace lorica::jinja {

std::string ReplaceText(absl::string_view text, absl::string_view from, absl::string_view to,
                        int64_t count, Budget& budget) {
  budget.Bytes(static_cast<int64_t>(text.size()));
  if (count < 0) count = INT64_MAX;
  std::string out;
  const auto put_replacement = [&] {
    budget.Bytes(static_cast<int64_t>(to.size() + 1));
    out.append(to.data(), to.size());
    --count;
  };
  if (from.empty()) {  // before every character and at the end
    for (size_t i = 0; i < text.size();) {
      if (count > 0) put_replacement();
      const size_t begin = i;
      NextCodePoint(text, &i);
      out.append(text.data() + begin, i - begin);
    }
    if (count > 0) put_replacement();
    return out;
  }
  size_t begin = 0;
  while (count > 0) {
    const size_t found = text.find(from, begin);
    if (found == absl::string_view::npos) break;
    out.append(text.data() + begin, found - begin);
    put_replacement();
    begin = found + from.size();
  }
  out.append(text.data() + begin, text.size() - begin);
  return out;
}

namespace {

class Splitter {
 public:
  Splitter(absl::string_view text, Budget& budget) : rest_(text), budget_(budget) {
    budget.Bytes(static_cast<int64_t>(text.size()));
  }

  void Put(absl::string_view part) {
    budget_.Bytes(static_cast<int64_t>(sizeof(Value) + sizeof(std::string)));
    parts_.emplace_back(part);
  }

  List By(absl::string_view separator, int64_t splits, bool from_right) {
    for (; splits > 0; --splits) {
      const size_t found = from_right ? rest_.rfind(separator) : rest_.find(separator);
      if (found == absl::string_view::npos) break;
      if (from_right) {
        Put(rest_.substr(found + separator.size()));
        rest_ = rest_.substr(0, found);
      } else {
        Put(rest_.substr(0, found));
        rest_.remove_prefix(found + separator.size());
      }
    }
    Put(rest_);
    return Take(from_right);
  }

  List BySpace(int64_t splits, bool from_right) {
    rest_ = StripSpace(rest_, !from_right, from_right);
    while (!rest_.empty()) {
      if (splits-- <= 0) {
        Put(rest_);  // with the space at its other end
        break;
      }
      const size_t size = WordSize(from_right);
      if (from_right) {
        Put(rest_.substr(rest_.size() - size));
        rest_.remove_suffix(size);
      } else {
        Put(rest_.substr(0, size));
        rest_.remove_prefix(size);
      }
      rest_ = StripSpace(rest_, !from_right, from_right);
    }
    return Take(from_right);
  }

 private:
  // Bytes of the word at the end (or start) of rest_, which has no space there.
  size_t WordSize(bool from_right) const {
    if (from_right) {
      size_t begin = rest_.size();
      while (begin > 0) {
        size_t last = begin - 1;
        while (last > 0 && (static_cast<uint8_t>(rest_[last]) & 0xC0) == 0x80) --last;
        size_t next = last;
        if (IsSpace(NextCodePoint(rest_, &next))) break;
        begin = last;
      }
      return rest_.size() - begin;
    }
    size_t end = 0;
    while (end < rest_.size()) {
      size_t next = end;
      if (IsSpace(NextCodePoint(rest_, &next))) break;
      end = next;
    }
    return end;
  }

  List Take(bool from_right) {
    if (from_right) std::reverse(parts_.begin(), parts_.end());
    return std::move(parts_);
  }

  absl::string_view rest_;
  Budget& budget_;
  List parts_;
};

}  // namespace

List SplitText(absl::string_view text, const Value& separator, int64_t max_splits, bool from_right,
               Budget& budget) {
  const int64_t splits = max_splits < 0 ? INT64_MAX : max_splits;
  Splitter splitter(text, budget);
  if (separator.is_none()) return splitter.BySpace(splits, from_right);
  RequireDefined(separator);
  if (!separator.is_string()) Raise("must be str or None, not ", TypeName(separator));
  if (separator.as_string().empty()) Raise("empty separator");
  return splitter.By(separator.as_string(), splits, from_right);
}

std::string PadText(absl::string_view text, int64_t width, absl::string_view fill, bool left,
                    bool right, Budget& budget) {
  const int64_t length = CountCodePoints(text);
  budget.Bytes(static_cast<int64_t>(text.size()));
  if (width <= length) return std::string(text);
  const int64_t missing = width - length;
  budget.Bytes(std::min<int64_t>(missing, INT64_MAX / 8) * static_cast<int64_t>(fill.size()));
  // Python puts the odd one of a centred text to the left where the width is odd.
  const int64_t before = left && right ? missing / 2 + (missing & width & 1) : left ? missing : 0;
  std::string out;
  for (int64_t i = 0; i < before; ++i) out.append(fill.data(), fill.size());
  out.append(text.data(), text.size());
  for (int64_t i = before; right && i < missing; ++i) out.append(fill.data(), fill.size());
  return out;
}

Value StripText(absl::string_view text, const Value& characters, bool left, bool right,
                Budget& budget) {
  budget.Bytes(static_cast<int64_t>(text.size()));
  if (characters.is_none()) return StripSpace(text, left, right);
  RequireDefined(characters);
  if (!characters.is_string()) Raise("strip arg must be None or str");
  return StripCharacters(text, characters.as_string(), left, right);
}

std::string EscapeHtml(absl::string_view text, Budget& budget) {
  budget.Bytes(static_cast<int64_t>(text.size()));
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace lorica::jinja
