// llama.cpp: one GGUF file with <base tensor>.lora_a [R, in] and .lora_b [out, R], of experts
// [E, R, in] and [E, out, R], of the embedding lora_a [V, R]. The scale of a tensor is
// adapter.lora.alpha / R, 1 where alpha is 0.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lorica/io/gguf.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/model_loader.h"
#include "lorica/peft/layouts/factor_math.h"
#include "lorica/peft/layouts/layout_files.h"
#include "lorica/peft/layouts/load_factor.h"
#include "lorica/peft/layouts/scale_folding.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/status.h"

namespace lorica::layouts {
namespace {

constexpr absl::string_view kLayers = "model.layers.";
constexpr absl::string_view kEmbedding = "model.embed_tokens";

constexpr absl::string_view kHead = "lm_head";

// Qwen says shared_expert and gpt-oss router where others say shared_experts and gate; phi3 joins
// gate and up.
bool BelongsTo(absl::string_view module, const BaseFacts& base) {
  const bool qwen = absl::StartsWith(base.architecture, "qwen");
  const bool oss = base.architecture == "gpt-oss";
  if (absl::StartsWith(module, "mlp.shared_experts.")) return !qwen;
  if (absl::StartsWith(module, "mlp.shared_expert.")) return qwen;
  if (module == "mlp.gate_up_proj") return base.architecture == "phi3";
  if (module == "mlp.up_proj") return base.architecture != "phi3";
  if (module == "mlp.gate") return !oss;
  if (module == "mlp.router") return oss;
  return true;
}

// The tensor that the weight of the module at `path` is; an empty name where there is none.
GgufPlace PlaceOf(absl::string_view path, const BaseFacts& base) {
  absl::string_view module = path;
  if (absl::ConsumePrefix(&module, kLayers)) {
    const size_t dot = module.find('.');
    if (dot == absl::string_view::npos || !BelongsTo(module.substr(dot + 1), base)) return {};
  }
  ModelConfig config;
  config.family = base.model_type;
  config.heads = base.heads;
  config.kv_heads = base.kv_heads;
  return PlaceInGguf(absl::StrCat(path, ".weight"), config);
}

// The module whose weight the tensor `name` is; empty where none is known.
std::string PathOf(const std::string& name, const BaseFacts& base) {
  for (const absl::string_view top : {kEmbedding, kHead}) {
    if (PlaceOf(top, base).name == name) return std::string(top);
  }
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, "blk.")) return "";
  const absl::string_view number = rest.substr(0, rest.find('.'));
  int64_t layer = 0;
  if (!absl::SimpleAtoi(number, &layer) || layer < 0 || absl::StrCat(layer) != number) return "";
  for (const absl::string_view module : GgufLayerModules()) {
    const std::string path = absl::StrCat(kLayers, number, ".", module);
    if (!absl::EndsWith(module, "norm") && PlaceOf(path, base).name == name) return path;
  }
  return "";
}

absl::StatusOr<Tensor> SwapRotation(const Tensor& b, int64_t heads, bool to_file,
                                    const std::string& path) {
  if (heads <= 0) return b;
  if (b.dim(0) % (2 * heads) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("module ", Quoted(path),
                                                   ": expected outputs for ", heads,
                                                   " heads of even size, found ", b.dim(0)));
  }
  const int64_t half = b.dim(0) / (2 * heads);
  const Shape split = to_file ? Shape{heads, 2, half, b.dim(1)} : Shape{heads, half, 2, b.dim(1)};
  return raw::Contiguous(raw::Contiguous(b).WithShape(split).Transpose(1, 2)).WithShape(b.shape());
}

struct GgufPair {
  const GgufTensor* a = nullptr;
  const GgufTensor* b = nullptr;
};

absl::StatusOr<Tensor> LoadTensor(const GgufFile& file, const GgufTensor& tensor, int axes,
                                  Backend& backend, DType dtype) {
  return LoadFactor({.where = absl::StrCat(file.where(), ": tensor ", Quoted(tensor.name)),
                     .type = tensor.type,
                     .shape = tensor.shape,
                     .bytes = file.Bytes(tensor)},
                    axes, backend, dtype);
}

