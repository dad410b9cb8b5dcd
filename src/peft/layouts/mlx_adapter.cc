// mlx-lm: adapters.safetensors with <path>.lora_a [in, R] and .lora_b [R, out], of experts [E, R,
// in] and [E, out, R]; one scale in adapter_config.json.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lorica/io/atomic_commit.h"
#include "lorica/io/json_file.h"
#include "lorica/io/quoted.h"
#include "lorica/peft/layouts/factor_math.h"
#include "lorica/peft/layouts/layout_files.h"
#include "lorica/peft/layouts/scale_folding.h"
#include "lorica/tensor/status.h"

namespace lorica::layouts {
namespace {

// What mlx-lm takes where a configuration has no scale.
constexpr double kDefaultScale = 20;
constexpr absl::string_view kFactors = "adapters.safetensors";
constexpr absl::string_view kConfig = "adapter_config.json";

struct MlxConfig {
  double scale = kDefaultScale;
  double dropout = 0;
  std::string model;
  std::string expert_kind;  // as Lorica notes it
};

absl::StatusOr<MlxConfig> ReadConfig(const std::string& path, FileSystem& files) {
  std::string text;
  LORICA_ASSIGN_OR_RETURN(text, files.Read(path, size_t{16} << 20));
  Json json;
  LORICA_ASSIGN_OR_RETURN(json, ParseJson(text, path));
  LORICA_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::Of(json, path));
  MlxConfig config;
  LORICA_ASSIGN_OR_RETURN(const std::string type, object.StringOr("fine_tune_type", "lora"));
  if (type != "lora") {
    return absl::UnimplementedError(
        absl::StrCat(path, ": fine_tune_type is ", Quoted(type), ", which isn't supported"));
  }
  LORICA_ASSIGN_OR_RETURN(config.model, object.StringOr("model", ""));
  LORICA_ASSIGN_OR_RETURN(const JsonObject lora, object.Object("lora_parameters"));
  LORICA_ASSIGN_OR_RETURN(config.scale, lora.DoubleOr("scale", kDefaultScale));
  LORICA_ASSIGN_OR_RETURN(config.dropout, lora.DoubleOr("dropout", 0));
  if (object.Has("lorica")) {
    LORICA_ASSIGN_OR_RETURN(const JsonObject record, object.Object("lorica"));
    LORICA_ASSIGN_OR_RETURN(config.expert_kind, record.StringOr("experts", ""));
  }
  return config;
}

// Where mlx-lm keeps the experts of "...mlp.experts": gpt-oss has them there, others one name on.
std::string MlxExperts(const std::string& experts, const StoredAdapter& adapter) {
  absl::string_view head = experts;
  if (adapter.form.interleaved || !absl::ConsumeSuffix(&head, ".mlp.experts")) return experts;
  return absl::StrCat(
      head, adapter.form.numbered_names ? ".block_sparse_moe.switch_mlp" : ".mlp.switch_mlp");
}

// The name that mlx-lm finds a module by: inside a layer behind the layer's number.
std::string ModuleKey(absl::string_view path) {
  constexpr absl::string_view kLayers = "model.layers.";
  if (!absl::ConsumePrefix(&path, kLayers)) return std::string(path);
  const size_t dot = path.find('.');
  return std::string(dot == absl::string_view::npos ? path : path.substr(dot + 1));
}

}  // namespace

