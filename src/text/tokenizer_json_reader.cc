#include "lorica/text/tokenizer_json_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"

namespace lorica {
namespace {

using nlohmann::json;

// Published files nest eight deep.
constexpr size_t kDeepest = 64;

class Handler : public nlohmann::json_sax<json> {
 public:
  explicit Handler(TokenizerJson* out) : out_(*out) {}

  const std::string& error() const { return error_; }

  bool null() override { return Value(nullptr); }
  bool boolean(bool value) override { return Value(value); }
  bool number_integer(number_integer_t value) override { return Number(value, double(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    // What doesn't fit becomes an id that is out of range.
    const int64_t id = value > uint64_t{INT64_MAX} ? INT64_MAX : static_cast<int64_t>(value);
    return mode_ == kDocument ? Value(value) : Number(id, double(value));
  }
  bool number_float(number_float_t value, const string_t&) override {
    if (mode_ == kPieceScore) return Score(value);
    return Value(value);
  }
  bool binary(binary_t&) override { return Fail("binary data"); }

  bool string(string_t& value) override {
    switch (mode_) {
      case kDocument:
        return Value(std::move(value));
      case kPieceText:
        out_.pieces.Add(value);
        mode_ = kPieceScore;
        return true;
      case kMerges: {  // "left right"
        const size_t space = value.find(' ');
        if (space == std::string::npos || value.find(' ', space + 1) != std::string::npos) {
          return Fail(absl::StrCat("merge ", out_.merges.size() / 2, " (", Quoted(value),
                                   ") isn't two pieces with a space between them"));
        }
        out_.merges.Add(absl::string_view(value).substr(0, space));
        out_.merges.Add(absl::string_view(value).substr(space + 1));
        return true;
      }
      case kMergeLeft:
      case kMergeRight:
        out_.merges.Add(value);
        mode_ = mode_ == kMergeLeft ? kMergeRight : kMergeEnd;
        return true;
      default:
        return Unexpected("a string");
    }
  }

  bool start_object(size_t) override {
    if (!Deeper()) return false;
    if (mode_ != kDocument) return Unexpected("an object");
    if (AtModelKey("vocab")) {
      if (!BeginVocab(TokenizerJson::kMap)) return false;
      mode_ = kVocabMap;
      return true;
    }
    if (stack_.size() == 1 && key_ == "model") in_model_ = true;
    return Open(json::object());
  }

  bool key(string_t& value) override {
    if (mode_ == kVocabMap) {
      out_.pieces.Add(value);
    } else {
      key_ = std::move(value);
    }
    return true;
  }

  bool end_object() override {
    --depth_;
    if (mode_ == kVocabMap) {
      mode_ = kDocument;
      return true;
    }
    stack_.pop_back();
    if (stack_.size() == 1) in_model_ = false;
    return true;
  }

  bool start_array(size_t) override {
    if (!Deeper()) return false;
    if (mode_ == kVocabList) {
      mode_ = kPieceText;
      return true;
    }
    if (mode_ == kMerges) {
      mode_ = kMergeLeft;
      return true;
    }
    if (mode_ != kDocument) return Unexpected("an array");
    if (AtModelKey("vocab")) {
      if (!BeginVocab(TokenizerJson::kList)) return false;
      mode_ = kVocabList;
      return true;
    }
    if (AtModelKey("merges")) {
      if (out_.has_merges) return Fail("the model has two \"merges\"");
      out_.has_merges = true;
      mode_ = kMerges;
      return true;
    }
    return Open(json::array());
  }

  bool end_array() override {
    --depth_;
    switch (mode_) {
      case kDocument:
        stack_.pop_back();
        return true;
      case kVocabList:
      case kMerges:
        mode_ = kDocument;
        return true;
      case kPieceEnd:
        mode_ = kVocabList;
        return true;
      case kMergeEnd:
        mode_ = kMerges;
        return true;
      default:
        return Unexpected("the end of an array");
    }
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    return Fail(absl::StrCat("isn't valid JSON at byte ", position));
  }

 private:
  // What is being read: the document, or which part of vocabulary and merges.
  enum Mode {
    kDocument,
    kVocabMap,
    kVocabList,
    kPieceText,
    kPieceScore,
    kPieceEnd,
    kMerges,
    kMergeLeft,
    kMergeRight,
    kMergeEnd,
  };

  bool Fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
    return false;
  }

  bool Unexpected(absl::string_view what) {
    return Fail(mode_ >= kMerges ? absl::StrCat("has ", what, " in merge ", out_.merges.size() / 2,
                                                " where pieces are expected")
                                 : absl::StrCat("has ", what, " in its vocabulary, near piece ",
                                                out_.pieces.size(),
                                                ", where pieces and their ids or scores are"
                                                " expected"));
  }

  bool Deeper() {
    return ++depth_ <= kDeepest || Fail(absl::StrCat("nests more than ", kDeepest, " deep"));
  }

  bool AtModelKey(absl::string_view key) const {
    return in_model_ && stack_.size() == 2 && key_ == key;
  }

  bool BeginVocab(TokenizerJson::VocabKind kind) {
    if (out_.vocab_kind != TokenizerJson::kNoVocab) return Fail("has two vocabularies");
    out_.vocab_kind = kind;
    return true;
  }

  bool Number(int64_t integer, double number) {
    if (mode_ == kVocabMap) {
      out_.ids.push_back(integer);
      return true;
    }
    if (mode_ == kPieceScore) return Score(number);
    return Value(integer);
  }

  bool Score(double score) {
    out_.scores.push_back(score);
    mode_ = kPieceEnd;
    return true;
  }

  template <typename T>
  bool Value(T&& value) {
    if (mode_ != kDocument) return Unexpected("a value of another type");
    return Place(json(std::forward<T>(value))) != nullptr;
  }

  bool Open(json container) {
    json* placed = Place(std::move(container));
    if (placed == nullptr) return false;
    stack_.push_back(placed);
    return true;
  }

  // Puts a value where the document is open; null after an error.
  json* Place(json value) {
    if (stack_.empty()) {
      out_.document = std::move(value);
      return &out_.document;
    }
    json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    const auto [it, is_new] = parent.emplace(key_, std::move(value));
    if (!is_new) {
      Fail(absl::StrCat("has the key ", Quoted(key_), " twice in one object"));
      return nullptr;
    }
    return &*it;
  }

  TokenizerJson& out_;
  std::string error_;
  Mode mode_ = kDocument;
  size_t depth_ = 0;
  std::vector<json*>
      stack_;  // open containers of the document; one that grows is never in it but as the last
  std::string key_;
  bool in_model_ = false;
};

}  // namespace

absl::StatusOr<TokenizerJson> ReadTokenizerJson(absl::string_view bytes) {
  TokenizerJson result;
  Handler handler(&result);
  if (!json::sax_parse(bytes.data(), bytes.data() + bytes.size(), &handler)) {
    return absl::InvalidArgumentError(handler.error().empty() ? "isn't valid JSON"
                                                              : handler.error());
  }
  return result;
}

}  // namespace lorica
