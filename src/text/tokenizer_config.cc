#include "lorica/text/tokenizer_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/json_file.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

// A token's text, which stands as a string or as an object with its flags.
absl::Status ReadToken(const JsonObject& config, absl::string_view key,
                       std::optional<std::string>* token) {
  const Json* value = config.Find(key);
  if (value == nullptr) return absl::OkStatus();
  if (value->is_string()) {
    *token = value->get<std::string>();
    return absl::OkStatus();
  }
  if (!value->is_object()) return config.WrongType(key, "a string or an object");
  LORICA_ASSIGN_OR_RETURN(const JsonObject object, config.Object(key));
  LORICA_ASSIGN_OR_RETURN(*token, object.String("content"));
  return absl::OkStatus();
}

absl::Status ReadFlag(const JsonObject& config, absl::string_view key, std::optional<bool>* flag) {
  if (!config.Has(key)) return absl::OkStatus();
  LORICA_ASSIGN_OR_RETURN(*flag, config.Bool(key));
  return absl::OkStatus();
}

// {"151643": {"content": ..., flags}, ...}.
absl::Status ReadAddedTokensDecoder(const JsonObject& config, std::vector<AddedToken>* tokens) {
  constexpr char kKey[] = "added_tokens_decoder";
  if (!config.Has(kKey)) return absl::OkStatus();
  LORICA_ASSIGN_OR_RETURN(const JsonObject table, config.Object(kKey));
  for (const std::string& key : table.Keys()) {
    AddedToken token;
    if (!absl::SimpleAtoi(key, &token.id)) {
      return table.Wrong(key, " has a name that isn't a token id");
    }
    LORICA_ASSIGN_OR_RETURN(const JsonObject entry, table.Object(key));
    LORICA_ASSIGN_OR_RETURN(token.content, entry.String("content"));
    LORICA_ASSIGN_OR_RETURN(token.special, entry.BoolOr("special", false));
    LORICA_ASSIGN_OR_RETURN(token.single_word, entry.BoolOr("single_word", false));
    LORICA_ASSIGN_OR_RETURN(token.lstrip, entry.BoolOr("lstrip", false));
    LORICA_ASSIGN_OR_RETURN(token.rstrip, entry.BoolOr("rstrip", false));
    LORICA_ASSIGN_OR_RETURN(token.normalized, entry.BoolOr("normalized", !token.special));
    tokens->push_back(std::move(token));
  }
  return absl::OkStatus();
}

// Further special tokens, of which only strings and objects with a content name one.
void ReadOtherTokens(const JsonObject& config, absl::string_view key,
                     std::vector<std::string>* tokens) {
  const Json* list = config.Find(key);
  if (list == nullptr || (!list->is_array() && !list->is_object())) return;
  for (const Json& token : *list) {
    if (token.is_string()) {
      tokens->push_back(token.get<std::string>());
    } else if (token.is_object() && token.contains("content") && token["content"].is_string()) {
      tokens->push_back(token["content"].get<std::string>());
    }
  }
}

std::optional<int32_t> IdOf(const Tokenizer::Parts& parts, const std::string& token) {
  if (const AddedToken* added = parts.added.Find(absl::string_view(token)); added != nullptr) {
    return static_cast<int32_t>(added->id);
  }
  const int32_t id = parts.model->vocabulary().IdOf(token);
  return id >= 0 ? std::optional<int32_t>(id) : std::nullopt;
}

}  // namespace

