// A GGUF file again, with other weights.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/gguf.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/model_loader.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"
#include "lorica/train/model_folder.h"

namespace lorica::internal {
namespace {

constexpr char kHeadPath[] = "lm_head.weight";
constexpr int64_t kStretch = int64_t{1} << 18;  // elements converted at a time; whole blocks

bool IsWritable(StoredType type) {
  return type == StoredType::kF32 || type == StoredType::kF16 || type == StoredType::kBF16 ||
         type == StoredType::kQ8_0;
}

// `general.file_type` of a file that is mostly of this type.
uint32_t FileType(StoredType type) {
  switch (type) {
    case StoredType::kF16:
      return 1;
    case StoredType::kQ8_0:
      return 7;
    case StoredType::kBF16:
      return 32;
    default:
      return 0;
  }
}

StoredType TypeToWrite(const StoredTensorInfo& stored, absl::string_view name,
                       const std::optional<StoredType>& wanted, bool changed) {
  if (TraitsOf(stored.type).decode == nullptr) return stored.type;  // no numbers to convert
  if (!wanted.has_value()) {
    return !changed || IsWritable(stored.type) ? stored.type : StoredType::kF32;
  }
  if (stored.shape.size() < 2 || absl::StrContains(name, "ffn_gate_inp") ||
      absl::EndsWith(name, ".bias")) {
    return StoredType::kF32;
  }
  const bool whole_blocks = stored.shape.back() % TraitsOf(*wanted).block_elements == 0;
  return whole_blocks ? *wanted : StoredType::kF16;
}

// One tensor of the output: values of a parameter, or what the source has.
struct Piece {
  GgufTensorSpec spec;
  Tensor values;    // undefined: those of the source
  GgufPlace place;  // of the parameter
};

// The reverse of what the loader does: row h * rows / 2 + j of every head becomes row 2 j + h.
std::vector<float> Interleave(const std::vector<float>& from, int64_t heads, int64_t rows) {
  const size_t row = from.size() / static_cast<size_t>(rows);
  const int64_t head_rows = rows / heads;
  std::vector<float> to(from.size());
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t in_head = r % head_rows;
    const int64_t place = r - in_head + 2 * (in_head % (head_rows / 2)) + in_head / (head_rows / 2);
    std::copy_n(from.begin() + r * static_cast<int64_t>(row), row,
                to.begin() + place * static_cast<int64_t>(row));
  }
  return to;
}

absl::Status AppendValues(GgufWriter& writer, const Piece& piece, const Tensor& values) {
  Backend& backend = values.backend();
  const Tensor flat = values.WithShape({values.numel()});
  // Rows of a head change places, so such a tensor is held whole.
  const int64_t heads = piece.place.interleaved_heads;
  const int64_t step = heads > 0 ? flat.numel() : kStretch;
  std::vector<float> floats;
  for (int64_t begin = 0; begin < flat.numel(); begin += step) {
    const int64_t count = std::min(step, flat.numel() - begin);
    floats.resize(static_cast<size_t>(count));
    const Tensor part = raw::Contiguous(raw::Cast(flat.Narrow(0, begin, count), DType::kF32));
    backend.CopyToHost(part.view(), floats.data());
    if (heads > 0) floats = Interleave(floats, heads, values.dim(0));
    if (piece.place.added != 0) {  // even +0 would change a -0
      for (float& value : floats) value += static_cast<float>(piece.place.added);
    }
    LORICA_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                            EncodeFloats(piece.spec.name, piece.spec.type, floats));
    LORICA_RETURN_IF_ERROR(writer.AppendPart(bytes));
  }
  return absl::OkStatus();
}

absl::Status AppendParameter(GgufWriter& writer, const Piece& piece) {
  const Tensor& values = piece.values;
  if (values.numel() == 0) return writer.AppendTensor({});
  if (values.is_contiguous()) return AppendValues(writer, piece, values);
  // Half of a parameter: one matrix at a time is put in order.
  for (int64_t i = 0; i < values.dim(0); ++i) {
    LORICA_RETURN_IF_ERROR(AppendValues(writer, piece, raw::Contiguous(values.Narrow(0, i, 1))));
  }
  return absl::OkStatus();
}

absl::Status AppendStored(GgufWriter& writer, const Piece& piece, const TensorSource& source) {
  LORICA_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> stored, source.Bytes(piece.spec.name));
  const StoredTensorInfo& info = *source.Find(piece.spec.name);
  if (info.type == piece.spec.type) return writer.AppendTensor(stored);
  LORICA_ASSIGN_OR_RETURN(const int64_t elements, CheckedElementCount(info.shape));
  if (elements == 0) return writer.AppendTensor({});
  const StoredTypeTraits& traits = TraitsOf(info.type);
  std::vector<float> values;
  for (int64_t begin = 0; begin < elements; begin += kStretch) {
    const int64_t count = std::min(kStretch, elements - begin);
    values.resize(static_cast<size_t>(count));
    const auto in_bytes = [&](int64_t number) {
      return static_cast<size_t>(number) / traits.block_elements * traits.block_bytes;
    };
    LORICA_RETURN_IF_ERROR(ConvertElements(info.type,
                                           stored.subspan(in_bytes(begin), in_bytes(count)), count,
                                           DType::kF32, values.data()));
    LORICA_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                            EncodeFloats(piece.spec.name, piece.spec.type, values));
    LORICA_RETURN_IF_ERROR(writer.AppendPart(bytes));
  }
  return absl::OkStatus();
}

