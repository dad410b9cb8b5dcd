// A GGUF file's tokenizer in the form of Hugging Face's files.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lorica/io/json_file.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"
#include "lorica/text/gguf_pretokenizers.h"
#include "lorica/text/gguf_tokenizer.h"
#include "lorica/train/model_folder.h"

namespace lorica::internal {
namespace {

OrderedJson ByteLevel(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

OrderedJson PreTokenizer(const GgufPreTokenizer& pre) {
  OrderedJson steps = OrderedJson::array();
  for (const absl::string_view expression : pre.expressions) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", std::string(expression)}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back(ByteLevel(false));
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

// Puts BOS before a text and EOS behind it, where asked for.
OrderedJson PostProcessor(const std::optional<std::pair<std::string, int64_t>>& bos,
                          const std::optional<std::pair<std::string, int64_t>>& eos) {
  OrderedJson single = OrderedJson::array();
  OrderedJson pair = OrderedJson::array();
  OrderedJson tokens = OrderedJson::object();
  const auto add_special = [&](const std::optional<std::pair<std::string, int64_t>>& token,
                               OrderedJson& sequence, int type) {
    if (!token.has_value()) return;
    sequence.push_back({{"SpecialToken", {{"id", token->first}, {"type_id", type}}}});
    tokens[token->first] = {{"id", token->first},
                            {"ids", OrderedJson::array({token->second})},
                            {"tokens", OrderedJson::array({token->first})}};
  };
  const auto add_text = [](OrderedJson& sequence, const char* name, int type) {
    sequence.push_back({{"Sequence", {{"id", name}, {"type_id", type}}}});
  };
  add_special(bos, single, 0);
  add_text(single, "A", 0);
  add_special(eos, single, 0);
  add_special(bos, pair, 0);
  add_text(pair, "A", 0);
  add_special(eos, pair, 0);
  add_special(bos, pair, 1);
  add_text(pair, "B", 1);
  add_special(eos, pair, 1);
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(tokens)}};
}

constexpr char kMark[] = "\xE2\x96\x81";  // a space in pieces

int32_t TypeOf(const GgufTokenizer& metadata, int64_t id) {
  return metadata.token_types.empty() ? static_cast<int32_t>(kGgufTokenNormal)
                                      : metadata.token_types[static_cast<size_t>(id)];
}

struct Merge {
  std::string_view piece;
  size_t cut;  // bytes of its left part
  float score;

  std::string_view left() const { return piece.substr(0, cut); }
  std::string_view right() const { return piece.substr(cut); }
};

// Of pieces with equal scores sentencepiece joins what is further left, where a list of merges can
// only prefer one piece: a merge whose right part another piece of its score can claim, or null.
// `merges` are in the order of scores.
const Merge* FindTie(const std::vector<Merge>& merges) {
  for (auto begin = merges.begin(); begin != merges.end();) {
    const auto end = std::find_if(std::next(begin), merges.end(),
                                  [&](const Merge& merge) { return merge.score != begin->score; });
    // Left part -> piece, "" where there are several.
    std::unordered_map<std::string_view, std::string_view> claims;
    for (auto merge = begin; merge != end; ++merge) {
      const auto [claim, added] = claims.emplace(merge->left(), merge->piece);
      if (!added && claim->second != merge->piece) claim->second = "";
    }
    for (auto merge = begin; merge != end; ++merge) {
      const auto claim = claims.find(merge->right());
      if (claim != claims.end() && claim->second != merge->piece) return &*merge;
    }
    begin = end;
  }
  return nullptr;
}

// sentencepiece joins the two neighbours whose piece has the highest score; a list of merges says
// the same by the order of its entries.
absl::StatusOr<OrderedJson> MergesOf(const GgufTokenizer& metadata, absl::string_view where) {
  std::unordered_set<std::string_view> joined;  // what a symbol can be
  const auto is_normal = [&](size_t id) {
    return TypeOf(metadata, static_cast<int64_t>(id)) == kGgufTokenNormal;
  };
  for (size_t id = 0; id < metadata.tokens.size(); ++id) {
    if (is_normal(id)) joined.insert(metadata.tokens[id]);
  }
  std::vector<Merge> merges;
  for (size_t id = 0; id < metadata.tokens.size(); ++id) {
    if (!is_normal(id)) continue;
    const std::string_view piece = metadata.tokens[id];
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      if ((static_cast<uint8_t>(piece[cut]) & 0xC0) == 0x80) continue;  // inside a character
      const Merge merge = {piece, cut, metadata.scores[id]};
      if (joined.count(merge.left()) > 0 && joined.count(merge.right()) > 0) {
        merges.push_back(merge);
      }
    }
  }
  std::stable_sort(merges.begin(), merges.end(),
                   [](const Merge& a, const Merge& b) { return a.score > b.score; });
  if (const Merge* tie = FindTie(merges); tie != nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        where, ": the token ", Quoted(std::string(tie->piece)),
        " has the score of others that overlap it, whose order tokenizer.json can't say"));
  }
  OrderedJson list = OrderedJson::array();
  for (const Merge& merge : merges) {
    list.push_back({std::string(merge.left()), std::string(merge.right())});
  }
  return list;
}

