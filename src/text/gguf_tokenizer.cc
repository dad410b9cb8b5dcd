#include "lorica/text/gguf_tokenizer.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/gguf.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"
#include "lorica/text/bpe.h"
#include "lorica/text/gguf_pretokenizers.h"
#include "lorica/text/sentencepiece_pipeline.h"
#include "lorica/text/tokenizer_config.h"
#include "lorica/text/tokenizer_parts.h"
#include "lorica/text/utf8.h"

namespace lorica {
namespace {

template <typename T, typename Value>
absl::Status Optional(absl::StatusOr<Value> value, std::optional<T>* out) {
  if (absl::IsNotFound(value.status())) return absl::OkStatus();
  LORICA_RETURN_IF_ERROR(value.status());
  *out = *std::move(value);
  return absl::OkStatus();
}

// Checks an id of the metadata and narrows it.
absl::Status CheckId(const std::optional<int64_t>& id, size_t tokens, const char* key,
                     std::optional<int32_t>* out) {
  if (!id.has_value()) return absl::OkStatus();
  if (*id < 0 || *id >= static_cast<int64_t>(tokens)) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer.ggml.", key, " is ", *id, ", but there are ", tokens, " tokens"));
  }
  *out = static_cast<int32_t>(*id);
  return absl::OkStatus();
}

int32_t TypeOf(const GgufTokenizer& metadata, size_t id) {
  return metadata.token_types.empty() ? kGgufTokenNormal : metadata.token_types[id];
}

// Makes tokens that stand in a text as they are added ones.
absl::Status AddTokens(const GgufTokenizer& metadata, Tokenizer::Parts* parts) {
  for (size_t i = 0; i < metadata.tokens.size(); ++i) {
    const int32_t type = TypeOf(metadata, i);
    const auto id = static_cast<int32_t>(i);
    const bool is_end = id == parts->bos_id || id == parts->eos_id;
    const bool special = is_end || type == kGgufTokenControl || type == kGgufTokenUnknown;
    if (!special && type != kGgufTokenUserDefined) continue;
    if (metadata.tokens[i].empty()) continue;
    // The same text under two ids: the first one is found.
    if (parts->added.Find(absl::string_view(metadata.tokens[i])) != nullptr ||
        parts->model->vocabulary().IdOf(metadata.tokens[i]) != id) {
      continue;
    }
    AddedToken token;
    token.content = metadata.tokens[i];
    token.id = id;
    token.special = special;
    LORICA_RETURN_IF_ERROR(parts->added.Add(std::move(token)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Vocabulary> MakeVocabulary(const std::vector<std::string>& tokens) {
  Vocabulary vocabulary;
  size_t bytes = 0;
  for (const std::string& token : tokens) bytes += token.size();
  vocabulary.Reserve(tokens.size(), bytes);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (FirstInvalidUtf8(tokens[i]) != tokens[i].size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", i, " (", Quoted(tokens[i]), ") isn't valid UTF-8"));
    }
    const auto id = static_cast<int64_t>(i);
    LORICA_RETURN_IF_ERROR(vocabulary.IdOf(tokens[i]) >= 0 ? vocabulary.AddDuplicate(tokens[i], id)
                                                           : vocabulary.Add(tokens[i], id));
  }
  return vocabulary;
}

absl::Status BuildByteLevel(const GgufTokenizer& metadata, Vocabulary vocabulary,
                            Tokenizer::Parts* parts) {
  const std::string pre = metadata.pre.empty() ? "default" : metadata.pre;
  const GgufPreTokenizer* row = FindGgufPreTokenizer(pre);
  if (row == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.pre is ", Quoted(pre),
                                                   "; known are ", GgufPreTokenizerNames()));
  }
  if (row->nfc) parts->normalizers.push_back(MakeUnicodeNormalizer(NormalForm::kNfc));
  for (const absl::string_view expression : row->expressions) {
    LORICA_ASSIGN_OR_RETURN(TextPattern pattern, TextPattern::Expression(expression));
    parts->pretokenizers.push_back(MakeSplit(std::move(pattern), SplitBehavior::kIsolated, false));
  }
  LORICA_ASSIGN_OR_RETURN(
      auto byte_level, MakeByteLevel(/*add_prefix_space=*/metadata.add_space_prefix.value_or(false),
                                     /*use_regex=*/false));
  parts->pretokenizers.push_back(std::move(byte_level));
  parts->decoder = PieceDecoder({{DecodeStep::kByteLevel, {}, false, {}, {}, 0, 0}});

  std::vector<std::pair<absl::string_view, absl::string_view>> merges;
  merges.reserve(metadata.merges.size());
  for (size_t i = 0; i < metadata.merges.size(); ++i) {
    const absl::string_view merge = metadata.merges[i];
    // A piece may begin with a space, but isn't empty.
    const size_t space = merge.find(' ', 1);
    if (space == absl::string_view::npos || space + 1 == merge.size()) {
      return absl::InvalidArgumentError(absl::StrCat("merge ", i, " (", Quoted(merge),
                                                     ") isn't two tokens with a space between"));
    }
    merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  BpeOptions options;
  options.ignore_merges = row->ignore_merges;
  LORICA_ASSIGN_OR_RETURN(parts->model, Bpe::FromMerges(std::move(vocabulary), merges, options));
  return SetAddedEnds(metadata.add_bos.value_or(row->add_bos && parts->bos_id.has_value()),
                      metadata.add_eos.value_or(false), parts);
}

// "llama" is sentencepiece's BPE, "t5" its Unigram.
absl::Status BuildFromPieces(const GgufTokenizer& metadata, Tokenizer::Parts* parts) {
  if (metadata.scores.empty()) {
    return absl::InvalidArgumentError("tokenizer.ggml.scores is absent");
  }
  SentencepieceModel model;
  model.unigram = metadata.model == "t5";
  model.pieces = metadata.tokens;
  model.scores = metadata.scores;
  for (size_t i = 0; i < metadata.tokens.size(); ++i) {
    model.types.push_back(static_cast<PieceType>(TypeOf(metadata, i)));
    model.byte_fallback |= model.types.back() == PieceType::kByte;
  }
  model.charsmap = metadata.precompiled_charsmap;
  model.add_dummy_prefix = metadata.add_space_prefix.value_or(true);
  model.remove_extra_whitespaces = metadata.remove_extra_whitespaces.value_or(model.unigram);
  const bool unigram = model.unigram;
  LORICA_RETURN_IF_ERROR(BuildSentencepiece(std::move(model), parts));
  return SetAddedEnds(metadata.add_bos.value_or(!unigram && parts->bos_id.has_value()),
                      metadata.add_eos.value_or(unigram && parts->eos_id.has_value()), parts);
}

absl::Status Build(GgufTokenizer* metadata, Tokenizer::Parts* parts) {
  const size_t count = metadata->tokens.size();
  if (!metadata->token_types.empty() && metadata->token_types.size() != count) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.token_type has ",
                                                   metadata->token_types.size(), " entries for ",
                                                   count, " tokens"));
  }
  if (!metadata->scores.empty() && metadata->scores.size() != count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tokenizer.ggml.scores has ", metadata->scores.size(), " entries for ", count, " tokens"));
  }
  LORICA_RETURN_IF_ERROR(CheckId(metadata->bos_id, count, "bos_token_id", &parts->bos_id));
  LORICA_RETURN_IF_ERROR(CheckId(metadata->eos_id, count, "eos_token_id", &parts->eos_id));
  LORICA_RETURN_IF_ERROR(CheckId(metadata->unk_id, count, "unknown_token_id", &parts->unk_id));
  LORICA_RETURN_IF_ERROR(CheckId(metadata->pad_id, count, "padding_token_id", &parts->pad_id));
  if (metadata->model == "gpt2") {
    LORICA_ASSIGN_OR_RETURN(Vocabulary vocabulary, MakeVocabulary(metadata->tokens));
    LORICA_RETURN_IF_ERROR(BuildByteLevel(*metadata, std::move(vocabulary), parts));
    return AddTokens(*metadata, parts);
  }
  if (metadata->model == "llama" || metadata->model == "t5") {
    return BuildFromPieces(*metadata, parts);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "tokenizer.ggml.model is ", Quoted(metadata->model), "; known are gpt2, llama and t5"));
}

}  // namespace

