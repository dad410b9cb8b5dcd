// Attention cases, a plain double reference with gradients, and calls of the kernels.
#ifndef LORICA_TESTS_TENSOR_ATTENTION_FIXTURE_H_
#define LORICA_TESTS_TENSOR_ATTENTION_FIXTURE_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernel_fixture.h"

namespace lorica::test {

struct AttentionCase {
  std::string name;
  std::vector<AttentionSpan> spans;
  int64_t heads, groups, size, value_size;
  int64_t window = 0;
  bool causal = true;
  double scale = 0.4;
  int64_t sparse = 0;  // a query is left its own key and about one of so many others; 0: all

  // Whether query i of a span is left key j.
  bool Left(const AttentionSpan& span, int64_t i, int64_t j) const {
    if (sparse == 0 || j == span.k_length - span.q_length + i) return true;
    RandomStream random(static_cast<uint64_t>(span.q_begin + i), static_cast<uint64_t>(j));
    return random.Uniform() * static_cast<double>(sparse) < 1;
  }
  int64_t q_rows() const {
    int64_t rows = 0;
    for (const AttentionSpan& span : spans) rows = std::max(rows, span.q_begin + span.q_length);
    return rows;
  }
  int64_t k_rows() const {
    int64_t rows = 0;
    for (const AttentionSpan& span : spans) rows = std::max(rows, span.k_begin + span.k_length);
    return rows;
  }
};

inline std::vector<AttentionCase> AttentionCases() {
  std::vector<AttentionCase> cases = {
      {"one token", {{0, 1, 0, 1}}, 2, 1, 8, 8},
      {"ragged",
       {{0, 65, 0, 65}, {65, 1, 65, 1}, {66, 130, 66, 130}, {196, 0, 196, 0}},
       6,
       2,
       16,
       16},
      {"single heads", {{0, 77, 0, 77}}, 3, 3, 20, 20},
      {"wide group", {{0, 40, 0, 40}}, 8, 1, 5, 5},
      {"long", {{0, 300, 0, 300}}, 3, 1, 64, 64},
      {"decode", {{0, 1, 0, 200}, {1, 3, 200, 67}}, 4, 2, 16, 16},
      {"values of another size", {{0, 70, 0, 70}}, 4, 2, 24, 10},
      {"window", {{0, 200, 0, 200}, {200, 5, 200, 90}}, 4, 2, 8, 8, 30},
      {"window of one", {{0, 70, 0, 70}}, 2, 2, 8, 8, 1},
      {"both ways", {{0, 33, 0, 33}, {33, 20, 33, 70}}, 4, 2, 16, 16, 0, false},
      {"sparse",
       {{0, 150, 0, 150}, {150, 1, 150, 1}, {151, 70, 151, 70}},
       3,
       3,
       16,
       9,
       0,
       true,
       0.4,
       3},
      {"very sparse", {{0, 400, 0, 400}}, 4, 2, 8, 8, 0, true, 0.4, 90},
      {"sparse decoding", {{0, 1, 0, 200}, {1, 3, 200, 67}}, 6, 1, 16, 16, 0, true, 0.4, 40},
  };
  return cases;
}

struct AttentionInputs {
  AttentionInputs(const AttentionCase& test, DType dtype)
      : q(HostTensor::Random({test.q_rows(), test.heads, test.size}, dtype, 1, -1, 1)),
        k(HostTensor::Random({test.k_rows(), test.groups, test.size}, dtype, 2, -1, 1)),
        v(HostTensor::Random({test.k_rows(), test.groups, test.value_size}, dtype, 3)),
        dy(HostTensor::Random({test.q_rows(), test.heads, test.value_size}, dtype, 4)) {
    if (test.sparse == 0) return;
    words = (test.k_rows() + 63) / 64;
    chosen.resize(static_cast<size_t>(test.q_rows() * words));
    for (const AttentionSpan& span : test.spans) {
      for (int64_t i = 0; i < span.q_length; ++i) {
        for (int64_t j = 0; j < span.k_length; ++j) {
          if (!test.Left(span, i, j)) continue;
          chosen[static_cast<size_t>((span.q_begin + i) * words + j / 64)] |=
              static_cast<int64_t>(uint64_t{1} << (j % 64));
        }
      }
    }
  }
  TensorView chosen_view() const {
    if (chosen.empty()) return {};
    const Shape shape = {static_cast<int64_t>(chosen.size()) / words, words};
    return {chosen.data(), shape, ContiguousStrides(shape), DType::kI64};
  }
  HostTensor q, k, v, dy;
  std::vector<int64_t> chosen;  // AttentionArgs
  int64_t words = 0;
};

struct AttentionOutputs {
  AttentionOutputs() = default;
  AttentionOutputs(const AttentionCase& test, DType dtype)
      : o({test.q_rows(), test.heads, test.value_size}, dtype),
        lse({test.q_rows(), test.heads}, AccumulatorOf(dtype)) {}
  HostTensor o, lse;
};

struct AttentionGrads {
  AttentionGrads() = default;
  AttentionGrads(const AttentionCase& test, DType dtype)
      : dq({test.q_rows(), test.heads, test.size}, dtype),
        dk({test.k_rows(), test.groups, test.size}, dtype),
        dv({test.k_rows(), test.groups, test.value_size}, dtype) {}
  HostTensor dq, dk, dv;
};

inline void RunAttention(Backend& backend, const AttentionCase& test, const AttentionInputs& in,
                         AttentionOutputs& out) {
  backend.Attention({test.spans, test.scale, test.causal, test.window, 0, in.q.view(), in.k.view(),
                     in.v.view(), out.o.mutable_view(), out.lse.mutable_view(), in.chosen_view()});
}
inline AttentionOutputs RunAttention(Backend& backend, const AttentionCase& test,
                                     const AttentionInputs& in) {
  AttentionOutputs out(test, in.q.dtype());
  RunAttention(backend, test, in, out);
  return out;
}

inline void RunAttentionGrad(Backend& backend, const AttentionCase& test, const AttentionInputs& in,
                             const AttentionOutputs& out, AttentionGrads& grads) {
  backend.AttentionGrad({test.spans, test.scale, test.causal, test.window, 0, in.q.view(),
                         in.k.view(), in.v.view(), out.o.view(), out.lse.view(), in.dy.view(),
                         grads.dq.mutable_view(), grads.dk.mutable_view(), grads.dv.mutable_view(),
                         in.chosen_view()});
}
inline AttentionGrads RunAttentionGrad(Backend& backend, const AttentionCase& test,
                                       const AttentionInputs& in, const AttentionOutputs& out) {
  AttentionGrads grads(test, in.q.dtype());
  RunAttentionGrad(backend, test, in, out, grads);
  return grads;
}

struct AttentionReference {
  std::vector<double> o, lse, dq, dk, dv;
};

// The gradient is one by the rounded `o` that the backward pass is given.
inline AttentionReference ReferenceAttention(const AttentionCase& test, const AttentionInputs& in,
                                             const HostTensor& rounded_o) {
  AttentionReference out;
  const auto size_of = [](const HostTensor& x) { return static_cast<size_t>(x.numel()); };
  out.o.resize(size_of(in.dy));
  out.lse.resize(static_cast<size_t>(test.q_rows() * test.heads));
  out.dq.resize(size_of(in.q));
  out.dk.resize(size_of(in.k));
  out.dv.resize(size_of(in.v));
  const int64_t d = test.size, dv = test.value_size;
  const auto at = [](std::vector<double>& values, int64_t i) -> double& {
    return values[static_cast<size_t>(i)];
  };
  for (const AttentionSpan& span : test.spans) {
    for (int64_t i = 0; i < span.q_length; ++i) {
      const int64_t position = span.k_length - span.q_length + i;
      const int64_t end = test.causal ? position + 1 : span.k_length;
      const int64_t begin = test.window > 0 ? std::max<int64_t>(0, position - test.window + 1) : 0;
      for (int64_t h = 0; h < test.heads; ++h) {
        const int64_t g = h / (test.heads / test.groups);
        const int64_t row = (span.q_begin + i) * test.heads + h;
        std::vector<double> p;
        double max = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int64_t j = begin; j < end; ++j) {
          const int64_t key = (span.k_begin + j) * test.groups + g;
          double dot = 0;
          for (int64_t c = 0; c < d; ++c) dot += in.q.At(row * d + c) * in.k.At(key * d + c);
          p.push_back(test.Left(span, i, j) ? dot * test.scale
                                            : -std::numeric_limits<double>::infinity());
          max = std::max(max, p.back());
        }
        for (double& value : p) sum += value = std::exp(value - max);
        at(out.lse, row) = max + std::log(sum);
        double delta = 0;
        for (int64_t c = 0; c < dv; ++c) {
          double o = 0;
          for (int64_t j = begin; j < end; ++j) {
            const int64_t key = (span.k_begin + j) * test.groups + g;
            o += p[static_cast<size_t>(j - begin)] / sum * in.v.At(key * dv + c);
          }
          at(out.o, row * dv + c) = o;
          delta += rounded_o.At(row * dv + c) * in.dy.At(row * dv + c);
        }
        for (int64_t j = begin; j < end; ++j) {
          const int64_t key = (span.k_begin + j) * test.groups + g;
          const double probability = p[static_cast<size_t>(j - begin)] / sum;
          double dp = 0;
          for (int64_t c = 0; c < dv; ++c) {
            dp += in.dy.At(row * dv + c) * in.v.At(key * dv + c);
            at(out.dv, key * dv + c) += probability * in.dy.At(row * dv + c);
          }
          const double ds = probability * (dp - delta) * test.scale;
          for (int64_t c = 0; c < d; ++c) {
            at(out.dq, row * d + c) += ds * in.k.At(key * d + c);
            at(out.dk, key * d + c) += ds * in.q.At(row * d + c);
          }
        }
      }
    }
  }
  return out;
}

}  // namespace lorica::test

#endif  // LORICA_TESTS_TENSOR_ATTENTION_FIXTURE_H_
