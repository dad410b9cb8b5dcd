#include "lorica/nn/model_loader.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/expert_source.h"
#include "lorica/nn/gguf_source.h"
#include "lorica/nn/load_values.h"
#include "lorica/nn/rope_gguf.h"
#include "lorica/nn/text_part.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

constexpr absl::string_view kHead = "lm_head.weight";
constexpr absl::string_view kTable = "model.embed_tokens.weight";

struct Wanted {
  Parameter* parameter;
  std::string path;
  GgufPlace place;
};

std::vector<Wanted> WantedTensors(CausalLm& model, bool gguf) {
  std::vector<Wanted> wanted;
  ForEachParameter(model, [&](const std::string& path, Parameter& parameter) {
    GgufPlace place{path, 0, 0};
    if (gguf) place = PlaceInGguf(path, model.config());
    wanted.push_back({&parameter, path, std::move(place)});
  });
  return wanted;
}

absl::Status CheckWanted(const TensorSource& source, const std::vector<Wanted>& wanted) {
  const Wanted* missing = nullptr;
  size_t absent = 0;
  for (const Wanted& one : wanted) {
    const StoredTensorInfo* info = source.Find(one.place.name);
    if (info == nullptr) {
      if (missing == nullptr) missing = &one;
      ++absent;
      continue;
    }
    const Shape& shape = one.parameter->shape();
    if (!std::equal(shape.begin(), shape.end(), info->shape.begin(), info->shape.end())) {
      return absl::InvalidArgumentError(
          absl::StrCat(source.Where(one.place.name), ": expected shape ", shape.ToString(),
                       " by the configuration, found ", ShapeText(info->shape)));
    }
    if (!IsConvertible(info->type, one.parameter->compute_dtype())) {
      return absl::UnimplementedError(absl::StrCat(source.Where(one.place.name),
                                                   ": weights of type ", Name(info->type),
                                                   " are not supported"));
    }
  }
  if (missing == nullptr) return absl::OkStatus();
  const std::string hint =
      missing->path == kHead ? " (tie_word_embeddings is false in config.json)" : "";
  return absl::NotFoundError(
      absl::StrCat(source.Bytes(missing->place.name).status().message(), hint,
                   absent > 1 ? absl::StrCat(", and ", absent - 1, " more are missing") : ""));
}

// A stored head beside a tied embedding must be the same tensor.
absl::Status CheckTiedHead(const TensorSource& source) {
  const StoredTensorInfo* head = source.Find(kHead);
  const StoredTensorInfo* table = source.Find(kTable);
  LORICA_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> head_bytes, source.Bytes(kHead));
  LORICA_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> table_bytes, source.Bytes(kTable));
  if (head->type == table->type && head_bytes == table_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source.Where(kHead), ": differs from ", Quoted(kTable),
                   ", but tie_word_embeddings is true in config.json"));
}

// Of a layer behind the last one that predicts a later token.
bool IsSkippedLayer(absl::string_view name, const ModelConfig& config) {
  int64_t layer = 0;
  if ((!absl::ConsumePrefix(&name, "model.layers.") && !absl::ConsumePrefix(&name, "blk.")) ||
      !absl::SimpleAtoi(name.substr(0, name.find('.')), &layer)) {
    return false;
  }
  return layer >= config.layers && layer < config.layers + config.skipped_layers;
}

absl::Status CheckExtra(const TensorSource& source, const std::vector<Wanted>& wanted,
                        const ModelFiles& files) {
  std::unordered_set<std::string> known;
  for (const Wanted& one : wanted) known.insert(one.place.name);
  for (const std::string& name : source.names()) {
    if (known.count(name) > 0) continue;
    if (IsSkippedLayer(name, files.config)) continue;
    if (!files.gguf) {
      // Frequencies follow from the configuration; old versions of transformers stored them.
      if (absl::EndsWith(name, ".rotary_emb.inv_freq")) continue;
      if (files.config.tied && name == kHead) {
        LORICA_RETURN_IF_ERROR(CheckTiedHead(source));
        continue;
      }
    }
    if (files.gguf && internal::IsGgufRopeTensor(name)) continue;  // read with the configuration
    return absl::InvalidArgumentError(
        absl::StrCat(source.Where(name), ": the model has no place for it"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelFiles> OpenModel(const std::string& path) {
  ModelFiles files;
  files.gguf = IsGgufPath(path);
  if (files.gguf) {
    LORICA_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open(path));
    LORICA_ASSIGN_OR_RETURN(files.config, ModelConfigFromGguf(file));
    files.stored = MakeGgufSource(std::move(file));
    LORICA_ASSIGN_OR_RETURN(files.tensors, internal::JoinGgufHalves(files.stored, files.config));
    return files;
  }
  LORICA_ASSIGN_OR_RETURN(files.config, ReadModelConfigFile(JoinPath(path, "config.json")));
  LORICA_ASSIGN_OR_RETURN(std::unique_ptr<TensorSource> tensors, OpenFolderSource(path));
  if (files.config.text_part) {
    LORICA_ASSIGN_OR_RETURN(tensors, MakeTextPartSource(std::move(tensors)));
  }
  const QuantizationConfig& quantization = files.config.quantization;
  if (quantization.kind == Quantization::kFp8Blocks) {
    LORICA_ASSIGN_OR_RETURN(tensors,
                            MakeBlockScaledSource(std::move(tensors), quantization.block_rows,
                                                  quantization.block_columns));
  }
  files.stored = std::move(tensors);
  LORICA_ASSIGN_OR_RETURN(files.tensors, internal::StackExperts(files.stored, files.config));
  return files;
}

absl::Status LoadWeights(CausalLm& model, const ModelFiles& files, Backend& backend,
                         const LoadOptions& options) {
  const TensorSource& source = *files.tensors;
  const std::vector<Wanted> wanted = WantedTensors(model, files.gguf);
  LORICA_RETURN_IF_ERROR(CheckWanted(source, wanted));
  LORICA_RETURN_IF_ERROR(CheckExtra(source, wanted, files));
  for (const Wanted& one : wanted) {
    internal::ValuesRequest request;
    request.name = one.place.name;
    request.shape = one.parameter->shape();
    request.dtype = one.parameter->compute_dtype();
    request.interleaved_heads = one.place.interleaved_heads;
    request.borrow = options.borrow;
    request.check_finite = options.check_finite;
    // Subtracted before the value is rounded to the compute type.
    if (one.place.added != 0) request.dtype = AccumulatorOf(request.dtype);
    LORICA_ASSIGN_OR_RETURN(Tensor values, internal::LoadValues(files.tensors, request, backend));
    if (one.place.added != 0) {
      values = raw::Cast(Affine(values, 1, -one.place.added), one.parameter->compute_dtype());
    }
    one.parameter->Assign(values);
  }
  return absl::OkStatus();
}

absl::StatusOr<LoadedModel> LoadModel(const std::string& path, Backend& backend, DType compute,
                                      const LoadOptions& options) {
  LORICA_ASSIGN_OR_RETURN(const ModelFiles files, OpenModel(path));
  LoadedModel loaded;
  loaded.model = std::make_unique<CausalLm>(files.config, compute);
  LORICA_RETURN_IF_ERROR(LoadWeights(*loaded.model, files, backend, options));
  LORICA_ASSIGN_OR_RETURN(loaded.fingerprint, Fingerprint(files));
  return loaded;
}

}  // namespace lorica
