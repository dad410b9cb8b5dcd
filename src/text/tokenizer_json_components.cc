#include "lorica/text/tokenizer_json_components.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"
#include "lorica/text/json_fields.h"
#include "lorica/text/tokenizer_json_options.h"
#include "lorica/text/utf8.h"

namespace lorica {
namespace {

using nlohmann::json;

absl::Status Unsupported(const JsonFields& fields, const std::string& type) {
  return fields.Error(absl::StrCat("is of the type ", Quoted(type), ", which isn't supported"));
}

absl::Status ReadUnicodeForm(const std::string& type, Tokenizer::Parts* parts, bool* known) {
  static constexpr struct {
    const char* name;
    NormalForm form;
  } kForms[] = {{"NFC", NormalForm::kNfc},
                {"NFD", NormalForm::kNfd},
                {"NFKC", NormalForm::kNfkc},
                {"NFKD", NormalForm::kNfkd}};
  *known = false;
  for (const auto& row : kForms) {
    if (type != row.name) continue;
    parts->normalizers.push_back(MakeUnicodeNormalizer(row.form));
    *known = true;
  }
  return absl::OkStatus();
}

absl::Status ReadBertNormalizer(JsonFields* fields, Tokenizer::Parts* parts) {
  bool clean_text = true, ideographs = true, lowercase = true;
  LORICA_RETURN_IF_ERROR(fields->Read("clean_text", &clean_text));
  LORICA_RETURN_IF_ERROR(fields->Read("handle_chinese_chars", &ideographs));
  LORICA_RETURN_IF_ERROR(fields->Read("lowercase", &lowercase));
  bool strip_accents = lowercase;  // where it is null
  LORICA_RETURN_IF_ERROR(fields->Read("strip_accents", &strip_accents));
  auto& list = parts->normalizers;
  if (clean_text) list.push_back(MakeCleanText());
  if (ideographs) list.push_back(MakeSpacedIdeographs());
  if (strip_accents) {
    list.push_back(MakeUnicodeNormalizer(NormalForm::kNfd));
    list.push_back(MakeStripNonspacing());
  }
  if (lowercase) list.push_back(MakeLowercase());
  return absl::OkStatus();
}

// The ids of a template's special token `name`.
absl::Status AppendTemplateIds(const JsonFields& fields, const json* table, const std::string& name,
                               std::vector<int32_t>* ids) {
  if (table == nullptr || !table->is_object() || !table->contains(name)) {
    return fields.Error(absl::StrCat("has no special token ", Quoted(name), " in its table"));
  }
  const json& entry = (*table)[name];
  if (!entry.is_object() || !entry.contains("ids") || !entry["ids"].is_array()) {
    return fields.Error(absl::StrCat("has no ids for the special token ", Quoted(name)));
  }
  for (const json& id : entry["ids"]) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > Vocabulary::kLargestId) {
      return fields.Error(absl::StrCat("has a bad id for the special token ", Quoted(name)));
    }
    ids->push_back(id.get<int32_t>());
  }
  return absl::OkStatus();
}

// {"SpecialToken": {"id": ..., "type_id": ...}} and {"Sequence": {"id": "A", ...}}, in a list.
absl::Status ReadTemplate(JsonFields* fields, std::vector<int32_t>* prefix,
                          std::vector<int32_t>* suffix) {
  fields->Take("pair");  // of two texts, which aren't encoded together here
  const json* table = fields->Take("special_tokens");
  int sequences = 0;
  LORICA_RETURN_IF_ERROR(ForEachEntry(
      fields, "single", [&](const json& item, const std::string& where) -> absl::Status {
        const bool is_token = item.is_object() && item.size() == 1 && item.contains("SpecialToken");
        const bool is_text = item.is_object() && item.size() == 1 && item.contains("Sequence");
        if (!is_token && !is_text) {
          return JsonFields(item, where).Error("is neither a SpecialToken nor a Sequence");
        }
        JsonFields inner(*item.begin(), where);
        std::string id;
        int64_t type_id = 0;
        LORICA_RETURN_IF_ERROR(inner.Require("id", &id));
        LORICA_RETURN_IF_ERROR(inner.Read("type_id", &type_id));
        LORICA_RETURN_IF_ERROR(inner.Finish());
        if (is_token) {
          return AppendTemplateIds(*fields, table, id, sequences == 0 ? prefix : suffix);
        }
        if (id != "A") return inner.Error(absl::StrCat("names the sequence ", Quoted(id)));
        ++sequences;
        return absl::OkStatus();
      }));
  if (sequences != 1) {
    return fields->Error(absl::StrCat("has the text ", sequences, " times instead of once"));
  }
  return absl::OkStatus();
}

