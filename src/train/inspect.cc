#include "lorica/train/inspect.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/checkpoint.h"
#include "lorica/io/file_system.h"
#include "lorica/io/gguf.h"
#include "lorica/io/quoted.h"
#include "lorica/io/safetensors.h"
#include "lorica/io/tensor_source.h"
#include "lorica/nn/model_loader.h"
#include "lorica/peft/peft_config.h"
#include "lorica/peft/target_pattern.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/status.h"
#include "lorica/text/chat_template.h"
#include "lorica/text/tokenizer.h"
#include "lorica/train/exit_status.h"
#include "lorica/train/metrics.h"
#include "lorica/train/sft_options.h"

namespace lorica {
namespace {

constexpr size_t kLargestConfig = size_t{16} << 20;
constexpr int64_t kStretch = int64_t{1} << 18;  // elements read at a time

bool IsFile(const std::string& path) {
  const auto info = PosixFiles().Stat(path);
  return info.ok() && info->is_regular;
}

bool IsFolder(const std::string& path) {
  const auto info = PosixFiles().Stat(path);
  return info.ok() && info->is_directory;
}

bool HasWeights(const std::string& folder) {
  const auto names = PosixFiles().List(folder);
  return names.ok() && std::any_of(names->begin(), names->end(), [](const std::string& name) {
           return absl::EndsWith(name, ".safetensors") ||
                  absl::EndsWith(name, ".safetensors.index.json");
         });
}

template <typename Value>
void AddFact(Inspection& result, absl::string_view name, const Value& value) {
  if constexpr (std::is_convertible_v<Value, std::string>) {
    result.facts.emplace_back(std::string(name), std::string(value));
  } else if constexpr (std::is_floating_point_v<Value>) {
    result.facts.emplace_back(std::string(name), static_cast<double>(value));
  } else {
    result.facts.emplace_back(std::string(name), static_cast<int64_t>(value));
  }
}

absl::Status AddTensors(Inspection& result, const TensorSource& source) {
  for (const std::string& name : source.names()) {
    const StoredTensorInfo* info = source.Find(name);
    LORICA_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, source.Bytes(name));
    LORICA_ASSIGN_OR_RETURN(const int64_t elements, CheckedElementCount(info->shape));
    const absl::string_view type = Name(info->type);
    result.tensors.push_back({name, std::string(type.data(), type.size()), info->shape,
                              static_cast<int64_t>(bytes.size())});
    result.parameters += elements;
  }
  return absl::OkStatus();
}

// No NaN, no infinity in any tensor of floats.
absl::Status CheckFinite(const TensorSource& source) {
  std::vector<float> values;
  for (const std::string& name : source.names()) {
    const StoredTensorInfo* info = source.Find(name);
    if (!IsConvertible(info->type, DType::kF32)) continue;
    LORICA_ASSIGN_OR_RETURN(const int64_t elements, CheckedElementCount(info->shape));
    if (elements == 0) continue;
    const int64_t rows = info->shape.empty() ? 1 : info->shape[0];
    const int64_t row = elements / rows;
    const int64_t step = IsQuantised(info->type) && info->shape.size() < 2
                             ? rows
                             : std::max<int64_t>(1, kStretch / row);
    for (int64_t begin = 0; begin < rows; begin += step) {
      const int64_t count = std::min(step, rows - begin);
      values.resize(static_cast<size_t>(count * row));
      LORICA_RETURN_IF_ERROR(source.Read(name, begin, count, DType::kF32, values.data()));
      for (const float value : values) {
        if (std::isfinite(value)) continue;
        return absl::DataLossError(
            absl::StrCat(source.Where(name), ": holds ", value, " in row ", begin));
      }
    }
  }
  return absl::OkStatus();
}

const char* KindName(AdapterHost::Kind kind) {
  switch (kind) {
    case AdapterHost::Kind::kLinear:
      return "linear";
    case AdapterHost::Kind::kEmbedding:
      return "embedding";
    case AdapterHost::Kind::kGroupedLinear:
      return "experts";
  }
  return "";
}

absl::Status AddModules(Inspection& result, const ModelConfig& config) {
  CausalLm model(config, DType::kF32);  // declared only: no memory is taken
  std::set<std::string> chosen;
  LORICA_ASSIGN_OR_RETURN(const TargetSelection selection, SelectTargets(model, {}, {}));
  for (const TargetCandidate& candidate : selection.selected) chosen.insert(candidate.path);
  for (const TargetCandidate& candidate : ListTargetCandidates(model)) {
    const Shape shape = candidate.host->weight_shape();
    result.modules.push_back({candidate.path,
                              KindName(candidate.host->kind()),
                              {shape.begin(), shape.end()},
                              chosen.count(candidate.path) > 0});
  }
  return absl::OkStatus();
}

void AddConfig(Inspection& result, const ModelConfig& config) {
  AddFact(result, "family", config.family);
  AddFact(result, "layers", config.layers);
  AddFact(result, "hidden size", config.hidden_size);
  AddFact(result, "intermediate size", config.intermediate_size);
  AddFact(result, "heads", config.heads);
  AddFact(result, "key/value heads", config.kv_heads);
  AddFact(result, "head size", config.head_dim);
  AddFact(result, "vocabulary", config.vocab_size);
  AddFact(result, "positions", config.max_positions);
  AddFact(result, "tied head", config.tied ? "yes" : "no");
  AddFact(result, "parameters", CountParameters(config));
  for (const std::string& note : config.notes) AddFact(result, "note", note);
}

// Names, shapes and values against the configuration, in the type that needs the least memory.
absl::Status VerifyModel(const ModelFiles& model) {
  DType compute = DType::kBF16;
  for (const std::string& name : model.tensors->names()) {
    const StoredType type = model.tensors->Find(name)->type;
    if (type == StoredType::kF64) compute = DType::kF64;
    if (type == StoredType::kF32 && compute == DType::kBF16) compute = DType::kF32;
  }
  ThreadPool pool(1);
  const std::unique_ptr<Backend> backend = MakeCpuBackend(pool);
  CausalLm loaded(model.config, compute);
  return LoadWeights(loaded, model, *backend);
}

absl::Status AddTokenizer(Inspection& result, const std::string& path, bool verify) {
  const absl::StatusOr<Tokenizer> tokenizer = LoadTokenizer(path);
  if (!tokenizer.ok()) {
    if (verify) return tokenizer.status();
    AddFact(result, "tokenizer", std::string(tokenizer.status().message()));
    return absl::OkStatus();
  }
  AddFact(result, "tokens", tokenizer->vocab_size());
  const std::pair<const char*, std::optional<int32_t>> named[] = {
      {"begins a text", tokenizer->bos_id()},
      {"ends a text", tokenizer->eos_id()},
      {"pads", tokenizer->pad_id()}};
  for (const auto& [name, id] : named) {
    if (!id.has_value()) continue;
    const absl::string_view piece = tokenizer->IdToPiece(*id);
    AddFact(result, absl::StrCat("token that ", name), absl::StrCat(*id, " ", Quoted(piece)));
  }
  AddFact(result, "added to a text",
          tokenizer->add_bos() && tokenizer->add_eos() ? "BOS and EOS"
          : tokenizer->add_bos()                       ? "BOS"
          : tokenizer->add_eos()                       ? "EOS"
                                                       : "nothing");
  return absl::OkStatus();
}

absl::Status AddChatTemplate(Inspection& result, const std::string& path, bool verify) {
  const absl::StatusOr<ChatTemplate> found = ChatTemplate::FromModel(path);
  if (found.ok()) {
    AddFact(result, "chat template",
            absl::StrCat(found->sources().size(), " bytes, from ", found->origin()));
  } else if (absl::IsNotFound(found.status())) {
    AddFact(result, "chat template", "none");
  } else if (verify) {
    return found.status();
  } else {
    AddFact(result, "chat template", std::string(found.status().message()));
  }
  return absl::OkStatus();
}

// What a model has beyond its tensors. `config` may be an error: such a model is described as far
// as it goes.
absl::Status AddModel(Inspection& result, const std::string& path,
                      const absl::StatusOr<ModelFiles>& model, bool verify) {
  if (model.ok()) {
    AddConfig(result, model->config);
    LORICA_RETURN_IF_ERROR(AddModules(result, model->config));
    LORICA_ASSIGN_OR_RETURN(const std::string fingerprint, Fingerprint(*model));
    AddFact(result, "fingerprint", fingerprint);
    if (verify) LORICA_RETURN_IF_ERROR(VerifyModel(*model));
  } else if (verify) {
    return model.status();
  } else {
    AddFact(result, "can't be used", std::string(model.status().message()));
  }
  if (HasTokenizer(path)) LORICA_RETURN_IF_ERROR(AddTokenizer(result, path, verify));
  return AddChatTemplate(result, path, verify);
}

absl::StatusOr<Inspection> InspectSafetensors(const std::string& path, bool verify) {
  Inspection result{.kind = "safetensors file"};
  LORICA_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  for (const auto& [key, value] : file.metadata()) AddFact(result, key, value);
  LORICA_ASSIGN_OR_RETURN(const std::unique_ptr<TensorSource> source, OpenSafetensorsSource(path));
  LORICA_RETURN_IF_ERROR(AddTensors(result, *source));
  if (verify) LORICA_RETURN_IF_ERROR(CheckFinite(*source));
  return result;
}

absl::StatusOr<Inspection> InspectGguf(const std::string& path, bool verify) {
  Inspection result{.kind = "GGUF file"};
  LORICA_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open(path));
  AddFact(result, "version", file.version());
  for (const std::string& key : file.keys()) AddFact(result, key, file.Describe(key));
  const std::unique_ptr<TensorSource> source = MakeGgufSource(file);
  LORICA_RETURN_IF_ERROR(AddTensors(result, *source));
  if (!file.Has("general.architecture")) {
    if (verify) LORICA_RETURN_IF_ERROR(CheckFinite(*source));
    return result;
  }
  LORICA_RETURN_IF_ERROR(AddModel(result, path, OpenModel(path), verify));
  return result;
}