absl::StatusOr<std::map<std::string, GgufPair>> PairsOf(const GgufFile& file) {
  std::map<std::string, GgufPair> pairs;
  for (const GgufTensor& tensor : file.tensors()) {
    absl::string_view base = tensor.name;
    if (absl::ConsumeSuffix(&base, ".lora_a")) {
      pairs[std::string(base)].a = &tensor;
    } else if (absl::ConsumeSuffix(&base, ".lora_b")) {
      pairs[std::string(base)].b = &tensor;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(file.where(), ": tensor ", Quoted(tensor.name),
                       ": expected a name such as blk.0.attn_q.weight.lora_a"));
    }
  }
  for (const auto& [name, pair] : pairs) {
    if (pair.a != nullptr && pair.b != nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat(file.where(), ": ", Quoted(name), " has no ",
                                                   pair.a == nullptr ? "lora_a" : "lora_b"));
  }
  if (pairs.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file.where(), ": holds no LoRA factors"));
  }
  return pairs;
}

absl::Status CheckHeader(const GgufFile& file, const BaseFacts& base) {
  const std::pair<absl::string_view, absl::string_view> wanted[] = {
      {"general.type", "adapter"},
      {"adapter.type", "lora"},
      {"general.architecture", base.architecture}};
  for (const auto& [key, value] : wanted) {
    LORICA_ASSIGN_OR_RETURN(const std::string found, file.GetString(key));
    if (found != value) {
      return absl::InvalidArgumentError(absl::StrCat(file.where(), ": ", key, ": expected ",
                                                     Quoted(value), ", found ", Quoted(found)));
    }
  }
  if (file.Has("adapter.alora.invocation_tokens")) {
    return absl::UnimplementedError(
        absl::StrCat(file.where(), ": adapter.alora.invocation_tokens isn't supported"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReadAdapter> ReadGgufAdapter(const std::string& path, Backend& backend,
                                            const AdapterReadOptions& options, FileSystem& files) {
  LORICA_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path, files));
  if (options.base == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": a GGUF adapter is read with its base model; give --model"));
  }
  const BaseFacts& base = *options.base;
  LORICA_RETURN_IF_ERROR(CheckHeader(file, base));
  LORICA_ASSIGN_OR_RETURN(const double alpha, file.GetF64("adapter.lora.alpha"));
  if (!std::isfinite(alpha)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": adapter.lora.alpha: expected a finite number, found ", alpha));
  }
  using Pairs = std::map<std::string, GgufPair>;
  LORICA_ASSIGN_OR_RETURN(const Pairs pairs, PairsOf(file));
  ReadAdapter result{.layout = AdapterLayout::kGguf};
  StoredAdapter& adapter = result.adapter;
  adapter.form = base.form;
  ExpertFactorMap map;
  for (const auto& [name, pair] : pairs) {
    const std::string module_path = PathOf(name, base);
    if (module_path.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": ", Quoted(name), " is no weight that can carry an adapter in a model of ",
          Quoted(base.architecture)));
    }
    LORICA_ASSIGN_OR_RETURN(const ExpertKey key, ParseExpertKey(module_path));
    const bool dense = key.form == ExpertKey::Form::kDense;
    const bool embedding = module_path == kEmbedding;
    Tensor a, b;
    LORICA_ASSIGN_OR_RETURN(a, LoadTensor(file, *pair.a, dense ? 2 : 3, backend, options.dtype));
    LORICA_ASSIGN_OR_RETURN(b, LoadTensor(file, *pair.b, dense ? 2 : 3, backend, options.dtype));
    if (embedding) a = raw::Contiguous(a.Transpose(0, 1));
    const int64_t rank = a.dim(-2);
    if (b.dim(-1) != rank) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", Quoted(name), ": lora_a has rank ",
                                                     rank, ", lora_b ", b.dim(-1)));
    }
    const double module_alpha = alpha == 0 ? static_cast<double>(rank) : alpha;
    if (!dense) {
      ExpertFactors& factors = map[key.experts];
      factors.experts = std::max({factors.experts, a.dim(0), b.dim(0)});
      factors.projections[key.projection] = ProjectionFactors{a, b, module_alpha};
      continue;
    }
    StoredModule module;
    module.path = module_path;
    module.kind = embedding ? StoredModule::Kind::kEmbedding : StoredModule::Kind::kLinear;
    module.a = a;
    LORICA_ASSIGN_OR_RETURN(module.b, SwapRotation(b, PlaceOf(module_path, base).interleaved_heads,
                                                   false, module_path));
    module.alpha = module_alpha;
    adapter.modules.push_back(std::move(module));
  }
  LORICA_RETURN_IF_ERROR(AppendExperts(std::move(map), "", &base, path, adapter));
  return result;
}