// ["[CLS]", 101].
absl::Status ReadTokenPair(JsonFields* fields, const char* key, std::vector<int32_t>* ids) {
  const json* pair = fields->Take(key);
  if (pair == nullptr || !pair->is_array() || pair->size() != 2 ||
      !(*pair)[1].is_number_unsigned() || (*pair)[1].get<uint64_t>() > Vocabulary::kLargestId) {
    return fields->Error(absl::StrCat("has no \"", key, "\" of a token and its id"));
  }
  ids->push_back((*pair)[1].get<int32_t>());
  return absl::OkStatus();
}

absl::Status ReadDecodeSteps(const json& document, const std::string& where,
                             std::vector<DecodeStep>* steps) {
  JsonFields fields(document, where);
  std::string type;
  LORICA_RETURN_IF_ERROR(fields.Require("type", &type));
  DecodeStep step{DecodeStep::kFuse, {}, false, {}, {}, 0, 0};
  if (type == "Sequence") {
    LORICA_RETURN_IF_ERROR(
        ForEachEntry(&fields, "decoders", [&](const json& item, const std::string& item_where) {
          return ReadDecodeSteps(item, item_where, steps);
        }));
    return fields.Finish();
  }
  if (type == "ByteLevel") {
    bool add_prefix_space, use_regex;
    LORICA_RETURN_IF_ERROR(ReadByteLevel(&fields, &add_prefix_space, &use_regex));
    step.kind = DecodeStep::kByteLevel;
  } else if (type == "ByteFallback") {
    step.kind = DecodeStep::kByteFallback;
  } else if (type == "Fuse") {
    step.kind = DecodeStep::kFuse;
  } else if (type == "Metaspace") {
    PrependScheme scheme;
    bool split;
    LORICA_RETURN_IF_ERROR(ReadMetaspace(&fields, &step.mark, &scheme, &split));
    step.kind = DecodeStep::kMetaspace;
    step.drop_first = scheme != PrependScheme::kNever;
  } else if (type == "Replace") {
    LORICA_ASSIGN_OR_RETURN(TextPattern pattern, ReadPattern(&fields));
    LORICA_RETURN_IF_ERROR(fields.Require("content", &step.content));
    step.kind = DecodeStep::kReplace;
    step.pattern.push_back(std::move(pattern));
  } else if (type == "Strip") {
    int64_t start = 0, stop = 0;
    LORICA_RETURN_IF_ERROR(fields.Require("content", &step.mark));
    LORICA_RETURN_IF_ERROR(fields.Require("start", &start));
    LORICA_RETURN_IF_ERROR(fields.Require("stop", &stop));
    if (step.mark.empty() || start < 0 || stop < 0) {
      return fields.Error("has an empty \"content\" or negative counts");
    }
    step.kind = DecodeStep::kStrip;
    step.start = static_cast<size_t>(start);
    step.stop = static_cast<size_t>(stop);
  } else if (type == "BPEDecoder") {
    LORICA_RETURN_IF_ERROR(fields.Require("suffix", &step.mark));
    if (step.mark.empty()) return fields.Error("has an empty \"suffix\"");
    step.kind = DecodeStep::kSuffix;
  } else {
    return Unsupported(fields, type);
  }
  steps->push_back(std::move(step));
  return fields.Finish();
}

}  // namespace

