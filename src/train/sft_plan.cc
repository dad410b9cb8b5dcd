// What a run will do, told before it does it.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/status.h"
#include "lorica/train/exit_status.h"
#include "lorica/train/sft.h"
#include "lorica/train/sft_setup.h"

namespace lorica {
namespace internal {
namespace {

constexpr int64_t kShownRecords = 3;

std::string LastName(const std::string& path) { return path.substr(path.rfind('.') + 1); }

// `mixture` is empty where every file is taken once, and for data that isn't trained on.
DataSummary SummaryOf(const Dataset& dataset, const std::vector<MixturePart>& mixture) {
  const DatasetStatistics& s = dataset.statistics();
  DataSummary summary = {.format = std::string(Name(s.format)),
                         .records = s.records,
                         .split_records = s.split_records,
                         .split_examples = s.split_examples,
                         .dropped = s.dropped,
                         .truncated = s.truncated,
                         .duplicates = s.duplicates,
                         .deduplicated = s.deduplicated,
                         .first_duplicates = s.first_duplicates,
                         .untrained = s.untrained,
                         .tokens = s.tokens,
                         .trained_tokens = s.trained_tokens,
                         .longest = s.longest,
                         .in_memory = s.in_memory,
                         .lengths = s.lengths.Bars(),
                         .median_length = s.lengths.Quantile(0.5),
                         .p95_length = s.lengths.Quantile(0.95),
                         .max_length = s.lengths.longest()};
  for (size_t i = 0; i < dataset.files().size(); ++i) {
    const DatasetFile& file = dataset.files()[i];
    const MixturePart part = mixture.empty() ? MixturePart{file.begin, file.end, 1} : mixture[i];
    summary.files.push_back({file.path, part.records(), part.weight, part.taken()});
  }
  return summary;
}

std::string TextOf(const ModelText& text, absl::Span<const int32_t> ids) {
  if (text.tokenizer.has_value()) {
    const absl::StatusOr<std::string> decoded = text.tokenizer->Decode(ids);
    if (decoded.ok()) return *decoded;
  }
  std::string numbers;
  for (const int32_t id : ids) absl::StrAppend(&numbers, numbers.empty() ? "" : " ", id);
  return numbers;
}

// Runs of tokens that are trained and that aren't. The first token never is: nothing comes before
// it.
std::vector<MarkedPiece> Mark(const ModelText& text, const TrainingSequence& sequence) {
  std::vector<MarkedPiece> pieces;
  size_t begin = 0;
  bool trained = false;
  for (size_t t = 1; t <= sequence.ids.size(); ++t) {
    const bool next = t < sequence.ids.size() && sequence.targets[t - 1] >= 0;
    if (t < sequence.ids.size() && next == trained) continue;
    pieces.push_back({TextOf(text, {sequence.ids.data() + begin, t - begin}), trained});
    begin = t;
    trained = next;
  }
  return pieces;
}

}  // namespace

absl::StatusOr<SftPlan> PlanOf(SftSetup& setup) {
  const SftOptions& options = setup.options;
  SftPlan plan;
  plan.model = options.model;
  plan.family = setup.model->config().family;
  plan.fingerprint = setup.fingerprint;
  plan.dtype = options.dtype;
  plan.instruction_set = CpuTargetName();
  plan.threads = setup.pool->threads();
  plan.notes = setup.notes;
  std::map<std::string, size_t> places;
  for (const AdaptedModule& module : setup.adapters.modules()) {
    const LoraFactors& factors = module.adapter->factors(0);
    const Shape shape = module.host->weight_shape();
    plan.modules.push_back(
        {module.path, {shape.begin(), shape.end()}, factors.rank(), factors.alpha});
    const auto [it, added] = places.emplace(LastName(module.path), plan.by_name.size());
    if (added) plan.by_name.emplace_back(it->first, 0);
    ++plan.by_name[it->second].second;
  }
  plan.left_out = setup.left_out;
  plan.router_parameters = setup.router_parameters;
  plan.matches = setup.matches;
  plan.trainable_parameters = setup.memory.trained_parameters;
  plan.model_parameters = setup.memory.model_parameters;
  if (setup.train.has_value()) {
    const TrainerOptions& trainer = setup.trainer_options;
    plan.data = SummaryOf(*setup.train, trainer.mixture);
    const int64_t records = setup.train->size();
    plan.epoch_records = EpochRecords(records, trainer);
    plan.steps_per_epoch = StepsPerEpoch(records, trainer);
    plan.total_steps = TotalSteps(records, trainer);
    plan.warmup_steps = setup.trainer_options.schedule.warmup_steps;
    for (int64_t i = 0; i < std::min(records, kShownRecords); ++i) {
      LORICA_ASSIGN_OR_RETURN(const TrainingSequence sequence, setup.train->Read(i));
      plan.first_records.push_back(Mark(*setup.text, sequence));
      plan.first_places.push_back(setup.train->Where(i));
    }
  }
  if (setup.eval.has_value()) plan.eval_data = SummaryOf(*setup.eval, {});
  plan.rows_per_pass = setup.trainer_options.batch.rows;
  plan.tokens_per_pass = setup.memory.tokens;
  plan.memory = EstimateMemory(setup.memory);
  return plan;
}

}  // namespace internal

absl::StatusOr<SftPlan> PlanSft(const SftOptions& options, const SftCallbacks& callbacks) {
  LORICA_RETURN_IF_ERROR(Validate(options, /*need_paths=*/false));
  SftCallbacks quiet;
  quiet.on_reading = callbacks.on_reading;
  quiet.cancelled = callbacks.cancelled;
  LORICA_ASSIGN_OR_RETURN(internal::SftSetup setup,
                          internal::SetUp(options, /*with_weights=*/false, quiet));
  return internal::PlanOf(setup);
}

}  // namespace lorica
