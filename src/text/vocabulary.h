// The pieces of a vocabulary and their ids, both ways.
#ifndef LORICA_TEXT_VOCABULARY_H_
#define LORICA_TEXT_VOCABULARY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lorica {

class Vocabulary {
 public:
  // Ids above this are refused: a small hostile file must not make a table of millions of rows. The
  // largest published vocabularies have 262,144 entries.
  static constexpr int64_t kLargestId = (int64_t{1} << 22) - 1;

  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // Expect `pieces` pieces of `bytes` bytes together.
  void Reserve(size_t pieces, size_t bytes);

  // Adds `piece` under `id`. InvalidArgument where id is out of range or either has been added
  // before.
  absl::Status Add(absl::string_view piece, int64_t id);

  // Adds `piece`, already added under another id, under `id` too: IdOf keeps giving the first one.
  absl::Status AddDuplicate(absl::string_view piece, int64_t id);

  // -1 where the piece isn't there.
  int32_t IdOf(absl::string_view piece) const;

  bool HasId(int64_t id) const {
    return id >= 0 && id < static_cast<int64_t>(pieces_.size()) && pieces_[id].present;
  }
  // Empty where the id isn't there.
  absl::string_view PieceOf(int32_t id) const;

  size_t size() const { return count_; }
  // One more than the largest id.
  int32_t id_limit() const { return static_cast<int32_t>(pieces_.size()); }

 private:
  struct Piece {
    uint32_t begin = 0;
    uint32_t size : 31;
    uint32_t present : 1;
    Piece() : size(0), present(0) {}
  };
  struct Slot {
    uint32_t hash = 0;
    int32_t id = -1;
  };

  absl::Status Store(absl::string_view piece, int64_t id);
  void Grow(size_t slots);

  std::string bytes_;          // all pieces, one after the other
  std::vector<Piece> pieces_;  // by id
  std::vector<Slot> slots_;    // open addressing, a power of two, at most half full
  size_t count_ = 0;
};

}  // namespace lorica

#endif  // LORICA_TEXT_VOCABULARY_H_