absl::StatusOr<ReadAdapter> ReadMlxFolder(const std::string& folder, Backend& backend,
                                          const AdapterReadOptions& options, FileSystem& files) {
  LORICA_ASSIGN_OR_RETURN(const MlxConfig config, ReadConfig(JoinPath(folder, kConfig), files));
  LORICA_ASSIGN_OR_RETURN(
      const FactorTable table,
      FactorTable::Open(JoinPath(folder, kFactors), FactorTable::Names::kMlx, files));
  ReadAdapter result{.layout = AdapterLayout::kMlx};
  StoredAdapter& adapter = result.adapter;
  adapter.base_model = config.model;
  adapter.dropout = config.dropout;
  if (options.base != nullptr) adapter.form = options.base->form;
  ExpertFactorMap map;
  for (const FactorPair& pair : table.pairs()) {
    absl::StatusOr<ExpertKey> key = ParseExpertKey(pair.path);
    if (!key.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(table.where(), ": ", key.status().message()));
    }
    const bool dense = key->form == ExpertKey::Form::kDense;
    if (!dense && key->form != ExpertKey::Form::kGrouped) {
      return absl::InvalidArgumentError(absl::StrCat(table.where(), ": ", Quoted(pair.path),
                                                     " is no name that mlx-lm gives to experts"));
    }
    Tensor a, b;
    const int axes = dense ? 2 : 3;
    LORICA_ASSIGN_OR_RETURN(a, table.Load(*pair.a, axes, backend, options.dtype));
    LORICA_ASSIGN_OR_RETURN(b, table.Load(*pair.b, axes, backend, options.dtype));
    const int64_t rank = a.dim(1);
    if (b.dim(dense ? 0 : 2) != rank) {
      return table.Wrong(*pair.b, absl::StrCat("rank ", rank, ", as lora_a has it"));
    }
    const double alpha = config.scale * static_cast<double>(rank);
    if (dense) {
      StoredModule module;
      module.path = pair.path;
      const bool embedding = LastName(pair.path) == "embed_tokens";
      module.kind = embedding ? StoredModule::Kind::kEmbedding : StoredModule::Kind::kLinear;
      module.a = raw::Contiguous(a.Transpose(0, 1));
      module.b = raw::Contiguous(b.Transpose(0, 1));
      module.alpha = alpha;
      adapter.modules.push_back(std::move(module));
      continue;
    }
    adapter.form.numbered_names = adapter.form.numbered_names || key->numbered_names;
    ExpertFactors& factors = map[key->experts];
    factors.experts = std::max({factors.experts, a.dim(0), b.dim(0)});
    if (!factors.projections.emplace(key->projection, ProjectionFactors{a, b, alpha}).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(table.where(), ": ", Quoted(pair.path), " is there in two spellings"));
    }
  }
  LORICA_RETURN_IF_ERROR(
      AppendExperts(std::move(map), config.expert_kind, options.base, table.where(), adapter));
  return result;
}

absl::Status WriteMlx(const StoredAdapter& adapter, const std::string& folder, FileSystem& files) {
  const double scale = CommonScale(adapter);
  const StoredAdapter folded = WithScales(adapter, [&](const StoredModule&) { return scale; });
  TensorList tensors;
  std::set<std::string> keys;
  int64_t rank = 0;
  for (const StoredModule& module : folded.modules) {
    rank = std::max(rank, module.rank());
    if (module.kind == StoredModule::Kind::kExperts) continue;
    tensors.Add(absl::StrCat(module.path, ".lora_a"), module.a.Transpose(0, 1));
    tensors.Add(absl::StrCat(module.path, ".lora_b"), module.b.Transpose(0, 1));
    keys.insert(ModuleKey(module.path));
  }
  for (const auto& [path, factors] : ByProjection(folded)) {
    for (const auto& [projection, f] : factors.projections) {
      const std::string module = absl::StrCat(MlxExperts(path, adapter), ".", Name(projection));
      tensors.Add(absl::StrCat(module, ".lora_a"), Expanded(f.a, factors.experts));
      tensors.Add(absl::StrCat(module, ".lora_b"), Expanded(f.b, factors.experts));
      keys.insert(ModuleKey(module));
    }
  }
  OrderedJson record = {{"layout", std::string(Name(AdapterLayout::kMlx))}};
  const absl::string_view kind = ExpertKindName(adapter);
  if (!kind.empty()) record["experts"] = std::string(kind);
  const OrderedJson json = {
      {"model", adapter.base_model},
      {"fine_tune_type", "lora"},
      {"num_layers", -1},  // all of them
      {"lora_parameters",
       {{"rank", rank}, {"scale", scale}, {"dropout", adapter.dropout}, {"keys", keys}}},
      {"lorica", record},
  };
  LORICA_RETURN_IF_ERROR(
      WriteFileAtomically(files, JoinPath(folder, kConfig),
                          json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n"));
  return tensors.Write(files, JoinPath(folder, kFactors));
}

}  // namespace lorica::layouts
