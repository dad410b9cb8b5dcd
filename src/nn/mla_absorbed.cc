#include "lorica/nn/mla_absorbed.h"

#include <functional>

#include "lorica/autograd/ops/low_rank.h"

namespace lorica::nn {
namespace {

// Runs `body(begin, count, branch)` for the rows of every span; `branch` is null for the base
// alone.
void ForSpans(const LinearArgs& args, int64_t rows,
              const std::function<void(int64_t, int64_t, const LoraBranch*)>& body) {
  for (const AdapterSpan& span : ops::SpansToRun("mla", args.spans, args.branches.size(), rows)) {
    if (span.begin == span.end) continue;
    body(span.begin, span.end - span.begin, span.slot < 0 ? nullptr : &args.branches[span.slot]);
  }
}

// The channels [head * width, + count) of x, its heads side by side: [rows, count].
Tensor HeadOf(const Tensor& x, int64_t head, int64_t width, int64_t count) {
  return x.Narrow(1, head * width, count);
}

}  // namespace

void AbsorbKeys(const AbsorbedProjection& projection, const Tensor& q, Tensor& y) {
  const LinearArgs& args = projection.args;
  const Tensor& w = args.weight.value;
  const int64_t rank = w.dim(1), rows_per_head = projection.key_rows + projection.value_rows;
  const int64_t q_width = q.dim(1) / projection.heads, y_width = y.dim(2);
  Tensor flat = y.WithShape({y.dim(0), y.dim(1) * y_width});
  ForSpans(args, q.dim(0), [&](int64_t begin, int64_t count, const LoraBranch* branch) {
    const Tensor q_rows = q.Narrow(0, begin, count), y_rows = flat.Narrow(0, begin, count);
    for (int64_t h = 0; h < projection.heads; ++h) {
      const Tensor head = HeadOf(q_rows, h, q_width, projection.key_rows);
      ops::ProductArgs product{.a = head,
                               .b = w.Narrow(0, h * rows_per_head, projection.key_rows),
                               .layout = GemmLayout::kNN};
      if (branch != nullptr) {
        const Tensor b = branch->b.value.Narrow(0, h * rows_per_head, projection.key_rows);
        product.prefix_a = ops::Product({.a = head, .b = b, .layout = GemmLayout::kNN}, q.dtype());
        product.prefix_b = branch->a.value;
        product.prefix_layout = GemmLayout::kNN;
      }
      Tensor out = HeadOf(y_rows, h, y_width, rank);
      ops::ProductInto(product, out);
    }
  });
}

void AbsorbValues(const AbsorbedProjection& projection, const Tensor& u, Tensor& y) {
  const LinearArgs& args = projection.args;
  const Tensor& w = args.weight.value;
  const int64_t rank = w.dim(1), rows_per_head = projection.key_rows + projection.value_rows;
  const Tensor u_flat = u.WithShape({u.dim(0), projection.heads * rank});
  Tensor flat = y.WithShape({y.dim(0), projection.heads * projection.value_rows});
  ForSpans(args, u.dim(0), [&](int64_t begin, int64_t count, const LoraBranch* branch) {
    const Tensor u_rows = u_flat.Narrow(0, begin, count), y_rows = flat.Narrow(0, begin, count);
    for (int64_t h = 0; h < projection.heads; ++h) {
      const int64_t first = h * rows_per_head + projection.key_rows;
      const Tensor head = HeadOf(u_rows, h, rank, rank);
      ops::ProductArgs product{.a = head, .b = w.Narrow(0, first, projection.value_rows)};
      if (branch != nullptr) {
        product.prefix_a = ops::Product({.a = head, .b = branch->a.value}, u.dtype());
        product.prefix_b = branch->b.value.Narrow(0, first, projection.value_rows);
      }
      Tensor out = HeadOf(y_rows, h, projection.value_rows, projection.value_rows);
      ops::ProductInto(product, out);
    }
  });
}

}  // namespace lorica::nn
