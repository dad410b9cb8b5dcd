#include "support/op_cases.h"

#include <algorithm>
#include <cmath>

#include "lorica/autograd/ops.h"
#include "lorica/tensor/random.h"

namespace lorica::testing {
namespace {

using Inputs = std::vector<Tensor>;
using Function = std::function<Tensor(const Inputs&)>;

OpCase Pointwise(const std::string& name, Tensor (*op)(const Tensor&), double (*f)(double),
                 double low = -2, double high = 2) {
  OpCase row;
  row.name = name;
  row.shapes = {{3, 7}};
  row.low = low;
  row.high = high;
  row.function = [op](const Inputs& x) { return op(x[0]); };
  row.reference = [f](const std::vector<Values>& x) {
    Values y = x[0];
    for (double& v : y) v = f(v);
    return y;
  };
  row.saved_bytes = 3 * 7 * 4;
  row.benchmark_shapes = {{2048, 576}};
  return row;
}

// [3, 7] with [7]: the second is broadcast over rows.
OpCase Pairwise(const std::string& name, Tensor (*op)(const Tensor&, const Tensor&),
                double (*f)(double, double), int64_t saved_bytes, double low = 0.5) {
  OpCase row;
  row.name = name;
  row.shapes = {{3, 7}, {7}};
  row.low = low;
  row.high = 2;
  row.function = [op](const Inputs& x) { return op(x[0], x[1]); };
  row.reference = [f](const std::vector<Values>& x) {
    Values y = x[0];
    for (size_t i = 0; i < y.size(); ++i) y[i] = f(y[i], x[1][i % 7]);
    return y;
  };
  row.saved_bytes = saved_bytes;
  row.bad_shapes = {{3, 7}, {6}};
  row.bad_text = "don't broadcast";
  row.benchmark_shapes = {{2048, 576}, {2048, 576}};
  return row;
}

double Sigmoid1(double v) { return 1 / (1 + std::exp(-v)); }

// y[m, n] = sum over k of a[m, k] b[n, k].
Values ProductNT(const Values& a, const Values& b, size_t m, size_t n, size_t k) {
  Values y(m * n, 0.0);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j)
      for (size_t l = 0; l < k; ++l) y[i * n + j] += a[i * k + l] * b[j * k + l];
  return y;
}

OpCase MakeCase(const std::string& name, std::vector<Shape> shapes, Function function,
                std::function<Values(const std::vector<Values>&)> reference, int64_t sum_length,
                int64_t saved_bytes) {
  OpCase row;
  row.name = name;
  row.shapes = std::move(shapes);
  row.function = std::move(function);
  row.reference = std::move(reference);
  row.sum_length = sum_length;
  row.saved_bytes = saved_bytes;
  return row;
}

void AddElementwise(std::vector<OpCase>& rows) {
  rows.push_back(Pairwise(
      "add", Add, [](double a, double b) { return a + b; }, 0));
  rows.push_back(Pairwise(
      "sub", Sub, [](double a, double b) { return a - b; }, 0));
  rows.push_back(Pairwise(
      "mul", Mul, [](double a, double b) { return a * b; }, (21 + 7) * 4));
  rows.push_back(Pairwise(
      "div", Div, [](double a, double b) { return a / b; }, (21 + 7) * 4));
  rows.push_back(Pairwise(
      "maximum", Maximum, [](double a, double b) { return std::max(a, b); }, 21 * 4, -2));
  rows.push_back(Pointwise("neg", Neg, [](double v) { return -v; }));
  rows.push_back(Pointwise("exp", Exp, [](double v) { return std::exp(v); }));
  rows.push_back(Pointwise(
      "log", Log, [](double v) { return std::log(v); }, 0.5, 4));
  rows.push_back(Pointwise(
      "sqrt", Sqrt, [](double v) { return std::sqrt(v); }, 0.5, 4));
  rows.push_back(Pointwise("square", Square, [](double v) { return v * v; }));
  rows.push_back(Pointwise("sigmoid", Sigmoid, Sigmoid1));
  rows.push_back(Pointwise("tanh", Tanh, [](double v) { return std::tanh(v); }));
  rows.push_back(Pointwise("relu", Relu, [](double v) { return v > 0 ? v : 0; }));
  rows.push_back(Pointwise("silu", Silu, [](double v) { return v * Sigmoid1(v); }));
  rows.push_back(
      Pointwise("gelu", Gelu, [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2))); }));
  rows.push_back(Pointwise("gelu_tanh", GeluTanh, [](double v) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  }));
  rows.push_back(MakeCase(
      "affine", {{3, 7}}, [](const Inputs& x) { return Affine(x[0], -2.5, 0.75); },
      [](const std::vector<Values>& x) {
        Values y = x[0];
        for (double& v : y) v = -2.5 * v + 0.75;
        return y;
      },
      1, 0));
  rows.push_back(MakeCase(
      "dropout", {{5, 9}},
      [](const Inputs& x) {
        auto keys = std::make_shared<std::vector<uint64_t>>(std::vector<uint64_t>{1, 2, 3, 4, 5});
        return Dropout(x[0], {.rate = 0.4, .key = 99, .row_keys = keys});
      },
      // Element (t, c) is kept by word c % 4 of Philox(CombineKeys(key, row key), c / 4).
      [](const std::vector<Values>& x) {
        Values y = x[0];
        for (size_t i = 0; i < y.size(); ++i) {
          const size_t t = i / 9, c = i % 9;
          const uint32_t word = Philox(CombineKeys(99, t + 1), c / 4, 0)[c % 4];
          y[i] = word * 0x1.0p-32 < 0.4 ? 0 : y[i] / 0.6;
        }
        return y;
      },
      1, 0));
}

