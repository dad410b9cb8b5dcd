#include "lorica/text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/tensor/status.h"
#include "lorica/text/accents.h"
#include "lorica/text/byte_alphabet.h"
#include "lorica/text/utf8.h"

namespace lorica {
namespace {

// A normalizer that maps each character to a string, or leaves it.
template <typename Map>
class CharacterNormalizer : public Normalizer {
 public:
  explicit CharacterNormalizer(Map map) : map_(std::move(map)) {}

  absl::Status Apply(MappedText* text, Regex::Scratch*) const override {
    const absl::string_view source = text->text();
    TextRewriter out(*text);
    std::string replacement;
    size_t kept = 0;
    for (size_t i = 0; i < source.size();) {
      const size_t end = i + Utf8Length(source[i]);
      replacement.clear();
      if (map_(DecodeUtf8(source, i), &replacement)) {
        out.Keep(kept, i);
        out.Replace(i, end, replacement);
        kept = end;
      }
      i = end;
    }
    if (kept == 0) return absl::OkStatus();
    out.Keep(kept, source.size());
    *text = out.Finish();
    return absl::OkStatus();
  }

 private:
  Map map_;  // (code point, string*) -> whether the string replaces it
};

template <typename Map>
std::unique_ptr<Normalizer> MakeCharacterNormalizer(Map map) {
  return std::make_unique<CharacterNormalizer<Map>>(std::move(map));
}

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

  absl::Status Apply(MappedText* text, Regex::Scratch*) const override {
    const absl::string_view source = text->text();
    size_t begin = 0, end = source.size();
    while (left_ && begin < end && IsWhiteSpace(DecodeUtf8(source, begin))) {
      begin += Utf8Length(source[begin]);
    }
    while (right_ && end > begin) {
      const size_t last = PreviousUtf8(source, end);
      if (!IsWhiteSpace(DecodeUtf8(source, last))) break;
      end = last;
    }
    if (begin == 0 && end == source.size()) return absl::OkStatus();
    TextRewriter out(*text);
    out.Keep(begin, end);
    *text = out.Finish();
    return absl::OkStatus();
  }

 private:
  bool left_, right_;
};

class Replace : public Normalizer {
 public:
  Replace(TextPattern pattern, absl::string_view content)
      : pattern_(std::move(pattern)), content_(content) {}

  absl::Status Apply(MappedText* text, Regex::Scratch* scratch) const override {
    std::vector<ByteRange> matches;
    LORICA_RETURN_IF_ERROR(pattern_.FindAll(text->text(), scratch, &matches));
    if (matches.empty()) return absl::OkStatus();
    TextRewriter out(*text);
    size_t kept = 0;
    for (const ByteRange& match : matches) {
      out.Keep(kept, match.begin);
      out.Replace(match.begin, match.end, content_);
      kept = match.end;
    }
    out.Keep(kept, text->text().size());
    *text = out.Finish();
    return absl::OkStatus();
  }

 private:
  TextPattern pattern_;
  std::string content_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(absl::string_view prefix) : prefix_(prefix) {}

  absl::Status Apply(MappedText* text, Regex::Scratch*) const override {
    if (text->text().empty()) return absl::OkStatus();
    TextRewriter out(*text);
    out.Replace(0, 0, prefix_);
    out.Keep(0, text->text().size());
    *text = out.Finish();
    return absl::OkStatus();
  }

 private:
  std::string prefix_;
};

class ByteLevelNormalizer : public Normalizer {
 public:
  absl::Status Apply(MappedText* text, Regex::Scratch*) const override {
    std::vector<ByteRange> whole = {{0, static_cast<uint32_t>(text->text().size())}};
    SpellInAlphabet(text, &whole);
    return absl::OkStatus();
  }
};

}  // namespace

absl::StatusOr<TextPattern> TextPattern::Literal(absl::string_view text) {
  if (text.empty()) return absl::InvalidArgumentError("a pattern is the empty string");
  TextPattern pattern;
  pattern.literal_ = std::string(text);
  return pattern;
}

absl::StatusOr<TextPattern> TextPattern::Expression(absl::string_view expression) {
  TextPattern pattern;
  LORICA_ASSIGN_OR_RETURN(pattern.regex_, Regex::Compile(expression));
  return pattern;
}

absl::Status TextPattern::FindAll(absl::string_view text, Regex::Scratch* scratch,
                                  std::vector<ByteRange>* matches) const {
  if (regex_.has_value()) return regex_->FindAll(text, scratch, matches);
  matches->clear();
  for (size_t at = text.find(literal_); at != absl::string_view::npos;
       at = text.find(literal_, at + literal_.size())) {
    matches->push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + literal_.size())});
  }
  return absl::OkStatus();
}

std::unique_ptr<Normalizer> MakeLowercase() {
  return MakeCharacterNormalizer([](uint32_t c, std::string* out) {
    if (c == 0x130) {  // the one character whose lower case is two
      out->append("i\xCC\x87");
      return true;
    }
    const auto lower = static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
    if (lower == c) return false;
    AppendUtf8(lower, out);
    return true;
  });
}

std::unique_ptr<Normalizer> MakeStrip(bool left, bool right) {
  return std::make_unique<Strip>(left, right);
}

std::unique_ptr<Normalizer> MakeStripAccents() {
  return MakeCharacterNormalizer([](uint32_t c, std::string*) { return IsStrippedAccent(c); });
}

std::unique_ptr<Normalizer> MakeStripNonspacing() {
  return MakeCharacterNormalizer([](uint32_t c, std::string*) { return IsStrippedByBert(c); });
}

std::unique_ptr<Normalizer> MakeCleanText() {
  return MakeCharacterNormalizer([](uint32_t c, std::string* out) {
    // Of the controls that are white space, only these three count as such.
    if (c == '\t' || c == '\n' || c == '\r' || (IsWhiteSpace(c) && !IsControl(c))) {
      out->push_back(' ');
      return true;
    }
    return c == 0xFFFD || IsControl(c);
  });
}

std::unique_ptr<Normalizer> MakeSpacedIdeographs() {
  return MakeCharacterNormalizer([](uint32_t c, std::string* out) {
    // The blocks that BERT's tokenizer lists, and of those what Hugging Face's has.
    static constexpr uint32_t kBlocks[][2] = {
        {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},  {0x20000, 0x2A6DF},
        {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
    for (const auto& [first, last] : kBlocks) {
      if (c < first || c > last) continue;
      out->push_back(' ');
      AppendUtf8(c, out);
      out->push_back(' ');
      return true;
    }
    return false;
  });
}

std::unique_ptr<Normalizer> MakeReplace(TextPattern pattern, absl::string_view content) {
  return std::make_unique<Replace>(std::move(pattern), content);
}

std::unique_ptr<Normalizer> MakePrepend(absl::string_view prefix) {
  return std::make_unique<Prepend>(prefix);
}

std::unique_ptr<Normalizer> MakeNmt() {
  return MakeCharacterNormalizer([](uint32_t c, std::string* out) {
    if ((c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
        c == 0x9F) {
      return true;  // taken out
    }
    if (c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
        (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
        c == 0xFFFD) {
      out->push_back(' ');
      return true;
    }
    return false;
  });
}

std::unique_ptr<Normalizer> MakeByteLevelNormalizer() {
  return std::make_unique<ByteLevelNormalizer>();
}

}  // namespace lorica