// What sentencepiece does to a text before it is cut.
OrderedJson SentencepieceNormalizer(const GgufTokenizer& metadata) {
  OrderedJson steps = OrderedJson::array();
  const auto replace = [&](OrderedJson pattern, const char* content) {
    steps.push_back({{"type", "Replace"}, {"pattern", std::move(pattern)}, {"content", content}});
  };
  const bool removes_extra = metadata.remove_extra_whitespaces.value_or(false);
  if (removes_extra) {
    replace({{"Regex", "\\A +"}}, "");
    replace({{"Regex", " {2,}"}}, " ");
  }
  if (metadata.add_space_prefix.value_or(true)) {
    steps.push_back({{"type", "Prepend"}, {"prepend", kMark}});
  }
  replace({{"String", " "}}, kMark);
  if (removes_extra) replace({{"Regex", absl::StrCat(kMark, "+\\z")}}, "");
  return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

OrderedJson SentencepieceDecoder(const GgufTokenizer& metadata) {
  OrderedJson steps = OrderedJson::array();
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}});
  steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (metadata.add_space_prefix.value_or(true)) {
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

OrderedJson UnknownPiece(const GgufTokenizer& metadata, bool pieces) {
  if (!pieces) return nullptr;
  if (metadata.unk_id.has_value()) return metadata.tokens[static_cast<size_t>(*metadata.unk_id)];
  for (size_t id = 0; id < metadata.tokens.size(); ++id) {
    if (TypeOf(metadata, static_cast<int64_t>(id)) == kGgufTokenUnknown) {
      return metadata.tokens[id];
    }
  }
  return nullptr;
}

bool HasBytes(const GgufTokenizer& metadata) {
  return std::any_of(metadata.token_types.begin(), metadata.token_types.end(),
                     [](int32_t type) { return type == kGgufTokenByte; });
}

// The parts of a tokenizer that its kind decides.
struct Pipeline {
  OrderedJson normalizer, pre_tokenizer, decoder, merges;
  bool ignore_merges = false;
  bool pieces = false;  // sentencepiece's: unknown characters and bytes have tokens
  bool add_bos = false;
};

Pipeline ByteLevelPipeline(const GgufTokenizer& metadata, const GgufPreTokenizer& pre) {
  return {.normalizer = pre.nfc ? OrderedJson{{"type", "NFC"}} : OrderedJson(),
          .pre_tokenizer = PreTokenizer(pre),
          .decoder = ByteLevel(true),
          .merges = metadata.merges,
          .ignore_merges = pre.ignore_merges,
          .add_bos = metadata.add_bos.value_or(pre.add_bos)};
}

absl::StatusOr<Pipeline> PipelineOf(const GgufTokenizer& metadata, const GgufFile& file) {
  if (metadata.model == "llama" && metadata.scores.size() == metadata.tokens.size() &&
      metadata.precompiled_charsmap.empty()) {
    Pipeline pipeline{.normalizer = SentencepieceNormalizer(metadata),
                      .decoder = SentencepieceDecoder(metadata),
                      .pieces = true,
                      .add_bos = metadata.add_bos.value_or(metadata.bos_id.has_value())};
    LORICA_ASSIGN_OR_RETURN(pipeline.merges, MergesOf(metadata, file.where()));
    return pipeline;
  }
  const GgufPreTokenizer* pre =
      FindGgufPreTokenizer(metadata.pre.empty() ? "default" : metadata.pre);
  if (metadata.model == "gpt2" && pre != nullptr) return ByteLevelPipeline(metadata, *pre);
  return absl::UnimplementedError(
      absl::StrCat(file.where(), ": a tokenizer of kind ", Quoted(metadata.model),
                   " can't be written as tokenizer.json; byte-level BPE (\"gpt2\") and "
                   "sentencepiece BPE without rules of its own (\"llama\") can"));
}

}  // namespace

