#include "lorica/autograd/ops/low_rank.h"

#include <algorithm>

namespace lorica::ops {

std::vector<AdapterSpan> SpansToRun(const char* op, const AdapterSpans* spans, size_t slots,
                                    int64_t rows) {
  if (slots == 0) return {{-1, 0, rows}};
  if (spans == nullptr || spans->spans().empty()) {
    LORICA_CHECK(slots == 1, "[", op, "] ", slots, " adapter slots need spans");
    return {{0, 0, rows}};
  }
  LORICA_CHECK(spans->rows() == rows, "[", op, "] adapter spans cover ", spans->rows(), " rows of ",
               rows);
  for (const AdapterSpan& span : spans->spans()) {
    LORICA_CHECK(span.slot < static_cast<int>(slots), "[", op, "] adapter slot ", span.slot, " of ",
                 slots);
  }
  return spans->spans();
}

Sequences SliceSequences(const Sequences& sequences, int64_t begin, int64_t end) {
  if (begin == 0 && end == sequences.rows()) return sequences;
  Sequences slice;
  for (int32_t offset : sequences.offsets) {
    if (offset > begin && offset < end)
      slice.offsets.push_back(static_cast<int32_t>(offset - begin));
  }
  slice.offsets.push_back(static_cast<int32_t>(end - begin));
  return slice;
}

void ProductInto(const ProductArgs& args, Tensor& y) {
  GemmDesc desc;
  desc.m = y.dim(0);
  desc.n = y.dim(1);
  if (desc.m == 0 || desc.n == 0) return;
  GemmArgs gemm;
  gemm.y = y.mutable_view();
  desc.y_type = y.dtype();
  if (args.a.defined()) {
    desc.k = args.a.dim(1);
    desc.layout = args.layout;
    desc.a_type = args.a.dtype();
    desc.b_type = args.b.dtype();
    gemm.a = args.a.view();
    gemm.b = args.b.view();
    if (args.cache_b) {
      gemm.b_storage_id = args.b.storage()->id();
      gemm.b_storage_version = args.b.storage()->version();
    }
  }
  if (args.prefix_a.defined()) {
    desc.prefix_k = args.prefix_a.dim(1);
    desc.prefix_layout = args.prefix_layout;
    gemm.prefix_a = args.prefix_a.view();
    gemm.prefix_b = args.prefix_b.view();
  }
  if (args.bias.defined()) {
    desc.has_bias = true;
    gemm.bias = args.bias.view();
  }
  if (args.addend.defined()) {
    desc.has_addend = true;
    gemm.addend = args.addend.view();
  }
  y.backend().Gemm(desc, gemm);
}

Tensor Product(const ProductArgs& args, DType dtype) {
  const Tensor& b = args.b;
  const int64_t n = args.layout == GemmLayout::kNT ? b.dim(0) : b.dim(1);
  Tensor y = Tensor::Empty(b.backend(), {args.a.dim(0), n}, dtype);
  ProductInto(args, y);
  return y;
}

void AddTokenSum(const Tensor& dy, const Tensor& x, const Sequences& sequences, double alpha,
                 MutableTensorView acc) {
  if (dy.dim(0) == 0) return;
  dy.backend().TokenSum({.tokens = dy.dim(0), .m = dy.dim(1), .n = x.dim(1), .alpha = alpha},
                        sequences, {.dy = dy.view(), .x = x.view(), .acc = acc});
}

}  // namespace lorica::ops
