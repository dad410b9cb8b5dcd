#include "lorica/text/tokenizer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"
#include "lorica/text/tokenizer_parts.h"
#include "lorica/text/utf8.h"

namespace lorica {
namespace {

// One call of Encode: the pipeline from text to ids.
class Encoder {
 public:
  Encoder(const Tokenizer::Parts& parts, const EncodeOptions& options, bool track)
      : parts_(parts), options_(options), track_(track), scratch_(parts.model->NewScratch()) {}

  absl::StatusOr<Encoding> Run(absl::string_view text) {
    if (text.size() > std::numeric_limits<int32_t>::max() / 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("a text of ", text.size(), " bytes is too long to tokenize in one piece"));
    }
    if (const size_t invalid = FirstInvalidUtf8(text); invalid != text.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("text isn't valid UTF-8 at byte offset ", invalid));
    }
    result_.ids.reserve(text.size() / 3 + 4);
    if (options_.add_special_tokens) {
      for (const int32_t id : parts_.prefix) Emit(id, {0, 0});
    }
    std::vector<AddedTokens::Part> cut;
    parts_.added.Cut(text, /*normalized=*/false, options_.parse_special, &cut);
    for (const AddedTokens::Part& part : cut) {
      if (part.token != nullptr) {
        Emit(static_cast<int32_t>(part.token->id), part.range);
        continue;
      }
      LORICA_RETURN_IF_ERROR(EncodeText(
          MappedText(text.substr(part.range.begin, part.range.size()), part.range.begin, track_)));
    }
    if (options_.add_special_tokens) {
      const auto end = static_cast<uint32_t>(text.size());
      for (const int32_t id : parts_.suffix) Emit(id, {end, end});
    }
    return std::move(result_);
  }

 private:
  void Emit(int32_t id, ByteRange original) {
    result_.ids.push_back(id);
    if (track_) result_.spans.push_back({original.begin, original.end});
  }

  // Text without plain added tokens.
  absl::Status EncodeText(MappedText text) {
    for (const auto& normalizer : parts_.normalizers) {
      LORICA_RETURN_IF_ERROR(normalizer->Apply(&text, &regex_scratch_));
    }
    std::vector<AddedTokens::Part> cut;
    parts_.added.Cut(text.text(), /*normalized=*/true, options_.parse_special, &cut);
    for (const AddedTokens::Part& part : cut) {
      if (part.token != nullptr) {
        Emit(static_cast<int32_t>(part.token->id),
             track_ ? text.OriginalOf(part.range) : ByteRange{});
      } else if (part.range.size() == text.text().size()) {
        LORICA_RETURN_IF_ERROR(EncodeWords(Pieces(std::move(text))));
        break;
      } else {
        LORICA_RETURN_IF_ERROR(EncodeWords(Pieces(text.Slice(part.range))));
      }
    }
    return absl::OkStatus();
  }

  absl::Status EncodeWords(Pieces pieces) {
    for (const auto& pretokenizer : parts_.pretokenizers) {
      LORICA_RETURN_IF_ERROR(pretokenizer->Apply(&pieces, &regex_scratch_));
    }
    for (const ByteRange& word : pieces.ranges) {
      tokens_.clear();
      parts_.model->Tokenize(pieces.text.text(), word, scratch_.get(), &tokens_);
      for (const Token& token : tokens_) {
        Emit(token.id, track_ ? pieces.text.OriginalOf(token.range) : ByteRange{});
      }
    }
    return absl::OkStatus();
  }

  const Tokenizer::Parts& parts_;
  const EncodeOptions& options_;
  const bool track_;
  std::unique_ptr<TokenModel::Scratch> scratch_;
  Regex::Scratch regex_scratch_;
  std::vector<Token> tokens_;
  Encoding result_;
};

}  // namespace

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(absl::string_view text,
                                                       const EncodeOptions& options) const {
  LORICA_ASSIGN_OR_RETURN(Encoding encoding, Encoder(*parts_, options, false).Run(text));
  return std::move(encoding.ids);
}

absl::StatusOr<Encoding> Tokenizer::EncodeWithSpans(absl::string_view text,
                                                    const EncodeOptions& options) const {
  return Encoder(*parts_, options, true).Run(text);
}

namespace {

// The piece of the id at `position` of a list; `*skip` where it's special and those are left out.
absl::StatusOr<PieceDecoder::Piece> PieceAt(const Tokenizer::Parts& parts, int32_t id,
                                            size_t position, const DecodeOptions& options,
                                            bool* skip) {
  *skip = false;
  if (const AddedToken* added = parts.added.Find(int64_t{id}); added != nullptr) {
    *skip = added->special && options.skip_special_tokens;
    return PieceDecoder::Piece{added->decoded, true};
  }
  if (!parts.model->vocabulary().HasId(id)) {
    return absl::InvalidArgumentError(absl::StrCat("token id ", id, " at position ", position,
                                                   " isn't in the tokenizer's vocabulary"));
  }
  return PieceDecoder::Piece{parts.model->vocabulary().PieceOf(id), false};
}

}  // namespace

