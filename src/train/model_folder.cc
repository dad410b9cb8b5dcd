#include "lorica/train/model_folder.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/json_file.h"
#include "lorica/io/quoted.h"
#include "lorica/io/safetensors.h"
#include "lorica/io/tensor_source.h"
#include "lorica/nn/model_loader.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/status.h"
#include "lorica/text/tokenizer.h"

namespace lorica::internal {
namespace {

constexpr char kIndexName[] = "model.safetensors.index.json";
constexpr char kHeadName[] = "lm_head.weight";
constexpr int64_t kStretch = int64_t{1} << 18;  // elements converted at a time
constexpr double kLargestHalf = 65504;

bool IsFloat(StoredType type) {
  return type == StoredType::kF64 || type == StoredType::kF32 || type == StoredType::kF16 ||
         type == StoredType::kBF16;
}

// What Hugging Face calls it in config.json.
const char* TypeWord(StoredType type) {
  switch (type) {
    case StoredType::kBF16:
      return "bfloat16";
    case StoredType::kF16:
      return "float16";
    case StoredType::kF64:
      return "float64";
    default:
      return "float32";
  }
}

// Weights that other programs might read in place of the merged ones.
bool IsOtherWeights(const std::string& name) {
  for (const char* ending : {".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".ckpt"}) {
    if (absl::EndsWith(name, ending)) return true;
  }
  return absl::EndsWith(name, ".bin.index.json");
}

absl::Status AppendFloats(SafetensorsWriter& writer, absl::string_view name, StoredType type,
                          absl::Span<const float> values) {
  LORICA_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, EncodeFloats(name, type, values));
  return writer.Append(bytes);
}

// `values` of a compute type, as `type`.
absl::Status AppendValues(SafetensorsWriter& writer, absl::string_view name, StoredType type,
                          const Tensor& values) {
  if (values.numel() == 0) return absl::OkStatus();
  Backend& backend = values.backend();
  const Tensor flat = values.WithShape({values.numel()});
  const bool exact = StoredTypeOf(values.dtype()) == type;
  const DType via = exact ? values.dtype() : DType::kF32;
  std::vector<uint8_t> bytes;
  for (int64_t begin = 0; begin < flat.numel(); begin += kStretch) {
    const int64_t count = std::min(kStretch, flat.numel() - begin);
    const Tensor part = raw::Cast(flat.Narrow(0, begin, count), via);
    bytes.resize(static_cast<size_t>(count) * SizeOf(via));
    backend.CopyToHost(raw::Contiguous(part).view(), bytes.data());
    if (exact) {
      LORICA_RETURN_IF_ERROR(writer.Append(bytes));
    } else {
      const auto* floats = reinterpret_cast<const float*>(bytes.data());
      LORICA_RETURN_IF_ERROR(
          AppendFloats(writer, name, type, {floats, static_cast<size_t>(count)}));
    }
  }
  return absl::OkStatus();
}

std::map<std::string, Parameter*> ParametersByPath(CausalLm& model) {
  std::map<std::string, Parameter*> parameters;
  ForEachParameter(
      model, [&](const std::string& path, Parameter& parameter) { parameters[path] = &parameter; });
  return parameters;
}

// One tensor of an output file: values in memory, rows of a source that scales them, or the bytes
// of a file.
struct Piece {
  SafetensorsSpec spec;
  const Parameter* parameter = nullptr;
  FolderPlace place;  // of `parameter`
  const TensorSource* scaled = nullptr;
  StoredType stored = StoredType::kF32;  // of `bytes`
  absl::Span<const uint8_t> bytes;
};

// What a file has of a parameter.
Tensor ValuesAt(const Tensor& values, const FolderPlace& place) {
  if (place.transposed) return raw::Contiguous(values.Transpose(1, 2));
  if (place.expert < 0) return values;
  const Tensor rows = values.Narrow(0, place.expert, 1).Narrow(1, place.first_row, place.rows);
  return raw::Contiguous(rows).WithShape({place.rows, values.dim(2)});
}

absl::Status AppendRows(SafetensorsWriter& writer, const Piece& piece) {
  LORICA_ASSIGN_OR_RETURN(const int64_t elements, CheckedElementCount(piece.spec.shape));
  if (elements == 0) return absl::OkStatus();
  const int64_t rows = piece.spec.shape[0];
  const int64_t row = elements / rows;
  const int64_t step = std::max<int64_t>(1, kStretch / row);
  std::vector<float> values;
  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t count = std::min(step, rows - begin);
    values.resize(static_cast<size_t>(count * row));
    LORICA_RETURN_IF_ERROR(
        piece.scaled->Read(piece.spec.name, begin, count, DType::kF32, values.data()));
    LORICA_RETURN_IF_ERROR(AppendFloats(writer, piece.spec.name, piece.spec.type, values));
  }
  return absl::OkStatus();
}

absl::Status AppendPiece(SafetensorsWriter& writer, const Piece& piece) {
  if (piece.parameter != nullptr) {
    return AppendValues(writer, piece.spec.name, piece.spec.type,
                        ValuesAt(piece.parameter->value(), piece.place));
  }
  if (piece.scaled != nullptr) return AppendRows(writer, piece);
  if (piece.stored == piece.spec.type) return writer.Append(piece.bytes);
  LORICA_ASSIGN_OR_RETURN(const int64_t elements, CheckedElementCount(piece.spec.shape));
  const size_t width = TraitsOf(piece.stored).block_bytes;
  std::vector<float> values;
  for (int64_t begin = 0; begin < elements; begin += kStretch) {
    const int64_t count = std::min(kStretch, elements - begin);
    values.resize(static_cast<size_t>(count));
    LORICA_RETURN_IF_ERROR(ConvertElements(
        piece.stored,
        piece.bytes.subspan(static_cast<size_t>(begin) * width, static_cast<size_t>(count) * width),
        count, DType::kF32, values.data()));
    LORICA_RETURN_IF_ERROR(AppendFloats(writer, piece.spec.name, piece.spec.type, values));
  }
  return absl::OkStatus();
}

absl::Status WritePieces(DirectoryCommit& folder, const std::string& name,
                         std::vector<Piece> pieces,
                         const std::map<std::string, std::string>& metadata,
                         WrittenWeights& written) {
  // Wide types first keeps every tensor aligned for its type.
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return TraitsOf(a.spec.type).block_bytes > TraitsOf(b.spec.type).block_bytes;
  });
  std::vector<SafetensorsSpec> specs;
  for (const Piece& piece : pieces) specs.push_back(piece.spec);
  LORICA_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, folder.Create(name));
  LORICA_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                          SafetensorsWriter::Begin(*file, std::move(specs), metadata));
  for (const Piece& piece : pieces) LORICA_RETURN_IF_ERROR(AppendPiece(writer, piece));
  LORICA_RETURN_IF_ERROR(writer.Finish());
  for (const SafetensorsEntry& entry : writer.entries()) {
    written.bytes += static_cast<int64_t>(entry.end - entry.begin);
    ++written.tensors;
  }
  return file->Close();
}