void AddShapes(std::vector<OpCase>& rows) {
  rows.push_back(MakeCase(
      "reshape", {{2, 6}},
      [](const Inputs& x) {
        return Reshape(x[0], {3, 4});
      },
      [](const std::vector<Values>& x) { return x[0]; }, 1, 0));
  rows.push_back(MakeCase(
      "transpose", {{2, 3, 4}}, [](const Inputs& x) { return Transpose(x[0], 0, 2); },
      [](const std::vector<Values>& x) {
        Values y(24);
        for (int i = 0; i < 2; ++i)
          for (int j = 0; j < 3; ++j)
            for (int k = 0; k < 4; ++k) y[k * 6 + j * 2 + i] = x[0][i * 12 + j * 4 + k];
        return y;
      },
      1, 0));
  rows.push_back(MakeCase(
      "narrow", {{4, 5}}, [](const Inputs& x) { return Narrow(x[0], 1, 1, 3); },
      [](const std::vector<Values>& x) {
        Values y;
        for (int i = 0; i < 4; ++i)
          for (int j = 1; j < 4; ++j) y.push_back(x[0][i * 5 + j]);
        return y;
      },
      1, 0));
  rows.push_back(MakeCase(
      "concat", {{2, 3}, {2, 1}},
      [](const Inputs& x) {
        return Concat({x[0], x[1]}, 1);
      },
      [](const std::vector<Values>& x) {
        return Values{x[0][0], x[0][1], x[0][2], x[1][0], x[0][3], x[0][4], x[0][5], x[1][1]};
      },
      1, 0));
}

void AddReductions(std::vector<OpCase>& rows) {
  rows.push_back(MakeCase(
      "sum", {{3, 7}}, [](const Inputs& x) { return Sum(x[0]); },
      [](const std::vector<Values>& x) {
        double s = 0;
        for (double v : x[0]) s += v;
        return Values{s};
      },
      21, 0));
  rows.push_back(MakeCase(
      "mean", {{3, 7}}, [](const Inputs& x) { return Mean(x[0]); },
      [](const std::vector<Values>& x) {
        double s = 0;
        for (double v : x[0]) s += v;
        return Values{s / 21};
      },
      21, 0));
  rows.push_back(MakeCase(
      "sum_axis", {{3, 4, 2}}, [](const Inputs& x) { return SumAxis(x[0], 1); },
      [](const std::vector<Values>& x) {
        Values y(6, 0.0);
        for (int i = 0; i < 3; ++i)
          for (int j = 0; j < 4; ++j)
            for (int k = 0; k < 2; ++k) y[i * 2 + k] += x[0][i * 8 + j * 2 + k];
        return y;
      },
      4, 0));
  for (const bool log : {false, true}) {
    rows.push_back(MakeCase(
        log ? "log_softmax" : "softmax", {{4, 9}},
        [log](const Inputs& x) { return log ? LogSoftmax(x[0]) : Softmax(x[0]); },
        [log](const std::vector<Values>& x) {
          Values y = x[0];
          for (int i = 0; i < 4; ++i) {
            double s = 0;
            for (int j = 0; j < 9; ++j) s += std::exp(x[0][i * 9 + j]);
            for (int j = 0; j < 9; ++j) {
              y[i * 9 + j] = log ? x[0][i * 9 + j] - std::log(s) : std::exp(x[0][i * 9 + j]) / s;
            }
          }
          return y;
        },
        9, 36 * 4));
    rows.back().benchmark_shapes = {{1024, 4096}};
  }
}

