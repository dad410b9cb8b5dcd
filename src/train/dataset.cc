#include "lorica/train/dataset.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

absl::Status HasChanged(const std::string& where) {
  return absl::FailedPreconditionError(
      absl::StrCat(where,
                   ": the file has changed since the run began: expected it as it was, because "
                   "records are read again when they are trained"));
}

}  // namespace

const DatasetFile& Dataset::FileOf(int64_t index) const {
  const auto next =
      std::upper_bound(files_.begin(), files_.end(), index,
                       [](int64_t i, const DatasetFile& file) { return i < file.end; });
  LORICA_CHECK(next != files_.end(), "[dataset] record ", index, " of ", size());
  return *next;
}

std::string Dataset::Where(int64_t index) const {
  const DatasetFile& file = FileOf(index);
  return absl::StrCat(file.path, ", ", file.place_name, " ", index_.At(index).place);
}

std::optional<int64_t> Dataset::example_index(int64_t index) const {
  const int32_t example = index_.At(index).example;
  return example < 0 ? std::nullopt : std::optional<int64_t>(example);
}

absl::StatusOr<std::string> Dataset::Text(const IndexedRecord& record,
                                          const DatasetFile& file) const {
  std::string text(record.bytes, '\0');
  const absl::Span<char> bytes(text.data(), text.size());
  if (!file.seekable) {
    LORICA_RETURN_IF_ERROR(texts_->Read(record.offset, bytes));
    return text;
  }
  const int opened = open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat now = {};
  const bool same = opened >= 0 && fstat(opened, &now) == 0 && now.st_size == file.bytes &&
                    ReadAt(opened, record.offset, bytes);
  if (opened >= 0) close(opened);
  if (!same) return HasChanged(file.path);
  return text;
}

absl::StatusOr<TrainingSequence> Dataset::Read(int64_t index) const {
  LORICA_CHECK(index >= 0 && index < size(), "[dataset] record ", index, " of ", size());
  if (index < static_cast<int64_t>(memory_.size())) return memory_[static_cast<size_t>(index)];
  const IndexedRecord record = index_.At(index);
  const DatasetFile& file = FileOf(index);
  RawRecord raw;
  raw.where = Where(index);
  raw.index = record.number;
  LORICA_ASSIGN_OR_RETURN(raw.text, Text(record, file));
  // A text that was fine when it was loaded and no longer is has changed, whatever is wrong with it
  // now.
  absl::StatusOr<EncodedRecord> encoded = encoder_.Encode(raw, statistics_.format);
  const auto example = static_cast<size_t>(std::max(record.example, 0));
  if (!encoded.ok() || example >= encoded->examples.size()) return HasChanged(raw.where);
  EncodedExample& now = encoded->examples[example];
  if (now.dropped || now.hash != record.hash) return HasChanged(raw.where);
  return std::move(now.sequence);
}

}  // namespace lorica