absl::Status WriteGgufAdapter(const StoredAdapter& adapter, const BaseFacts& base,
                              const std::string& path, FileSystem& files) {
  if (base.architecture.empty()) {
    return absl::UnimplementedError(absl::StrCat("gguf: models of type ", Quoted(base.model_type),
                                                 " have no architecture there"));
  }
  // The scale is alpha / R with one alpha for all, which is an f32.
  const auto alpha_of = [](const StoredModule& m) {
    return m.scale() * static_cast<double>(m.rank());
  };
  std::map<float, int64_t> counts;
  for (const StoredModule& m : adapter.modules) ++counts[static_cast<float>(alpha_of(m))];
  float alpha = 0;
  for (const auto& [value, count] : counts) {
    if (value != 0 && (alpha == 0 || count > counts[alpha])) alpha = value;
  }
  if (alpha == 0 || !std::isfinite(alpha)) {
    return absl::FailedPreconditionError("gguf: expected a scale other than 0 and infinity");
  }
  const StoredAdapter folded = WithScales(adapter, [&](const StoredModule& m) {
    return static_cast<double>(alpha) / static_cast<double>(m.rank());
  });

  std::vector<GgufTensorSpec> specs;
  std::vector<Tensor> tensors;
  const auto add = [&](const std::string& module, Tensor a, Tensor b) -> absl::Status {
    const GgufPlace place = PlaceOf(module, base);
    if (place.name.empty()) {
      return absl::UnimplementedError(absl::StrCat("gguf: ", Quoted(module), " has no place in ",
                                                   Quoted(base.architecture), " files"));
    }
    if (!base.gguf_tensors.empty() &&
        base.gguf_tensors.find(place.name) == base.gguf_tensors.end()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "gguf: the model has no tensor ", Quoted(place.name), ", which is ", Quoted(module)));
    }
    if (b.rank() == 2) {
      LORICA_ASSIGN_OR_RETURN(b, SwapRotation(b, place.interleaved_heads, true, module));
    }
    for (const auto& [suffix, values] : {std::pair(".lora_a", a), std::pair(".lora_b", b)}) {
      const Tensor stored = raw::Cast(raw::Contiguous(values), DType::kF32);
      if (!AllFinite(stored)) {
        return absl::OutOfRangeError(
            absl::StrCat("gguf: module ", Quoted(module), ": a value is too large for f32"));
      }
      specs.push_back({absl::StrCat(place.name, suffix),
                       StoredType::kF32,
                       {stored.shape().begin(), stored.shape().end()}});
      tensors.push_back(stored);
    }
    return absl::OkStatus();
  };
  for (const StoredModule& module : folded.modules) {
    if (module.kind == StoredModule::Kind::kExperts) continue;
    const bool embedding = module.kind == StoredModule::Kind::kEmbedding;
    LORICA_RETURN_IF_ERROR(
        add(module.path, embedding ? module.a.Transpose(0, 1) : module.a, module.b));
  }
  for (const auto& [experts, factors] : ByProjection(folded)) {
    for (const auto& [projection, f] : factors.projections) {
      LORICA_RETURN_IF_ERROR(add(absl::StrCat(experts, ".", Name(projection)),
                                 Expanded(f.a, factors.experts), Expanded(f.b, factors.experts)));
    }
  }
  GgufMetadata metadata;
  metadata.SetString("general.architecture", base.architecture);
  metadata.SetString("general.type", "adapter");
  metadata.SetString("adapter.type", "lora");
  metadata.SetF32("adapter.lora.alpha", alpha);
  LORICA_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                          files.Open(path, OpenMode::kCreateNew));
  LORICA_ASSIGN_OR_RETURN(GgufWriter writer, GgufWriter::Begin(*file, metadata, specs));
  for (const Tensor& tensor : tensors) {
    LORICA_RETURN_IF_ERROR(writer.AppendTensor({tensor.data<uint8_t>(), tensor.bytes()}));
  }
  LORICA_RETURN_IF_ERROR(writer.Finish());
  LORICA_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace lorica::layouts
