#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/file_system.h"
#include "lorica/tensor/status.h"
#include "lorica/train/json_stream.h"
#include "lorica/train/records.h"

namespace lorica {

absl::StatusOr<Record> ParseRecord(const RawRecord& raw, std::optional<RecordFormat> format) {
  const auto json = jinja::ParseJson(raw.text);
  if (!json.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(raw.where, ": ", json.status().message()));
  }
  LORICA_ASSIGN_OR_RETURN(Record record, ParseRecord(*json, format, raw.where));
  record.index = raw.index;
  return record;
}

class RecordReader::State {
 public:
  State(std::vector<std::string> paths, int64_t total_bytes,
        std::optional<JsonStream> first = std::nullopt)
      : paths_(std::move(paths)), stream_(std::move(first)), total_bytes_(total_bytes) {}

  absl::StatusOr<std::optional<RawRecord>> NextRaw() {
    while (files_.size() < paths_.size()) {
      if (!stream_.has_value()) {
        LORICA_ASSIGN_OR_RETURN(stream_, JsonStream::Open(paths_[files_.size()]));
        in_file_ = 0;
      }
      LORICA_ASSIGN_OR_RETURN(auto item, stream_->Next());
      if (item.has_value()) {
        ++in_file_;
        return RawRecord{.text = std::move(item->text),
                         .where = std::move(item->where),
                         .index = count_++,
                         .file = files_.size(),
                         .place = item->place,
                         .offset = item->offset,
                         .seekable = stream_->input().seekable()};
      }
      if (in_file_ == 0) {
        return absl::InvalidArgumentError(absl::StrCat(paths_[files_.size()], ": no records"));
      }
      const DataInput& input = stream_->input();
      files_.push_back({.path = paths_[files_.size()],
                        .bytes = input.file_bytes(),
                        .crc32c = input.file_crc32c(),
                        .seekable = input.seekable(),
                        .place_name = stream_->place_name()});
      done_bytes_ += input.file_bytes();
      stream_.reset();
    }
    return std::nullopt;
  }

  absl::StatusOr<std::optional<Record>> Next() {
    LORICA_ASSIGN_OR_RETURN(const std::optional<RawRecord> raw, NextRaw());
    if (!raw.has_value()) return std::nullopt;
    LORICA_ASSIGN_OR_RETURN(Record record, ParseRecord(*raw, format_));
    format_ = record.format;
    return record;
  }

  std::optional<RecordFormat> format() const { return format_; }
  const std::vector<ReadFile>& files() const { return files_; }
  int64_t total_bytes() const { return total_bytes_; }
  int64_t bytes_read() const {
    return done_bytes_ + (stream_.has_value() ? stream_->input().file_bytes() : 0);
  }

 private:
  std::vector<std::string> paths_;
  std::vector<ReadFile> files_;  // read to their ends
  std::optional<JsonStream> stream_;
  std::optional<RecordFormat> format_;
  int64_t count_ = 0;
  int64_t in_file_ = 0;
  int64_t done_bytes_ = 0;
  int64_t total_bytes_;
};

RecordReader::RecordReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
RecordReader::RecordReader(RecordReader&&) noexcept = default;
RecordReader& RecordReader::operator=(RecordReader&&) noexcept = default;
RecordReader::~RecordReader() = default;

absl::StatusOr<RecordReader> RecordReader::Open(std::vector<std::string> paths) {
  if (paths.empty()) return absl::InvalidArgumentError("no data files");
  int64_t total_bytes = 0;
  bool known = true;
  for (const std::string& path : paths) {
    LORICA_ASSIGN_OR_RETURN(const FileInfo info, PosixFiles().Stat(path));
    // Opening takes what a pipe holds, so that waits until its turn.
    if (info.is_regular || info.is_directory) {
      LORICA_RETURN_IF_ERROR(DataInput::Open(path).status());
    }
    known = known && info.is_regular;
    total_bytes += static_cast<int64_t>(info.size);
  }
  return RecordReader(std::make_unique<State>(std::move(paths), known ? total_bytes : 0));
}

absl::StatusOr<RecordReader> RecordReader::OverText(const std::string& text,
                                                    const std::string& name) {
  LORICA_ASSIGN_OR_RETURN(JsonStream stream, JsonStream::OverText(text, name));
  return RecordReader(std::make_unique<State>(
      std::vector<std::string>{name}, static_cast<int64_t>(text.size()), std::move(stream)));
}

absl::StatusOr<std::optional<Record>> RecordReader::Next() { return state_->Next(); }
absl::StatusOr<std::optional<RawRecord>> RecordReader::NextRaw() { return state_->NextRaw(); }
std::optional<RecordFormat> RecordReader::format() const { return state_->format(); }
const std::vector<ReadFile>& RecordReader::files() const { return state_->files(); }
int64_t RecordReader::bytes_read() const { return state_->bytes_read(); }
int64_t RecordReader::total_bytes() const { return state_->total_bytes(); }

}  // namespace lorica
