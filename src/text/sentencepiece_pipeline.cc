#include "lorica/text/sentencepiece_pipeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"
#include "lorica/text/bpe.h"
#include "lorica/text/unigram.h"
#include "lorica/text/utf8.h"

namespace lorica {
namespace {

constexpr absl::string_view kMark = "\xE2\x96\x81";  // U+2581, a space in pieces

// Replacement rules, white space and its mark, in one go from left to right.
class SentencepieceNormalizer : public Normalizer {
 public:
  SentencepieceNormalizer(const SentencepieceModel& model,
                          std::optional<PrecompiledCharsmap> charsmap, StringFinder user_defined)
      : charsmap_(std::move(charsmap)),
        user_defined_(std::move(user_defined)),
        prefix_(model.add_dummy_prefix && !model.whitespace_as_suffix),
        suffix_(model.add_dummy_prefix && model.whitespace_as_suffix),
        remove_extra_(model.remove_extra_whitespaces),
        space_(model.escape_whitespaces ? kMark : " ") {}

  absl::Status Apply(MappedText* text, Regex::Scratch*) const override {
    const absl::string_view source = text->text();
    TextRewriter out(*text);
    size_t at = 0;
    while (remove_extra_ && at < source.size()) {
      const Unit unit = Next(source, at);
      if (unit.text != " ") break;
      at += unit.size;
    }
    if (at == source.size()) {
      *text = out.Finish();
      return absl::OkStatus();
    }
    if (prefix_) out.Replace(at, at, space_);
    bool after_space = remove_extra_;
    while (at < source.size()) {
      const Unit unit = Next(source, at);
      absl::string_view spelled = unit.text;
      while (after_space && absl::ConsumePrefix(&spelled, " ")) {
      }
      if (!spelled.empty()) {
        out.Replace(at, at + unit.size, absl::StrReplaceAll(spelled, {{" ", space_}}));
        after_space = remove_extra_ && absl::EndsWith(spelled, " ");
      }
      at += unit.size;
    }
    while (remove_extra_ && out.DropSuffix(space_)) {
    }
    if (suffix_) out.Replace(source.size(), source.size(), space_);
    *text = out.Finish();
    return absl::OkStatus();
  }

 private:
  // A stretch of the source and what it becomes.
  struct Unit {
    size_t size;
    absl::string_view text;
  };

  Unit Next(absl::string_view source, size_t at) const {
    if (!user_defined_.empty()) {
      const auto match = user_defined_.FindAt(source, static_cast<uint32_t>(at));
      if (match.value >= 0) return {match.end - at, source.substr(at, match.end - at)};
    }
    if (charsmap_.has_value()) {
      const PrecompiledCharsmap::Rule rule = charsmap_->Longest(source.substr(at));
      if (rule.size > 0) return {rule.size, rule.replacement};
    }
    const size_t size = Utf8Length(source[at]);
    return {size, source.substr(at, size)};
  }

  std::optional<PrecompiledCharsmap> charsmap_;
  StringFinder user_defined_;
  bool prefix_, suffix_, remove_extra_;
  absl::string_view space_;
};

absl::StatusOr<Vocabulary> MakeVocabulary(const SentencepieceModel& source) {
  Vocabulary vocabulary;
  size_t bytes = 0;
  for (const std::string& piece : source.pieces) bytes += piece.size();
  vocabulary.Reserve(source.pieces.size(), bytes);
  for (size_t i = 0; i < source.pieces.size(); ++i) {
    const std::string& piece = source.pieces[i];
    const auto id = static_cast<int64_t>(i);
    if (FirstInvalidUtf8(piece) != piece.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("piece ", i, " (", Quoted(piece), ") isn't valid UTF-8"));
    }
    LORICA_RETURN_IF_ERROR(vocabulary.IdOf(piece) >= 0 ? vocabulary.AddDuplicate(piece, id)
                                                       : vocabulary.Add(piece, id));
  }
  return vocabulary;
}

absl::StatusOr<std::unique_ptr<TokenModel>> MakeUnigram(const SentencepieceModel& source,
                                                        Vocabulary vocabulary, int32_t unk_id) {
  UnigramOptions options;
  options.unk_id = unk_id;
  options.byte_fallback = source.byte_fallback;
  options.single_precision = true;
  // The unknown score comes from ordinary pieces. What the user defined beats any way to cut it.
  float lowest = std::numeric_limits<float>::max(), highest = std::numeric_limits<float>::lowest();
  for (size_t i = 0; i < source.pieces.size(); ++i) {
    if (source.types[i] != PieceType::kNormal) continue;
    lowest = std::min(lowest, source.scores[i]);
    highest = std::max(highest, source.scores[i]);
  }
  if (lowest > highest) return absl::InvalidArgumentError("the vocabulary has no normal piece");
  constexpr float kUnknownPenalty = 10;
  options.unknown_score = lowest - kUnknownPenalty;
  std::vector<double> scores(source.scores.begin(), source.scores.end());
  std::vector<bool> matchable(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    const bool user_defined = source.types[i] == PieceType::kUserDefined;
    matchable[i] = user_defined || source.types[i] == PieceType::kNormal;
    if (!matchable[i]) scores[i] = 0;
    if (user_defined) {
      scores[i] = static_cast<float>(static_cast<float>(source.pieces[i].size()) * highest - 0.1);
    }
  }
  return Unigram::Make(std::move(vocabulary), std::move(scores), options, matchable);
}

absl::StatusOr<std::unique_ptr<TokenModel>> MakeBpe(const SentencepieceModel& source,
                                                    Vocabulary vocabulary, int32_t unk_id) {
  BpeOptions options;
  options.unk_id = unk_id;
  options.fuse_unk = true;
  options.byte_fallback = source.byte_fallback;
  std::vector<bool> mergeable(source.pieces.size());
  for (size_t i = 0; i < source.pieces.size(); ++i) {
    mergeable[i] = source.types[i] == PieceType::kNormal;
    if (std::isnan(source.scores[i])) {
      return absl::InvalidArgumentError(absl::StrCat("the score of piece ", i, " is not a number"));
    }
    if (source.types[i] == PieceType::kUserDefined) {
      options.whole_pieces.push_back(static_cast<int32_t>(i));
    }
  }
  return Bpe::FromScores(std::move(vocabulary), source.scores, mergeable, options);
}

}  // namespace

