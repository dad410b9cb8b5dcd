#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/gguf.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica {

// Reads the header front to back; every read is checked against the end of the file.
class GgufParser {
 public:
  GgufParser(absl::Span<const uint8_t> bytes, absl::string_view where)
      : bytes_(bytes), where_(where) {}

  absl::StatusOr<GgufFile> Parse() {
    file_.bytes_ = bytes_;
    file_.where_ = std::string(where_);
    uint32_t magic = 0;
    LORICA_RETURN_IF_ERROR(Take(&magic, "magic"));
    if (magic != 0x46554747u) return Bad("expected the bytes \"GGUF\" at the start");
    LORICA_RETURN_IF_ERROR(Take(&file_.version_, "version"));
    if (file_.version_ != 2 && file_.version_ != 3) {
      if (file_.version_ != 0 && (file_.version_ & 0xFFFFu) == 0) {
        return Bad("big-endian files are not supported");
      }
      return Bad(absl::StrCat("version ", file_.version_, " is not supported, only 2 and 3 are"));
    }
    uint64_t tensors = 0;
    uint64_t values = 0;
    LORICA_RETURN_IF_ERROR(Take(&tensors, "tensor count"));
    LORICA_RETURN_IF_ERROR(Take(&values, "metadata count"));
    // The smallest entries: a key of one byte with a u8; a name of one byte without dimensions.
    LORICA_RETURN_IF_ERROR(CheckCount(values, 8 + 1 + 4 + 1, "metadata entries"));
    LORICA_RETURN_IF_ERROR(CheckCount(tensors, 8 + 1 + 4 + 4 + 8, "tensors"));
    for (uint64_t i = 0; i < values; ++i) LORICA_RETURN_IF_ERROR(ParseValue());
    LORICA_RETURN_IF_ERROR(ReadAlignment());
    for (uint64_t i = 0; i < tensors; ++i) LORICA_RETURN_IF_ERROR(ParseTensor());
    LORICA_RETURN_IF_ERROR(PlaceTensors());
    return std::move(file_);
  }

 private:
  static constexpr uint64_t kLongestName = 65535;  // of keys and tensors, as the format says
  static constexpr uint32_t kMostDimensions = 4;