void AddProducts(std::vector<OpCase>& rows) {
  rows.push_back(MakeCase(
      "matmul", {{5, 7}, {7, 3}}, [](const Inputs& x) { return Matmul(x[0], x[1]); },
      [](const std::vector<Values>& x) {
        Values b(21);
        for (int k = 0; k < 7; ++k)
          for (int n = 0; n < 3; ++n) b[n * 7 + k] = x[1][k * 3 + n];
        return ProductNT(x[0], b, 5, 3, 7);
      },
      7, (35 + 21) * 4));
  rows.back().bad_shapes = {{5, 7}, {6, 3}};
  rows.back().bad_text = "[matmul] inner dimensions differ";
  rows.back().benchmark_shapes = {{512, 576}, {576, 576}};
  rows.push_back(MakeCase(
      "linear", {{2, 3, 7}, {5, 7}, {5}},
      [](const Inputs& x) { return Linear(x[0], {.weight = x[1], .bias = x[2]}); },
      [](const std::vector<Values>& x) {
        Values y = ProductNT(x[0], x[1], 6, 5, 7);
        for (size_t i = 0; i < y.size(); ++i) y[i] += x[2][i % 5];
        return y;
      },
      7, (42 + 35) * 4));
  rows.back().bad_shapes = {{2, 3, 6}, {5, 7}, {5}};
  rows.back().bad_text = "[linear] inner dimensions differ";
  // x [T, in], W [out, in], A [R, in], B [out, R], scale folded into B by hand.
  rows.push_back(MakeCase(
      "lora_linear", {{6, 7}, {5, 7}, {2, 7}, {5, 2}},
      [](const Inputs& x) {
        LoraBranch branch{.a = x[2], .b = Weight(Affine(x[3], 1.5).Detach(), x[3]), .scale = 1.5};
        return Linear(x[0], {.weight = x[1], .branches = {&branch, 1}});
      },
      [](const std::vector<Values>& x) {
        Values y = ProductNT(x[0], x[1], 6, 5, 7);
        const Values t = ProductNT(x[0], x[2], 6, 2, 7), u = ProductNT(t, x[3], 6, 5, 2);
        for (size_t i = 0; i < y.size(); ++i) y[i] += 1.5 * u[i];
        return y;
      },
      9, (42 + 35 + 12) * 4));
  rows.push_back(MakeCase(
      "lora_linear_dropout", {{6, 7}, {5, 7}, {2, 7}, {5, 2}},
      [](const Inputs& x) {
        auto keys = std::make_shared<std::vector<uint64_t>>(6);
        for (size_t i = 0; i < 6; ++i) (*keys)[i] = i + 1;
        LoraBranch branch{.a = x[2], .b = x[3], .dropout = 0.5, .dropout_key = 7};
        return Linear(x[0], {.weight = x[1], .branches = {&branch, 1}, .row_keys = keys});
      },
      [](const std::vector<Values>& x) {
        Values y = ProductNT(x[0], x[1], 6, 5, 7), dropped = x[0];
        for (size_t i = 0; i < dropped.size(); ++i) {
          const uint32_t word = Philox(CombineKeys(7, i / 7 + 1), i % 7 / 4, 0)[i % 7 % 4];
          dropped[i] = word * 0x1.0p-32 < 0.5 ? 0 : dropped[i] * 2;
        }
        const Values u = ProductNT(ProductNT(dropped, x[2], 6, 2, 7), x[3], 6, 5, 2);
        for (size_t i = 0; i < y.size(); ++i) y[i] += u[i];
        return y;
      },
      9, (42 + 35 + 12) * 4));
  // Two slots and rows of the base alone.
  rows.push_back(MakeCase(
      "lora_linear_slots", {{6, 4}, {3, 4}, {2, 4}, {3, 2}, {1, 4}, {3, 1}},
      [](const Inputs& x) {
        const LoraBranch branches[] = {{.a = x[2], .b = x[3]}, {.a = x[4], .b = x[5]}};
        const AdapterSpans spans({{1, 0, 2}, {-1, 2, 3}, {0, 3, 6}}, 6);
        return Linear(x[0], {.weight = x[1], .branches = branches, .spans = &spans});
      },
      [](const std::vector<Values>& x) {
        Values y = ProductNT(x[0], x[1], 6, 3, 4);
        const Values u = ProductNT(ProductNT(x[0], x[2], 6, 2, 4), x[3], 6, 3, 2);
        const Values v = ProductNT(ProductNT(x[0], x[4], 6, 1, 4), x[5], 6, 3, 1);
        for (size_t i = 0; i < y.size(); ++i) {
          if (i / 3 < 2) y[i] += v[i];
          if (i / 3 >= 3) y[i] += u[i];
        }
        return y;
      },
      6, (24 + 12 + 2 + 6) * 4));
  rows.push_back(MakeCase(
      "grouped_linear", {{6, 4}, {3, 2, 4}},
      [](const Inputs& x) {
        return GroupedLinear(x[0], x[1], {{0, 2, 2, 6}});
      },
      [](const std::vector<Values>& x) {
        Values y(12, 0.0);
        for (int t = 0; t < 6; ++t)
          for (int n = 0; n < 2; ++n)
            for (int k = 0; k < 4; ++k) {
              y[t * 2 + n] += x[0][t * 4 + k] * x[1][(t < 2 ? 0 : 2) * 8 + n * 4 + k];
            }
        return y;
      },
      4, (24 + 24) * 4));
}

