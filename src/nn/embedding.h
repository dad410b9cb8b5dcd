// nn::Embedding: rows of a table, with one slot for adapters.
#ifndef LORICA_NN_EMBEDDING_H_
#define LORICA_NN_EMBEDDING_H_

#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "lorica/autograd/ops.h"
#include "lorica/nn/adapter_host.h"
#include "lorica/nn/forward_context.h"

namespace lorica::nn {

class Embedding : public AdapterHost {
 public:
  // `table` [V, C].
  explicit Embedding(Parameter table);
  static Embedding Declare(int64_t rows, int64_t columns, DType compute);

  // ids [T], each in [0, V) -> [T, C].
  Tensor Forward(absl::Span<const int32_t> ids, const ForwardContext& context);

  // For a head that is tied to this table.
  const std::shared_ptr<Parameter>& table() const { return table_; }

  void Visit(ModuleVisitor& visitor) override;
  Kind kind() const override { return Kind::kEmbedding; }
  Shape weight_shape() const override { return table_->shape(); }
  Parameter& weight() override { return *table_; }

 private:
  std::shared_ptr<Parameter> table_;
};

}  // namespace lorica::nn

#endif  // LORICA_NN_EMBEDDING_H_
