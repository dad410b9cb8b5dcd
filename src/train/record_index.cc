#include "lorica/train/record_index.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

// Records of a piece of memory, and of a read or write of the spool: 200 kB.
constexpr int64_t kPiece = 4096;

}  // namespace

struct RecordIndex::Block {
  std::mutex mutex;
  int64_t number = -1;
  std::vector<IndexedRecord> records;
};

RecordIndex::RecordIndex(std::string folder, int64_t in_memory)
    : folder_(std::move(folder)),
      in_memory_(in_memory / kPiece * kPiece),
      block_(std::make_unique<Block>()) {}
RecordIndex::RecordIndex(RecordIndex&&) noexcept = default;
RecordIndex& RecordIndex::operator=(RecordIndex&&) noexcept = default;
RecordIndex::~RecordIndex() = default;

absl::Status RecordIndex::Append(const IndexedRecord& record) {
  if (size_ < in_memory_) {
    if (size_ % kPiece == 0) pieces_.push_back(std::make_unique<IndexedRecord[]>(kPiece));
    pieces_.back()[size_ % kPiece] = record;
    ++size_;
    return absl::OkStatus();
  }
  pending_.push_back(record);
  ++size_;
  if (static_cast<int64_t>(pending_.size()) < kPiece) return absl::OkStatus();
  if (!spool_.has_value()) {
    LORICA_ASSIGN_OR_RETURN(spool_, SpoolFile::Create(folder_));
  }
  LORICA_RETURN_IF_ERROR(spool_->Append(
      {reinterpret_cast<const char*>(pending_.data()), pending_.size() * sizeof(IndexedRecord)}));
  pending_.clear();
  return absl::OkStatus();
}

IndexedRecord RecordIndex::At(int64_t index) const {
  LORICA_CHECK(index >= 0 && index < size_, "[dataset] record ", index, " of ", size_);
  if (index < in_memory_) return pieces_[index / kPiece][index % kPiece];
  const int64_t place = index - in_memory_;
  const int64_t spooled = size_ - in_memory_ - static_cast<int64_t>(pending_.size());
  if (place >= spooled) return pending_[place - spooled];

  const std::lock_guard<std::mutex> lock(block_->mutex);
  if (block_->number != place / kPiece) {
    block_->number = -1;
    block_->records.resize(kPiece);
    const absl::Status status = spool_->Read(
        place / kPiece * kPiece * static_cast<int64_t>(sizeof(IndexedRecord)),
        {reinterpret_cast<char*>(block_->records.data()), kPiece * sizeof(IndexedRecord)});
    LORICA_CHECK(status.ok(), status.message());
    block_->number = place / kPiece;
  }
  return block_->records[place % kPiece];
}

}  // namespace lorica