absl::StatusOr<Inspection> InspectModelFolder(const std::string& path, bool verify) {
  Inspection result{.kind = "model folder"};
  LORICA_ASSIGN_OR_RETURN(const std::unique_ptr<TensorSource> source, OpenFolderSource(path));
  LORICA_RETURN_IF_ERROR(AddTensors(result, *source));
  LORICA_RETURN_IF_ERROR(AddModel(result, path, OpenModel(path), verify));
  return result;
}

absl::StatusOr<Inspection> InspectWeights(const std::string& path, bool verify) {
  Inspection result{.kind = "weights folder"};
  LORICA_ASSIGN_OR_RETURN(const std::unique_ptr<TensorSource> source, OpenFolderSource(path));
  LORICA_RETURN_IF_ERROR(AddTensors(result, *source));
  if (verify) LORICA_RETURN_IF_ERROR(CheckFinite(*source));
  return result;
}

absl::StatusOr<Inspection> InspectAdapter(const std::string& path, bool verify) {
  Inspection result{.kind = "adapter folder"};
  const std::string config_path = JoinPath(path, "adapter_config.json");
  LORICA_ASSIGN_OR_RETURN(const std::string text, PosixFiles().Read(config_path, kLargestConfig));
  LORICA_ASSIGN_OR_RETURN(const PeftConfig config, ParsePeftConfig(text, config_path));
  AddFact(result, "rank", config.rank);
  AddFact(result, "alpha", config.alpha);
  const absl::string_view scaling = Name(config.scaling);
  AddFact(result, "scaling", std::string(scaling.data(), scaling.size()));
  AddFact(result, "dropout", config.dropout);
  if (!config.base_model.empty()) AddFact(result, "base model", config.base_model);
  for (const std::string& name : config.saved_modules) AddFact(result, "weights in full", name);
  LORICA_ASSIGN_OR_RETURN(const std::unique_ptr<TensorSource> source,
                          OpenSafetensorsSource(JoinPath(path, "adapter_model.safetensors")));
  LORICA_RETURN_IF_ERROR(AddTensors(result, *source));
  if (verify) LORICA_RETURN_IF_ERROR(CheckFinite(*source));
  return result;
}