absl::Status ReadNormalizer(const json& document, const std::string& where,
                            Tokenizer::Parts* parts) {
  if (document.is_null()) return absl::OkStatus();
  JsonFields fields(document, where);
  std::string type;
  LORICA_RETURN_IF_ERROR(fields.Require("type", &type));
  bool is_form;
  LORICA_RETURN_IF_ERROR(ReadUnicodeForm(type, parts, &is_form));
  if (is_form) return fields.Finish();
  if (type == "Sequence") {
    LORICA_RETURN_IF_ERROR(
        ForEachEntry(&fields, "normalizers", [&](const json& item, const std::string& item_where) {
          return ReadNormalizer(item, item_where, parts);
        }));
  } else if (type == "Lowercase") {
    parts->normalizers.push_back(MakeLowercase());
  } else if (type == "Strip") {
    bool left = true, right = true;
    LORICA_RETURN_IF_ERROR(fields.Read("strip_left", &left));
    LORICA_RETURN_IF_ERROR(fields.Read("strip_right", &right));
    parts->normalizers.push_back(MakeStrip(left, right));
  } else if (type == "StripAccents") {
    parts->normalizers.push_back(MakeStripAccents());
  } else if (type == "BertNormalizer") {
    LORICA_RETURN_IF_ERROR(ReadBertNormalizer(&fields, parts));
  } else if (type == "Replace") {
    std::string content;
    LORICA_ASSIGN_OR_RETURN(TextPattern pattern, ReadPattern(&fields));
    LORICA_RETURN_IF_ERROR(fields.Require("content", &content));
    parts->normalizers.push_back(MakeReplace(std::move(pattern), content));
  } else if (type == "Prepend") {
    std::string prefix;
    LORICA_RETURN_IF_ERROR(fields.Require("prepend", &prefix));
    parts->normalizers.push_back(MakePrepend(prefix));
  } else if (type == "Nmt") {
    parts->normalizers.push_back(MakeNmt());
  } else if (type == "ByteLevel") {
    parts->normalizers.push_back(MakeByteLevelNormalizer());
  } else if (type == "Precompiled") {
    std::string encoded, charsmap;
    LORICA_RETURN_IF_ERROR(fields.Require("precompiled_charsmap", &encoded));
    if (!absl::Base64Unescape(encoded, &charsmap)) {
      return fields.Error("has a \"precompiled_charsmap\" that isn't base64");
    }
    auto normalizer = MakePrecompiled(std::move(charsmap), /*by_grapheme=*/true);
    if (!normalizer.ok()) return fields.Error(normalizer.status().message());
    parts->normalizers.push_back(*std::move(normalizer));
  } else {
    return Unsupported(fields, type);
  }
  return fields.Finish();
}

absl::Status ReadPreTokenizer(const json& document, const std::string& where,
                              Tokenizer::Parts* parts) {
  if (document.is_null()) return absl::OkStatus();
  JsonFields fields(document, where);
  std::string type;
  LORICA_RETURN_IF_ERROR(fields.Require("type", &type));
  auto& list = parts->pretokenizers;
  if (type == "Sequence") {
    LORICA_RETURN_IF_ERROR(ForEachEntry(&fields, "pretokenizers",
                                        [&](const json& item, const std::string& item_where) {
                                          return ReadPreTokenizer(item, item_where, parts);
                                        }));
  } else if (type == "ByteLevel") {
    bool add_prefix_space, use_regex;
    LORICA_RETURN_IF_ERROR(ReadByteLevel(&fields, &add_prefix_space, &use_regex));
    LORICA_ASSIGN_OR_RETURN(auto byte_level, MakeByteLevel(add_prefix_space, use_regex));
    list.push_back(std::move(byte_level));
  } else if (type == "Split") {
    SplitBehavior behavior;
    bool invert = false;
    LORICA_ASSIGN_OR_RETURN(TextPattern pattern, ReadPattern(&fields));
    LORICA_RETURN_IF_ERROR(ReadBehavior(&fields, &behavior));
    LORICA_RETURN_IF_ERROR(fields.Read("invert", &invert));
    list.push_back(MakeSplit(std::move(pattern), behavior, invert));
  } else if (type == "Digits") {
    bool individual = false;
    LORICA_RETURN_IF_ERROR(fields.Read("individual_digits", &individual));
    list.push_back(MakeDigits(individual));
  } else if (type == "Punctuation") {
    SplitBehavior behavior = SplitBehavior::kIsolated;
    if (fields.Take("behavior") != nullptr) {
      LORICA_RETURN_IF_ERROR(ReadBehavior(&fields, &behavior));
    }
    list.push_back(MakeCharacterSplit(IsPunctuation, behavior));
  } else if (type == "Whitespace") {
    list.push_back(MakeWhitespace());
  } else if (type == "WhitespaceSplit") {
    list.push_back(MakeCharacterSplit(IsWhiteSpace, SplitBehavior::kRemoved));
  } else if (type == "BertPreTokenizer") {
    list.push_back(MakeCharacterSplit(IsWhiteSpace, SplitBehavior::kRemoved));
    list.push_back(MakeCharacterSplit(IsPunctuation, SplitBehavior::kIsolated));
  } else if (type == "CharDelimiterSplit") {
    std::string delimiter;
    LORICA_RETURN_IF_ERROR(fields.Require("delimiter", &delimiter));
    auto pattern = TextPattern::Literal(delimiter);
    if (!pattern.ok()) return fields.Error("has an empty \"delimiter\"");
    list.push_back(MakeSplit(*std::move(pattern), SplitBehavior::kRemoved, false));
  } else if (type == "Metaspace") {
    std::string replacement;
    PrependScheme scheme;
    bool split;
    LORICA_RETURN_IF_ERROR(ReadMetaspace(&fields, &replacement, &scheme, &split));
    list.push_back(MakeMetaspace(replacement, scheme, split));
  } else {
    return Unsupported(fields, type);
  }
  return fields.Finish();
}

