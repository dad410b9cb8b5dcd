#include "lorica/text/bpe.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"
#include "lorica/text/utf8.h"

namespace lorica {
namespace {

// Words up to this many characters are merged by looking for the best pair in an array again and
// again, which is quadratic but beats a heap until about here.
constexpr size_t kShortWord = 40;

// Each piece is looked up in all ways to cut it in two; published pieces have less than 200 bytes.
constexpr size_t kLongestScoredPiece = 512;

uint64_t KeyOf(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(size_t pairs) {
  size_t size = 16;
  while (size < 2 * pairs) size *= 2;
  slots_.resize(size);
}

size_t MergeTable::IndexOf(uint64_t key) const {
  uint64_t hash = key * 0x9E3779B97F4A7C15u;
  hash ^= hash >> 32;
  const size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  while (slots_[i].key != key && slots_[i].key != UINT64_MAX) i = (i + 1) & mask;
  return i;
}

void MergeTable::Set(int32_t left, int32_t right, Merge merge) {
  Slot& slot = slots_[IndexOf(KeyOf(left, right))];
  slot.key = KeyOf(left, right);
  slot.merge = merge;
}

MergeTable::Merge MergeTable::Find(int32_t left, int32_t right) const {
  return slots_[IndexOf(KeyOf(left, right))].merge;
}

absl::StatusOr<std::unique_ptr<Bpe>> Bpe::FromMerges(
    Vocabulary vocabulary,
    const std::vector<std::pair<absl::string_view, absl::string_view>>& merges,
    const BpeOptions& options) {
  MergeTable table(merges.size());
  std::string joined;
  for (size_t i = 0; i < merges.size(); ++i) {
    const auto& [left, right] = merges[i];
    const absl::string_view tail = absl::StartsWith(right, options.continuing_subword_prefix)
                                       ? right.substr(options.continuing_subword_prefix.size())
                                       : right;
    joined.assign(left.data(), left.size());
    joined.append(tail.data(), tail.size());
    const int32_t left_id = vocabulary.IdOf(left);
    const int32_t right_id = vocabulary.IdOf(right);
    const int32_t id = vocabulary.IdOf(joined);
    for (const auto& [piece, found] :
         {std::pair<absl::string_view, int32_t>(left, left_id), {right, right_id}, {joined, id}}) {
      if (found < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("merge ", i, " (", Quoted(left), " ", Quoted(right), ") needs the piece ",
                         Quoted(piece), ", which the vocabulary doesn't have"));
      }
    }
    table.Set(left_id, right_id, {static_cast<uint32_t>(i), id});
  }
  return std::unique_ptr<Bpe>(new Bpe(std::move(vocabulary), std::move(table), options));
}

absl::StatusOr<std::unique_ptr<Bpe>> Bpe::FromScores(Vocabulary vocabulary,
                                                     const std::vector<float>& scores,
                                                     const std::vector<bool>& mergeable,
                                                     const BpeOptions& options) {
  LORICA_DCHECK(scores.size() == static_cast<size_t>(vocabulary.id_limit()));
  LORICA_DCHECK(mergeable.size() == scores.size());
  // Equal scores share a rank: among those the leftmost pair goes first.
  std::vector<float> order = scores;
  std::sort(order.begin(), order.end(), std::greater<float>());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  struct Pair {
    int32_t left, right;
    MergeTable::Merge merge;
  };
  std::vector<Pair> pairs;
  for (int32_t id = 0; id < vocabulary.id_limit(); ++id) {
    if (!mergeable[id]) continue;
    const absl::string_view piece = vocabulary.PieceOf(id);
    if (piece.size() > kLongestScoredPiece) {
      return absl::InvalidArgumentError(absl::StrCat("piece ", id, " has ", piece.size(),
                                                     " bytes; at most ", kLongestScoredPiece,
                                                     " are supported"));
    }
    const auto rank = static_cast<uint32_t>(
        std::lower_bound(order.begin(), order.end(), scores[id], std::greater<float>()) -
        order.begin());
    for (size_t cut = 0; cut < piece.size();) {
      cut += Utf8Length(piece[cut]);
      if (cut >= piece.size()) break;
      const int32_t left = vocabulary.IdOf(piece.substr(0, cut));
      const int32_t right = vocabulary.IdOf(piece.substr(cut));
      if (left < 0 || right < 0 || !mergeable[left] || !mergeable[right]) continue;
      pairs.push_back({left, right, {rank, id}});
    }
  }
  MergeTable table(pairs.size());
  for (const Pair& pair : pairs) table.Set(pair.left, pair.right, pair.merge);
  return std::unique_ptr<Bpe>(new Bpe(std::move(vocabulary), std::move(table), options));
}

Bpe::Bpe(Vocabulary words, MergeTable merges, const BpeOptions& options)
    : TokenModel(std::move(words), options.unk_id),
      options_(options),
      merges_(std::move(merges)),
      affixes_(!options.continuing_subword_prefix.empty() || !options.end_of_word_suffix.empty()) {
  for (int byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] =
        options.byte_fallback ? vocabulary().IdOf(absl::StrFormat("<0x%02X>", byte)) : -1;
  }
  for (uint32_t c = 0; c < short_ids_.size(); ++c) {
    std::string character;
    AppendUtf8(c, &character);
    short_ids_[c] = vocabulary().IdOf(character);
  }
  for (const int32_t id : options.whole_pieces) {
    if (!vocabulary().PieceOf(id).empty()) whole_pieces_.Add(vocabulary().PieceOf(id), id);
  }
}

int32_t Bpe::CharacterId(absl::string_view character) const {
  return character.size() <= 2 ? short_ids_[DecodeUtf8(character, 0)]
                               : vocabulary().IdOf(character);
}

// The characters of the word as tokens.
void Bpe::Spell(absl::string_view text, ByteRange word, std::vector<Token>* symbols) const {
  std::string spelled;
  Token unknown{-1, {}};  // not yet added, so that it can grow
  for (uint32_t begin = word.begin; begin < word.end;) {
    if (!whole_pieces_.empty()) {
      const StringFinder::Match whole = whole_pieces_.FindAt(text.substr(0, word.end), begin);
      if (whole.value >= 0) {
        if (unknown.id >= 0) symbols->push_back(std::exchange(unknown, {-1, {}}));
        symbols->push_back({whole.value, {begin, whole.end}});
        begin = whole.end;
        continue;
      }
    }
    const uint32_t end = begin + static_cast<uint32_t>(Utf8Length(text[begin]));
    absl::string_view character = text.substr(begin, end - begin);
    int32_t id;
    if (!affixes_) {
      id = CharacterId(character);
    } else {
      spelled.clear();
      if (begin != word.begin) spelled += options_.continuing_subword_prefix;
      spelled.append(character.data(), character.size());
      if (end == word.end) spelled += options_.end_of_word_suffix;
      character = spelled;
      id = vocabulary().IdOf(character);
    }
    if (id >= 0) {
      if (unknown.id >= 0) symbols->push_back(std::exchange(unknown, {-1, {}}));
      symbols->push_back({id, {begin, end}});
    } else if (options_.byte_fallback &&
               std::all_of(character.begin(), character.end(), [this](char c) {
                 return byte_ids_[static_cast<unsigned char>(c)] >= 0;
               })) {
      for (size_t i = 0; i < character.size(); ++i) {
        // Bytes of an affix stand where the character stands.
        const uint32_t at = std::min(begin + static_cast<uint32_t>(i), end - 1);
        symbols->push_back({byte_ids_[static_cast<unsigned char>(character[i])], {at, at + 1}});
      }
    } else if (unk_id() >= 0) {
      if (unknown.id >= 0 && options_.fuse_unk) {
        unknown.range.end = end;
      } else {
        if (unknown.id >= 0) symbols->push_back(unknown);
        unknown = {unk_id(), {begin, end}};
      }
    }
    begin = end;
  }
  if (unknown.id >= 0) symbols->push_back(unknown);
}

// The memory of a merge, and the merge itself.
class Bpe::Work : public TokenModel::Scratch {
 public:
  std::vector<Token> symbols;