absl::StatusOr<TokenizerConfig> ParseTokenizerConfig(absl::string_view json,
                                                     absl::string_view name) {
  TokenizerConfig result;
  if (json.empty()) return result;
  JsonOptions options;
  options.unique_keys = false;  // nobody reads these files as strictly
  LORICA_ASSIGN_OR_RETURN(const Json document, ParseJson(json, name, options));
  LORICA_ASSIGN_OR_RETURN(const JsonObject config, JsonObject::Of(document, name));
  LORICA_RETURN_IF_ERROR(ReadToken(config, "bos_token", &result.bos_token));
  LORICA_RETURN_IF_ERROR(ReadToken(config, "eos_token", &result.eos_token));
  LORICA_RETURN_IF_ERROR(ReadToken(config, "unk_token", &result.unk_token));
  LORICA_RETURN_IF_ERROR(ReadToken(config, "pad_token", &result.pad_token));
  LORICA_RETURN_IF_ERROR(ReadFlag(config, "add_bos_token", &result.add_bos));
  LORICA_RETURN_IF_ERROR(ReadFlag(config, "add_eos_token", &result.add_eos));
  LORICA_RETURN_IF_ERROR(ReadAddedTokensDecoder(config, &result.added_tokens));
  ReadOtherTokens(config, "additional_special_tokens", &result.other_special_tokens);
  ReadOtherTokens(config, "extra_special_tokens", &result.other_special_tokens);
  std::optional<bool> split_special_tokens;
  LORICA_RETURN_IF_ERROR(ReadFlag(config, "split_special_tokens", &split_special_tokens));
  if (split_special_tokens.value_or(false)) {
    return config.Wrong("split_special_tokens", " is true, which isn't supported");
  }
  return result;
}

absl::Status ApplyTokenizerConfig(const TokenizerConfig& config, absl::string_view name,
                                  bool sets_ends, Tokenizer::Parts* parts) {
  for (const AddedToken& token : config.added_tokens) {
    if (absl::Status status = parts->added.Add(token); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": ", status.message()));
    }
  }
  std::vector<std::string> special = config.other_special_tokens;
  for (const auto& token :
       {config.bos_token, config.eos_token, config.unk_token, config.pad_token}) {
    if (token.has_value()) special.push_back(*token);
  }
  for (const std::string& content : special) {
    const std::optional<int32_t> id = IdOf(*parts, content);
    if (!id.has_value() || content.empty() || parts->added.Find(absl::string_view(content))) {
      continue;
    }
    AddedToken token;
    token.content = content;
    token.id = *id;
    token.special = true;
    LORICA_RETURN_IF_ERROR(parts->added.Add(std::move(token)));
  }
  const auto find = [&](const std::optional<std::string>& token, std::optional<int32_t>* id) {
    if (token.has_value()) *id = IdOf(*parts, *token);
  };
  find(config.bos_token, &parts->bos_id);
  find(config.eos_token, &parts->eos_id);
  find(config.unk_token, &parts->unk_id);
  find(config.pad_token, &parts->pad_id);
  if (config.eos_token.has_value() && !parts->eos_id.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": the eos_token ", Quoted(*config.eos_token), " isn't in the vocabulary"));
  }
  if (!sets_ends) return absl::OkStatus();
  if (absl::Status status = SetAddedEnds(config.add_bos, config.add_eos, parts); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", status.message()));
  }
  return absl::OkStatus();
}

absl::Status SetAddedEnds(std::optional<bool> add_bos, std::optional<bool> add_eos,
                          Tokenizer::Parts* parts) {
  if (add_bos.value_or(false) && !parts->bos_id.has_value()) {
    return absl::InvalidArgumentError("a BOS token is to be added, but none is known");
  }
  if (add_eos.value_or(false) && !parts->eos_id.has_value()) {
    return absl::InvalidArgumentError("an EOS token is to be added, but none is known");
  }
  std::vector<int32_t>& prefix = parts->prefix;
  std::vector<int32_t>& suffix = parts->suffix;
  if (add_bos.has_value() && parts->bos_id.has_value()) {
    prefix.erase(std::remove(prefix.begin(), prefix.end(), *parts->bos_id), prefix.end());
    if (*add_bos) prefix.insert(prefix.begin(), *parts->bos_id);
  }
  if (add_eos.has_value() && parts->eos_id.has_value()) {
    suffix.erase(std::remove(suffix.begin(), suffix.end(), *parts->eos_id), suffix.end());
    if (*add_eos) suffix.push_back(*parts->eos_id);
  }
  return absl::OkStatus();
}

}  // namespace lorica
