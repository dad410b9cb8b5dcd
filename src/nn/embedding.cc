#include "lorica/nn/embedding.h"

#include <utility>

#include "lorica/tensor/check.h"

namespace lorica::nn {

Embedding::Embedding(Parameter table) : table_(std::make_shared<Parameter>(std::move(table))) {
  LORICA_CHECK(table_->defined() && table_->shape().rank() == 2,
               "[embedding] the table must be [V, C], found ", table_->shape());
}

Embedding Embedding::Declare(int64_t rows, int64_t columns, DType compute) {
  return Embedding(Parameter::Declare({rows, columns}, compute));
}

Tensor Embedding::Forward(absl::Span<const int32_t> ids, const ForwardContext& context) {
  EmbeddingArgs args;
  args.table = table_->weight();
  if (adapter_ != nullptr) {
    args.branches = adapter_->Branches(table_->compute_dtype(), context.training);
  }
  if (!context.spans.spans().empty()) args.spans = &context.spans;
  args.sequences = &context.sequences;
  return lorica::Embedding(ids, args);
}

void Embedding::Visit(ModuleVisitor& visitor) { visitor.OnParameter("weight", *table_); }

}  // namespace lorica::nn
