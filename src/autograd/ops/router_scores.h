// Scores of experts from logits, on host values.
#ifndef LORICA_AUTOGRAD_OPS_ROUTER_SCORES_H_
#define LORICA_AUTOGRAD_OPS_ROUTER_SCORES_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lorica/autograd/ops/check_inputs.h"
#include "lorica/autograd/router.h"

namespace lorica::ops {

template <typename T>
std::vector<T> ToHost(const Tensor& x) {
  const Tensor whole = raw::Contiguous(raw::Cast(x, DTypeOf<T>::value));
  std::vector<T> values(static_cast<size_t>(whole.numel()));
  if (!values.empty()) whole.backend().CopyToHost(whole.view(), values.data());
  return values;
}

// In place; the greatest value is taken off first.
template <typename T>
void Softmax(absl::Span<T> x) {
  T max = -std::numeric_limits<T>::infinity(), sum = 0;
  for (T v : x) max = std::max(max, v);
  for (T& v : x) sum += v = std::exp(v - max);
  for (T& v : x) v /= sum;
}

template <typename T>
T Sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

// log(1 + exp(x)) without overflow.
template <typename T>
T Softplus(T x) {
  return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
}

// Scores of one token from its logits, in place.
template <typename T>
void Score(ScoreFunction function, absl::Span<T> x) {
  switch (function) {
    case ScoreFunction::kSoftmax:
      return Softmax(x);
    case ScoreFunction::kSigmoid:
      for (T& v : x) v = Sigmoid(v);
      return;
    case ScoreFunction::kSqrtSoftplus:
      for (T& v : x) v = std::sqrt(Softplus(v));
      return;
  }
}

// d loss / d logits from d loss / d scores, both [E] or both of the chosen ones.
template <typename T>
void ScoreGrad(ScoreFunction function, absl::Span<const T> logits, absl::Span<const T> scores,
               absl::Span<T> grad) {
  if (function == ScoreFunction::kSoftmax) {
    T dot = 0;
    for (size_t i = 0; i < grad.size(); ++i) dot += grad[i] * scores[i];
    for (size_t i = 0; i < grad.size(); ++i) grad[i] = scores[i] * (grad[i] - dot);
    return;
  }
  for (size_t i = 0; i < grad.size(); ++i) {
    grad[i] *= function == ScoreFunction::kSigmoid
                   ? scores[i] * (1 - scores[i])
                   : Sigmoid(logits[i]) / (2 * std::max(scores[i], std::numeric_limits<T>::min()));
  }
}

inline void CheckRouterOptions(const char* op, const Tensor& logits, const RouterOptions& options) {
  CheckCompute(op, logits);
  LORICA_CHECK(logits.rank() == 2, "[", op, "] logits [T, E] expected, found ", logits.shape());
  const int64_t num = logits.dim(1);
  LORICA_CHECK(options.top_k >= 1 && options.top_k <= num, "[", op, "] ", options.top_k,
               " experts a token of ", num);
  LORICA_CHECK(!options.softmax_after_topk || options.score == ScoreFunction::kSoftmax, "[", op,
               "] only a softmax can follow the choice");
  LORICA_CHECK(options.groups <= 1 || (num % options.groups == 0 && options.top_groups >= 1 &&
                                       options.top_groups <= options.groups),
               "[", op, "] ", options.top_groups, " of ", options.groups, " groups of ", num,
               " experts");
}

}  // namespace lorica::ops

#endif  // LORICA_AUTOGRAD_OPS_ROUTER_SCORES_H_