absl::StatusOr<std::string> Tokenizer::Decode(absl::Span<const int32_t> ids,
                                              const DecodeOptions& options) const {
  std::vector<PieceDecoder::Piece> pieces;
  pieces.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    bool skip;
    LORICA_ASSIGN_OR_RETURN(const PieceDecoder::Piece piece,
                            PieceAt(*parts_, ids[i], i, options, &skip));
    if (!skip) pieces.push_back(piece);
  }
  return parts_->decoder.Decode(pieces);
}

std::optional<int32_t> Tokenizer::TokenToId(absl::string_view piece) const {
  if (const AddedToken* added = parts_->added.Find(piece); added != nullptr) {
    return static_cast<int32_t>(added->id);
  }
  const int32_t id = parts_->model->vocabulary().IdOf(piece);
  return id >= 0 ? std::optional<int32_t>(id) : std::nullopt;
}

absl::string_view Tokenizer::IdToPiece(int32_t id) const {
  if (const AddedToken* added = parts_->added.Find(int64_t{id}); added != nullptr) {
    return added->content;
  }
  return parts_->model->vocabulary().PieceOf(id);
}

int32_t Tokenizer::vocab_size() const { return parts_->id_limit; }
std::optional<int32_t> Tokenizer::bos_id() const { return parts_->bos_id; }
std::optional<int32_t> Tokenizer::eos_id() const { return parts_->eos_id; }
std::optional<int32_t> Tokenizer::unk_id() const { return parts_->unk_id; }
std::optional<int32_t> Tokenizer::pad_id() const { return parts_->pad_id; }

bool Tokenizer::add_bos() const {
  return parts_->bos_id.has_value() && !parts_->prefix.empty() &&
         parts_->prefix.front() == *parts_->bos_id;
}

bool Tokenizer::add_eos() const {
  return parts_->eos_id.has_value() && !parts_->suffix.empty() &&
         parts_->suffix.back() == *parts_->eos_id;
}

bool Tokenizer::IsSpecial(int32_t id) const {
  const AddedToken* added = parts_->added.Find(int64_t{id});
  return added != nullptr && added->special;
}

StreamingDecoder::StreamingDecoder(Tokenizer tokenizer, const DecodeOptions& options)
    : tokenizer_(std::move(tokenizer)), options_(options) {}

absl::StatusOr<std::string> StreamingDecoder::Push(int32_t id) {
  bool skip;
  LORICA_ASSIGN_OR_RETURN(const PieceDecoder::Piece piece,
                          PieceAt(tokenizer_.parts(), id, 0, options_, &skip));
  if (skip) return std::string();
  const PieceDecoder& decoder = tokenizer_.parts().decoder;
  if (!decoder.streams()) {
    ids_.push_back(id);
    return std::string();
  }
  LORICA_ASSIGN_OR_RETURN(const std::string bytes, decoder.DecodeNext(piece, &position_));
  held_ += bytes;
  const size_t finished = FinishedUtf8(held_);
  std::string result = held_.substr(0, finished);
  held_.erase(0, finished);
  return result;
}

absl::StatusOr<std::string> StreamingDecoder::Finish() {
  position_ = {};
  if (tokenizer_.parts().decoder.streams()) return std::exchange(held_, {});
  return tokenizer_.Decode(std::exchange(ids_, {}), options_);
}

absl::StatusOr<Tokenizer> FinishTokenizer(std::shared_ptr<Tokenizer::Parts> parts) {
  const Vocabulary& vocabulary = parts->model->vocabulary();
  parts->id_limit = vocabulary.id_limit();
  for (const AddedToken& token : parts->added.tokens()) {
    const auto id = static_cast<int32_t>(token.id);
    parts->id_limit = std::max(parts->id_limit, id + 1);
    const int32_t known = vocabulary.IdOf(token.content);
    if (known >= 0 && known != id) {
      return absl::InvalidArgumentError(absl::StrCat("added token ", Quoted(token.content),
                                                     " has id ", id, ", but id ", known,
                                                     " in the vocabulary"));
    }
    if (vocabulary.HasId(id) && vocabulary.PieceOf(id) != token.content) {
      return absl::InvalidArgumentError(
          absl::StrCat("added token ", Quoted(token.content), " has id ", id,
                       ", which the vocabulary gives to ", Quoted(vocabulary.PieceOf(id))));
    }
  }
  const auto exists = [&](int32_t id) {
    return vocabulary.HasId(id) || parts->added.Find(int64_t{id}) != nullptr;
  };
  std::vector<int32_t> named = parts->prefix;
  named.insert(named.end(), parts->suffix.begin(), parts->suffix.end());
  for (const auto& id : {parts->bos_id, parts->eos_id, parts->unk_id, parts->pad_id}) {
    if (id.has_value()) named.push_back(*id);
  }
  for (const int32_t id : named) {
    if (!exists(id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("special token id ", id, " isn't in the vocabulary"));
    }
  }
  Regex::Scratch scratch;
  LORICA_RETURN_IF_ERROR(parts->added.Finish([&](std::string* form) -> absl::Status {
    MappedText text(absl::string_view(*form), size_t{0}, /*track=*/false);
    for (const auto& normalizer : parts->normalizers) {
      LORICA_RETURN_IF_ERROR(normalizer->Apply(&text, &scratch));
    }
    *form = std::string(text.text());
    return absl::OkStatus();
  }));
  return Tokenizer(std::move(parts));
}

}  // namespace lorica