// The weight files of a folder that OpenFolderSource accepts, by the same choice.
absl::StatusOr<std::vector<std::string>> WeightFiles(const std::string& folder, FileSystem& files) {
  LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder));
  const auto has = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (has(kIndexName)) {
    LORICA_ASSIGN_OR_RETURN(const Json index, ReadJsonFile(JoinPath(folder, kIndexName)));
    std::set<std::string> shards;
    for (const auto& [tensor, shard] : index.at("weight_map").items()) {
      shards.insert(shard.get<std::string>());
    }
    return std::vector<std::string>(shards.begin(), shards.end());
  }
  if (has("model.safetensors")) return std::vector<std::string>{"model.safetensors"};
  std::vector<std::string> shards;
  std::vector<std::string> all;
  for (const std::string& name : names) {
    if (!absl::EndsWith(name, ".safetensors")) continue;
    all.push_back(name);
    if (absl::StartsWith(name, "model-")) shards.push_back(name);
  }
  return shards.empty() ? all : shards;
}

absl::Status WriteIndex(const std::string& source, const WrittenWeights& written, bool scaled,
                        const std::string& head_name, const std::string& head_file,
                        DirectoryCommit& folder) {
  LORICA_ASSIGN_OR_RETURN(Json index, ReadJsonFile(JoinPath(source, kIndexName)));
  Json& map = index["weight_map"];
  for (auto entry = map.begin(); scaled && entry != map.end();) {
    entry = absl::EndsWith(entry.key(), kBlockScaleEnding) ? map.erase(entry) : std::next(entry);
  }
  if (!head_file.empty()) index["weight_map"][head_name] = head_file;
  index["metadata"]["total_size"] = written.bytes;
  return folder.WriteFile(kIndexName, absl::string_view(index.dump(2) + "\n"));
}

