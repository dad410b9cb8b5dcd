#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/file_system.h"
#include "lorica/tensor/status.h"
#include "lorica/train/json_stream.h"
#include "lorica/train/records.h"

namespace lorica {

class RecordReader::State {
 public:
  explicit State(std::vector<std::string> paths, std::optional<JsonStream> first = std::nullopt)
      : paths_(std::move(paths)), stream_(std::move(first)) {}

  absl::StatusOr<std::optional<Record>> Next() {
    while (stream_.has_value() || file_ < paths_.size()) {
      if (!stream_.has_value()) {
        LORICA_ASSIGN_OR_RETURN(stream_, JsonStream::Open(paths_[file_]));
        in_file_ = 0;
      }
      LORICA_ASSIGN_OR_RETURN(const auto item, stream_->Next());
      if (!item.has_value()) {
        if (in_file_ == 0) {
          return absl::InvalidArgumentError(absl::StrCat(paths_[file_], ": no records"));
        }
        stream_.reset();
        ++file_;
        continue;
      }
      const auto json = jinja::ParseJson(item->text);
      if (!json.ok()) {
        return absl::InvalidArgumentError(absl::StrCat(item->where, ": ", json.status().message()));
      }
      LORICA_ASSIGN_OR_RETURN(Record record, ParseRecord(*json, format_, item->where));
      format_ = record.format;
      record.index = count_++;
      ++in_file_;
      return record;
    }
    return std::nullopt;
  }

  std::optional<RecordFormat> format() const { return format_; }

 private:
  std::vector<std::string> paths_;
  size_t file_ = 0;
  std::optional<JsonStream> stream_;
  std::optional<RecordFormat> format_;
  int64_t count_ = 0;
  int64_t in_file_ = 0;
};

RecordReader::RecordReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
RecordReader::RecordReader(RecordReader&&) noexcept = default;
RecordReader& RecordReader::operator=(RecordReader&&) noexcept = default;
RecordReader::~RecordReader() = default;

absl::StatusOr<RecordReader> RecordReader::Open(std::vector<std::string> paths) {
  if (paths.empty()) return absl::InvalidArgumentError("no data files");
  for (const std::string& path : paths) LORICA_RETURN_IF_ERROR(JsonStream::Open(path).status());
  return RecordReader(std::make_unique<State>(std::move(paths)));
}

RecordReader RecordReader::OverText(const std::string& text, const std::string& name) {
  return RecordReader(
      std::make_unique<State>(std::vector<std::string>{name}, JsonStream::OverText(text, name)));
}

absl::StatusOr<std::optional<Record>> RecordReader::Next() { return state_->Next(); }

std::optional<RecordFormat> RecordReader::format() const { return state_->format(); }

namespace {

// The first of the names that is a file in the folder; empty where none is.
std::string FirstFile(const std::string& folder, const std::vector<const char*>& names) {
  for (const char* name : names) {
    const std::string path = JoinPath(folder, name);
    const auto info = PosixFiles().Stat(path);
    if (info.ok() && !info->is_directory) return path;
  }
  return "";
}

}  // namespace

absl::StatusOr<DataFiles> FindDataFiles(const std::vector<std::string>& paths) {
  DataFiles files;
  for (const std::string& path : paths) {
    LORICA_ASSIGN_OR_RETURN(const FileInfo info, PosixFiles().Stat(path));
    if (!info.is_directory) {
      files.train.push_back(path);
      continue;
    }
    const std::string train = FirstFile(path, {"train.jsonl", "train.json"});
    if (train.empty()) {
      return absl::NotFoundError(
          absl::StrCat(path, ": the folder has neither train.jsonl nor train.json"));
    }
    files.train.push_back(train);
    const std::string valid =
        FirstFile(path, {"valid.jsonl", "valid.json", "validation.jsonl", "validation.json"});
    if (!valid.empty()) files.valid.push_back(valid);
  }
  return files;
}

}  // namespace lorica
