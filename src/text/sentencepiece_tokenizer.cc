#include "lorica/text/sentencepiece_tokenizer.h"

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/tensor/status.h"
#include "lorica/text/sentencepiece_pipeline.h"
#include "lorica/text/tokenizer_config.h"
#include "lorica/text/tokenizer_parts.h"

namespace lorica {
namespace {

// Fields of one message of a protocol buffer (https://protobuf.dev/programming-guides/encoding), in
// file order.
class FieldReader {
 public:
  explicit FieldReader(absl::string_view message) : begin_(message.data()), bytes_(message) {}

  uint64_t number = 0;
  uint64_t value = 0;       // of a varint or a fixed number
  absl::string_view bytes;  // of a string, a message, packed numbers

  // Goes to the next field; false at the end.
  absl::StatusOr<bool> Next() {
    if (bytes_.empty()) return false;
    uint64_t tag = 0;
    LORICA_RETURN_IF_ERROR(Varint(&tag));
    number = tag >> 3;
    value = 0;
    bytes = {};
    switch (tag & 7) {
      case 0:
        LORICA_RETURN_IF_ERROR(Varint(&value));
        return true;
      case 1:
        return Fixed(8);
      case 2: {
        uint64_t size = 0;
        LORICA_RETURN_IF_ERROR(Varint(&size));
        if (size > bytes_.size()) return Broken();
        bytes = bytes_.substr(0, size);
        bytes_.remove_prefix(size);
        return true;
      }
      case 5:
        return Fixed(4);
      default:
        return Broken();
    }
  }

  float AsFloat() const {
    float result;
    const auto bits = static_cast<uint32_t>(value);
    std::memcpy(&result, &bits, sizeof(result));
    return result;
  }

 private:
  absl::Status Broken() const {
    return absl::InvalidArgumentError(
        absl::StrCat("isn't a sentencepiece model: broken field at byte ", bytes_.data() - begin_,
                     " of a message"));
  }

  absl::Status Varint(uint64_t* result) {
    *result = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) return Broken();
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      *result |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return absl::OkStatus();
    }
    return Broken();
  }

  absl::StatusOr<bool> Fixed(size_t size) {
    if (bytes_.size() < size) return Broken();
    std::memcpy(&value, bytes_.data(), size);
    bytes_.remove_prefix(size);
    return true;
  }

  const char* begin_;
  absl::string_view bytes_;
};

// Calls `take(reader)` for each field of a message.
template <typename Take>
absl::Status ForEachField(absl::string_view message, const Take& take) {
  FieldReader reader(message);
  while (true) {
    LORICA_ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) return absl::OkStatus();
    LORICA_RETURN_IF_ERROR(take(reader));
  }
}

// The ids that the training gave to the ends; negative where it had none.
struct Ends {
  int64_t unk = 0, bos = 1, eos = 2, pad = -1;
};

absl::Status ReadPiece(absl::string_view message, SentencepieceModel* model) {
  std::string piece;
  float score = 0;
  uint64_t type = 1;
  LORICA_RETURN_IF_ERROR(ForEachField(message, [&](const FieldReader& field) {
    if (field.number == 1) piece = std::string(field.bytes);
    if (field.number == 2) score = field.AsFloat();
    if (field.number == 3) type = field.value;
    return absl::OkStatus();
  }));
  if (type < 1 || type > 6) {
    return absl::InvalidArgumentError(
        absl::StrCat("piece ", model->pieces.size(), " is of the unknown type ", type));
  }
  model->pieces.push_back(std::move(piece));
  model->scores.push_back(score);
  model->types.push_back(static_cast<PieceType>(type));
  return absl::OkStatus();
}

absl::Status ReadTrainerSpec(absl::string_view message, SentencepieceModel* model, Ends* ends) {
  uint64_t kind = 1;
  LORICA_RETURN_IF_ERROR(ForEachField(message, [&](const FieldReader& field) {
    const auto id = static_cast<int32_t>(field.value);
    switch (field.number) {
      case 3:
        kind = field.value;
        break;
      case 24:
        model->whitespace_as_suffix = field.value != 0;
        break;
      case 35:
        model->byte_fallback = field.value != 0;
        break;
      case 40:
        ends->unk = id;
        break;
      case 41:
        ends->bos = id;
        break;
      case 42:
        ends->eos = id;
        break;
      case 43:
        ends->pad = id;
        break;
      default:
        break;
    }
    return absl::OkStatus();
  }));
  if (kind != 1 && kind != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model is of the kind ", kind, "; supported are 1 (Unigram) and 2 (BPE)"));
  }
  model->unigram = kind == 1;
  return absl::OkStatus();
}

absl::Status ReadNormalizerSpec(absl::string_view message, SentencepieceModel* model) {
  return ForEachField(message, [&](const FieldReader& field) {
    switch (field.number) {
      case 2:
        model->charsmap = std::string(field.bytes);
        break;
      case 3:
        model->add_dummy_prefix = field.value != 0;
        break;
      case 4:
        model->remove_extra_whitespaces = field.value != 0;
        break;
      case 5:
        model->escape_whitespaces = field.value != 0;
        break;
      default:
        break;
    }
    return absl::OkStatus();
  });
}

absl::Status Build(absl::string_view bytes, absl::string_view config_name,
                   const TokenizerConfig& config, Tokenizer::Parts* parts) {
  SentencepieceModel model;
  model.unigram = true;
  Ends ends;
  LORICA_RETURN_IF_ERROR(ForEachField(bytes, [&](const FieldReader& field) -> absl::Status {
    if (field.number == 1) return ReadPiece(field.bytes, &model);
    if (field.number == 2) return ReadTrainerSpec(field.bytes, &model, &ends);
    if (field.number == 3) return ReadNormalizerSpec(field.bytes, &model);
    return absl::OkStatus();
  }));
  if (model.pieces.empty()) {
    return absl::InvalidArgumentError("isn't a sentencepiece model: it has no pieces");
  }
  const auto known = [&](int64_t id) -> std::optional<int32_t> {
    if (id < 0 || id >= static_cast<int64_t>(model.pieces.size())) return std::nullopt;
    return static_cast<int32_t>(id);
  };
  parts->unk_id = known(ends.unk);
  parts->bos_id = known(ends.bos);
  parts->eos_id = known(ends.eos);
  parts->pad_id = known(ends.pad);
  const bool unigram = model.unigram;
  LORICA_RETURN_IF_ERROR(BuildSentencepiece(std::move(model), parts));
  LORICA_RETURN_IF_ERROR(SetAddedEnds(!unigram && parts->bos_id.has_value(),
                                      unigram && parts->eos_id.has_value(), parts));
  return ApplyTokenizerConfig(config, config_name, /*sets_ends=*/true, parts);
}

}  // namespace

absl::StatusOr<Tokenizer> TokenizerFromSentencepiece(absl::string_view model,
                                                     absl::string_view name,
                                                     absl::string_view config_json) {
  const std::string config_name = absl::StrCat("the configuration of ", name);
  LORICA_ASSIGN_OR_RETURN(const TokenizerConfig config,
                          ParseTokenizerConfig(config_json, config_name));
  auto parts = std::make_shared<Tokenizer::Parts>();
  absl::Status status = Build(model, config_name, config, parts.get());
  if (status.ok()) {
    auto tokenizer = FinishTokenizer(std::move(parts));
    if (tokenizer.ok()) return tokenizer;
    status = tokenizer.status();
  }
  return absl::Status(status.code(), absl::StrCat(name, ": ", status.message()));
}

}  // namespace lorica