void AddTransformerParts(std::vector<OpCase>& rows) {
  rows.push_back(MakeCase(
      "embedding", {{6, 3}},
      [](const Inputs& x) {
        const int32_t ids[] = {5, 0, 5, 2};
        return Embedding(ids, {.table = x[0]});
      },
      [](const std::vector<Values>& x) {
        Values y;
        for (int id : {5, 0, 5, 2})
          for (int c = 0; c < 3; ++c) y.push_back(x[0][id * 3 + c]);
        return y;
      },
      1, 0));
  rows.push_back(MakeCase(
      "lora_embedding", {{6, 3}, {6, 2}, {3, 2}},
      [](const Inputs& x) {
        const int32_t ids[] = {5, 0, 5, 2};
        LoraBranch branch{.a = x[1], .b = x[2]};
        return Embedding(ids, {.table = x[0], .branches = {&branch, 1}});
      },
      [](const std::vector<Values>& x) {
        Values y;
        for (int id : {5, 0, 5, 2})
          for (int c = 0; c < 3; ++c) {
            double v = x[0][id * 3 + c];
            for (int r = 0; r < 2; ++r) v += x[1][id * 2 + r] * x[2][c * 2 + r];
            y.push_back(v);
          }
        return y;
      },
      3, 4 * 2 * 4));
  for (const bool offset : {true, false}) {
    rows.push_back(MakeCase(
        offset ? "rms_norm_offset" : "rms_norm", {{4, 9}, {9}},
        [offset](const Inputs& x) { return RmsNorm(x[0], x[1], 1e-3, nullptr, offset); },
        [offset](const std::vector<Values>& x) {
          Values y = x[0];
          for (int t = 0; t < 4; ++t) {
            double s = 0;
            for (int c = 0; c < 9; ++c) s += x[0][t * 9 + c] * x[0][t * 9 + c];
            for (int c = 0; c < 9; ++c)
              y[t * 9 + c] *= (x[1][c] + offset) / std::sqrt(s / 9 + 1e-3);
          }
          return y;
        },
        9, (36 + 4 + 9) * 4));
  }
  rows.back().benchmark_shapes = {{2048, 576}, {576}};
  rows.push_back(MakeCase(
      "swiglu", {{4, 9}, {4, 9}}, [](const Inputs& x) { return SwiGlu(x[0], x[1]); },
      [](const std::vector<Values>& x) {
        Values y = x[0];
        for (size_t i = 0; i < y.size(); ++i) y[i] = y[i] * Sigmoid1(y[i]) * x[1][i];
        return y;
      },
      1, 72 * 4));
  rows.back().benchmark_shapes = {{2048, 1536}, {2048, 1536}};
  for (const bool tanh_form : {false, true}) {
    rows.push_back(MakeCase(
        tanh_form ? "geglu_tanh" : "geglu", {{4, 9}, {4, 9}},
        [tanh_form](const Inputs& x) { return GeGlu(x[0], x[1], tanh_form); },
        [tanh_form](const std::vector<Values>& x) {
          Values y = x[0];
          for (size_t i = 0; i < y.size(); ++i) {
            const double cubic = std::sqrt(2 / M_PI) * (y[i] + 0.044715 * y[i] * y[i] * y[i]);
            const double gate = tanh_form ? std::tanh(cubic) : std::erf(y[i] / std::sqrt(2.0));
            y[i] = 0.5 * y[i] * (1 + gate) * x[1][i];
          }
          return y;
        },
        4, 72 * 4));
  }
  for (const bool interleaved : {false, true}) {
    rows.push_back(MakeCase(
        interleaved ? "rope_interleaved" : "rope", {{3, 2, 6}},
        [interleaved](const Inputs& x) {
          RopeTable table;
          table.interleaved = interleaved;
          Values c, s;
          for (int p = 0; p < 8; ++p)
            for (int i = 0; i < 2; ++i) {
              c.push_back(std::cos(p * (i + 0.5)));
              s.push_back(std::sin(p * (i + 0.5)));
            }
          const DType wide = AccumulatorOf(x[0].dtype());
          Backend& b = x[0].backend();
          table.cos = raw::Cast(Tensor::FromHost<double>(b, {8, 2}, c), wide);
          table.sin = raw::Cast(Tensor::FromHost<double>(b, {8, 2}, s), wide);
          const int32_t positions[] = {0, 7, 3};
          return Rope(x[0], table, positions);
        },
        [interleaved](const std::vector<Values>& x) {
          Values y = x[0];
          const int positions[] = {0, 7, 3};
          for (int t = 0; t < 3; ++t)
            for (int h = 0; h < 2; ++h)
              for (int i = 0; i < 2; ++i) {
                const int base = t * 12 + h * 6;
                const int a = base + (interleaved ? 2 * i : i);
                const int b = base + (interleaved ? 2 * i + 1 : i + 2);
                const double angle = positions[t] * (i + 0.5);
                y[a] = x[0][a] * std::cos(angle) - x[0][b] * std::sin(angle);
                y[b] = x[0][a] * std::sin(angle) + x[0][b] * std::cos(angle);
              }
          return y;
        },
        2, 0));
  }
}