absl::StatusOr<TokenizerTexts> TokenizerTextsOfGguf(const GgufFile& file) {
  LORICA_ASSIGN_OR_RETURN(const GgufTokenizer metadata, ReadGgufTokenizer(file));
  // Everything about it that could be wrong.
  LORICA_RETURN_IF_ERROR(TokenizerFromGguf(metadata, file.where()).status());
  LORICA_ASSIGN_OR_RETURN(Pipeline pipeline, PipelineOf(metadata, file));
  const int64_t size = static_cast<int64_t>(metadata.tokens.size());
  const auto named =
      [&](const std::optional<int64_t>& id) -> std::optional<std::pair<std::string, int64_t>> {
    if (!id.has_value() || *id < 0 || *id >= size) return std::nullopt;
    return std::make_pair(metadata.tokens[static_cast<size_t>(*id)], *id);
  };

  // Ordered objects scan themselves at every insertion, far too slow for a vocabulary.
  nlohmann::json vocabulary = nlohmann::json::object();
  OrderedJson added = OrderedJson::array();
  for (int64_t id = 0; id < size; ++id) {
    const std::string& piece = metadata.tokens[static_cast<size_t>(id)];
    if (!vocabulary.emplace(piece, id).second) continue;
    const int32_t type = TypeOf(metadata, id);
    const bool unknown = pipeline.pieces && type == kGgufTokenUnknown;
    if (type != kGgufTokenControl && type != kGgufTokenUserDefined && !unknown) continue;
    // In pieces a space has its mark: they are looked for once the text has, too.
    const bool normalized = pipeline.pieces && piece.find(kMark) != std::string::npos;
    added.push_back({{"id", id},
                     {"content", piece},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", normalized},
                     {"special", type != kGgufTokenUserDefined}});
  }
  const bool add_bos = pipeline.add_bos;
  const bool add_eos = metadata.add_eos.value_or(false);
  const auto bos = named(metadata.bos_id);
  const auto eos = named(metadata.eos_id);
  OrderedJson tokenizer = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  tokenizer["added_tokens"] = std::move(added);
  tokenizer["normalizer"] = std::move(pipeline.normalizer);
  tokenizer["pre_tokenizer"] = std::move(pipeline.pre_tokenizer);
  tokenizer["post_processor"] =
      (add_bos && bos.has_value()) || (add_eos && eos.has_value())
          ? PostProcessor(add_bos ? bos : std::nullopt, add_eos ? eos : std::nullopt)
          : OrderedJson();
  tokenizer["decoder"] = std::move(pipeline.decoder);
  OrderedJson model = {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", UnknownPiece(metadata, pipeline.pieces)},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", pipeline.pieces},
                       {"byte_fallback", pipeline.pieces && HasBytes(metadata)},
                       {"ignore_merges", pipeline.ignore_merges}};
  // The one large object goes in as text.
  model["vocab"] = nullptr;
  model["merges"] = std::move(pipeline.merges);
  tokenizer["model"] = std::move(model);

  OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                        {"clean_up_tokenization_spaces", false},
                        {"add_bos_token", add_bos},
                        {"add_eos_token", add_eos}};
  const auto name_token = [&](const char* key, const std::optional<int64_t>& id) {
    if (const auto token = named(id); token.has_value()) config[key] = token->first;
  };
  name_token("bos_token", metadata.bos_id);
  name_token("eos_token", metadata.eos_id);
  name_token("unk_token", metadata.unk_id);
  name_token("pad_token", metadata.pad_id);
  if (file.Has("tokenizer.chat_template")) {
    LORICA_ASSIGN_OR_RETURN(const std::string chat_template,
                            file.GetString("tokenizer.chat_template"));
    config["chat_template"] = chat_template;
  }
  TokenizerTexts texts;
  try {
    texts.tokenizer = tokenizer.dump();
    const std::string hole = "\"vocab\":null";
    texts.tokenizer.replace(texts.tokenizer.find(hole), hole.size(),
                            "\"vocab\":" + vocabulary.dump());
    texts.config = config.dump(2);
  } catch (const nlohmann::json::exception&) {
    return absl::DataLossError(
        absl::StrCat(file.where(), ": a token or the chat template isn't UTF-8"));
  }
  return texts;
}

}  // namespace lorica::internal
