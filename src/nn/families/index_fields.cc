#include "lorica/nn/families/index_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/families/layer_pattern.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

constexpr absl::string_view kIndexed = "indexed_attention";
constexpr absl::string_view kFull = "full", kShared = "shared";

// A word for each layer; predictors behind the last one may have words too.
absl::Status CheckCount(const JsonObject& json, absl::string_view key,
                        const std::vector<std::string>& words, const ModelConfig& config) {
  const int64_t count = static_cast<int64_t>(words.size());
  if (count >= config.layers && count <= config.layers + config.skipped_layers) {
    return absl::OkStatus();
  }
  return json.Wrong(key, absl::StrCat("expected a word for each of ", config.layers,
                                      " layers, found ", words.size()));
}

// A flag per layer from a word each.
absl::StatusOr<std::vector<bool>> SharedByWords(const JsonObject& json, absl::string_view key,
                                                const std::vector<std::string>& words,
                                                const ModelConfig& config) {
  LORICA_RETURN_IF_ERROR(CheckCount(json, key, words, config));
  std::vector<bool> shared;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word != kFull && word != kShared) {
      return json.Wrong(key, absl::StrCat("layer ", i, " is ", Quoted(word),
                                          ", only \"full\" and \"shared\" are supported"));
    }
    shared.push_back(word == kShared);
  }
  shared.resize(static_cast<size_t>(config.layers));
  return shared;
}

absl::StatusOr<std::vector<bool>> SharedByPattern(const JsonObject& json,
                                                  const ModelConfig& config) {
  constexpr absl::string_view kKey = "index_topk_pattern";
  std::vector<std::string> words;
  if (json.Find(kKey)->is_string()) {
    LORICA_ASSIGN_OR_RETURN(const std::string pattern, json.String(kKey));
    for (const char letter : pattern) {
      words.emplace_back(letter == 'F'   ? kFull
                         : letter == 'S' ? kShared
                                         : absl::string_view(&letter, 1));
    }
  } else {
    LORICA_ASSIGN_OR_RETURN(words, json.Strings(kKey));
  }
  return SharedByWords(json, kKey, words, config);
}

// One full layer of each `every`, from the layer before `offset` on; all before it are full.
absl::StatusOr<std::vector<bool>> SharedByPeriod(const JsonObject& json,
                                                 const ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(int64_t every, json.IntOr("index_topk_freq", 1));
  LORICA_ASSIGN_OR_RETURN(const int64_t offset, json.IntOr("index_skip_topk_offset", 2));
  constexpr int64_t kMost = 1 << 20;
  if (offset < -kMost || offset > kMost) {
    return json.Wrong("index_skip_topk_offset",
                      absl::StrCat("expected the number of a layer, found ", offset));
  }
  every = std::max<int64_t>(every, 1);
  std::vector<bool> shared;
  for (int64_t i = 0; i < config.layers; ++i) {
    shared.push_back(std::max<int64_t>(i - offset + 1, 0) % every != 0);
  }
  return shared;
}

}  // namespace

absl::Status ReadIndex(const JsonObject& json, ModelConfig& config) {
  IndexerSizes& index = config.indexer;
  LORICA_ASSIGN_OR_RETURN(index.top_k, json.Int("index_topk"));
  LORICA_ASSIGN_OR_RETURN(index.heads, json.Int("index_n_heads"));
  LORICA_ASSIGN_OR_RETURN(index.head_dim, json.Int("index_head_dim"));
  if (index.top_k < 1) {  // 0 would be a model without an indexer
    return json.Wrong("index_topk",
                      absl::StrCat("expected a positive number, found ", index.top_k));
  }
  if (!json.Has("layer_types")) return absl::OkStatus();
  LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> types, json.Strings("layer_types"));
  LORICA_RETURN_IF_ERROR(CheckCount(json, "layer_types", types, config));
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] == kIndexed) continue;
    return json.Wrong("layer_types", absl::StrCat("layer ", i, " is ", Quoted(types[i]), ", only ",
                                                  Quoted(kIndexed), " is supported"));
  }
  return absl::OkStatus();
}

void WriteIndex(const ModelConfig& config, OrderedJson& json) {
  json["index_topk"] = config.indexer.top_k;
  json["index_n_heads"] = config.indexer.heads;
  json["index_head_dim"] = config.indexer.head_dim;
}

absl::Status ReadSharedChoices(const JsonObject& json, ModelConfig& config) {
  std::vector<std::pair<absl::string_view, std::vector<bool>>> found;
  if (json.Has("indexer_types")) {
    LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> words, json.Strings("indexer_types"));
    LORICA_ASSIGN_OR_RETURN(std::vector<bool> shared,
                            SharedByWords(json, "indexer_types", words, config));
    found.emplace_back("indexer_types", std::move(shared));
  }
  if (json.Has("index_topk_pattern")) {
    LORICA_ASSIGN_OR_RETURN(std::vector<bool> shared, SharedByPattern(json, config));
    found.emplace_back("index_topk_pattern", std::move(shared));
  }
  if (found.empty() || json.Has("index_topk_freq")) {
    LORICA_ASSIGN_OR_RETURN(std::vector<bool> shared, SharedByPeriod(json, config));
    found.emplace_back("index_topk_freq", std::move(shared));
  }
  for (const auto& [key, shared] : found) {
    if (shared == found[0].second) continue;
    return json.Wrong(key, absl::StrCat("expected what ", found[0].first,
                                        " says of which layers share an indexer"));
  }
  std::vector<LayerConfig> layers = LayersOf(config);
  for (size_t i = 0; i < layers.size(); ++i) layers[i].shares_choice = found[0].second[i];
  SetLayers(std::move(layers), config);
  return absl::OkStatus();
}

void WriteSharedChoices(const ModelConfig& config, OrderedJson& json) {
  OrderedJson types = OrderedJson::array();
  for (int i = 0; i < static_cast<int>(config.layers); ++i) {
    types.push_back(std::string(config.Layer(i).shares_choice ? kShared : kFull));
  }
  json["indexer_types"] = std::move(types);
}

}  // namespace lorica::internal
