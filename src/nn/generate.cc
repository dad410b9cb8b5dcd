#include "lorica/nn/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/autograd/autograd.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"

namespace lorica {

absl::Status SamplerOptions::Check() const {
  if (!(temperature >= 0) || !std::isfinite(temperature)) {
    return absl::InvalidArgumentError(
        absl::StrCat("temperature: expected a number from 0 on, found ", temperature));
  }
  if (top_k < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("top-k: expected a number from 0 on, found ", top_k));
  }
  if (!(top_p > 0 && top_p <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("top-p: expected a number above 0 and at most 1, found ", top_p));
  }
  return absl::OkStatus();
}

absl::StatusOr<Choice> Sample(absl::Span<const double> logits, const SamplerOptions& options,
                              RandomStream& stream) {
  LORICA_CHECK(!logits.empty(), "[sample] no logits");
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) {
      return absl::DataLossError(
          absl::StrCat("the logit of token ", i, " is ", logits[i], ", expected a finite number"));
    }
    if (logits[i] > logits[best]) best = i;
  }
  const double top = logits[best];
  double denominator = 0;
  for (double logit : logits) denominator += std::exp(logit - top);
  const auto chosen = [&](size_t id) {
    return Choice{static_cast<int32_t>(id), logits[id] - top - std::log(denominator)};
  };
  if (options.temperature == 0) return chosen(best);

  // Candidates: all in order of id, or the most likely first (the smaller id first among equals).
  std::vector<size_t> candidates(logits.size());
  std::iota(candidates.begin(), candidates.end(), size_t{0});
  const bool cut_k = options.top_k > 0 && static_cast<size_t>(options.top_k) < logits.size();
  if (cut_k || options.top_p < 1) {
    const auto likelier = [&](size_t a, size_t b) {
      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    };
    const size_t kept = cut_k ? static_cast<size_t>(options.top_k) : logits.size();
    std::partial_sort(candidates.begin(), candidates.begin() + kept, candidates.end(), likelier);
    candidates.resize(kept);
  }
  std::vector<double> weights;
  weights.reserve(candidates.size());
  double total = 0;
  for (size_t id : candidates) {
    weights.push_back(std::exp((logits[id] - top) / options.temperature));
    total += weights.back();
  }
  if (options.top_p < 1) {
    const double wanted = options.top_p * total;
    double sum = 0;
    size_t kept = 0;
    while (kept < weights.size() && sum < wanted) sum += weights[kept++];
    kept = std::max<size_t>(kept, 1);
    candidates.resize(kept);
    weights.resize(kept);
    total = std::accumulate(weights.begin(), weights.end(), 0.0);
  }
  const double target = stream.Uniform() * total;
  double sum = 0;
  size_t last = 0;  // rounding may leave the target at the very end: the last one that can be drawn
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    last = i;
    sum += weights[i];
    if (sum > target) break;
  }
  return chosen(candidates[last]);
}

