#include "lorica/text/vocabulary.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

uint32_t HashOf(absl::string_view piece) {
  const size_t hash = std::hash<std::string_view>{}(std::string_view(piece.data(), piece.size()));
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

}  // namespace

void Vocabulary::Reserve(size_t pieces, size_t bytes) {
  bytes_.reserve(bytes);
  pieces_.reserve(pieces);
  Grow(2 * pieces);
}

void Vocabulary::Grow(size_t slots) {
  size_t size = 16;
  while (size < slots) size *= 2;
  if (size <= slots_.size()) return;
  std::vector<Slot> old(size);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    size_t i = slot.hash & (size - 1);
    while (slots_[i].id >= 0) i = (i + 1) & (size - 1);
    slots_[i] = slot;
  }
}

absl::Status Vocabulary::Store(absl::string_view piece, int64_t id) {
  if (id < 0 || id > kLargestId) {
    return absl::InvalidArgumentError(
        absl::StrCat("token id ", id, " is outside 0 to ", kLargestId));
  }
  if (HasId(id)) {
    return absl::InvalidArgumentError(absl::StrCat("token id ", id, " belongs to two pieces, ",
                                                   Quoted(PieceOf(static_cast<int32_t>(id))),
                                                   " and ", Quoted(piece)));
  }
  if (bytes_.size() + piece.size() > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError("the vocabulary's pieces are longer than 2 GiB");
  }
  if (id >= id_limit()) pieces_.resize(static_cast<size_t>(id) + 1);
  Piece& entry = pieces_[id];
  entry.begin = static_cast<uint32_t>(bytes_.size());
  entry.size = static_cast<uint32_t>(piece.size());
  entry.present = 1;
  bytes_.append(piece.data(), piece.size());
  ++count_;
  return absl::OkStatus();
}

absl::Status Vocabulary::AddDuplicate(absl::string_view piece, int64_t id) {
  return Store(piece, id);
}

absl::Status Vocabulary::Add(absl::string_view piece, int64_t id) {
  if (const int32_t other = IdOf(piece); other >= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the piece ", Quoted(piece), " has two ids, ", other, " and ", id));
  }
  LORICA_RETURN_IF_ERROR(Store(piece, id));
  Grow(2 * count_);
  const uint32_t hash = HashOf(piece);
  size_t i = hash & (slots_.size() - 1);
  while (slots_[i].id >= 0) i = (i + 1) & (slots_.size() - 1);
  slots_[i] = {hash, static_cast<int32_t>(id)};
  return absl::OkStatus();
}

int32_t Vocabulary::IdOf(absl::string_view piece) const {
  if (slots_.empty()) return -1;
  const uint32_t hash = HashOf(piece);
  for (size_t i = hash & (slots_.size() - 1); slots_[i].id >= 0;
       i = (i + 1) & (slots_.size() - 1)) {
    if (slots_[i].hash == hash && PieceOf(slots_[i].id) == piece) return slots_[i].id;
  }
  return -1;
}

absl::string_view Vocabulary::PieceOf(int32_t id) const {
  if (!HasId(id)) return {};
  return absl::string_view(bytes_).substr(pieces_[id].begin, pieces_[id].size);
}

}  // namespace lorica
