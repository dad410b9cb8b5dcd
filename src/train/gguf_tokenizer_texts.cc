// A GGUF file's tokenizer in the form of Hugging Face's files.
#include <nlohmann/json.hpp>

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

}  // namespace

absl::StatusOr<TokenizerTexts> TokenizerTextsOfGguf(const GgufFile& file) {
  LORICA_ASSIGN_OR_RETURN(const GgufTokenizer metadata, ReadGgufTokenizer(file));
  const GgufPreTokenizer* pre =
      FindGgufPreTokenizer(metadata.pre.empty() ? "default" : metadata.pre);
  if (metadata.model != "gpt2" || pre == nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        file.where(), ": a tokenizer of kind ", Quoted(metadata.model),
        " can't be written as tokenizer.json; only byte-level BPE (\"gpt2\") can so far"));
  }
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
    vocabulary[piece] = id;
    const int32_t type = metadata.token_types.empty()
                             ? static_cast<int32_t>(kGgufTokenNormal)
                             : metadata.token_types[static_cast<size_t>(id)];
    if (type != kGgufTokenControl && type != kGgufTokenUserDefined) continue;
    added.push_back({{"id", id},
                     {"content", piece},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", type == kGgufTokenControl}});
  }
  const bool add_bos = metadata.add_bos.value_or(pre->add_bos);
  const bool add_eos = metadata.add_eos.value_or(false);
  const auto bos = named(metadata.bos_id);
  const auto eos = named(metadata.eos_id);
  OrderedJson tokenizer = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  tokenizer["added_tokens"] = std::move(added);
  tokenizer["normalizer"] = pre->nfc ? OrderedJson{{"type", "NFC"}} : OrderedJson();
  tokenizer["pre_tokenizer"] = PreTokenizer(*pre);
  tokenizer["post_processor"] =
      (add_bos && bos.has_value()) || (add_eos && eos.has_value())
          ? PostProcessor(add_bos ? bos : std::nullopt, add_eos ? eos : std::nullopt)
          : OrderedJson();
  tokenizer["decoder"] = ByteLevel(true);
  OrderedJson model = {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", pre->ignore_merges}};
  // The one large object goes in as text.
  model["vocab"] = nullptr;
  model["merges"] = metadata.merges;
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