namespace {

// One prompt on its way.
struct Running {
  std::vector<int32_t> pending;  // given to the model in the next passes
  size_t next = 0;               // first of them that wasn't yet
  bool done = false;
  RandomStream stream;
};

void CheckPrompts(const CausalLm& model, const std::vector<std::vector<int32_t>>& prompts,
                  const GenerateOptions& options) {
  LORICA_CHECK(!prompts.empty(), "[generate] no prompts");
  LORICA_CHECK(options.slots.empty() || options.slots.size() == prompts.size(), "[generate] ",
               options.slots.size(), " adapter slots for ", prompts.size(), " prompts");
  for (size_t i = 0; i < prompts.size(); ++i) {
    LORICA_CHECK(!prompts[i].empty(), "[generate] prompt ", i, " has no token");
    for (int32_t id : prompts[i]) {
      LORICA_CHECK(id >= 0 && id < model.config().vocab_size, "[generate] prompt ", i, " holds id ",
                   id, ", expected one below ", model.config().vocab_size);
    }
  }
}

// The tokens of one pass: those that are pending, up to the budget, one sequence after the other.
struct Pass {
  std::vector<int32_t> ids;
  ForwardContext context;
  std::vector<int32_t> rows;       // last rows of the sequences that have no more pending
  std::vector<int32_t> sequences;  // which these are
};

Pass NextPass(std::vector<Running>& running, KvCache& cache, const GenerateOptions& options) {
  Pass pass;
  const int64_t budget = std::max<int64_t>(options.prefill_tokens, 1);
  std::vector<AdapterSpan> spans;
  std::vector<int32_t>& offsets = pass.context.sequences.offsets;
  for (size_t s = 0; s < running.size(); ++s) {
    Running& one = running[s];
    const int64_t begin = offsets.back();
    const int64_t left = one.done ? 0 : static_cast<int64_t>(one.pending.size() - one.next);
    const int64_t count = std::min(left, budget - begin);
    const auto from = one.pending.begin() + static_cast<int64_t>(one.next);
    pass.ids.insert(pass.ids.end(), from, from + count);
    one.next += static_cast<size_t>(count);
    offsets.push_back(static_cast<int32_t>(begin + count));
    if (count > 0 && count == left) {
      pass.rows.push_back(static_cast<int32_t>(begin + count - 1));
      pass.sequences.push_back(static_cast<int32_t>(s));
    }
    if (!options.slots.empty()) spans.push_back({options.slots[s], begin, begin + count});
  }
  if (!options.slots.empty()) {
    pass.context.spans = AdapterSpans(std::move(spans), offsets.back());
  }
  pass.context.positions = cache.Positions(pass.context.sequences);
  pass.context.cache = &cache;
  return pass;
}

}  // namespace

absl::StatusOr<std::vector<GeneratedSequence>> Generate(
    CausalLm& model, const std::vector<std::vector<int32_t>>& prompts,
    const GenerateOptions& options) {
  LORICA_RETURN_IF_ERROR(options.sampler.Check());
  CheckPrompts(model, prompts, options);
  std::vector<GeneratedSequence> results(prompts.size());
  if (options.max_tokens <= 0) return results;

  NoGrad no_grad;
  Backend& backend = model.model().embed_tokens().weight().value().backend();
  KvCache cache(backend, model.CacheConfig(), static_cast<int>(prompts.size()));
  std::vector<Running> running;
  for (size_t s = 0; s < prompts.size(); ++s) {
    running.push_back({prompts[s], 0, false,
                       RandomStream(options.sampler.seed, CombineKeys(HashName("generate"), s))});
  }
  size_t active = prompts.size();
  while (active > 0) {
    if (options.cancelled && options.cancelled()) {
      for (size_t s = 0; s < running.size(); ++s) {
        if (!running[s].done) results[s].reason = FinishReason::kCancelled;
      }
      break;
    }
    const Pass pass = NextPass(running, cache, options);
    const Tensor hidden = model.Hidden(pass.ids, pass.context);
    if (pass.rows.empty()) continue;
    const Tensor logits = model.LogitsOfRows(hidden, pass.rows, pass.context);
    for (size_t i = 0; i < pass.rows.size(); ++i) {
      const int s = pass.sequences[i];
      Running& one = running[s];
      GeneratedSequence& result = results[s];
      const std::vector<double> row = logits.Narrow(0, static_cast<int64_t>(i), 1).ToDoubles();
      const absl::StatusOr<Choice> choice = Sample(row, options.sampler, one.stream);
      if (!choice.ok()) {
        return absl::Status(choice.status().code(),
                            absl::StrCat("prompt ", s, ", new token ", result.ids.size(), ": ",
                                         choice.status().message()));
      }
      if (std::find(options.stop_ids.begin(), options.stop_ids.end(), choice->id) !=
          options.stop_ids.end()) {
        result.reason = FinishReason::kStopId;
        result.stop_id = choice->id;
        one.done = true;
      } else {
        result.ids.push_back(choice->id);
        result.logprobs.push_back(choice->logprob);
        if (options.on_token && !options.on_token(s, *choice)) {
          result.reason = FinishReason::kCallback;
          one.done = true;
        } else if (static_cast<int64_t>(result.ids.size()) >= options.max_tokens) {
          one.done = true;
        }
      }
      one.pending = {choice->id};
      one.next = 0;
      if (one.done) --active;
    }
  }
  return results;
}

}  // namespace lorica