// Two sequences of 4 and 3 tokens, 4 query heads on 2 key heads, D 5, Dv 3.
// `chosen`: a word of bits for each of the 7 tokens, or empty.
OpCase AttentionCase(const std::string& name, bool causal, int64_t window, double softcap = 0,
                     bool sinks = false, const std::vector<int64_t>& chosen = {}) {
  return MakeCase(
      name,
      sinks ? std::vector<Shape>{{7, 4, 5}, {7, 2, 5}, {7, 2, 3}, {4}}
            : std::vector<Shape>{{7, 4, 5}, {7, 2, 5}, {7, 2, 3}},
      [causal, window, softcap, sinks, chosen](const Inputs& x) {
        return Attention(
            x[0], x[1], x[2],
            {.spans = {{0, 4, 0, 4}, {4, 3, 4, 3}},
             .scale = 0.7,
             .causal = causal,
             .window = window,
             .softcap = softcap,
             .sinks = sinks ? Weight(x[3]) : Weight(),
             .chosen = chosen.empty() ? Tensor()
                                      : Tensor::FromHost<int64_t>(x[0].backend(), {7, 1}, chosen)});
      },
      [causal, window, softcap, sinks, chosen](const std::vector<Values>& x) {
        Values y(7 * 4 * 3, 0.0);
        for (int t = 0; t < 7; ++t) {
          const int begin = t < 4 ? 0 : 4, end = t < 4 ? 4 : 7;
          for (int h = 0; h < 4; ++h) {
            double denominator = sinks ? std::exp(x[3][h]) : 0;
            for (int s = begin; s < end; ++s) {
              if (causal && s > t) continue;
              if (window > 0 && s <= t - window) continue;
              if (!chosen.empty() && (chosen[t] >> (s - begin) & 1) == 0) continue;
              double score = 0;
              for (int d = 0; d < 5; ++d) {
                score += x[0][(t * 4 + h) * 5 + d] * x[1][(s * 2 + h / 2) * 5 + d];
              }
              score *= 0.7;
              if (softcap > 0) score = softcap * std::tanh(score / softcap);
              const double p = std::exp(score);
              denominator += p;
              for (int d = 0; d < 3; ++d) {
                y[(t * 4 + h) * 3 + d] += p * x[2][(s * 2 + h / 2) * 3 + d];
              }
            }
            for (int d = 0; d < 3; ++d) y[(t * 4 + h) * 3 + d] /= denominator;
          }
        }
        return y;
      },
      9, (140 + 70 + 42 + 84 + 28) * 4);
}