absl::Status BuildSentencepiece(SentencepieceModel source, Tokenizer::Parts* parts) {
  std::optional<PrecompiledCharsmap> charsmap;
  if (!source.charsmap.empty()) {
    LORICA_ASSIGN_OR_RETURN(charsmap, PrecompiledCharsmap::Parse(source.charsmap));
  }
  StringFinder user_defined;
  for (size_t i = 0; i < source.pieces.size(); ++i) {
    const std::string& piece = source.pieces[i];
    if (piece.empty()) continue;
    if (piece.size() > AddedTokens::kLongestContent) {
      return absl::InvalidArgumentError(absl::StrCat("piece ", i, " of ", piece.size(),
                                                     " bytes is longer than ",
                                                     AddedTokens::kLongestContent));
    }
    const auto id = static_cast<int32_t>(i);
    if (source.types[i] == PieceType::kUserDefined) {
      user_defined.Add(piece, id);
    } else if (source.types[i] == PieceType::kUnknown && !parts->unk_id.has_value()) {
      parts->unk_id = id;
    }
  }
  LORICA_ASSIGN_OR_RETURN(Vocabulary vocabulary, MakeVocabulary(source));
  for (size_t i = 0; i < source.pieces.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const bool is_end = id == parts->bos_id || id == parts->eos_id;
    if (!is_end && source.types[i] != PieceType::kControl &&
        source.types[i] != PieceType::kUnknown) {
      continue;
    }
    if (source.pieces[i].empty() || vocabulary.IdOf(source.pieces[i]) != id) continue;
    AddedToken token;
    token.content = source.pieces[i];
    token.id = id;
    token.special = true;
    LORICA_RETURN_IF_ERROR(parts->added.Add(std::move(token)));
  }
  parts->normalizers.push_back(std::make_unique<SentencepieceNormalizer>(
      source, std::move(charsmap), std::move(user_defined)));
  LORICA_ASSIGN_OR_RETURN(TextPattern mark, TextPattern::Literal(kMark));
  std::vector<DecodeStep> steps;
  if (source.escape_whitespaces) {
    steps.push_back({DecodeStep::kReplace, {}, false, {std::move(mark)}, " ", 0, 0});
  }
  steps.push_back({DecodeStep::kByteFallback, {}, false, {}, {}, 0, 0});
  steps.push_back({DecodeStep::kFuse, {}, false, {}, {}, 0, 0});
  if (source.add_dummy_prefix && !source.whitespace_as_suffix) {
    steps.push_back({DecodeStep::kStrip, " ", false, {}, {}, 1, 0});
  }
  parts->decoder = PieceDecoder(std::move(steps));
  const int32_t unk_id = parts->unk_id.value_or(-1);
  LORICA_ASSIGN_OR_RETURN(parts->model, source.unigram
                                            ? MakeUnigram(source, std::move(vocabulary), unk_id)
                                            : MakeBpe(source, std::move(vocabulary), unk_id));
  return absl::OkStatus();
}

}  // namespace lorica
