#include "lorica/text/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/check.h"
#include "lorica/text/utf8.h"

namespace lorica {
namespace {

// A text is searched this far from each of its places; published pieces have less than 200 bytes.
constexpr size_t kLongestPiece = 1024;
// How much worse an unknown character is than the worst piece (sentencepiece's kUnkPenalty).
constexpr double kUnknownPenalty = 10;

}  // namespace

absl::StatusOr<std::unique_ptr<Unigram>> Unigram::Make(Vocabulary vocabulary,
                                                       std::vector<double> scores,
                                                       const UnigramOptions& options,
                                                       const std::vector<bool>& matchable) {
  LORICA_DCHECK(scores.size() == static_cast<size_t>(vocabulary.id_limit()));
  if (scores.empty()) return absl::InvalidArgumentError("the vocabulary is empty");
  std::vector<std::pair<absl::string_view, int32_t>> pieces;
  for (int32_t id = 0; id < vocabulary.id_limit(); ++id) {
    const absl::string_view piece = vocabulary.PieceOf(id);
    if (!std::isfinite(scores[id])) {
      return absl::InvalidArgumentError(
          absl::StrCat("the score of piece ", id, " isn't a finite number"));
    }
    if (piece.size() > kLongestPiece) {
      return absl::InvalidArgumentError(absl::StrCat("piece ", id, " has ", piece.size(),
                                                     " bytes; at most ", kLongestPiece,
                                                     " are supported"));
    }
    if (piece.empty() || (!matchable.empty() && !matchable[id])) continue;
    pieces.emplace_back(piece, id);
  }
  // Of equal pieces the last id counts.
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  size_t count = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (count > 0 && pieces[count - 1].first == pieces[i].first) --count;
    pieces[count++] = pieces[i];
  }
  pieces.resize(count);
  std::unique_ptr<Unigram> result(new Unigram(std::move(vocabulary), std::move(scores), options));
  // The pieces' bytes didn't move with the vocabulary.
  result->BuildTrie(pieces);
  return result;
}

Unigram::Unigram(Vocabulary words, std::vector<double> scores, const UnigramOptions& options)
    : TokenModel(std::move(words), options.unk_id),
      scores_(std::move(scores)),
      unknown_score_(options.unknown_score.value_or(
          *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty)),
      single_precision_(options.single_precision),
      byte_fallback_(options.byte_fallback) {
  for (int byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = byte_fallback_ ? vocabulary().IdOf(absl::StrFormat("<0x%02X>", byte)) : -1;
  }
}

void Unigram::BuildTrie(const std::vector<std::pair<absl::string_view, int32_t>>& pieces) {
  struct Range {
    size_t begin, end, depth;  // pieces that share the node's prefix of `depth` bytes
  };
  // ranges[i] belongs to nodes_[i]: breadth first, so that siblings stand together.
  std::vector<Range> ranges = {{0, pieces.size(), 0}};
  nodes_.emplace_back();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    auto [begin, end, depth] = ranges[i];
    if (begin < end && pieces[begin].first.size() == depth) {
      nodes_[i].id = pieces[begin].second;
      ++begin;
    }
    nodes_[i].children = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const char byte = pieces[begin].first[depth];
      size_t group = begin;
      while (group < end && pieces[group].first[depth] == byte) ++group;
      nodes_.push_back({-1, 0, 0, static_cast<unsigned char>(byte)});
      ranges.push_back({begin, group, depth + 1});
      ++nodes_[i].child_count;
      begin = group;
    }
  }
}

const Unigram::Node* Unigram::Child(const Node& node, unsigned char byte) const {
  const Node* begin = nodes_.data() + node.children;
  const Node* end = begin + node.child_count;
  const Node* child =
      std::lower_bound(begin, end, byte, [](const Node& a, unsigned char b) { return a.byte < b; });
  return child != end && child->byte == byte ? child : nullptr;
}

class Unigram::Work : public TokenModel::Scratch {
 public:
  // The best way to cut the word up to a place.
  struct Best {
    double score = 0;
    int32_t id = -1;     // of its last piece
    uint32_t begin = 0;  // of its last piece
    bool reached = false;
  };
  std::vector<Best> best;
  std::vector<std::pair<ByteRange, bool>>
      cut;  // pieces from the last to the first; whether unknown
};

std::unique_ptr<TokenModel::Scratch> Unigram::NewScratch() const {
  return std::make_unique<Work>();
}

void Unigram::Tokenize(absl::string_view text, ByteRange word, Scratch* scratch,
                       std::vector<Token>* tokens) const {
  Work& work = *static_cast<Work*>(scratch);
  work.best.assign(word.size() + 1, {});
  const auto offer = [&](uint32_t begin, uint32_t end, double score, int32_t id) {
    Work::Best& best = work.best[end];
    if (single_precision_) score = static_cast<float>(score);
    if (best.reached && score <= best.score) return;
    best = {score, id, begin, true};
  };
  for (uint32_t begin = 0; begin < word.size();) {
    const double score = work.best[begin].score;
    const auto length = static_cast<uint32_t>(Utf8Length(text[word.begin + begin]));
    bool spelled = false;  // the character alone is a piece
    const Node* node = nodes_.data();
    for (uint32_t end = begin; end < word.size();) {
      node = Child(*node, static_cast<unsigned char>(text[word.begin + end]));
      if (node == nullptr) break;
      ++end;
      if (node->id < 0) continue;
      offer(begin, end, score + scores_[node->id], node->id);
      spelled |= end - begin == length;
    }
    if (!spelled) offer(begin, begin + length, score + unknown_score_, -1);
    begin += length;
  }

  // Neighbouring unknown characters are one stretch.
  work.cut.clear();
  for (uint32_t end = word.size(); end > 0;) {
    const Work::Best& best = work.best[end];
    const ByteRange range = {word.begin + best.begin, word.begin + end};
    const bool unknown = best.id < 0 || best.id == unk_id();
    if (unknown && !work.cut.empty() && work.cut.back().second) {
      work.cut.back().first.begin = range.begin;
    } else {
      work.cut.emplace_back(range, unknown);
    }
    end = best.begin;
  }
  for (auto it = work.cut.rbegin(); it != work.cut.rend(); ++it) {
    if (it->second) {
      EmitUnknown(text, it->first, tokens);
    } else {
      tokens->push_back({work.best[it->first.end - word.begin].id, it->first});
    }
  }
}

void Unigram::EmitUnknown(absl::string_view text, ByteRange range,
                          std::vector<Token>* tokens) const {
  // The unknown piece's own spelling is that piece.
  if (const int32_t id = vocabulary().IdOf(text.substr(range.begin, range.size())); id >= 0) {
    tokens->push_back({id, range});
    return;
  }
  const auto byte_id = [&](uint32_t i) { return byte_ids_[static_cast<unsigned char>(text[i])]; };
  bool all = byte_fallback_;
  for (uint32_t i = range.begin; all && i < range.end; ++i) all = byte_id(i) >= 0;
  if (all) {
    for (uint32_t i = range.begin; i < range.end; ++i) tokens->push_back({byte_id(i), {i, i + 1}});
  } else if (unk_id() >= 0) {
    tokens->push_back({unk_id(), range});
  }
}

}  // namespace lorica