  absl::Status Bad(absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat(where_, ": GGUF: ", message));
  }

  uint64_t left() const { return bytes_.size() - at_; }

  absl::Status Ended(absl::string_view what) const {
    return Bad(absl::StrCat("the file of ", bytes_.size(), " bytes ends inside the ", what,
                            " at byte ", at_));
  }

  template <typename T>
  absl::Status Take(T* value, absl::string_view what) {
    if (left() < sizeof(T)) return Ended(what);
    std::memcpy(value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return absl::OkStatus();
  }

  absl::Status TakeString(absl::string_view* text, uint64_t longest, absl::string_view what) {
    uint64_t length = 0;
    LORICA_RETURN_IF_ERROR(Take(&length, what));
    if (length > left()) return Ended(what);
    if (length > longest) {
      return Bad(absl::StrCat("expected at most ", longest, " bytes in the ", what, ", found ",
                              length, " at byte ", at_));
    }
    *text = {reinterpret_cast<const char*>(bytes_.data()) + at_, length};
    at_ += length;
    return absl::OkStatus();
  }

  // A key or the name of a tensor. Values may hold any bytes.
  absl::Status TakeName(absl::string_view* name, absl::string_view what) {
    LORICA_RETURN_IF_ERROR(TakeString(name, kLongestName, what));
    if (IsUtf8(*name)) return absl::OkStatus();
    return Bad(absl::StrCat("expected valid UTF-8 in the ", what, ", found ", Quoted(*name)));
  }

  absl::Status CheckCount(uint64_t count, uint64_t least_bytes, absl::string_view what) const {
    if (count <= left() / least_bytes) return absl::OkStatus();
    return Bad(absl::StrCat("the header announces ", count, " ", what, ", but only ", left(),
                            " bytes follow"));
  }

  absl::Status TakeType(GgufType* type, absl::string_view key) {
    uint32_t id = 0;
    LORICA_RETURN_IF_ERROR(Take(&id, "type of a value"));
    if (Name(static_cast<GgufType>(id)) == "unknown") {
      return Bad(absl::StrCat("key ", Quoted(key), ": unknown value type ", id, " at byte ",
                              at_ - sizeof(id)));
    }
    *type = static_cast<GgufType>(id);
    return absl::OkStatus();
  }

  absl::Status ParseValue() {
    absl::string_view key;
    LORICA_RETURN_IF_ERROR(TakeName(&key, "metadata key"));
    if (key.empty()) return Bad(absl::StrCat("empty metadata key at byte ", at_));
    GgufFile::Value value{
        .type = GgufType::kU8, .is_array = false, .count = 1, .begin = 0, .end = 0};
    LORICA_RETURN_IF_ERROR(TakeType(&value.type, key));
    if (value.type == GgufType::kArray) {
      value.is_array = true;
      LORICA_RETURN_IF_ERROR(TakeType(&value.type, key));
      if (value.type == GgufType::kArray) {
        return Bad(absl::StrCat("key ", Quoted(key), ": arrays of arrays are not supported"));
      }
      LORICA_RETURN_IF_ERROR(Take(&value.count, "length of an array"));
    }
    value.begin = at_;
    if (value.type == GgufType::kString) {
      for (uint64_t i = 0; i < value.count; ++i) {
        absl::string_view ignored;
        LORICA_RETURN_IF_ERROR(TakeString(&ignored, bytes_.size(), "string value"));
      }
    } else {
      const uint32_t width = FixedWidth(value.type);
      if (value.count > left() / width) {
        return Bad(absl::StrCat("key ", Quoted(key), ": ", value.count, " values of type ",
                                Name(value.type), " go past the end of the file"));
      }
      at_ += value.count * width;
    }
    value.end = at_;
    if (!file_.values_.emplace(std::string(key), value).second) {
      return Bad(absl::StrCat("key ", Quoted(key), " occurs twice"));
    }
    file_.keys_.emplace_back(key);
    return absl::OkStatus();
  }

  absl::Status ReadAlignment() {
    LORICA_ASSIGN_OR_RETURN(const uint64_t alignment, file_.GetU64Or("general.alignment", 32));
    if (!std::has_single_bit(alignment) || alignment > (uint64_t{1} << 30)) {
      return Bad(absl::StrCat("expected a power of two as general.alignment, found ", alignment));
    }
    file_.alignment_ = static_cast<uint32_t>(alignment);
    return absl::OkStatus();
  }

  // Leaves offsets relative to the data in begin and end.
  absl::Status ParseTensor() {
    absl::string_view name;
    LORICA_RETURN_IF_ERROR(TakeName(&name, "tensor name"));
    uint32_t dimensions = 0;
    LORICA_RETURN_IF_ERROR(Take(&dimensions, "dimension count"));
    if (dimensions > kMostDimensions) {
      return Bad(absl::StrCat("tensor ", Quoted(name), ": expected at most ", kMostDimensions,
                              " dimensions, found ", dimensions));
    }
    GgufTensor tensor;
    tensor.name = std::string(name);
    for (uint32_t i = 0; i < dimensions; ++i) {
      uint64_t size = 0;
      LORICA_RETURN_IF_ERROR(Take(&size, "dimensions"));
      if (size > static_cast<uint64_t>(INT64_MAX)) {
        return Bad(absl::StrCat("tensor ", Quoted(name), ": dimension ", size, " is too large"));
      }
      tensor.shape.push_back(static_cast<int64_t>(size));
    }
    std::reverse(tensor.shape.begin(), tensor.shape.end());
    uint32_t type = 0;
    LORICA_RETURN_IF_ERROR(Take(&type, "tensor type"));
    LORICA_RETURN_IF_ERROR(Take(&tensor.begin, "tensor offset"));
    const absl::StatusOr<StoredType> stored = StoredTypeFromGgml(type);
    if (!stored.ok()) {
      return Bad(absl::StrCat("tensor ", Quoted(name), ": ", stored.status().message()));
    }
    tensor.type = *stored;
    const absl::StatusOr<uint64_t> size = StoredBytes(tensor.type, tensor.shape);
    if (!size.ok())
      return Bad(absl::StrCat("tensor ", Quoted(name), ": ", size.status().message()));
    tensor.end = *size;  // until PlaceTensors
    if (!file_.tensor_index_.emplace(tensor.name, file_.tensors_.size()).second) {
      return Bad(absl::StrCat("tensor ", Quoted(name), " occurs twice"));
    }
    file_.tensors_.push_back(std::move(tensor));
    return absl::OkStatus();
  }

  absl::Status PlaceTensors() {
    if (file_.tensors_.empty()) return absl::OkStatus();
    const uint64_t mask = file_.alignment_ - 1;
    const uint64_t data_begin = (at_ + mask) & ~mask;
    if (data_begin > bytes_.size()) {
      return Bad(absl::StrCat("the tensors' data should begin at byte ", data_begin,
                              ", past the end of the file, which has ", bytes_.size(), " bytes"));
    }
    const uint64_t data_size = bytes_.size() - data_begin;
    for (GgufTensor& tensor : file_.tensors_) {
      const uint64_t size = tensor.end;
      if ((tensor.begin & mask) != 0) {
        return Bad(absl::StrCat("tensor ", Quoted(tensor.name), ": offset ", tensor.begin,
                                " isn't a multiple of the alignment ", file_.alignment_));
      }
      if (tensor.begin > data_size || size > data_size - tensor.begin) {
        return Bad(absl::StrCat("tensor ", Quoted(tensor.name), ": ", size, " bytes at offset ",
                                tensor.begin, " go past the end of the file, which has ", data_size,
                                " bytes of data"));
      }
      tensor.begin += data_begin;
      tensor.end = tensor.begin + size;
    }
    std::vector<const GgufTensor*> order;
    for (const GgufTensor& tensor : file_.tensors_) {
      if (tensor.begin != tensor.end) order.push_back(&tensor);
    }
    std::sort(order.begin(), order.end(),
              [](const auto* a, const auto* b) { return a->begin < b->begin; });
    for (size_t i = 1; i < order.size(); ++i) {
      if (order[i]->begin < order[i - 1]->end) {
        return Bad(absl::StrCat("tensors ", Quoted(order[i - 1]->name), " and ",
                                Quoted(order[i]->name), " overlap at byte ", order[i]->begin));
      }
    }
    return absl::OkStatus();
  }

  absl::Span<const uint8_t> bytes_;
  absl::string_view where_;
  uint64_t at_ = 0;
  GgufFile file_;
};

absl::StatusOr<GgufFile> GgufFile::Parse(absl::Span<const uint8_t> bytes, absl::string_view where) {
  return GgufParser(bytes, where).Parse();
}

}  // namespace lorica
