#include "lorica/train/dataset.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"

namespace lorica {

absl::StatusOr<Overlong> ParseOverlong(absl::string_view name) {
  if (name == "error") return Overlong::kError;
  if (name == "truncate") return Overlong::kTruncate;
  if (name == "drop") return Overlong::kDrop;
  return absl::InvalidArgumentError(
      absl::StrCat("expected error, truncate or drop, found ", Quoted(name)));
}

namespace {

// FNV-1a over 64 bits: not against an adversary, but enough to notice that files have changed.
class Fingerprint {
 public:
  void Add(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash_ = (hash_ ^ ((number >> shift) & 0xFF)) * 0x100000001B3;
    }
  }
  void Add(const std::vector<int32_t>& numbers) {
    Add(static_cast<uint64_t>(numbers.size()));
    for (const int32_t number : numbers) Add(static_cast<uint64_t>(static_cast<uint32_t>(number)));
  }
  std::string Text() const { return absl::StrFormat("%016x", hash_); }

 private:
  uint64_t hash_ = 0xCBF29CE484222325;
};

absl::Status CheckVocabulary(const Record& record, const TokenizedRecord& tokenized,
                             int64_t vocab_size) {
  if (vocab_size == 0) return absl::OkStatus();
  for (size_t i = 0; i < tokenized.ids.size(); ++i) {
    const int32_t largest = std::max(tokenized.ids[i], tokenized.labels[i]);
    if (largest >= vocab_size) {
      return absl::InvalidArgumentError(absl::StrCat(record.where, ": token ", i, " is ", largest,
                                                     ", but the model's vocabulary has ",
                                                     vocab_size, " entries"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Dataset> Dataset::Load(const std::vector<std::string>& paths,
                                      const Tokenizer* tokenizer, const ChatTemplate* chat_template,
                                      const DatasetOptions& options) {
  LORICA_ASSIGN_OR_RETURN(RecordReader reader, RecordReader::Open(paths));
  const RecordTokenizer record_tokenizer(tokenizer, chat_template, options.tokenize);
  Dataset dataset;
  DatasetStatistics& statistics = dataset.statistics_;
  Fingerprint fingerprint;
  while (true) {
    LORICA_ASSIGN_OR_RETURN(const std::optional<Record> record, reader.Next());
    if (!record.has_value()) break;
    ++statistics.records;
    LORICA_ASSIGN_OR_RETURN(std::vector<TokenizedRecord> examples,
                            record_tokenizer.Tokenize(*record));
    if (examples.size() > 1) {
      ++statistics.split_records;
      statistics.split_examples += static_cast<int64_t>(examples.size());
    }
    for (size_t e = 0; e < examples.size(); ++e) {
      TokenizedRecord& tokenized = examples[e];
      LORICA_RETURN_IF_ERROR(CheckVocabulary(*record, tokenized, options.vocab_size));
      if (!tokenized.weights.empty()) {
        return absl::UnimplementedError(absl::StrCat(
            record->where, ": messages with a weight other than 0 and 1 aren't supported"));
      }
      const auto length = static_cast<int64_t>(tokenized.ids.size());
      if (options.max_length > 0 && length > options.max_length) {
        if (options.overlong == Overlong::kError) {
          return absl::InvalidArgumentError(absl::StrCat(record->where, ": the record has ", length,
                                                         " tokens, at most ", options.max_length,
                                                         " are allowed"));
        }
        if (options.overlong == Overlong::kDrop) {
          ++statistics.dropped;
          continue;
        }
        ++statistics.truncated;
        tokenized.ids.resize(static_cast<size_t>(options.max_length));
        tokenized.labels.resize(static_cast<size_t>(options.max_length));
      }
      TrainingSequence sequence =
          TrainingSequence::FromLabels(std::move(tokenized.ids), tokenized.labels);
      sequence.ids.shrink_to_fit();
      const int64_t trained = sequence.trained_tokens();
      statistics.tokens += sequence.tokens();
      statistics.trained_tokens += trained;
      statistics.longest = std::max(statistics.longest, sequence.tokens());
      if (trained == 0) ++statistics.untrained;
      fingerprint.Add(sequence.ids);
      fingerprint.Add(sequence.targets);
      dataset.trained_.push_back(trained);
      dataset.record_indices_.push_back(record->index);
      dataset.example_indices_.push_back(examples.size() > 1 ? static_cast<int32_t>(e) : -1);
      dataset.sequences_.push_back(std::move(sequence));
    }
  }
  statistics.format = *reader.format();
  dataset.fingerprint_ = fingerprint.Text();
  if (dataset.sequences_.empty()) {
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

int64_t Dataset::tokens(int64_t index) const { return sequence(index).tokens(); }

int64_t Dataset::trained_tokens(int64_t index) const {
  return trained_[static_cast<size_t>(index)];
}

absl::StatusOr<TrainingSequence> Dataset::Read(int64_t index) const { return sequence(index); }

int64_t Dataset::record_index(int64_t index) const {
  return record_indices_[static_cast<size_t>(index)];
}

std::optional<int64_t> Dataset::example_index(int64_t index) const {
  const int32_t example = example_indices_[static_cast<size_t>(index)];
  return example < 0 ? std::nullopt : std::optional<int64_t>(example);
}

const TrainingSequence& Dataset::sequence(int64_t index) const {
  LORICA_CHECK(index >= 0 && index < size(), "[dataset] record ", index, " of ", size());
  return sequences_[static_cast<size_t>(index)];
}

}  // namespace lorica
