#include "lorica/autograd/router.h"

#include <algorithm>
#include <limits>

#include "lorica/autograd/kept_choice.h"
#include "lorica/autograd/op.h"
#include "lorica/autograd/ops/router_scores.h"

namespace lorica {
namespace {

using ops::Score;
using ops::ScoreGrad;
using ops::ToHost;

// Keeps a sum of weights from 0; upstream's constant.
constexpr double kLeastSum = 1e-20;

// The `count` greatest, falling, the lowest index first among equals.
template <typename T>
void TopK(absl::Span<const T> scores, int64_t count, int32_t* chosen) {
  std::vector<bool> taken(scores.size(), false);
  for (int64_t k = 0; k < count; ++k) {
    int64_t best = -1;
    for (size_t i = 0; i < scores.size(); ++i) {
      if (taken[i]) continue;
      if (best < 0 || scores[i] > scores[static_cast<size_t>(best)]) best = static_cast<int64_t>(i);
    }
    taken[static_cast<size_t>(best)] = true;
    chosen[k] = static_cast<int32_t>(best);
  }
}

template <typename T>
void CloseGroups(const RouterOptions& options, absl::Span<T> selection) {
  if (options.groups <= 1) return;
  const size_t size = selection.size() / static_cast<size_t>(options.groups);
  std::vector<T> scores;
  for (int64_t g = 0; g < options.groups; ++g) {
    T best = -std::numeric_limits<T>::infinity(), second = best;
    for (T v : selection.subspan(static_cast<size_t>(g) * size, size)) {
      if (v > best) {
        second = best;
        best = v;
      } else if (v > second) {
        second = v;
      }
    }
    const bool two = options.group_score == RouterOptions::GroupScore::kTopTwoSum && size > 1;
    scores.push_back(two ? best + second : best);
  }
  std::vector<int32_t> open(static_cast<size_t>(options.top_groups));
  TopK<T>(scores, options.top_groups, open.data());
  std::vector<bool> is_open(scores.size(), false);
  for (int32_t g : open) is_open[static_cast<size_t>(g)] = true;
  const T closed = options.closed_group == RouterOptions::ClosedGroup::kZero
                       ? T{0}
                       : -std::numeric_limits<T>::infinity();
  for (size_t i = 0; i < selection.size(); ++i) {
    if (!is_open[i / size]) selection[i] = closed;
  }
}

// weights [T, K] of the chosen experts, in type T.
struct RouteOp : Op {
  static constexpr const char* kName = "route";
  RouterOptions options;
  std::shared_ptr<const std::vector<int32_t>> experts;
  Tensor bias;  // [E] or undefined
  Saved logits;
  auto saved() const { return std::tie(logits); }

  template <typename T>
  static std::vector<int32_t> Choose(const Tensor& logits_tensor, const RouterOptions& options,
                                     const Tensor& bias_tensor) {
    std::vector<T> logits = ToHost<T>(logits_tensor);
    std::vector<T> bias;
    if (bias_tensor.defined()) bias = ToHost<T>(bias_tensor);
    const size_t tokens = static_cast<size_t>(logits_tensor.dim(0));
    const size_t num_experts = static_cast<size_t>(logits_tensor.dim(1));
    const size_t top_k = static_cast<size_t>(options.top_k);
    std::vector<int32_t> chosen(tokens * top_k);
    for (size_t t = 0; t < tokens; ++t) {
      const absl::Span<T> row(logits.data() + t * num_experts, num_experts);
      if (!options.softmax_after_topk) Score(options.score, row);
      for (size_t i = 0; i < bias.size(); ++i) row[i] += bias[i];
      CloseGroups(options, row);
      TopK<T>(row, options.top_k, chosen.data() + t * top_k);
    }
    return chosen;
  }

  // Scores of all experts, or of the chosen ones alone where only they count.
  template <typename T>
  struct Token {
    std::vector<T> logits, scores;  // [E] or [K]
    std::vector<T> chosen;          // [K] with the bias where it counts
    T sum = 1;                      // what the weights are divided by
  };
  template <typename T>
  void Fill(const std::vector<T>& all, const std::vector<T>& bias_values, size_t t, size_t num,
            Token<T>& token) const {
    const size_t top_k = static_cast<size_t>(options.top_k);
    const int32_t* ids = experts->data() + t * top_k;
    const T* row = all.data() + t * num;
    if (options.score == ScoreFunction::kSoftmax && !options.softmax_after_topk) {
      token.logits.assign(row, row + num);
    } else {
      token.logits.resize(top_k);
      for (size_t k = 0; k < top_k; ++k) token.logits[k] = row[ids[k]];
    }
    token.scores = token.logits;
    Score<T>(options.score, absl::MakeSpan(token.scores));
    token.chosen.resize(top_k);
    T sum = 0;
    for (size_t k = 0; k < top_k; ++k) {
      token.chosen[k] = token.scores[At(token, ids, k)];
      if (options.bias_in_weights && !bias_values.empty()) token.chosen[k] += bias_values[ids[k]];
      sum += token.chosen[k];
    }
    token.sum = options.normalize && top_k > 1 ? sum + static_cast<T>(kLeastSum) : T{1};
  }
  template <typename T>
  size_t At(const Token<T>& token, const int32_t* ids, size_t k) const {
    return token.logits.size() == static_cast<size_t>(options.top_k) && !WholeRows()
               ? k
               : static_cast<size_t>(ids[k]);
  }
  bool WholeRows() const {
    return options.score == ScoreFunction::kSoftmax && !options.softmax_after_topk;
  }

