// The table of ops: one row drives every generic test of an op, and its benchmark.
#ifndef LORICA_TESTS_SUPPORT_OP_CASES_H_
#define LORICA_TESTS_SUPPORT_OP_CASES_H_

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "lorica/tensor/backend.h"
#include "lorica/tensor/tensor.h"

namespace lorica::testing {

using Values = std::vector<double>;

struct OpCase {
  std::string name;
  std::vector<Shape> shapes;  // of the inputs
  std::function<Tensor(const std::vector<Tensor>&)> function;
  // The result in plain double loops over the inputs' values.
  std::function<Values(const std::vector<Values>&)> reference;
  // Inputs are uniform in [low, high]; positive ranges serve ops that need them.
  double low = -1, high = 1;
  // Longest sum in the op: the tolerance in f32 and bf16 grows with its root.
  int64_t sum_length = 1;
  // Bytes kept for the backward pass in f32 when all differentiable inputs need a gradient.
  int64_t saved_bytes = 0;
  // The first inputs that have a gradient; -1: all.
  int differentiable = -1;
  // Shapes that must be refused, with a text that the error contains.
  std::vector<Shape> bad_shapes;
  std::string bad_text;
  // Shapes of the benchmark; empty: none.
  std::vector<Shape> benchmark_shapes;
};

// Failure messages name the row.
inline std::ostream& operator<<(std::ostream& out, const OpCase& row) { return out << row.name; }

const std::vector<OpCase>& OpCases();

// Inputs of `shapes`, f64, irregular values keyed by `seed`.
std::vector<Tensor> MakeInputs(Backend& backend, const OpCase& row,
                               const std::vector<Shape>& shapes, uint64_t seed);

}  // namespace lorica::testing

#endif  // LORICA_TESTS_SUPPORT_OP_CASES_H_