  // Merges `symbols` in place.
  void Merge(const MergeTable& table) {
    if (symbols.size() < 2) return;
    if (symbols.size() <= kShortWord) {
      MergeShort(table);
    } else {
      MergeLong(table);
    }
  }

 private:
  void MergeShort(const MergeTable& table) {
    MergeTable::Merge merges[kShortWord];  // of each symbol with the next
    size_t count = symbols.size();
    for (size_t i = 0; i + 1 < count; ++i) {
      merges[i] = table.Find(symbols[i].id, symbols[i + 1].id);
    }
    while (count > 1) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < count; ++i) {
        if (merges[i].rank < merges[best].rank) best = i;
      }
      if (merges[best].rank == MergeTable::kNone) break;
      Join(&symbols[best], symbols[best + 1], merges[best].id);
      std::copy(symbols.begin() + static_cast<ptrdiff_t>(best) + 2,
                symbols.begin() + static_cast<ptrdiff_t>(count),
                symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
      std::copy(merges + best + 1, merges + count - 1, merges + best);
      --count;
      if (best > 0) merges[best - 1] = table.Find(symbols[best - 1].id, symbols[best].id);
      if (best + 1 < count) merges[best] = table.Find(symbols[best].id, symbols[best + 1].id);
    }
    symbols.resize(count);
  }

