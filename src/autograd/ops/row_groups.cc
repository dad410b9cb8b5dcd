#include "lorica/autograd/ops/row_groups.h"

#include <algorithm>

#include "lorica/autograd/ops/low_rank.h"
#include "lorica/tensor/random.h"

namespace lorica::ops {

Tensor GatherRows(const Tensor& x, absl::Span<const int32_t> rows) {
  Tensor y = Tensor::Empty(x.backend(), {static_cast<int64_t>(rows.size()), x.dim(1)}, x.dtype());
  if (y.numel() > 0) x.backend().Gather(x.view(), rows, y.mutable_view());
  return y;
}

void GroupedProductInto(const RowOffsets& offsets, const GroupedProductArgs& args, Tensor& y) {
  if (y.numel() == 0) return;
  GroupedGemmDesc desc;
  desc.m = y.dim(0);
  desc.n = y.dim(1);
  desc.k = args.a.dim(1);
  desc.offsets = offsets;
  desc.layout = args.layout;
  desc.a_type = args.a.dtype();
  desc.b_type = args.b.dtype();
  desc.y_type = y.dtype();
  GroupedGemmArgs gemm;
  gemm.a = args.a.view();
  gemm.b = args.b.view();
  gemm.y = y.mutable_view();
  gemm.b_of_group = args.b_of_group;
  if (args.prefix_a.defined()) {
    desc.prefix_k = args.prefix_a.dim(1);
    desc.prefix_layout = args.prefix_layout;
    gemm.prefix_a = args.prefix_a.view();
    gemm.prefix_b = args.prefix_b.view();
    gemm.prefix_of_group = args.prefix_of_group;
  }
  if (args.bias.defined()) {
    desc.has_bias = true;
    gemm.bias = args.bias.view();
  }
  if (args.addend.defined()) {
    desc.has_addend = true;
    gemm.addend = args.addend.view();
  }
  y.backend().GroupedGemm(desc, gemm);
}

Tensor GroupedProduct(const RowOffsets& offsets, const GroupedProductArgs& args, DType type) {
  const int64_t n = args.layout == GemmLayout::kNT ? args.b.dim(1) : args.b.dim(2);
  Tensor y = Tensor::Empty(args.a.backend(), {args.a.dim(0), n}, type);
  GroupedProductInto(offsets, args, y);
  return y;
}

RowGroups MakeRowGroups(const char* op, const ExpertsArgs& args, size_t slots, bool dropout) {
  RowGroups groups;
  groups.plan = args.plan;
  const DispatchPlan& plan = *args.plan;
  groups.sequences = SequencesOrSingle(op, args.sequences, plan.tokens);
  const std::vector<AdapterSpan> spans = SpansToRun(op, args.spans, slots, plan.tokens);
  for (int e = 0; e < plan.offsets.groups(); ++e) {
    int64_t row = plan.offsets.begin(e);
    const int64_t end = row + plan.offsets.size(e);
    for (const AdapterSpan& span : spans) {
      while (row < end && plan.token_of_row[static_cast<size_t>(row)] < span.end) ++row;
      if (row == groups.offsets.offsets.back()) continue;
      groups.offsets.offsets.push_back(static_cast<int32_t>(row));
      groups.expert.push_back(e);
      groups.slot.push_back(span.slot);
    }
  }
  if (dropout) {
    LORICA_CHECK(
        args.row_keys != nullptr && static_cast<int64_t>(args.row_keys->size()) == plan.tokens, "[",
        op, "] adapter dropout needs one key per token");
    for (int e = 0; e < plan.offsets.groups(); ++e) {
      for (int64_t row = plan.offsets.begin(e); row < plan.offsets.begin(e) + plan.offsets.size(e);
           ++row) {
        const int32_t token = plan.token_of_row[static_cast<size_t>(row)];
        groups.row_keys.push_back(CombineKeys((*args.row_keys)[static_cast<size_t>(token)],
                                              static_cast<uint64_t>(plan.first_expert + e)));
      }
    }
  }
  return groups;
}

Sequences RowGroups::SequencesOf(int64_t begin, int64_t end) const {
  Sequences result;
  int sequence = 0;
  for (int64_t row = begin; row < end; ++row) {
    const int32_t token = plan->token_of_row[static_cast<size_t>(row)];
    if (token < sequences.offsets[static_cast<size_t>(sequence) + 1]) continue;
    while (token >= sequences.offsets[static_cast<size_t>(sequence) + 1]) ++sequence;
    if (row > begin) result.offsets.push_back(static_cast<int32_t>(row - begin));
  }
  result.offsets.push_back(static_cast<int32_t>(end - begin));
  return result;
}

std::vector<int32_t> RowGroups::RowsInTokenOrder(int wanted, Sequences& runs) const {
  std::vector<int32_t> rows;
  std::vector<int32_t> next, last;  // of the groups of the slot
  for (size_t g = 0; g < slot.size(); ++g) {
    if (slot[g] != wanted) continue;
    next.push_back(offsets.offsets[g]);
    last.push_back(offsets.offsets[g + 1]);
  }
  runs = Sequences();
  for (int s = 0; s < sequences.groups(); ++s) {
    const int64_t end = sequences.begin(s) + sequences.size(s);
    for (int64_t block = sequences.begin(s); block < end; block += kTokenBlock) {
      const int64_t block_end = std::min(end, block + kTokenBlock);
      for (size_t g = 0; g < next.size(); ++g) {
        const size_t before = rows.size();
        while (next[g] < last[g] && plan->token_of_row[static_cast<size_t>(next[g])] < block_end) {
          rows.push_back(next[g]++);
        }
        if (rows.size() > before) runs.offsets.push_back(static_cast<int32_t>(rows.size()));
      }
    }
  }
  return rows;
}

}  // namespace lorica::ops