bool HasScales(const ChangedModel& changed) {
  return changed.model->config().quantization.kind == Quantization::kFp8Blocks;
}

// What the files call a head that they don't have yet.
std::string HeadName(const ChangedModel& changed) {
  return absl::StrCat(changed.model->config().text_part ? "language_model." : "", kHeadName);
}

// Says in config.json what the weights say now; an unchanged one is copied as it is.
absl::Status WriteConfig(const std::string& source, const ChangedModel& changed, bool untied,
                         FileSystem& files, DirectoryCommit& folder) {
  const std::string path = JoinPath(source, "config.json");
  const bool scaled = HasScales(changed);
  if (!changed.type.has_value() && !untied && !scaled) {
    LORICA_ASSIGN_OR_RETURN(const std::string text, files.Read(path, size_t{16} << 20));
    return folder.WriteFile("config.json", absl::string_view(text));
  }
  LORICA_ASSIGN_OR_RETURN(OrderedJson config, ReadOrderedJsonFile(path));
  if (untied) {
    config["tie_word_embeddings"] = false;
    if (changed.model->config().text_part) config["text_config"]["tie_word_embeddings"] = false;
  }
  if (scaled) config.erase("quantization_config");
  if (changed.type.has_value()) {
    const bool old_spelling = config.contains("torch_dtype");
    config[old_spelling ? "torch_dtype" : "dtype"] = TypeWord(*changed.type);
  }
  return folder.WriteFile("config.json", absl::string_view(config.dump(2) + "\n"));
}

}  // namespace

absl::StatusOr<std::vector<uint8_t>> EncodeFloats(absl::string_view name, StoredType type,
                                                  absl::Span<const float> values) {
  if (type == StoredType::kF16) {
    for (const float value : values) {
      if (std::abs(value) > kLargestHalf) {
        return absl::FailedPreconditionError(
            absl::StrCat("the merged ", Quoted(name), " has a value of ", value,
                         ", which its type f16 can't hold; another --dtype can"));
      }
    }
  }
  LORICA_ASSIGN_OR_RETURN(const uint64_t size,
                          StoredBytes(type, {static_cast<int64_t>(values.size())}));
  std::vector<uint8_t> bytes(size);
  const absl::Status encoded = EncodeElements(type, values, absl::MakeSpan(bytes));
  if (encoded.ok()) return bytes;
  return absl::Status(encoded.code(),
                      absl::StrCat("the merged ", Quoted(name), ": ", encoded.message()));
}