absl::StatusOr<Inspection> InspectCheckpoint(const std::string& path, bool verify) {
  Inspection result{.kind = "checkpoint"};
  LORICA_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(path));
  const Manifest& manifest = reader.manifest();
  AddFact(result, "step", manifest.step);
  AddFact(result, "run", manifest.run_id);
  AddFact(result, "base model", manifest.base_fingerprint);
  for (const auto& [name, value] : manifest.scalars) result.facts.emplace_back(name, value);
  for (const ManifestTensor& tensor : manifest.tensors) {
    LORICA_ASSIGN_OR_RETURN(const int64_t elements, CheckedElementCount(tensor.shape));
    LORICA_ASSIGN_OR_RETURN(const uint64_t bytes, StoredBytes(tensor.type, tensor.shape));
    const absl::string_view type = Name(tensor.type);
    result.tensors.push_back({tensor.name, std::string(type.data(), type.size()), tensor.shape,
                              static_cast<int64_t>(bytes)});
    result.parameters += elements;
  }
  if (verify) LORICA_RETURN_IF_ERROR(reader.VerifyAll());
  return result;
}

absl::StatusOr<Inspection> InspectRun(const std::string& path, bool verify) {
  Inspection result{.kind = "run folder"};
  const std::string config_path = JoinPath(path, "config.toml");
  LORICA_ASSIGN_OR_RETURN(const std::string text, PosixFiles().Read(config_path, kLargestConfig));
  LORICA_ASSIGN_OR_RETURN(const SftOptions options, SftOptionsFromToml(text, config_path));
  AddFact(result, "model", options.model);
  for (const std::string& data : options.data) AddFact(result, "data", data);
  LORICA_ASSIGN_OR_RETURN(const MetricsLog metrics,
                          ReadMetrics(PosixFiles(), JoinPath(path, "metrics.jsonl")));
  if (!metrics.steps.empty()) {
    AddFact(result, "steps", metrics.steps.back().step);
    AddFact(result, "loss of the last step", metrics.steps.back().loss);
  }
  if (!metrics.evaluations.empty()) {
    AddFact(result, "last held-out loss", metrics.evaluations.back().eval_loss);
  }
  LORICA_ASSIGN_OR_RETURN(const CheckpointList list,
                          ListCheckpoints(JoinPath(path, "checkpoints")));
  for (const CheckpointPlace& place : list.complete) AddFact(result, "checkpoint", place.path);
  for (const absl::Status& damaged : list.damaged) {
    AddFact(result, "damaged", std::string(damaged.message()));
  }
  const std::string adapter = JoinPath(path, "adapter");
  if (IsFolder(adapter)) {
    AddFact(result, "adapter", adapter);
    LORICA_ASSIGN_OR_RETURN(Inspection inside, InspectAdapter(adapter, verify));
    result.tensors = std::move(inside.tensors);
    result.parameters = inside.parameters;
  }
  if (!verify) return result;
  if (!list.damaged.empty()) return list.damaged.front();
  for (const CheckpointPlace& place : list.complete) {
    LORICA_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(place.path));
    LORICA_RETURN_IF_ERROR(reader.VerifyAll());
  }
  return result;
}

