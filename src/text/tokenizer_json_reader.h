// The JSON of a tokenizer.json. Vocabulary and merges, nearly all of its bytes, are taken straight
// from the parser into flat tables; the rest becomes a document.
#ifndef LORICA_TEXT_TOKENIZER_JSON_READER_H_
#define LORICA_TEXT_TOKENIZER_JSON_READER_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lorica {

// Strings one behind the other.
class StringList {
 public:
  void Add(absl::string_view text) {
    bytes_.append(text.data(), text.size());
    ends_.push_back(bytes_.size());
  }
  absl::string_view operator[](size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return absl::string_view(bytes_).substr(begin, ends_[i] - begin);
  }
  size_t size() const { return ends_.size(); }
  size_t bytes() const { return bytes_.size(); }

 private:
  std::string bytes_;
  std::vector<size_t> ends_;
};

struct TokenizerJson {
  // All but model.vocab and model.merges. Objects with a key twice don't get here.
  nlohmann::json document;

  enum VocabKind { kNoVocab, kMap, kList };
  VocabKind vocab_kind = kNoVocab;
  StringList pieces;
  std::vector<int64_t> ids;    // of a map (BPE): one per piece
  std::vector<double> scores;  // of a list (Unigram): one per piece, whose id is its place

  bool has_merges = false;
  StringList merges;  // left, right, left, right, ...
};

// InvalidArgument, with the byte offset where there is one, for what isn't JSON, nests too deeply
// or has another form.
absl::StatusOr<TokenizerJson> ReadTokenizerJson(absl::string_view bytes);

}  // namespace lorica

#endif  // LORICA_TEXT_TOKENIZER_JSON_READER_H_