  void MergeLong(const MergeTable& table) {
    const size_t count = symbols.size();
    next_.resize(count);
    previous_.resize(count);
    heap_.clear();
    const auto push = [&](uint32_t left) {
      const MergeTable::Merge merge = table.Find(symbols[left].id, symbols[next_[left]].id);
      if (merge.rank == MergeTable::kNone) return;
      heap_.push_back({merge.rank, left, merge.id});
    };
    for (uint32_t i = 0; i < count; ++i) {
      next_[i] = i + 1;
      previous_[i] = i - 1;
    }
    for (uint32_t i = 0; i + 1 < count; ++i) push(i);
    std::make_heap(heap_.begin(), heap_.end(), std::greater<Candidate>());
    while (!heap_.empty()) {
      const Candidate top = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<Candidate>());
      heap_.pop_back();
      const uint32_t left = top.left;
      const uint32_t right = next_[left];
      // The pair may be gone, or another one by now.
      if (symbols[left].id < 0 || right >= count ||
          table.Find(symbols[left].id, symbols[right].id).id != top.id) {
        continue;
      }
      Join(&symbols[left], symbols[right], top.id);
      symbols[right].id = -1;
      next_[left] = next_[right];
      if (next_[left] < count) {
        previous_[next_[left]] = left;
        PushSorted(left, push);
      }
      if (left > 0) PushSorted(previous_[left], push);
    }
    symbols.erase(std::remove_if(symbols.begin(), symbols.end(),
                                 [](const Token& symbol) { return symbol.id < 0; }),
                  symbols.end());
  }

  template <typename Push>
  void PushSorted(uint32_t left, const Push& push) {
    const size_t before = heap_.size();
    push(left);
    if (heap_.size() != before) {
      std::push_heap(heap_.begin(), heap_.end(), std::greater<Candidate>());
    }
  }

  static void Join(Token* left, const Token& right, int32_t id) {
    left->id = id;
    left->range.begin = std::min(left->range.begin, right.range.begin);
    left->range.end = std::max(left->range.end, right.range.end);
  }

  struct Candidate {
    uint32_t rank;
    uint32_t left;  // index of the left symbol
    int32_t id;     // what the pair merges to

    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };

  std::vector<uint32_t> next_;
  std::vector<uint32_t> previous_;
  std::vector<Candidate> heap_;
};

std::unique_ptr<TokenModel::Scratch> Bpe::NewScratch() const { return std::make_unique<Work>(); }

void Bpe::Tokenize(absl::string_view text, ByteRange word, Scratch* scratch,
                   std::vector<Token>* tokens) const {
  if (options_.ignore_merges) {
    const int32_t id = vocabulary().IdOf(text.substr(word.begin, word.size()));
    if (id >= 0) {
      tokens->push_back({id, word});
      return;
    }
  }
  Work& work = *static_cast<Work*>(scratch);
  work.symbols.clear();
  Spell(text, word, &work.symbols);
  work.Merge(merges_);
  tokens->insert(tokens->end(), work.symbols.begin(), work.symbols.end());
}

}  // namespace lorica
