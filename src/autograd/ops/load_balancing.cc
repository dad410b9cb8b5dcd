// How evenly a router spreads its tokens: counts, a loss, and a bias that counteracts.
#include <algorithm>

#include "lorica/autograd/op.h"
#include "lorica/autograd/ops/router_scores.h"
#include "lorica/autograd/router.h"

namespace lorica {
namespace {

using ops::Score;
using ops::ScoreGrad;
using ops::ToHost;

// loss = sum over i of share_i / n * sum over valid t of s[t, i].
struct LoadBalancingOp : Op {
  static constexpr const char* kName = "load_balancing_loss";
  ScoreFunction score = ScoreFunction::kSoftmax;
  std::vector<double> share;   // [E], f_i / n
  std::vector<uint8_t> valid;  // [T] or empty
  Saved logits;
  auto saved() const { return std::tie(logits); }

  template <typename T, typename Body>
  void ForTokens(const Tensor& input, const Body& body) const {
    const std::vector<T> all = ToHost<T>(input);
    const size_t num = share.size();
    for (size_t t = 0; t < static_cast<size_t>(input.dim(0)); ++t) {
      if (!valid.empty() && valid[t] == 0) continue;
      const absl::Span<const T> row(all.data() + t * num, num);
      std::vector<T> scores(row.begin(), row.end());
      Score<T>(score, absl::MakeSpan(scores));
      body(t, row, scores);
    }
  }
  template <typename T>
  Tensor Loss(const Tensor& input) const {
    std::vector<T> mean(share.size(), T{0});
    ForTokens<T>(input, [&](size_t, absl::Span<const T>, const std::vector<T>& scores) {
      for (size_t i = 0; i < scores.size(); ++i) mean[i] += scores[i];
    });
    T loss = 0;
    for (size_t i = 0; i < mean.size(); ++i) loss += static_cast<T>(share[i]) * mean[i];
    return Tensor::FromHost<T>(input.backend(), {}, {loss});
  }
  template <typename T>
  Tensor Grad(const Tensor& dy) const {
    const Tensor input = logits.get(kName);
    std::vector<T> dx(static_cast<size_t>(input.numel()), T{0}), ds(share.size());
    const T factor = static_cast<T>(dy.item());
    ForTokens<T>(input, [&](size_t t, absl::Span<const T> row, const std::vector<T>& scores) {
      for (size_t i = 0; i < ds.size(); ++i) ds[i] = factor * static_cast<T>(share[i]);
      ScoreGrad<T>(score, row, scores, absl::MakeSpan(ds));
      std::copy(ds.begin(), ds.end(), dx.begin() + static_cast<std::ptrdiff_t>(t * ds.size()));
    });
    return Tensor::FromHost<T>(input.backend(), input.shape(), dx);
  }
  Tensor Forward(const Tensor& input) {
    if (needs(0)) logits = input;
    return input.dtype() == DType::kF64 ? Loss<double>(input) : Loss<float>(input);
  }
  Grads<1> Backward(const Tensor& dy) const {
    return {dy.dtype() == DType::kF64 ? Grad<double>(dy) : Grad<float>(dy)};
  }
};

struct AttachLossOp : Op {
  static constexpr const char* kName = "attach_loss";
  double factor = 0;
  DType type = DType::kF32;
  auto saved() const { return std::tie(); }
  Tensor Forward(const Tensor& y, const Tensor& loss) {
    type = loss.dtype();
    return y;
  }
  Grads<2> Backward(const Tensor& dy) const {
    return {dy, Tensor::Full(dy.backend(), {}, type, factor)};
  }
};

}  // namespace

std::vector<int64_t> ExpertLoad(absl::Span<const int32_t> experts, int64_t num_experts,
                                int64_t tokens, absl::Span<const uint8_t> valid) {
  LORICA_CHECK(tokens == 0 ? experts.empty() : experts.size() % static_cast<size_t>(tokens) == 0,
               "[expert_load] ", experts.size(), " choices of ", tokens, " tokens");
  LORICA_CHECK(valid.empty() || static_cast<int64_t>(valid.size()) == tokens, "[expert_load] ",
               valid.size(), " marks for ", tokens, " tokens");
  std::vector<int64_t> load(static_cast<size_t>(num_experts), 0);
  const size_t top_k = tokens == 0 ? 1 : experts.size() / static_cast<size_t>(tokens);
  for (size_t i = 0; i < experts.size(); ++i) {
    if (!valid.empty() && valid[i / top_k] == 0) continue;
    if (experts[i] >= 0 && experts[i] < num_experts) ++load[static_cast<size_t>(experts[i])];
  }
  return load;
}

Tensor LoadBalancingLoss(const Tensor& logits, const RouterOptions& options,
                         absl::Span<const int32_t> experts, absl::Span<const uint8_t> valid) {
  ops::CheckRouterOptions("load_balancing_loss", logits, options);
  const int64_t tokens = logits.dim(0), num = logits.dim(1);
  int64_t count = tokens;
  if (!valid.empty())
    count = std::count_if(valid.begin(), valid.end(), [](uint8_t v) { return v; });
  const std::vector<int64_t> load = ExpertLoad(experts, num, tokens, valid);
  LoadBalancingOp op;
  op.score = options.score;
  op.valid.assign(valid.begin(), valid.end());
  const double n = static_cast<double>(std::max<int64_t>(count, 1));
  for (int64_t l : load) {
    op.share.push_back(static_cast<double>(l * num) / (static_cast<double>(options.top_k) * n * n));
  }
  return Apply(std::move(op), logits);
}

Tensor AttachLoss(const Tensor& y, const Tensor& loss, double factor) {
  LORICA_CHECK(loss.defined() && loss.rank() == 0, "[attach_loss] a loss of rank 0 expected");
  AttachLossOp op;
  op.factor = factor;
  return Apply(std::move(op), y, loss);
}

void UpdateCorrectionBias(Tensor& bias, absl::Span<const int64_t> load, double factor) {
  LORICA_CHECK(bias.defined() && bias.shape() == Shape({static_cast<int64_t>(load.size())}) &&
                   (bias.dtype() == DType::kF32 || bias.dtype() == DType::kF64),
               "[correction_bias] a load of ", load.size(), " experts needs as many f32 values");
  double mean = 0;
  for (int64_t l : load) mean += static_cast<double>(l);
  mean /= static_cast<double>(std::max<size_t>(load.size(), 1));
  for (size_t i = 0; i < load.size(); ++i) {
    const double gap = mean - static_cast<double>(load[i]);
    const double step = gap > 0 ? factor : gap < 0 ? -factor : 0;
    if (bias.dtype() == DType::kF64) {
      bias.mutable_data<double>()[i] += step;
    } else {
      bias.mutable_data<float>()[i] += static_cast<float>(step);
    }
  }
}

}  // namespace lorica
