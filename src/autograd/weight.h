// What a product reads of a parameter, and where its gradient goes.
#ifndef LORICA_AUTOGRAD_WEIGHT_H_
#define LORICA_AUTOGRAD_WEIGHT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/tensor.h"

namespace lorica {

// A weight as an op takes it: the values in the compute type, and the leaf (the f32 master of those
// values) whose accumulator receives the gradient. The leaf is undefined for a frozen weight; it
// may be `value` itself.
struct Weight {
  Tensor value;
  Tensor leaf;

  Weight() = default;
  // A plain tensor: leaf or not, its gradient goes where the tape says.
  Weight(const Tensor& tensor) : value(tensor), leaf(tensor) {}  // NOLINT: implicit on purpose
  Weight(Tensor values, Tensor master) : value(std::move(values)), leaf(std::move(master)) {}

  bool defined() const { return value.defined(); }
};

// One low-rank branch: y += (drop(x) aᵀ) bᵀ, where b already carries the scale.
// E. Hu et al., "LoRA: low-rank adaptation of large language models", 2021.
struct LoraBranch {
  Weight a;                  // [R, in]; for an embedding the table [V, R]
  Weight b;                  // [out, R]: value = scale * master, rounded once
  double scale = 1;          // the gradient of b's master is `scale` times that of b's value
  double dropout = 0;        // rate on the branch input, training only
  uint64_t dropout_key = 0;  // distinct for every module of every job
};

// Which rows of the batch an adapter slot serves; slot -1 is the base alone.
struct AdapterSpan {
  int slot = -1;
  int64_t begin = 0, end = 0;  // rows [begin, end)
  bool operator==(const AdapterSpan&) const = default;
};

// Spans in ascending row order, without overlap, covering all rows of the batch. They travel with
// the batch, never with a module.
class AdapterSpans {
 public:
  AdapterSpans() = default;
  // Throws Error unless the spans ascend without gap from row 0 to `rows`.
  AdapterSpans(std::vector<AdapterSpan> spans, int64_t rows);
  // One span: all rows to `slot`.
  static AdapterSpans Single(int slot, int64_t rows);

  const std::vector<AdapterSpan>& spans() const { return spans_; }
  int64_t rows() const { return spans_.empty() ? 0 : spans_.back().end; }

  // The spans of rows [begin, end), counted from begin: what a rank that holds only those rows
  // uses.
  AdapterSpans Narrow(int64_t begin, int64_t end) const;
  // The slot of every row after `order` (new row i is old row order[i]), as spans.
  AdapterSpans Permute(absl::Span<const int32_t> order) const;

 private:
  std::vector<AdapterSpan> spans_;
};

}  // namespace lorica

#endif  // LORICA_AUTOGRAD_WEIGHT_H_