absl::Status ReadPostProcessor(const json& document, const std::string& where,
                               Tokenizer::Parts* parts) {
  if (document.is_null()) return absl::OkStatus();
  JsonFields fields(document, where);
  std::string type;
  std::vector<int32_t> prefix, suffix;
  LORICA_RETURN_IF_ERROR(fields.Require("type", &type));
  if (type == "Sequence") {
    LORICA_RETURN_IF_ERROR(
        ForEachEntry(&fields, "processors", [&](const json& item, const std::string& item_where) {
          return ReadPostProcessor(item, item_where, parts);
        }));
  } else if (type == "ByteLevel") {
    bool add_prefix_space, use_regex;
    LORICA_RETURN_IF_ERROR(ReadByteLevel(&fields, &add_prefix_space, &use_regex));
  } else if (type == "TemplateProcessing") {
    LORICA_RETURN_IF_ERROR(ReadTemplate(&fields, &prefix, &suffix));
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    LORICA_RETURN_IF_ERROR(ReadTokenPair(&fields, "cls", &prefix));
    LORICA_RETURN_IF_ERROR(ReadTokenPair(&fields, "sep", &suffix));
    bool about_offsets = false;
    LORICA_RETURN_IF_ERROR(fields.Read("trim_offsets", &about_offsets));
    LORICA_RETURN_IF_ERROR(fields.Read("add_prefix_space", &about_offsets));
  } else {
    return Unsupported(fields, type);
  }
  parts->prefix.insert(parts->prefix.begin(), prefix.begin(), prefix.end());
  parts->suffix.insert(parts->suffix.end(), suffix.begin(), suffix.end());
  return fields.Finish();
}

absl::Status ReadDecoder(const json& document, const std::string& where, Tokenizer::Parts* parts) {
  std::vector<DecodeStep> steps;
  if (!document.is_null()) LORICA_RETURN_IF_ERROR(ReadDecodeSteps(document, where, &steps));
  parts->decoder = PieceDecoder(std::move(steps));
  return absl::OkStatus();
}

absl::Status ReadAddedTokens(const json& document, const std::string& where,
                             Tokenizer::Parts* parts) {
  if (document.is_null()) return absl::OkStatus();
  if (!document.is_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, " is ", document.type_name(), " instead of a list"));
  }
  for (size_t i = 0; i < document.size(); ++i) {
    JsonFields fields(document[i], absl::StrCat(where, "[", i, "]"));
    AddedToken token;
    token.normalized = true;
    LORICA_RETURN_IF_ERROR(fields.Require("content", &token.content));
    LORICA_RETURN_IF_ERROR(fields.Require("id", &token.id));
    LORICA_RETURN_IF_ERROR(fields.Read("special", &token.special));
    token.normalized = !token.special;
    LORICA_RETURN_IF_ERROR(fields.Read("single_word", &token.single_word));
    LORICA_RETURN_IF_ERROR(fields.Read("lstrip", &token.lstrip));
    LORICA_RETURN_IF_ERROR(fields.Read("rstrip", &token.rstrip));
    LORICA_RETURN_IF_ERROR(fields.Read("normalized", &token.normalized));
    LORICA_RETURN_IF_ERROR(fields.Finish());
    if (absl::Status status = parts->added.Add(std::move(token)); !status.ok()) {
      return fields.Error(status.message());
    }
  }
  return absl::OkStatus();
}

}  // namespace lorica