absl::StatusOr<GgufTokenizer> ReadGgufTokenizer(const GgufFile& file) {
  if (!file.Has("tokenizer.ggml.model")) {
    return absl::NotFoundError(absl::StrCat(file.where(), ": the file has no tokenizer"));
  }
  GgufTokenizer result;
  LORICA_ASSIGN_OR_RETURN(result.model, file.GetString("tokenizer.ggml.model"));
  LORICA_ASSIGN_OR_RETURN(result.pre, file.GetStringOr("tokenizer.ggml.pre", ""));
  LORICA_ASSIGN_OR_RETURN(const auto tokens, file.GetStrings("tokenizer.ggml.tokens"));
  for (const absl::string_view token : tokens) result.tokens.emplace_back(token);
  if (file.Has("tokenizer.ggml.token_type")) {
    LORICA_ASSIGN_OR_RETURN(const auto types, file.GetInts("tokenizer.ggml.token_type"));
    for (const int64_t type : types) {
      // Types that nobody knows are as good as normal ones.
      result.token_types.push_back(type >= kGgufTokenNormal && type <= kGgufTokenByte
                                       ? static_cast<int32_t>(type)
                                       : kGgufTokenNormal);
    }
  }
  if (file.Has("tokenizer.ggml.scores")) {
    LORICA_ASSIGN_OR_RETURN(const auto scores, file.GetFloats("tokenizer.ggml.scores"));
    result.scores.assign(scores.begin(), scores.end());
  }
  if (file.Has("tokenizer.ggml.merges")) {
    LORICA_ASSIGN_OR_RETURN(const auto merges, file.GetStrings("tokenizer.ggml.merges"));
    for (const absl::string_view merge : merges) result.merges.emplace_back(merge);
  }
  const auto integer = [&](const char* key) {
    return file.GetI64(absl::StrCat("tokenizer.ggml.", key));
  };
  const auto flag = [&](const char* key) {
    return file.GetBool(absl::StrCat("tokenizer.ggml.", key));
  };
  LORICA_RETURN_IF_ERROR(Optional(integer("bos_token_id"), &result.bos_id));
  LORICA_RETURN_IF_ERROR(Optional(integer("eos_token_id"), &result.eos_id));
  LORICA_RETURN_IF_ERROR(Optional(integer("unknown_token_id"), &result.unk_id));
  LORICA_RETURN_IF_ERROR(Optional(integer("padding_token_id"), &result.pad_id));
  LORICA_RETURN_IF_ERROR(Optional(flag("add_bos_token"), &result.add_bos));
  LORICA_RETURN_IF_ERROR(Optional(flag("add_eos_token"), &result.add_eos));
  LORICA_RETURN_IF_ERROR(Optional(flag("add_space_prefix"), &result.add_space_prefix));
  LORICA_RETURN_IF_ERROR(
      Optional(flag("remove_extra_whitespaces"), &result.remove_extra_whitespaces));
  if (file.Has("tokenizer.ggml.precompiled_charsmap")) {
    LORICA_ASSIGN_OR_RETURN(const auto bytes, file.GetInts("tokenizer.ggml.precompiled_charsmap"));
    for (const int64_t byte : bytes) {
      result.precompiled_charsmap.push_back(static_cast<char>(byte));
    }
  }
  return result;
}

absl::StatusOr<Tokenizer> TokenizerFromGguf(GgufTokenizer metadata, absl::string_view name) {
  auto parts = std::make_shared<Tokenizer::Parts>();
  absl::Status status = Build(&metadata, parts.get());
  if (status.ok()) {
    auto tokenizer = FinishTokenizer(std::move(parts));
    if (tokenizer.ok()) return tokenizer;
    status = tokenizer.status();
  }
  return absl::Status(status.code(), absl::StrCat(name, ": ", status.message()));
}

}  // namespace lorica
