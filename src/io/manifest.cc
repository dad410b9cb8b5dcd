#include "lorica/io/manifest.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/crc32c.h"
#include "lorica/io/json_file.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

constexpr size_t kLongestManifest = size_t{64} << 20;

// The text before and behind the eight digits of the checksum.
constexpr absl::string_view kHead = "{\n\"crc32c\":\"";
constexpr absl::string_view kTail = "\",\n";
constexpr size_t kBodyBegin = kHead.size() + 8 + kTail.size();

std::string Hex32(uint32_t value) { return absl::StrCat(absl::Hex(value, absl::kZeroPad8)); }

bool ParseHex(absl::string_view text, size_t digits, uint64_t* value) {
  if (text.size() != digits ||
      text.find_first_not_of("0123456789abcdef") != absl::string_view::npos) {
    return false;
  }
  *value = 0;
  for (char c : text) {
    *value = *value * 16 + static_cast<uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return true;
}

uint32_t BodyCrc(absl::string_view text) {
  text.remove_prefix(kBodyBegin);
  return Crc32c({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

Json ToJson(const ManifestScalar& scalar) {
  if (const int64_t* integer = std::get_if<int64_t>(&scalar)) return *integer;
  if (const std::string* text = std::get_if<std::string>(&scalar)) return *text;
  const double number = std::get<double>(scalar);
  // The shortest decimal that reads back as the same double. JSON has none for what isn't finite.
  if (std::isfinite(number)) return number;
  return {{"f64", absl::StrCat(absl::Hex(std::bit_cast<uint64_t>(number), absl::kZeroPad16))}};
}

absl::StatusOr<ManifestScalar> ScalarFromJson(const JsonObject& scalars, const std::string& key) {
  const Json& json = scalars.json().at(key);
  if (json.is_string()) return ManifestScalar(json.get<std::string>());
  if (json.is_number_float()) return ManifestScalar(json.get<double>());
  if (json.is_number()) {
    LORICA_ASSIGN_OR_RETURN(const int64_t integer, scalars.Int(key));
    return ManifestScalar(integer);
  }
  uint64_t bits = 0;
  if (json.is_object() && json.size() == 1 && json.contains("f64") && json["f64"].is_string() &&
      ParseHex(json["f64"].get<std::string>(), 16, &bits)) {
    return ManifestScalar(std::bit_cast<double>(bits));
  }
  return scalars.WrongType(key, "an integer, a float or a string");
}

absl::Status ExpectKeys(const JsonObject& object, std::initializer_list<absl::string_view> keys) {
  for (const std::string& key : object.Keys()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return object.Wrong(key, "unknown key");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Unsigned(const JsonObject& object, absl::string_view key) {
  LORICA_ASSIGN_OR_RETURN(const int64_t value, object.Int(key));
  if (value < 0) return object.WrongType(key, "a non-negative integer");
  return static_cast<uint64_t>(value);
}

absl::StatusOr<uint32_t> Checksum(const JsonObject& object, absl::string_view key) {
  LORICA_ASSIGN_OR_RETURN(const std::string text, object.String(key));
  uint64_t value = 0;
  if (!ParseHex(text, 8, &value)) return object.WrongType(key, "8 hexadecimal digits");
  return static_cast<uint32_t>(value);
}

// Calls `parse` for every object of the array under `key`.
template <typename Parse>
absl::Status ForEachObject(const JsonObject& object, absl::string_view key, Parse parse) {
  const Json* array = object.Find(key);
  if (array == nullptr || !array->is_array()) return object.WrongType(key, "an array");
  size_t index = 0;
  for (const Json& element : *array) {
    LORICA_ASSIGN_OR_RETURN(
        const JsonObject item,
        JsonObject::Of(element, absl::StrCat(object.where(), ": ", key, "[", index++, "]")));
    LORICA_RETURN_IF_ERROR(parse(item));
  }
  return absl::OkStatus();
}

absl::StatusOr<ManifestChunk> ChunkFromJson(const JsonObject& object) {
  LORICA_RETURN_IF_ERROR(ExpectKeys(object, {"file", "offset", "shape", "begin", "end", "crc32c"}));
  ManifestChunk chunk;
  LORICA_ASSIGN_OR_RETURN(chunk.file, object.String("file"));
  LORICA_ASSIGN_OR_RETURN(chunk.offset, object.Ints("offset"));
  LORICA_ASSIGN_OR_RETURN(chunk.shape, object.Ints("shape"));
  LORICA_ASSIGN_OR_RETURN(chunk.begin, Unsigned(object, "begin"));
  LORICA_ASSIGN_OR_RETURN(chunk.end, Unsigned(object, "end"));
  LORICA_ASSIGN_OR_RETURN(chunk.crc32c, Checksum(object, "crc32c"));
  return chunk;
}

absl::StatusOr<ManifestTensor> TensorFromJson(const JsonObject& object) {
  LORICA_RETURN_IF_ERROR(
      ExpectKeys(object, {"name", "dtype", "global_shape", "role", "axes", "chunks"}));
  ManifestTensor tensor;
  LORICA_ASSIGN_OR_RETURN(tensor.name, object.String("name"));
  LORICA_ASSIGN_OR_RETURN(const std::string dtype, object.String("dtype"));
  const absl::StatusOr<StoredType> type = StoredTypeFromSafetensors(dtype);
  if (!type.ok()) return object.Wrong("dtype", type.status().message());
  tensor.type = *type;
  LORICA_ASSIGN_OR_RETURN(tensor.shape, object.Ints("global_shape"));
  LORICA_ASSIGN_OR_RETURN(tensor.role, object.String("role"));
  LORICA_ASSIGN_OR_RETURN(tensor.axes, object.Strings("axes"));
  LORICA_RETURN_IF_ERROR(ForEachObject(object, "chunks", [&](const JsonObject& item) {
    LORICA_ASSIGN_OR_RETURN(ManifestChunk chunk, ChunkFromJson(item));
    tensor.chunks.push_back(std::move(chunk));
    return absl::OkStatus();
  }));
  return tensor;
}

absl::StatusOr<ManifestFile> FileFromJson(const JsonObject& object) {
  LORICA_RETURN_IF_ERROR(ExpectKeys(object, {"name", "size", "crc32c"}));
  ManifestFile file;
  LORICA_ASSIGN_OR_RETURN(file.name, object.String("name"));
  LORICA_ASSIGN_OR_RETURN(file.size, Unsigned(object, "size"));
  LORICA_ASSIGN_OR_RETURN(file.crc32c, Checksum(object, "crc32c"));
  return file;
}

absl::StatusOr<Manifest> FromJson(const JsonObject& root) {
  LORICA_RETURN_IF_ERROR(
      ExpectKeys(root, {"crc32c", "format_version", "step", "run_id", "nonce", "writers", "layout",
                        "base_fingerprint", "scalars", "tensors", "files"}));
  LORICA_ASSIGN_OR_RETURN(const int64_t version, root.Int("format_version"));
  if (version != kManifestVersion) {
    return root.Wrong("format_version",
                      absl::StrCat("expected ", kManifestVersion, ", found ", version));
  }
  Manifest manifest;
  LORICA_ASSIGN_OR_RETURN(manifest.step, root.Int("step"));
  LORICA_ASSIGN_OR_RETURN(manifest.run_id, root.String("run_id"));
  LORICA_ASSIGN_OR_RETURN(manifest.nonce, root.String("nonce"));
  LORICA_ASSIGN_OR_RETURN(manifest.writers, root.Int("writers"));
  LORICA_ASSIGN_OR_RETURN(manifest.base_fingerprint, root.String("base_fingerprint"));
  LORICA_ASSIGN_OR_RETURN(const JsonObject layout, root.Object("layout"));
  for (const std::string& key : layout.Keys()) {
    LORICA_ASSIGN_OR_RETURN(manifest.layout[key], layout.Int(key));
  }
  LORICA_ASSIGN_OR_RETURN(const JsonObject scalars, root.Object("scalars"));
  for (const std::string& key : scalars.Keys()) {
    LORICA_ASSIGN_OR_RETURN(manifest.scalars[key], ScalarFromJson(scalars, key));
  }
  LORICA_RETURN_IF_ERROR(ForEachObject(root, "tensors", [&](const JsonObject& item) {
    LORICA_ASSIGN_OR_RETURN(ManifestTensor tensor, TensorFromJson(item));
    manifest.tensors.push_back(std::move(tensor));
    return absl::OkStatus();
  }));
  LORICA_RETURN_IF_ERROR(ForEachObject(root, "files", [&](const JsonObject& item) {
    LORICA_ASSIGN_OR_RETURN(ManifestFile file, FileFromJson(item));
    manifest.files.push_back(std::move(file));
    return absl::OkStatus();
  }));
  return manifest;
}

}  // namespace

std::string ChunkName(absl::string_view tensor, size_t index) {
  return absl::StrCat(tensor, "#", index);
}

absl::StatusOr<std::string> FormatManifest(const Manifest& manifest) {
  LORICA_RETURN_IF_ERROR(CheckManifest(manifest, kManifestName));
  OrderedJson root;
  root["format_version"] = kManifestVersion;
  root["step"] = manifest.step;
  root["run_id"] = manifest.run_id;
  root["nonce"] = manifest.nonce;
  root["writers"] = manifest.writers;
  root["layout"] = Json::object();
  for (const auto& [key, value] : manifest.layout) root["layout"][key] = value;
  root["base_fingerprint"] = manifest.base_fingerprint;
  Json scalars = Json::object();
  for (const auto& [key, value] : manifest.scalars) scalars[key] = ToJson(value);
  root["scalars"] = std::move(scalars);
  root["tensors"] = Json::array();
  for (const ManifestTensor& tensor : manifest.tensors) {
    OrderedJson item;
    item["name"] = tensor.name;
    item["dtype"] = std::string(Name(tensor.type));
    item["global_shape"] = tensor.shape;
    item["role"] = tensor.role;
    item["axes"] = tensor.axes;
    item["chunks"] = OrderedJson::array();
    for (const ManifestChunk& chunk : tensor.chunks) {
      OrderedJson part;
      part["file"] = chunk.file;
      part["offset"] = chunk.offset;
      part["shape"] = chunk.shape;
      part["begin"] = chunk.begin;
      part["end"] = chunk.end;
      part["crc32c"] = Hex32(chunk.crc32c);
      item["chunks"].push_back(std::move(part));
    }
    root["tensors"].push_back(std::move(item));
  }
  root["files"] = OrderedJson::array();
  for (const ManifestFile& file : manifest.files) {
    OrderedJson item;
    item["name"] = file.name;
    item["size"] = file.size;
    item["crc32c"] = Hex32(file.crc32c);
    root["files"].push_back(std::move(item));
  }
  std::string body;
  try {
    body = root.dump(1, '\t');
  } catch (const OrderedJson::type_error&) {
    return absl::InvalidArgumentError("manifest: expected valid UTF-8 in names and scalars");
  }
  // "{\n" opens the dump; the checksum's line goes between.
  std::string text =
      absl::StrCat(kHead, "00000000", kTail, absl::string_view(body).substr(2), "\n");
  text.replace(kHead.size(), 8, Hex32(BodyCrc(text)));
  if (text.size() > kLongestManifest) {
    return absl::InvalidArgumentError(
        absl::StrCat("a manifest of ", text.size(), " bytes is too long"));
  }
  return text;
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view text, absl::string_view where) {
  uint64_t expected = 0;
  if (text.size() < kBodyBegin || text.size() > kLongestManifest ||
      text.substr(0, kHead.size()) != kHead ||
      !ParseHex(text.substr(kHead.size(), 8), 8, &expected) ||
      text.substr(kHead.size() + 8, kTail.size()) != kTail) {
    return absl::InvalidArgumentError(absl::StrCat(
        where,
        ": expected a checkpoint manifest, which starts with its checksum on a line of its own"));
  }
  const uint32_t found = BodyCrc(text);
  if (found != expected) {
    return absl::DataLossError(absl::StrCat(where, ": expected crc32c ",
                                            Hex32(static_cast<uint32_t>(expected)),
                                            " behind line 2, found ", Hex32(found)));
  }
  LORICA_ASSIGN_OR_RETURN(const Json json,
                          ParseJson(text, where, {.max_bytes = kLongestManifest, .max_depth = 6}));
  LORICA_ASSIGN_OR_RETURN(const JsonObject root, JsonObject::Of(json, where));
  LORICA_ASSIGN_OR_RETURN(Manifest manifest, FromJson(root));
  LORICA_RETURN_IF_ERROR(CheckManifest(manifest, where));
  return manifest;
}

}  // namespace lorica
