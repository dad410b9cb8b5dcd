#include "lorica/tensor/backend.h"

#include <algorithm>
#include <type_traits>
#include <vector>

namespace lorica {
namespace {

// Bytes of an allocator for the length of a call.
class Scratch {
 public:
  Scratch(Allocator& allocator, const Shape& shape, DType dtype)
      : allocator_(allocator),
        shape_(shape),
        dtype_(dtype),
        bytes_(static_cast<size_t>(shape.numel()) * SizeOf(dtype)),
        data_(allocator.Allocate(bytes_)) {}
  ~Scratch() { allocator_.Free(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // The first `rows` rows.
  MutableTensorView Rows(int64_t rows) const {
    Shape shape = shape_;
    shape[0] = rows;
    return {data_, shape, ContiguousStrides(shape), dtype_};
  }

 private:
  Allocator& allocator_;
  Shape shape_;
  DType dtype_;
  size_t bytes_;
  void* data_;
};

template <typename View>
View RowRange(const View& view, int64_t begin, int64_t rows) {
  View result = view;
  using Byte = std::conditional_t<std::is_same_v<View, TensorView>, const char, char>;
  result.data = static_cast<Byte*>(view.data) +
                begin * view.strides[0] * static_cast<int64_t>(SizeOf(view.dtype));
  result.shape[0] = rows;
  return result;
}

// Calls body(from, to, count) for each run of consecutive values in rows[0, ...): `from` counts
// values, `to` is the row of the first.
template <typename Body>
void ForRuns(absl::Span<const int32_t> rows, const Body& body) {
  for (size_t begin = 0; begin < rows.size();) {
    size_t end = begin + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    body(static_cast<int64_t>(begin), int64_t{rows[begin]}, static_cast<int64_t>(end - begin));
    begin = end;
  }
}

// Logits of a block of rows: enough rows that reading the weight from memory twice a block costs
// little beside the products (5 % at 512 rows of 576 channels on Zen 4), few enough that the logits
// don't set the peak of a training step. 512 rows of a vocabulary of 49,152 in f32 are 96 MB.
constexpr int64_t kLogitsBytes = 96 << 20;
constexpr int64_t kMinRows = 48, kMaxRows = 1020;

}  // namespace

void Backend::GroupedGemm(const GroupedGemmDesc& desc, const GroupedGemmArgs& args) {
  const auto matrix = [](const TensorView& all, int64_t index) {
    TensorView one = RowRange(all, index, 1);
    one.shape = {all.shape[1], all.shape[2]};
    one.strides = {all.strides[1], all.strides[2]};
    return one;
  };
  for (int g = 0; g < desc.offsets.groups(); ++g) {
    const int64_t rows = desc.offsets.size(g), begin = desc.offsets.begin(g);
    const int64_t b = args.b_of_group.empty() ? g : args.b_of_group[g];
    const int64_t prefix = args.prefix_of_group.empty() ? g : args.prefix_of_group[g];
    if (rows == 0 || b < 0) continue;
    GemmDesc gemm;
    gemm.m = rows;
    gemm.n = desc.n;
    gemm.k = desc.k;
    gemm.layout = desc.layout;
    gemm.a_type = desc.a_type;
    gemm.b_type = desc.b_type;
    gemm.y_type = desc.y_type;
    GemmArgs operands;
    operands.a = RowRange(args.a, begin, rows);
    operands.y = RowRange(args.y, begin, rows);
    operands.b = matrix(args.b, b);
    if (desc.prefix_k > 0 && prefix >= 0) {
      gemm.prefix_k = desc.prefix_k;
      gemm.prefix_layout = desc.prefix_layout;
      operands.prefix_a = RowRange(args.prefix_a, begin, rows);
      operands.prefix_b = matrix(args.prefix_b, prefix);
    }
    if (desc.has_bias) {
      gemm.has_bias = true;
      operands.bias = RowRange(args.bias, b, 1);
      operands.bias.shape = {desc.n};
      operands.bias.strides = {1};
    }
    if (desc.has_addend) {
      gemm.has_addend = true;
      operands.addend = RowRange(args.addend, begin, rows);
    }
    Gemm(gemm, operands);
  }
}

void Backend::LinearCrossEntropy(const LinearCrossEntropyArgs& args) {
  const int64_t tokens = args.x.shape[0], channels = args.x.shape[1];
  const int64_t vocabulary = args.weight.shape[0];
  const DType accumulator = AccumulatorOf(args.x.dtype);
  const bool with_grad = args.dx.defined();

  std::vector<int32_t> trained;  // rows that have a target
  for (int64_t t = 0; t < tokens; ++t) {
    if (args.targets[static_cast<size_t>(t)] >= 0) trained.push_back(static_cast<int32_t>(t));
  }
  if (static_cast<int64_t>(trained.size()) < tokens) {
    Fill(args.loss, 0);
    if (with_grad) Fill(args.dx, 0);
  }
  if (trained.empty()) return;

  const int64_t count = static_cast<int64_t>(trained.size());
  const int64_t row_bytes =
      std::max<int64_t>(1, vocabulary) * static_cast<int64_t>(SizeOf(accumulator));
  const int64_t block = std::min(count, std::clamp(kLogitsBytes / row_bytes, kMinRows, kMaxRows));
  const Scratch logits_scratch(allocator(), {block, vocabulary}, accumulator);
  const Scratch losses(allocator(), {block}, accumulator);
  const Scratch lse_scratch(allocator(), {block}, accumulator);
  const bool capped = args.softcap > 0;
  const Scratch capped_scratch(allocator(), {capped ? block : 0, vocabulary}, accumulator);
  const Scratch ones(allocator(), {block}, accumulator);
  const Scratch x_scratch(allocator(), {block, channels}, args.x.dtype);
  const Scratch dx_scratch(allocator(), {with_grad ? block : 0, channels}, accumulator);
  Fill(ones.Rows(block), 1);
  std::vector<int32_t> targets(static_cast<size_t>(block));

  for (int64_t begin = 0; begin < count; begin += block) {
    const int64_t rows = std::min(block, count - begin);
    const absl::Span<const int32_t> ids(trained.data() + begin, static_cast<size_t>(rows));
    for (int64_t i = 0; i < rows; ++i) {
      targets[static_cast<size_t>(i)] = args.targets[static_cast<size_t>(ids[i])];
    }
    const absl::Span<const int32_t> block_targets(targets.data(), static_cast<size_t>(rows));
    const bool consecutive = ids[rows - 1] - ids[0] == rows - 1;

    TensorView x = x_scratch.Rows(rows);
    if (consecutive) {
      x = RowRange(args.x, ids[0], rows);
    } else {
      ForRuns(ids, [&](int64_t from, int64_t to, int64_t run) {
        Copy(RowRange(args.x, to, run), RowRange(x_scratch.Rows(rows), from, run));
      });
    }
    const MutableTensorView logits = logits_scratch.Rows(rows);
    GemmDesc forward;
    forward.m = rows;
    forward.n = vocabulary;
    forward.k = channels;
    forward.layout = GemmLayout::kNT;
    forward.a_type = args.x.dtype;
    forward.b_type = args.weight.dtype;
    forward.y_type = accumulator;
    GemmArgs forward_args;
    forward_args.a = x;
    forward_args.b = args.weight;
    forward_args.y = logits;
    forward_args.b_storage_id = args.weight_storage_id;
    forward_args.b_storage_version = args.weight_storage_version;
    Gemm(forward, forward_args);

    // With a cap `logits` holds logits / softcap, whose tanh the gradient needs again.
    const MutableTensorView capped_logits = capped ? capped_scratch.Rows(rows) : logits;
    if (capped) {
      Affine(logits, 1 / args.softcap, 0, logits);
      Unary(UnaryOp::kTanh, logits, capped_logits);
      Affine(capped_logits, args.softcap, 0, capped_logits);
    }
    const MutableTensorView loss = losses.Rows(rows), lse = lse_scratch.Rows(rows);
    CrossEntropy({capped_logits, block_targets, loss, lse});
    ForRuns(ids, [&](int64_t from, int64_t to, int64_t run) {
      Copy(RowRange(loss, from, run), RowRange(args.loss, to, run));
    });
    if (!with_grad) continue;

    CrossEntropyGrad({capped_logits, block_targets, lse, ones.Rows(rows), capped_logits});
    if (capped) UnaryGrad(UnaryOp::kTanh, logits, capped_logits, capped_logits);
    GemmDesc backward;
    backward.m = rows;
    backward.n = channels;
    backward.k = vocabulary;
    backward.layout = GemmLayout::kNN;
    backward.a_type = accumulator;
    backward.b_type = args.weight.dtype;
    backward.y_type = accumulator;
    GemmArgs backward_args;
    backward_args.a = capped_logits;
    backward_args.b = args.weight;
    backward_args.y = consecutive ? RowRange(args.dx, ids[0], rows) : dx_scratch.Rows(rows);
    backward_args.b_storage_id = args.weight_storage_id;
    backward_args.b_storage_version = args.weight_storage_version;
    Gemm(backward, backward_args);
    if (!consecutive) {
      ForRuns(ids, [&](int64_t from, int64_t to, int64_t run) {
        Copy(RowRange(dx_scratch.Rows(rows), from, run), RowRange(args.dx, to, run));
      });
    }
  }
}

}  // namespace lorica
