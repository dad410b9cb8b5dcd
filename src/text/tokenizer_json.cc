// tokenizer.json, the format of Hugging Face's `tokenizers`.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"
#include "lorica/text/bpe.h"
#include "lorica/text/json_fields.h"
#include "lorica/text/tokenizer.h"
#include "lorica/text/tokenizer_config.h"
#include "lorica/text/tokenizer_json_components.h"
#include "lorica/text/tokenizer_json_reader.h"
#include "lorica/text/tokenizer_parts.h"
#include "lorica/text/unigram.h"

namespace lorica {
namespace {

using nlohmann::json;

absl::Status ReadBpe(const TokenizerJson& source, JsonFields* fields, Tokenizer::Parts* parts) {
  BpeOptions options;
  if (const json* dropout = fields->Take("dropout");
      dropout != nullptr && !(dropout->is_number() && dropout->get<double>() == 0)) {
    return fields->Error("has a dropout, which isn't supported");
  }
  std::string unk_token;
  LORICA_RETURN_IF_ERROR(fields->Read("unk_token", &unk_token));
  LORICA_RETURN_IF_ERROR(
      fields->Read("continuing_subword_prefix", &options.continuing_subword_prefix));
  LORICA_RETURN_IF_ERROR(fields->Read("end_of_word_suffix", &options.end_of_word_suffix));
  LORICA_RETURN_IF_ERROR(fields->Read("fuse_unk", &options.fuse_unk));
  LORICA_RETURN_IF_ERROR(fields->Read("byte_fallback", &options.byte_fallback));
  LORICA_RETURN_IF_ERROR(fields->Read("ignore_merges", &options.ignore_merges));
  if (source.vocab_kind != TokenizerJson::kMap) {
    return fields->Error("has no \"vocab\" of pieces and their ids");
  }
  if (!source.has_merges) return fields->Error("has no \"merges\"");
  LORICA_RETURN_IF_ERROR(fields->Finish());

  Vocabulary vocabulary;
  vocabulary.Reserve(source.pieces.size(), source.pieces.bytes());
  for (size_t i = 0; i < source.pieces.size(); ++i) {
    if (absl::Status status = vocabulary.Add(source.pieces[i], source.ids[i]); !status.ok()) {
      return fields->Error(absl::StrCat("has a bad \"vocab\": ", status.message()));
    }
  }
  if (!unk_token.empty()) {
    options.unk_id = vocabulary.IdOf(unk_token);
    if (options.unk_id < 0) {
      return fields->Error(
          absl::StrCat("has the unk_token ", Quoted(unk_token), ", which isn't in its vocabulary"));
    }
    parts->unk_id = options.unk_id;
  }
  std::vector<std::pair<absl::string_view, absl::string_view>> merges;
  merges.reserve(source.merges.size() / 2);
  for (size_t i = 0; i + 1 < source.merges.size(); i += 2) {
    merges.emplace_back(source.merges[i], source.merges[i + 1]);
  }
  auto model = Bpe::FromMerges(std::move(vocabulary), merges, options);
  if (!model.ok()) return fields->Error(absl::StrCat("can't be used: ", model.status().message()));
  parts->model = *std::move(model);
  return absl::OkStatus();
}

absl::Status ReadUnigram(const TokenizerJson& source, JsonFields* fields, Tokenizer::Parts* parts) {
  UnigramOptions options;
  int64_t unk_id = -1;
  LORICA_RETURN_IF_ERROR(fields->Read("unk_id", &unk_id));
  LORICA_RETURN_IF_ERROR(fields->Read("byte_fallback", &options.byte_fallback));
  if (source.vocab_kind != TokenizerJson::kList) {
    return fields->Error("has no \"vocab\" of pieces and their scores");
  }
  LORICA_RETURN_IF_ERROR(fields->Finish());
  if (unk_id < -1 || unk_id >= static_cast<int64_t>(source.pieces.size())) {
    return fields->Error(
        absl::StrCat("has the unk_id ", unk_id, ", but ", source.pieces.size(), " pieces"));
  }
  options.unk_id = static_cast<int32_t>(unk_id);
  if (unk_id >= 0) parts->unk_id = options.unk_id;

  Vocabulary vocabulary;
  vocabulary.Reserve(source.pieces.size(), source.pieces.bytes());
  for (size_t i = 0; i < source.pieces.size(); ++i) {
    const auto id = static_cast<int64_t>(i);
    const absl::Status status = vocabulary.IdOf(source.pieces[i]) >= 0
                                    ? vocabulary.AddDuplicate(source.pieces[i], id)
                                    : vocabulary.Add(source.pieces[i], id);
    if (!status.ok()) return fields->Error(status.message());
  }
  auto model = Unigram::Make(std::move(vocabulary), source.scores, options);
  if (!model.ok()) return fields->Error(absl::StrCat("can't be used: ", model.status().message()));
  parts->model = *std::move(model);
  return absl::OkStatus();
}

absl::Status ReadModel(const TokenizerJson& source, const json& document, const std::string& where,
                       Tokenizer::Parts* parts) {
  JsonFields fields(document, where);
  if (!document.is_object()) return fields.Finish();
  std::string type;
  LORICA_RETURN_IF_ERROR(fields.Read("type", &type));
  // Files of before 2020 don't name the type.
  if (type.empty()) type = source.vocab_kind == TokenizerJson::kList ? "Unigram" : "BPE";
  if (type == "BPE") return ReadBpe(source, &fields, parts);
  if (type == "Unigram") return ReadUnigram(source, &fields, parts);
  return fields.Error(
      absl::StrCat("is of the type ", Quoted(type), "; supported are BPE and Unigram"));
}

absl::Status ReadParts(const TokenizerJson& source, absl::string_view name,
                       Tokenizer::Parts* parts) {
  JsonFields fields(source.document, absl::StrCat(name, ":"));
  const json null;
  const auto entry = [&](const char* key) -> const json& {
    const json* value = fields.Take(key);
    return value == nullptr ? null : *value;
  };
  const auto where = [&](const char* key) { return absl::StrCat(name, ": ", key); };
  std::string version;
  LORICA_RETURN_IF_ERROR(fields.Read("version", &version));
  if (!version.empty() && version != "1.0") {
    return fields.Error(absl::StrCat("is of the version ", Quoted(version), " instead of 1.0"));
  }
  // How long a text may be and how a batch is filled up is for the caller to say.
  fields.Take("truncation");
  fields.Take("padding");
  LORICA_RETURN_IF_ERROR(ReadNormalizer(entry("normalizer"), where("normalizer"), parts));
  LORICA_RETURN_IF_ERROR(ReadPreTokenizer(entry("pre_tokenizer"), where("pre_tokenizer"), parts));
  LORICA_RETURN_IF_ERROR(
      ReadPostProcessor(entry("post_processor"), where("post_processor"), parts));
  LORICA_RETURN_IF_ERROR(ReadDecoder(entry("decoder"), where("decoder"), parts));
  const json& model = entry("model");
  if (model.is_null()) return fields.Error("has no \"model\"");
  LORICA_RETURN_IF_ERROR(ReadModel(source, model, where("model"), parts));
  LORICA_RETURN_IF_ERROR(ReadAddedTokens(entry("added_tokens"), where("added_tokens"), parts));
  return fields.Finish();
}

}  // namespace

absl::StatusOr<Tokenizer> ParseTokenizerJson(absl::string_view bytes, absl::string_view name,
                                             absl::string_view config_json) {
  auto source = ReadTokenizerJson(bytes);
  if (!source.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", source.status().message()));
  }
  auto parts = std::make_shared<Tokenizer::Parts>();
  LORICA_RETURN_IF_ERROR(ReadParts(*source, name, parts.get()));
  const std::string config_name = absl::StrCat("the configuration of ", name);
  LORICA_ASSIGN_OR_RETURN(const TokenizerConfig config,
                          ParseTokenizerConfig(config_json, config_name));
  LORICA_RETURN_IF_ERROR(
      ApplyTokenizerConfig(config, config_name, /*sets_ends=*/false, parts.get()));
  auto tokenizer = FinishTokenizer(std::move(parts));
  if (!tokenizer.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", tokenizer.status().message()));
  }
  return tokenizer;
}

}  // namespace lorica