absl::StatusOr<Inspection> InspectTokenizer(const std::string& path) {
  Inspection result{.kind = "tokenizer"};
  LORICA_RETURN_IF_ERROR(AddTokenizer(result, path, /*verify=*/true));
  if (IsFolder(path)) LORICA_RETURN_IF_ERROR(AddChatTemplate(result, path, /*verify=*/false));
  return result;
}

absl::StatusOr<Inspection> InspectFolder(const std::string& path, bool verify) {
  const auto has = [&](const char* name) { return IsFile(JoinPath(path, name)); };
  if (has(kManifestName)) return InspectCheckpoint(path, verify);
  if (has("adapter_config.json")) return InspectAdapter(path, verify);
  if (has("config.toml")) return InspectRun(path, verify);
  if (has("config.json")) return InspectModelFolder(path, verify);
  if (HasWeights(path)) return InspectWeights(path, verify);
  if (HasTokenizer(path)) return InspectTokenizer(path);
  return absl::FailedPreconditionError(
      absl::StrCat(path,
                   ": expected a model, adapter, checkpoint, run or tokenizer, found a folder "
                   "without config.json, adapter_config.json, ",
                   kManifestName, ", config.toml, *.safetensors and tokenizer.json"));
}

}  // namespace

absl::StatusOr<Inspection> Inspect(const std::string& path, const InspectOptions& options) {
  LORICA_ASSIGN_OR_RETURN(const FileInfo info, AsInputError(PosixFiles().Stat(path)));
  if (info.is_directory) return AsInputError(InspectFolder(path, options.verify));
  if (IsGgufPath(path)) return AsInputError(InspectGguf(path, options.verify));
  if (absl::EndsWith(path, ".json") || absl::EndsWith(path, ".model")) {
    return AsInputError(InspectTokenizer(path));
  }
  if (absl::EndsWith(path, ".safetensors")) {
    return AsInputError(InspectSafetensors(path, options.verify));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      path, ": expected a folder, or a file that ends in .safetensors, .gguf, .json or .model"));
}

}  // namespace lorica
