// The unigram language model (Kudo, 2018, https://aclanthology.org/P18-1007): of all ways to cut a
// word into pieces, the one with the largest sum of scores.
#ifndef LORICA_TEXT_UNIGRAM_H_
#define LORICA_TEXT_UNIGRAM_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/text/model.h"

namespace lorica {

struct UnigramOptions {
  int32_t unk_id = -1;
  // A stretch outside the vocabulary becomes the tokens <0x..> of its bytes where all of them
  // exist.
  bool byte_fallback = false;
  // The score of a character that no piece begins with; absent: ten less than the lowest of all.
  std::optional<double> unknown_score;
  // Adds up in single precision, as sentencepiece does.
  bool single_precision = false;
};

class Unigram : public TokenModel {
 public:
  // `scores` holds one logarithm of a probability per id. `matchable` tells which ids may be found
  // in a text; empty: all.
  static absl::StatusOr<std::unique_ptr<Unigram>> Make(Vocabulary vocabulary,
                                                       std::vector<double> scores,
                                                       const UnigramOptions& options,
                                                       const std::vector<bool>& matchable = {});

  std::unique_ptr<Scratch> NewScratch() const override;
  void Tokenize(absl::string_view text, ByteRange word, Scratch* scratch,
                std::vector<Token>* tokens) const override;

 private:
  class Work;
  struct Node {
    int32_t id = -1;  // of the piece that ends here
    uint32_t children =
        0;  // index of the first one; they stand together, in the order of their bytes
    uint16_t child_count = 0;
    unsigned char byte = 0;
  };
  Unigram(Vocabulary vocabulary, std::vector<double> scores, const UnigramOptions& options);

  // Makes the trie of `pieces`, ascending and without equals.
  void BuildTrie(const std::vector<std::pair<absl::string_view, int32_t>>& pieces);
  const Node* Child(const Node& node, unsigned char byte) const;
  void EmitUnknown(absl::string_view text, ByteRange range, std::vector<Token>* tokens) const;

  std::vector<double> scores_;
  double unknown_score_;
  bool single_precision_;
  bool byte_fallback_;
  std::array<int32_t, 256> byte_ids_;
  std::vector<Node> nodes_;
};

}  // namespace lorica

#endif  // LORICA_TEXT_UNIGRAM_H_
