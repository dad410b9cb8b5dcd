#include "lorica/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/autograd/autograd.h"
#include "lorica/optim/clip.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

// Epochs upon epochs of a large data set aren't looked through in advance; Step looks again.
constexpr int64_t kMostRecordsChecked = 20'000'000;

absl::Status UntrainedStep(int64_t step, const RecordNumbers& records) {
  constexpr size_t kMostNamed = 8;
  std::string names;
  for (size_t i = 0; i < std::min(records.size(), kMostNamed); ++i) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", int64_t{records[i]} + 1);
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "expected a trained token in every step, found none in step ", step + 1, ", of record",
      records.size() == 1 ? " " : "s ", names, records.size() > kMostNamed ? ", ..." : ""));
}

ParameterRole RoleOf(const AdapterHost& host, bool head) {
  if (host.kind() == AdapterHost::Kind::kEmbedding) return ParameterRole::kEmbedding;
  return head ? ParameterRole::kHead : ParameterRole::kMatrix;
}

}  // namespace

int64_t EpochRecords(int64_t records, const TrainerOptions& options) {
  return options.mixture.empty() ? records : EpochLength(options.mixture);
}

int64_t StepsPerEpoch(int64_t records, const TrainerOptions& options) {
  return (EpochRecords(records, options) + options.batch_size - 1) / options.batch_size;
}

int64_t TotalSteps(int64_t records, const TrainerOptions& options) {
  const int64_t per_epoch = StepsPerEpoch(records, options);
  int64_t total = INT64_MAX;
  if (per_epoch == 0 || options.epochs <= INT64_MAX / per_epoch) total = per_epoch * options.epochs;
  return options.max_steps.has_value() ? std::min(total, *options.max_steps) : total;
}

ParameterGroup ParametersOf(const AdapterSet& adapters, int slot) {
  ParameterGroup group;
  adapters.ForEachFactor(slot, [&](const std::string& name, Tensor& master) {
    const bool is_a = name.back() == 'A';
    group.push_back({name, master, is_a ? ParameterRole::kLoraA : ParameterRole::kLoraB});
  });
  return group;
}

ParameterGroup ParametersOf(CausalLm& model) {
  // The role of a matrix is that of the module that lists it.
  const Module* head = &model.lm_head();
  std::vector<std::pair<std::string, ParameterRole>> hosts;
  ForEachModule(model, [&](const std::string& path, Module& module) {
    if (auto* host = dynamic_cast<AdapterHost*>(&module)) {
      hosts.emplace_back(path, RoleOf(*host, host == head));
    }
  });
  ParameterGroup group;
  ForEachParameter(model, [&](const std::string& path, Parameter& parameter) {
    if (!parameter.trainable()) return;
    ParameterRole role =
        parameter.shape().rank() >= 2 ? ParameterRole::kMatrix : ParameterRole::kVector;
    for (const auto& [host, host_role] : hosts) {
      if (role == ParameterRole::kMatrix && path == absl::StrCat(host, ".weight")) role = host_role;
    }
    group.push_back({path, parameter.mutable_master(), role});
  });
  return group;
}

ParameterGroup CorrectionBiases(CausalLm& model) {
  ParameterGroup group;
  for (const auto& [path, moe] : ListMixtures(model)) {
    Parameter& bias = moe->router().correction_bias();
    if (!bias.defined()) continue;
    // The model's may lie in a file that is mapped for reading.
    bias.Assign(raw::Clone(bias.value()));
    group.push_back({absl::StrCat(path, ".", moe->config().router_name, ".e_score_correction_bias"),
                     bias.value(), ParameterRole::kVector});
  }
  return group;
}

