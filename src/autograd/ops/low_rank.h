// The low-rank branches of a linear or an embedding: checks, row spans, and the parts of their
// gradients.
#ifndef LORICA_AUTOGRAD_OPS_LOW_RANK_H_
#define LORICA_AUTOGRAD_OPS_LOW_RANK_H_

#include <vector>

#include "lorica/autograd/ops/check_inputs.h"
#include "lorica/autograd/weight.h"

namespace lorica::ops {

// The spans to run for `rows` rows and `slots` branches: those given, or one over all rows. Without
// branches one span of slot -1. Throws Error when a span names a slot that doesn't exist.
std::vector<AdapterSpan> SpansToRun(const char* op, const AdapterSpans* spans, size_t slots,
                                    int64_t rows);

// The sequences of rows [begin, end), counted from begin. Sequences that reach out of it are cut.
Sequences SliceSequences(const Sequences& sequences, int64_t begin, int64_t end);

// y = round(prefix_a · prefix_b + a · b + bias + addend), operands as in GemmDesc; undefined ones
// are left out.
struct ProductArgs {
  Tensor a, b;
  GemmLayout layout = GemmLayout::kNT;
  Tensor prefix_a, prefix_b;
  GemmLayout prefix_layout = GemmLayout::kNT;
  Tensor bias;
  Tensor addend;
  bool cache_b = false;  // b is a frozen weight: its packed form may be kept
};
// Writes into `y` [M, N].
void ProductInto(const ProductArgs& args, Tensor& y);
Tensor Product(const ProductArgs& args, DType dtype);

// leaf.grad[m, n] += alpha * sum over tokens of dy[t, m] x[t, n].
void AddTokenSum(const Tensor& dy, const Tensor& x, const Sequences& sequences, double alpha,
                 MutableTensorView acc);

}  // namespace lorica::ops

#endif  // LORICA_AUTOGRAD_OPS_LOW_RANK_H_