absl::StatusOr<WrittenWeights> WriteChangedFolder(const ChangedModel& changed,
                                                  const std::string& source, FileSystem& files,
                                                  DirectoryCommit& folder) {
  const std::map<std::string, Parameter*> parameters = ParametersByPath(*changed.model);
  LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> weight_files, WeightFiles(source, files));
  const bool scaled = HasScales(changed);
  WrittenWeights written;
  bool head_written = false;
  std::string head_file;  // where a head goes that the source doesn't have
  for (const std::string& name : weight_files) {
    LORICA_ASSIGN_OR_RETURN(const SafetensorsFile file,
                            SafetensorsFile::Open(JoinPath(source, name), files));
    std::vector<Piece> pieces;
    for (const SafetensorsEntry& entry : file.entries()) {
      if (scaled && absl::EndsWith(entry.name, kBlockScaleEnding)) continue;
      Piece piece{.spec = {entry.name, entry.type, entry.shape}, .stored = entry.type};
      piece.bytes = file.Bytes(entry);
      if (changed.type.has_value() && IsFloat(entry.type)) piece.spec.type = *changed.type;
      if (scaled && HasBlockScale(entry.type)) {
        piece.spec.type = changed.type.value_or(StoredType::kBF16);
        piece.scaled = changed.source;
      }
      piece.place = PlaceInFolder(entry.name, changed.model->config());
      const std::string& path = piece.place.path;
      if (changed.changed.count(path) > 0) piece.parameter = parameters.at(path);
      if (absl::EndsWith(entry.name, "_blocks") &&
          changed.changed.count(path.substr(0, path.size() - 7)) > 0) {
        return absl::UnimplementedError(absl::StrCat(file.where(), ": tensor ", Quoted(entry.name),
                                                     ": writing 4-bit experts isn't supported"));
      }
      head_written = head_written || path == kHeadName;
      pieces.push_back(std::move(piece));
    }
    const bool last = name == weight_files.back();
    if (last && !head_written && changed.changed.count(kHeadName) > 0) {
      const Parameter* head = parameters.at(kHeadName);
      Piece piece{.parameter = head};
      piece.spec = {HeadName(changed),
                    pieces.empty() ? StoredType::kF32 : pieces.front().spec.type,
                    {head->shape().begin(), head->shape().end()}};
      pieces.push_back(std::move(piece));
      head_file = name;
    }
    LORICA_RETURN_IF_ERROR(WritePieces(folder, name, std::move(pieces), file.metadata(), written));
  }
  LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(source));
  const bool untied = changed.model->config().tied && !changed.model->lm_head().tied();
  LORICA_RETURN_IF_ERROR(WriteConfig(source, changed, untied, files, folder));
  for (const std::string& name : names) {
    LORICA_ASSIGN_OR_RETURN(const FileInfo info, files.Stat(JoinPath(source, name)));
    const bool weights =
        std::find(weight_files.begin(), weight_files.end(), name) != weight_files.end();
    if (!info.is_regular || weights || name == "config.json") continue;
    if (name == kIndexName) {
      LORICA_RETURN_IF_ERROR(
          WriteIndex(source, written, scaled, HeadName(changed), head_file, folder));
    } else if (IsOtherWeights(name) || absl::EndsWith(name, ".safetensors")) {
      written.left_behind.push_back(name);
    } else {
      LORICA_ASSIGN_OR_RETURN(const MappedFile file, files.Map(JoinPath(source, name)));
      LORICA_RETURN_IF_ERROR(folder.WriteFile(name, file.bytes()));
    }
  }
  return written;
}

absl::StatusOr<WrittenWeights> WriteGgufAsFolder(const ChangedModel& changed,
                                                 const std::string& source,
                                                 DirectoryCommit& folder) {
  CausalLm& model = *changed.model;
  ModelConfig config = model.config();
  config.tied = model.lm_head().tied();
  const StoredType type = changed.type.value_or(StoredType::kF32);
  // The text names a compute type; f16 isn't one.
  LORICA_ASSIGN_OR_RETURN(const std::string text,
                          ConfigJson(config, NativeDType(type).value_or(DType::kF32)));
  LORICA_RETURN_IF_ERROR(folder.WriteFile("config.json", absl::string_view(text)));

  OrderedJson generation = OrderedJson::object();
  if (config.bos_token_id >= 0) generation["bos_token_id"] = config.bos_token_id;
  if (!config.eos_token_ids.empty()) generation["eos_token_id"] = config.eos_token_ids;
  LORICA_RETURN_IF_ERROR(
      folder.WriteFile("generation_config.json", absl::string_view(generation.dump(2) + "\n")));

  if (HasTokenizer(source)) {
    LORICA_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(source));
    LORICA_ASSIGN_OR_RETURN(const TokenizerTexts texts, TokenizerTextsOfGguf(file));
    LORICA_RETURN_IF_ERROR(folder.WriteFile("tokenizer.json", absl::string_view(texts.tokenizer)));
    LORICA_RETURN_IF_ERROR(
        folder.WriteFile("tokenizer_config.json", absl::string_view(texts.config)));
  }

  std::vector<Piece> pieces;
  ForEachParameter(model, [&](const std::string& path, Parameter& parameter) {
    Piece piece{.parameter = &parameter, .place = PlaceInFolder(path, config)};
    piece.spec = {path, type, {parameter.shape().begin(), parameter.shape().end()}};
    if (piece.place.transposed) std::swap(piece.spec.shape[1], piece.spec.shape[2]);
    pieces.push_back(std::move(piece));
  });
  WrittenWeights written;
  // transformers refuses a file without this word about its origin.
  LORICA_RETURN_IF_ERROR(
      WritePieces(folder, "model.safetensors", std::move(pieces), {{"format", "pt"}}, written));
  return written;
}

}  // namespace lorica::internal
