#include "lorica/train/record_encoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/random.h"
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

absl::Status CheckVocabulary(const std::string& where, const TokenizedRecord& tokenized,
                             int64_t vocab_size) {
  if (vocab_size == 0) return absl::OkStatus();
  for (size_t i = 0; i < tokenized.ids.size(); ++i) {
    const int32_t largest = std::max(tokenized.ids[i], tokenized.labels[i]);
    if (largest >= vocab_size) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": token ", i, " is ", largest,
                                                     ", but the model's vocabulary has ",
                                                     vocab_size, " entries"));
    }
  }
  return absl::OkStatus();
}

// What each label counts: its own weight times that of the record.
absl::StatusOr<std::vector<float>> LabelWeights(const std::string& where,
                                                TokenizedRecord& tokenized, double record_weight) {
  std::vector<float> weights = std::move(tokenized.weights);
  if (record_weight != 1) {
    if (weights.empty()) weights.assign(tokenized.ids.size(), 1);
    for (float& weight : weights) weight = static_cast<float>(weight * record_weight);
  }
  for (const float weight : weights) {
    // Far beyond what makes sense, and far from where sums lose their range.
    if (!(weight <= 1e9F)) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": expected weights of at most 1e9, found ", weight));
    }
  }
  return weights;
}

}  // namespace

absl::StatusOr<EncodedRecord> RecordEncoder::Encode(const RawRecord& raw,
                                                    std::optional<RecordFormat> format,
                                                    bool find_unwritten) const {
  LORICA_ASSIGN_OR_RETURN(const Record record, ParseRecord(raw, format));
  LORICA_ASSIGN_OR_RETURN(std::vector<TokenizedRecord> tokenized, tokenizer_.Tokenize(record));
  EncodedRecord encoded;
  encoded.format = record.format;
  if (find_unwritten) encoded.unwritten = tokenizer_.FindUnwritten(record);
  for (TokenizedRecord& example : tokenized) {
    LORICA_RETURN_IF_ERROR(CheckVocabulary(raw.where, example, options_.vocab_size));
    EncodedExample& result = encoded.examples.emplace_back();
    LORICA_ASSIGN_OR_RETURN(const std::vector<float> weights,
                            LabelWeights(raw.where, example, record.weight));
    TrainingSequence sequence =
        TrainingSequence::FromLabels(std::move(example.ids), example.labels, weights);
    result.length = sequence.tokens();
    result.hash = HashOf(sequence);
    if (options_.max_length > 0 && result.length > options_.max_length) {
      if (options_.overlong == Overlong::kError) {
        return absl::InvalidArgumentError(absl::StrCat(raw.where, ": the record has ",
                                                       result.length, " tokens, at most ",
                                                       options_.max_length, " are allowed"));
      }
      result.dropped = options_.overlong == Overlong::kDrop;
      if (result.dropped) continue;
      sequence.CutTo(options_.max_length);
    }
    sequence.ids.shrink_to_fit();
    sequence.targets.shrink_to_fit();
    result.sequence = std::move(sequence);
  }
  return encoded;
}

uint64_t HashOf(const TrainingSequence& sequence) {
  uint64_t hash = MixBits(sequence.ids.size());
  for (size_t t = 0; t < sequence.ids.size(); ++t) {
    const uint64_t pair = uint64_t{static_cast<uint32_t>(sequence.ids[t])} << 32 |
                          static_cast<uint32_t>(sequence.targets[t]);
    hash = MixBits(hash ^ pair);
  }
  for (const float weight : sequence.weights) {
    uint32_t bits = 0;
    std::memcpy(&bits, &weight, sizeof(bits));
    // Apart from ids and targets, which are 31 bits each at most.
    hash = MixBits(hash ^ (uint64_t{1} << 63 | bits));
  }
  return hash;
}

}  // namespace lorica