void AddLosses(std::vector<OpCase>& rows) {
  const auto reference = [](Values logits, double softcap = 0) {
    if (softcap > 0) {
      for (double& z : logits) z = softcap * std::tanh(z / softcap);
    }
    Values y(3, 0.0);
    const int targets[] = {4, -1, 0};
    for (int t = 0; t < 3; ++t) {
      if (targets[t] < 0) continue;
      double s = 0;
      for (int v = 0; v < 6; ++v) s += std::exp(logits[t * 6 + v]);
      y[t] = std::log(s) - logits[t * 6 + targets[t]];
    }
    return y;
  };
  rows.push_back(MakeCase(
      "cross_entropy", {{3, 6}},
      [](const Inputs& x) {
        const int32_t targets[] = {4, -1, 0};
        return CrossEntropy(x[0], targets);
      },
      [reference](const std::vector<Values>& x) { return reference(x[0]); }, 6, (18 + 3) * 4));
  rows.push_back(MakeCase(
      "linear_cross_entropy_trained", {{3, 5}, {6, 5}},
      [](const Inputs& x) {
        const int32_t targets[] = {4, -1, 0};
        return LinearCrossEntropy(x[0], {.weight = x[1]}, targets);
      },
      [reference](const std::vector<Values>& x) {
        return reference(ProductNT(x[0], x[1], 3, 6, 5));
      },
      11, (15 + 30 + 18 + 3) * 4));
  rows.push_back(MakeCase(
      "linear_cross_entropy_frozen", {{3, 5}, {6, 5}},
      [](const Inputs& x) {
        const int32_t targets[] = {4, -1, 0};
        return LinearCrossEntropy(x[0], {.weight = Weight(x[1].Detach(), Tensor())}, targets);
      },
      [reference](const std::vector<Values>& x) {
        return reference(ProductNT(x[0], x[1], 3, 6, 5));
      },
      11, 15 * 4));
  rows.back().differentiable = 1;
  rows.push_back(MakeCase(
      "linear_cross_entropy_capped_trained", {{3, 5}, {6, 5}},
      [](const Inputs& x) {
        const int32_t targets[] = {4, -1, 0};
        return LinearCrossEntropy(x[0], {.weight = x[1]}, targets, 0.8);
      },
      [reference](const std::vector<Values>& x) {
        return reference(ProductNT(x[0], x[1], 3, 6, 5), 0.8);
      },
      24, (15 + 30 + 18 + 18 + 3) * 4));
  rows.push_back(MakeCase(
      "linear_cross_entropy_capped_frozen", {{3, 5}, {6, 5}},
      [](const Inputs& x) {
        const int32_t targets[] = {4, -1, 0};
        return LinearCrossEntropy(x[0], {.weight = Weight(x[1].Detach(), Tensor())}, targets, 0.8);
      },
      [reference](const std::vector<Values>& x) {
        return reference(ProductNT(x[0], x[1], 3, 6, 5), 0.8);
      },
      24, 15 * 4));
  rows.back().differentiable = 1;
}

}  // namespace

const std::vector<OpCase>& OpCases() {
  static const std::vector<OpCase>* rows = [] {
    auto* all = new std::vector<OpCase>();
    AddElementwise(*all);
    AddShapes(*all);
    AddReductions(*all);
    AddProducts(*all);
    AddTransformerParts(*all);
    all->push_back(AttentionCase("attention", false, 0));
    all->push_back(AttentionCase("attention_causal", true, 0));
    all->push_back(AttentionCase("attention_window", true, 2));
    all->push_back(AttentionCase("attention_softcap", true, 3, 0.5));
    all->push_back(AttentionCase("attention_sinks", true, 3, 0, true));
    all->push_back(AttentionCase("attention_chosen", true, 0, 0.5, true, {1, 2, 5, 6, 1, 1, 5}));
    AddLosses(*all);
    return all;
  }();
  return *rows;
}

std::vector<Tensor> MakeInputs(Backend& backend, const OpCase& row,
                               const std::vector<Shape>& shapes, uint64_t seed) {
  std::vector<Tensor> inputs;
  RandomStream random(seed, HashName(row.name));
  for (const Shape& shape : shapes) {
    Values values(static_cast<size_t>(shape.numel()));
    for (double& v : values) v = row.low + (row.high - row.low) * random.Uniform();
    inputs.push_back(Tensor::FromHost<double>(backend, shape, values));
  }
  return inputs;
}

}  // namespace lorica::testing
