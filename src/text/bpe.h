// Byte-pair encoding: a word is spelled in characters, then the pair of neighbours that the
// training merged first is joined, the leftmost of equals, until no pair is left that was ever
// merged (Sennrich et al., 2016, https://aclanthology.org/P16-1162).
#ifndef LORICA_TEXT_BPE_H_
#define LORICA_TEXT_BPE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/text/model.h"
#include "lorica/text/string_finder.h"

namespace lorica {

struct BpeOptions {
  int32_t unk_id = -1;
  // A run of unknown characters becomes one unknown token instead of one for each.
  bool fuse_unk = false;
  // A character outside the vocabulary becomes the tokens <0x..> of its bytes where all of them
  // exist.
  bool byte_fallback = false;
  // A word that the vocabulary holds is that token, whatever the merges say.
  bool ignore_merges = false;
  // What the vocabulary puts before every character but a word's first, and after the last.
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
  // Pieces that are taken as they stand, before characters are looked at.
  std::vector<int32_t> whole_pieces;
};

// Pairs of token ids and what they merge to.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank = kNone;  // the lower, the earlier
    int32_t id = -1;
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit MergeTable(size_t pairs);

  // A later entry for the same pair replaces the earlier one. At most `pairs` may be added.
  void Set(int32_t left, int32_t right, Merge merge);
  Merge Find(int32_t left, int32_t right) const;

 private:
  struct Slot {
    uint64_t key = UINT64_MAX;
    Merge merge;
  };
  size_t IndexOf(uint64_t key) const;

  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
};

class Bpe : public TokenModel {
 public:
  // `merges` are pairs of pieces, the first merged first; each piece and the joined one must be in
  // `vocabulary`.
  static absl::StatusOr<std::unique_ptr<Bpe>> FromMerges(
      Vocabulary vocabulary,
      const std::vector<std::pair<absl::string_view, absl::string_view>>& merges,
      const BpeOptions& options);

  // sentencepiece's kind, which has scores instead of merges: of all neighbours that join to a
  // piece, those go first that make the piece of the highest score. `scores` holds one per id;
  // `mergeable` tells which ids take part.
  static absl::StatusOr<std::unique_ptr<Bpe>> FromScores(Vocabulary vocabulary,
                                                         const std::vector<float>& scores,
                                                         const std::vector<bool>& mergeable,
                                                         const BpeOptions& options);

  std::unique_ptr<Scratch> NewScratch() const override;
  void Tokenize(absl::string_view text, ByteRange word, Scratch* scratch,
                std::vector<Token>* tokens) const override;

 private:
  class Work;
  Bpe(Vocabulary vocabulary, MergeTable merges, const BpeOptions& options);

  void Spell(absl::string_view text, ByteRange word, std::vector<Token>* symbols) const;
  int32_t CharacterId(absl::string_view character) const;

  BpeOptions options_;
  MergeTable merges_;
  bool affixes_;  // a prefix or suffix is set
  StringFinder whole_pieces_;
  std::array<int32_t, 256> byte_ids_;
  std::array<int32_t, 0x800> short_ids_;  // of characters of one and two bytes, which are most
};

}  // namespace lorica

#endif  // LORICA_TEXT_BPE_H_
