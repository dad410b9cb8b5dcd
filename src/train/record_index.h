// What is kept of every record of a data set: where it lies and what is known of it.
#ifndef LORICA_TRAIN_RECORD_INDEX_H_
#define LORICA_TRAIN_RECORD_INDEX_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/train/spool_file.h"

namespace lorica {

struct IndexedRecord {
  int64_t offset = 0;    // of its JSON text in its file, or in the spool of its data set
  uint64_t hash = 0;     // of ids, targets and weights, before they were cut
  int64_t number = 0;    // among all records read, from 0
  uint32_t bytes = 0;    // of the text
  uint32_t tokens = 0;   // as they are trained: cut to length
  uint32_t trained = 0;  // targets that count
  uint32_t place = 0;    // line in the file, or number of the element, from 1
  int32_t example = -1;  // which of the record's examples; -1: its only one
  uint32_t unused = 0;   // up to a multiple of eight bytes, so that files of these have no holes
};

// A list of these. Half a million stay in memory, more lie in a spool file: data of billions
// of short records would otherwise need gigabytes for this alone. Append: one thread; At: any
// thread.
class RecordIndex {
 public:
  // `folder` as for SpoolFile. At most `in_memory` records stay in memory.
  explicit RecordIndex(std::string folder, int64_t in_memory = kInMemory);
  RecordIndex(RecordIndex&&) noexcept;
  RecordIndex& operator=(RecordIndex&&) noexcept;
  ~RecordIndex();

  absl::Status Append(const IndexedRecord& record);
  int64_t size() const { return size_; }
  // Cheap for neighbours. Throws Error where the spool file can't be read.
  IndexedRecord At(int64_t index) const;

 private:
  // 25 MB.
  static constexpr int64_t kInMemory = int64_t{1} << 19;
  struct Block;  // of the spool: the one read last

  std::string folder_;
  int64_t in_memory_;
  int64_t size_ = 0;
  std::vector<std::unique_ptr<IndexedRecord[]>> pieces_;  // growing never copies
  std::vector<IndexedRecord> pending_;                    // not yet in the spool
  std::optional<SpoolFile> spool_;
  std::unique_ptr<Block> block_;
};

}  // namespace lorica

#endif  // LORICA_TRAIN_RECORD_INDEX_H_