  template <typename T>
  Tensor Weights(const Tensor& input) const {
    const std::vector<T> all = ToHost<T>(input);
    const std::vector<T> bias_values = bias.defined() ? ToHost<T>(bias) : std::vector<T>();
    const int64_t tokens = input.dim(0);
    std::vector<T> weights;
    weights.reserve(static_cast<size_t>(tokens * options.top_k));
    Token<T> token;
    for (int64_t t = 0; t < tokens; ++t) {
      Fill(all, bias_values, static_cast<size_t>(t), static_cast<size_t>(input.dim(1)), token);
      for (T w : token.chosen) weights.push_back(w / token.sum * static_cast<T>(options.scale));
    }
    return Tensor::FromHost<T>(input.backend(), {tokens, options.top_k}, weights);
  }

  Tensor Forward(const Tensor& input) {
    if (needs(0)) logits = input;
    return input.dtype() == DType::kF64 ? Weights<double>(input) : Weights<float>(input);
  }

  // w_k = scale c_k / S, S = sum of the c (or 1): dc_k = scale (dw_k - sum_j dw_j c_j / S) / S.
  template <typename T>
  Tensor Grad(const Tensor& dy) const {
    const Tensor input = logits.get(kName);
    const size_t num = static_cast<size_t>(input.dim(1)),
                 top_k = static_cast<size_t>(options.top_k);
    const std::vector<T> all = ToHost<T>(input), dw = ToHost<T>(dy);
    const std::vector<T> bias_values = bias.defined() ? ToHost<T>(bias) : std::vector<T>();
    std::vector<T> dx(all.size(), T{0}), ds;
    Token<T> token;
    for (size_t t = 0; t < static_cast<size_t>(input.dim(0)); ++t) {
      Fill(all, bias_values, t, num, token);
      const int32_t* ids = experts->data() + t * top_k;
      T dot = 0;
      if (options.normalize && top_k > 1) {
        for (size_t k = 0; k < top_k; ++k) dot += dw[t * top_k + k] * token.chosen[k] / token.sum;
      }
      ds.assign(token.scores.size(), T{0});
      for (size_t k = 0; k < top_k; ++k) {
        ds[At(token, ids, k)] =
            static_cast<T>(options.scale) * (dw[t * top_k + k] - dot) / token.sum;
      }
      ScoreGrad<T>(options.score, token.logits, token.scores, absl::MakeSpan(ds));
      if (WholeRows()) {
        std::copy(ds.begin(), ds.end(), dx.begin() + static_cast<std::ptrdiff_t>(t * num));
      } else {
        for (size_t k = 0; k < top_k; ++k) dx[t * num + static_cast<size_t>(ids[k])] = ds[k];
      }
    }
    return Tensor::FromHost<T>(input.backend(), input.shape(), dx);
  }
  Grads<1> Backward(const Tensor& dy) const {
    return {dy.dtype() == DType::kF64 ? Grad<double>(dy) : Grad<float>(dy)};
  }
};

}  // namespace

Routing Route(const Tensor& logits, const RouterOptions& options, const Tensor& correction_bias) {
  ops::CheckRouterOptions("route", logits, options);
  LORICA_CHECK(!correction_bias.defined() || correction_bias.shape() == Shape({logits.dim(1)}),
               "[route] a correction bias of shape ", correction_bias.shape(), " for ",
               logits.dim(1), " experts");
  RouteOp op;
  op.options = options;
  op.bias = correction_bias.defined() ? correction_bias.Detach() : Tensor();
  op.experts = KeepChoice<std::vector<int32_t>>([&] {
    return logits.dtype() == DType::kF64 ? RouteOp::Choose<double>(logits, options, op.bias)
                                         : RouteOp::Choose<float>(logits, options, op.bias);
  });
  Routing routing;
  routing.experts = op.experts;
  routing.weights = Apply(std::move(op), logits);
  return routing;
}

}  // namespace lorica