// Everything but what describes the file that it was.
GgufMetadata MetadataOf(const GgufFile& file, const std::vector<Piece>& pieces,
                        const std::optional<StoredType>& wanted, bool types_changed) {
  GgufMetadata metadata;
  bool has_version = false;
  for (const std::string& key : file.keys()) {
    if (key == "general.alignment" || absl::StartsWith(key, "split.")) continue;
    if (key == "general.file_type") {
      // Readers find the commonest type by themselves where the key is absent.
      if (wanted.has_value()) metadata.SetU32(key, FileType(*wanted));
      if (wanted.has_value() || types_changed) continue;
    }
    has_version = has_version || key == "general.quantization_version";
    metadata.Copy(file, key);
  }
  const bool quantised = std::any_of(pieces.begin(), pieces.end(), [](const Piece& piece) {
    return IsQuantised(piece.spec.type);
  });
  if (quantised && !has_version) metadata.SetU32("general.quantization_version", 2);
  return metadata;
}

}  // namespace

absl::StatusOr<WrittenWeights> WriteGgufAsGguf(const ChangedModel& changed,
                                               const std::string& source_path, WritableFile& sink) {
  CausalLm& model = *changed.model;
  LORICA_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open(source_path));
  std::map<std::string, std::pair<Tensor, GgufPlace>> replaced;  // by name in the file
  absl::Status placed;
  ForEachParameter(model, [&](const std::string& path, Parameter& parameter) {
    if (changed.changed.count(path) == 0) return;
    const GgufPlace place = PlaceInGguf(path, model.config());
    const bool whole = !place.name.empty() && file.Find(place.name) != nullptr;
    if (whole || path == kHeadPath) {
      replaced[place.name] = {parameter.value(), place};
      return;
    }
    const std::vector<GgufHalf> halves = HalvesInGguf(path, parameter.value(), model.config());
    for (const GgufHalf& half : halves) {
      if (file.Find(half.name) != nullptr) replaced[half.name] = {half.values, place};
    }
    if (halves.empty() || replaced.count(halves[0].name) + replaced.count(halves[1].name) < 2) {
      placed = absl::UnimplementedError(
          absl::StrCat("the merged ", Quoted(path), " has no place in a GGUF file"));
    }
  });
  LORICA_RETURN_IF_ERROR(placed);

  std::vector<Piece> pieces;
  bool types_changed = false;
  const auto add = [&](const std::string& name, const StoredTensorInfo& stored) {
    const auto found = replaced.find(name);
    const bool is_changed = found != replaced.end();
    Piece piece;
    piece.spec = {name, TypeToWrite(stored, name, changed.type, is_changed), stored.shape};
    types_changed = types_changed || piece.spec.type != stored.type;
    if (is_changed) {
      piece.values = found->second.first;
      piece.place = found->second.second;
    }
    pieces.push_back(std::move(piece));
  };
  for (const GgufTensor& tensor : file.tensors()) add(tensor.name, {tensor.type, tensor.shape});
  // A head that was the embedding and no longer is.
  const std::string head = PlaceInGguf(kHeadPath, model.config()).name;
  const GgufTensor* table =
      file.Find(PlaceInGguf("model.embed_tokens.weight", model.config()).name);
  if (replaced.count(head) > 0 && file.Find(head) == nullptr) {
    LORICA_CHECK(table != nullptr, "[merge] a GGUF model without an embedding");
    add(head, {table->type, table->shape});
  }

  const GgufMetadata metadata = MetadataOf(file, pieces, changed.type, types_changed);
  std::vector<GgufTensorSpec> specs;
  for (const Piece& piece : pieces) specs.push_back(piece.spec);
  LORICA_ASSIGN_OR_RETURN(GgufWriter writer, GgufWriter::Begin(sink, metadata, specs));
  const std::unique_ptr<TensorSource> source = MakeGgufSource(std::move(file));
  WrittenWeights written;
  for (const Piece& piece : pieces) {
    LORICA_RETURN_IF_ERROR(piece.values.defined() ? AppendParameter(writer, piece)
                                                  : AppendStored(writer, piece, *source));
    LORICA_ASSIGN_OR_RETURN(const uint64_t bytes, StoredBytes(piece.spec.type, piece.spec.shape));
    written.bytes += static_cast<int64_t>(bytes);
    ++written.tensors;
  }
  LORICA_RETURN_IF_ERROR(writer.Finish());
  return written;
}

}  // namespace lorica::internal