Trainer::Trainer(CausalLm& model, ParameterGroup parameters, const SequenceSource& source,
                 const TrainerOptions& options)
    : model_(model),
      source_(source),
      options_(options),
      optimizer_(MakeOptimizer(options.optimizer, std::move(parameters))),
      mixtures_(ListMixtures(model)) {
  LORICA_CHECK(options.batch_size >= 1 && options.epochs >= 1, "[trainer] a batch of ",
               options.batch_size, " records, ", options.epochs, " epochs");
  LORICA_CHECK(source.size() > 0, "[trainer] no records");
  for (const MixturePart& part : options.mixture) {
    LORICA_CHECK(
        part.begin >= 0 && part.begin <= part.end && part.end <= source.size() && part.weight >= 0,
        "[trainer] records ", part.begin, " to ", part.end, " of ", source.size(),
        " with a weight of ", part.weight);
  }
  epoch_records_ = EpochRecords(source.size(), options);
  LORICA_CHECK(epoch_records_ > 0, "[trainer] no record in an epoch");
  total_steps_ = TotalSteps(source.size(), options);
  options_.schedule.total_steps = total_steps_;
  LORICA_CHECK(options.router_bias_update >= 0, "[trainer] a router_bias_update of ",
               options.router_bias_update);
  if (options.router_bias_update > 0) buffers_ = CorrectionBiases(model);
  LORICA_CHECK(options.router_bias_update == 0 ||
                   (!mixtures_.empty() && buffers_.size() == mixtures_.size()),
               "[trainer] router_bias_update: ", buffers_.size(), " of ", mixtures_.size(),
               " routers have a correction bias");
}

Trainer::Slice Trainer::SliceOf(int64_t step) const {
  const int64_t per_epoch = StepsPerEpoch(source_.size(), options_);
  const int64_t begin = step % per_epoch * options_.batch_size;
  return {step / per_epoch, begin, std::min(begin + options_.batch_size, epoch_records_)};
}

const RecordNumbers& Trainer::OrderOf(int64_t epoch) const {
  if (epoch != order_epoch_) {
    order_ = RecordNumbers();  // never two at a time
    order_ = options_.mixture.empty()
                 ? EpochOrder(source_.size(), options_.shuffle, options_.seed, epoch)
                 : EpochOrder(options_.mixture, options_.shuffle, options_.seed, epoch);
    order_epoch_ = epoch;
  }
  return order_;
}

int64_t Trainer::position() const {
  const Slice slice = SliceOf(step());
  return slice.epoch * epoch_records_ + slice.begin;
}

absl::Status Trainer::CheckSteps() const {
  const int64_t count = source_.size();
  // In their order, which is how a source is quick; the steps below jump.
  std::vector<bool> trains(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) trains[i] = source_.trained_tokens(i) > 0;
  const int64_t untrained = std::count(trains.begin(), trains.end(), false);
  const int64_t last = epoch_records_ % options_.batch_size;
  const int64_t smallest = last == 0 ? std::min(epoch_records_, options_.batch_size) : last;
  // A mixture may take one record several times in a step.
  if (untrained < smallest && (untrained == 0 || options_.mixture.empty())) return absl::OkStatus();
  int64_t looked_at = 0;
  for (int64_t step = 0; step < total_steps_ && looked_at < kMostRecordsChecked; ++step) {
    const Slice slice = SliceOf(step);
    const RecordNumbers& order = OrderOf(slice.epoch);
    looked_at += slice.end - slice.begin;
    const bool trained = std::any_of(order.begin() + slice.begin, order.begin() + slice.end,
                                     [&](uint32_t record) { return trains[record]; });
    if (!trained)
      return UntrainedStep(step, {order.begin() + slice.begin, order.begin() + slice.end});
    // Without shuffling every epoch is like the first.
    if (!options_.shuffle && options_.mixture.empty() && slice.end == count) break;
  }
  return absl::OkStatus();
}

void Trainer::CountRouting(int64_t tokens, StepMetrics& metrics) {
  if (mixtures_.empty()) return;
  ExpertLoads loads;
  double aux_loss = 0;
  for (const auto& [path, moe] : mixtures_) {
    nn::MoeStatistics statistics = moe->TakeStatistics();
    aux_loss += statistics.aux_loss;
    loads.push_back({path, std::move(statistics.load)});
  }
  AddLoads(loads, metrics.loads);
  metrics.aux_loss +=
      aux_loss * static_cast<double>(tokens) / static_cast<double>(mixtures_.size());
}

