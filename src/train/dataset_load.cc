// The one reading of all files with which a data set begins.
#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lorica/tensor/random.h"
#include "lorica/tensor/status.h"
#include "lorica/train/dataset.h"
#include "lorica/train/duplicates.h"

namespace lorica {
namespace {

// Records that are tokenised together, by all threads: enough work for many, little memory.
constexpr size_t kRoundRecords = 512;
constexpr size_t kRoundBytes = size_t{1} << 20;
constexpr size_t kNamedDuplicates = 5;
// An epoch's order holds numbers of 32 bits.
constexpr int64_t kMostSequences = std::numeric_limits<uint32_t>::max();

int64_t BytesOf(const TrainingSequence& sequence) {
  return static_cast<int64_t>(
      sizeof(TrainingSequence) +
      4 * (sequence.ids.capacity() + sequence.targets.capacity() + sequence.weights.capacity()));
}

}  // namespace

class Dataset::Loader {
 public:
  Loader(Dataset& dataset, const DatasetOptions& options) : data_(dataset), options_(options) {}

  absl::Status Load(RecordReader& reader) {
    while (true) {
      if (options_.cancelled && options_.cancelled()) {
        return absl::CancelledError("interrupted while the data was read");
      }
      LORICA_ASSIGN_OR_RETURN(const std::vector<RawRecord> round, NextRound(reader));
      if (round.empty()) break;
      LORICA_RETURN_IF_ERROR(Encode(round));
      for (size_t i = 0; i < round.size(); ++i) {
        LORICA_RETURN_IF_ERROR(encoded_[i].status());
        LORICA_RETURN_IF_ERROR(Add(round[i], *std::move(encoded_[i])));
      }
      if (options_.progress) {
        options_.progress(reader.bytes_read(), reader.total_bytes(), data_.statistics_.records);
      }
    }
    // A file can lose all its records to --overlong drop, but none is passed over.
    const std::vector<ReadFile>& files = reader.files();
    ends_.resize(files.size(), data_.index_.size());
    for (size_t f = 0; f < files.size(); ++f) {
      DatasetFile file;
      static_cast<ReadFile&>(file) = files[f];
      file.begin = f == 0 ? 0 : data_.files_.back().end;
      file.end = ends_[f];
      data_.files_.push_back(std::move(file));
    }
    LORICA_RETURN_IF_ERROR(LookForDuplicates());
    Count();
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::vector<RawRecord>> NextRound(RecordReader& reader) {
    std::vector<RawRecord> round;
    // An error stands behind what was read before it, where one may be found first.
    if (!reading_.ok()) return reading_;
    for (size_t bytes = 0; round.size() < kRoundRecords && bytes < kRoundBytes;) {
      absl::StatusOr<std::optional<RawRecord>> record = reader.NextRaw();
      if (!record.ok()) {
        reading_ = record.status();
        if (round.empty()) return reading_;
        break;
      }
      if (!record->has_value()) break;
      bytes += (*record)->text.size();
      round.push_back(**std::move(record));
    }
    return round;
  }

  absl::Status Encode(const std::vector<RawRecord>& round) {
    encoded_.clear();
    encoded_.resize(round.size());
    size_t first = 0;
    if (!format_.has_value()) {
      // The first record of all says what format the others must have.
      encoded_[0] = data_.encoder_.Encode(round[0], std::nullopt, options_.find_unwritten);
      LORICA_RETURN_IF_ERROR(encoded_[0].status());
      format_ = encoded_[0]->format;
      first = 1;
    }
    const auto tasks = static_cast<int64_t>(round.size() - first);
    std::vector<std::exception_ptr> thrown(round.size());
    const auto encode = [&](int64_t task, int) {
      const size_t i = first + static_cast<size_t>(task);
      try {
        encoded_[i] = data_.encoder_.Encode(round[i], format_, options_.find_unwritten);
      } catch (...) {
        thrown[i] = std::current_exception();
      }
    };
    if (options_.pool != nullptr) {
      options_.pool->Run(tasks, encode, /*flush_denormals=*/false);
    } else {
      for (int64_t task = 0; task < tasks; ++task) encode(task, 0);
    }
    for (const std::exception_ptr& exception : thrown) {
      if (exception != nullptr) std::rethrow_exception(exception);
    }
    return absl::OkStatus();
  }

  absl::Status Add(const RawRecord& raw, EncodedRecord encoded) {
    DatasetStatistics& statistics = data_.statistics_;
    ends_.resize(raw.file, data_.index_.size());
    ++statistics.records;
    if (encoded.unwritten.tools) statistics.unwritten_tools.Add(raw.where);
    if (encoded.unwritten.tool_calls) statistics.unwritten_calls.Add(raw.where);
    const bool split = encoded.examples.size() > 1;
    if (split) {
      ++statistics.split_records;
      statistics.split_examples += static_cast<int64_t>(encoded.examples.size());
    }
    std::optional<int64_t> spooled;  // where the text is, once it is there
    for (size_t e = 0; e < encoded.examples.size(); ++e) {
      EncodedExample& example = encoded.examples[e];
      statistics.lengths.Add(example.length);
      if (example.dropped) {
        ++statistics.dropped;
        continue;
      }
      TrainingSequence& sequence = example.sequence;
      if (sequence.tokens() < example.length) ++statistics.truncated;
      IndexedRecord record = {.offset = raw.offset,
                              .hash = example.hash,
                              .number = raw.index,
                              .bytes = static_cast<uint32_t>(raw.text.size()),
                              .tokens = static_cast<uint32_t>(sequence.tokens()),
                              .trained = static_cast<uint32_t>(sequence.trained_tokens()),
                              .place = static_cast<uint32_t>(raw.place),
                              .example = split ? static_cast<int32_t>(e) : -1};
      memory_bytes_ += BytesOf(sequence);
      if (memory_bytes_ <= options_.memory_bytes) {
        data_.memory_.push_back(std::move(sequence));
      } else if (!raw.seekable) {
        if (!spooled.has_value()) {
          LORICA_ASSIGN_OR_RETURN(spooled, Spool(raw.text));
        }
        record.offset = *spooled;
      }
      LORICA_RETURN_IF_ERROR(data_.index_.Append(record));
      if (data_.index_.size() > kMostSequences) {
        return absl::UnimplementedError(
            absl::StrCat(raw.where, ": expected at most ", kMostSequences, " records, found more"));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> Spool(const std::string& text) {
    if (!data_.texts_.has_value()) {
      LORICA_ASSIGN_OR_RETURN(data_.texts_, SpoolFile::Create(options_.spool_folder));
    }
    const int64_t offset = data_.texts_->size();
    LORICA_RETURN_IF_ERROR(data_.texts_->Append(text));
    return offset;
  }

  absl::Status LookForDuplicates() {
    DatasetStatistics& statistics = data_.statistics_;
    const Duplicates found = FindDuplicates(data_.index_, kNamedDuplicates, options_.deduplicate);
    statistics.duplicates = found.count;
    for (const auto& [record, original] : found.first) {
      statistics.first_duplicates.push_back({data_.Where(record), data_.Where(original)});
    }
    if (!options_.deduplicate || found.count == 0) return absl::OkStatus();
    statistics.deduplicated = found.count;
    return LeaveOut(found.marks);
  }

  absl::Status LeaveOut(const std::vector<bool>& marks) {
    RecordIndex kept(options_.spool_folder);
    size_t in_memory = 0;
    auto file = data_.files_.begin();
    for (int64_t i = 0; i < data_.index_.size(); ++i) {
      for (; i == file->end; ++file) ends_[file - data_.files_.begin()] = kept.size();
      if (marks[static_cast<size_t>(i)]) continue;
      if (i < static_cast<int64_t>(data_.memory_.size())) {
        if (in_memory != static_cast<size_t>(i)) {
          data_.memory_[in_memory] = std::move(data_.memory_[static_cast<size_t>(i)]);
        }
        ++in_memory;
      }
      LORICA_RETURN_IF_ERROR(kept.Append(data_.index_.At(i)));
    }
    for (; file != data_.files_.end(); ++file) ends_[file - data_.files_.begin()] = kept.size();
    for (size_t f = 0; f < data_.files_.size(); ++f) {
      data_.files_[f].begin = f == 0 ? 0 : ends_[f - 1];
      data_.files_[f].end = ends_[f];
    }
    data_.memory_.resize(in_memory);
    data_.index_ = std::move(kept);
    return absl::OkStatus();
  }

  void Count() {
    DatasetStatistics& statistics = data_.statistics_;
    statistics.format = *format_;
    statistics.in_memory = static_cast<int64_t>(data_.memory_.size());
    uint64_t fingerprint = 0;
    for (int64_t i = 0; i < data_.index_.size(); ++i) {
      const IndexedRecord record = data_.index_.At(i);
      statistics.tokens += record.tokens;
      statistics.trained_tokens += record.trained;
      statistics.longest = std::max<int64_t>(statistics.longest, record.tokens);
      if (record.trained == 0) ++statistics.untrained;
      fingerprint = CombineKeys(fingerprint, record.hash ^ record.tokens);
    }
    data_.fingerprint_ = absl::StrFormat("%016x", fingerprint);
  }

  Dataset& data_;
  const DatasetOptions& options_;
  std::vector<absl::StatusOr<EncodedRecord>> encoded_;  // of the round
  std::optional<RecordFormat> format_;
  std::vector<int64_t> ends_;  // of the files, in sequences
  int64_t memory_bytes_ = 0;
  absl::Status reading_;
};

absl::StatusOr<Dataset> Dataset::Load(const std::vector<std::string>& paths,
                                      const Tokenizer* tokenizer, const ChatTemplate* chat_template,
                                      const DatasetOptions& options) {
  LORICA_ASSIGN_OR_RETURN(RecordReader reader, RecordReader::Open(paths));
  Dataset dataset(RecordEncoder(tokenizer, chat_template, options),
                  RecordIndex(options.spool_folder));
  LORICA_RETURN_IF_ERROR(Loader(dataset, options).Load(reader));
  const DatasetStatistics& statistics = dataset.statistics_;
  if (dataset.size() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(paths[0], ": all ", statistics.records, " records are longer than ",
                     options.max_length, " tokens and were dropped"));
  }
  if (options.require_trained && statistics.trained_tokens == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        paths[0], ": no token of the ", statistics.records,
        " records is trained (no assistant turn, all labels ", kIgnoredLabel, ", or cut away)"));
  }
  return dataset;
}

}  // namespace lorica
