// What cuts a word into pieces of the vocabulary.
#ifndef LORICA_TEXT_MODEL_H_
#define LORICA_TEXT_MODEL_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "lorica/text/pieces.h"
#include "lorica/text/vocabulary.h"

namespace lorica {

struct Token {
  int32_t id = 0;
  ByteRange range;  // of the text that the word was taken from
};

// Immutable and safe to use from many threads.
class TokenModel {
 public:
  virtual ~TokenModel() = default;

  // Working memory that calls may share, one per thread.
  class Scratch {
   public:
    virtual ~Scratch() = default;
  };
  virtual std::unique_ptr<Scratch> NewScratch() const = 0;

  // Appends the tokens of bytes `word` of `text`, valid UTF-8 and not empty. `scratch` is from this
  // model's NewScratch.
  virtual void Tokenize(absl::string_view text, ByteRange word, Scratch* scratch,
                        std::vector<Token>* tokens) const = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // The token of what the vocabulary can't spell; -1: there is none.
  int32_t unk_id() const { return unk_id_; }

 protected:
  TokenModel(Vocabulary vocabulary, int32_t unk_id)
      : vocabulary_(std::move(vocabulary)), unk_id_(unk_id) {}

 private:
  Vocabulary vocabulary_;
  int32_t unk_id_;
};

}  // namespace lorica

#endif  // LORICA_TEXT_MODEL_H_