absl::StatusOr<StepMetrics> Trainer::Step() {
  LORICA_CHECK(!done(), "[trainer] all ", total_steps_, " steps are made");
  const auto start = std::chrono::steady_clock::now();
  const int64_t step = this->step();
  const Slice slice = SliceOf(step);
  const RecordNumbers& order = OrderOf(slice.epoch);
  ZeroGrad(optimizer_->parameters());
  // What ran since the last step, an evaluation or a sample, isn't this step's.
  for (const auto& mixture : mixtures_) mixture.second->TakeStatistics();

  std::vector<int64_t> lengths;
  for (int64_t i = slice.begin; i < slice.end; ++i) lengths.push_back(source_.tokens(order[i]));
  StepMetrics metrics;
  double loss_sum = 0, weight_sum = 0;
  int64_t routed_tokens = 0;
  int64_t next = slice.begin;
  for (const int64_t count : CutIntoPasses(lengths, options_.batch)) {
    std::vector<TrainingSequence> sequences;
    std::vector<int64_t> sample_numbers;
    for (int64_t i = next; i < next + count; ++i) {
      LORICA_ASSIGN_OR_RETURN(TrainingSequence sequence, source_.Read(order[i]));
      weight_sum += sequence.trained_weight();
      sequences.push_back(std::move(sequence));
      // Runs on over epochs, so that a dropout mask doesn't come again.
      sample_numbers.push_back(slice.epoch * epoch_records_ + i);
    }
    next += count;
    Batch batch = Batch::Of(sequences, sample_numbers);
    batch.context.training = true;
    batch.context.recompute = options_.recompute;
    metrics.tokens += batch.tokens();
    metrics.trained_tokens += batch.trained_tokens;
    if (batch.trained_tokens == 0) continue;
    const Tensor losses = model_.Loss(batch.ids, batch.targets, batch.context);
    for (const double loss : batch.LossOfSequences(losses)) loss_sum += loss;
    // A gradient of 1, or of its weight, for each token: sums, which are divided once for the whole
    // step.
    Backward(losses, batch.WeightsLike(losses));
    CountRouting(batch.tokens(), metrics);
    routed_tokens += batch.tokens();
  }
  if (metrics.trained_tokens == 0) {
    return UntrainedStep(step, {order.begin() + slice.begin, order.begin() + slice.end});
  }

  const double scale = 1 / weight_sum;
  metrics.step = step + 1;
  metrics.epoch = static_cast<double>(slice.epoch) +
                  static_cast<double>(slice.end) / static_cast<double>(epoch_records_);
  metrics.loss = loss_sum * scale;
  metrics.aux_loss /= static_cast<double>(routed_tokens);
  metrics.grad_norm = GradientNorm(optimizer_->parameters(), scale);
  const double factor = options_.schedule.Factor(step);
  metrics.lr = options_.optimizer.adamw.lr * factor;
  if (!std::isfinite(metrics.loss) || !std::isfinite(metrics.grad_norm)) {
    ZeroGrad(optimizer_->parameters());
    const bool loss = !std::isfinite(metrics.loss);
    return absl::AbortedError(absl::StrCat(
        "step ", metrics.step, ": the ", loss ? "loss" : "gradient", " isn't finite (",
        loss ? metrics.loss : metrics.grad_norm, "); nothing was updated in this step"));
  }
  optimizer_->Step(
      {.rate_factor = factor,
       .grad_scale = scale * ClipCoefficient(metrics.grad_norm, options_.max_grad_norm)});
  ZeroGrad(optimizer_->parameters());
  for (size_t i = 0; i < buffers_.size(); ++i) {
    UpdateCorrectionBias(buffers_[i].master, metrics.loads[i].load, options_.router_bias_update);
  }
  metrics.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  metrics.tokens_per_second = static_cast<double>(metrics.tokens) / metrics.seconds;
  metrics.peak_rss_bytes = PeakRssBytes();
  return metrics;
}

void Trainer::ContinueAt(int64_t step) { skipped_ = step - optimizer_->clock(); }

}  // namespace lorica
