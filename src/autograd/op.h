// How an op is written: a struct with Forward and Backward side by side and named saved fields.
//
//   // y = a * b. Saves each operand only if the other one needs a gradient.
//   struct MulOp : Op {
//     static constexpr const char* kName = "mul";
//     Saved a, b;
//     auto saved() const { return std::tie(a, b); }
//     Tensor Forward(const Tensor& lhs, const Tensor& rhs);
//     Grads<2> Backward(const Tensor& dy) const;
//   };
//   Tensor Mul(const Tensor& a, const Tensor& b) { return Apply(MulOp{}, a, b); }
//
// Apply fills `needs`, runs Forward, and only if something needs a gradient moves the op onto the
// tape. A gradient may have the broadcast shape of the result: the engine sums it to the input's
// shape. An undefined gradient says "none" or "already added to the leaf's accumulator".
#ifndef LORICA_AUTOGRAD_OP_H_
#define LORICA_AUTOGRAD_OP_H_

#include <array>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "lorica/autograd/autograd.h"
#include "lorica/tensor/tensor.h"

namespace lorica {

class AutogradMeta;

// An entry of the tape.
class Node {
 public:
  virtual ~Node() = default;
  virtual const char* name() const = 0;
  // Gradients of the inputs, in their order. `retain` keeps what was saved.
  virtual std::vector<Tensor> Backward(const Tensor& dy, bool retain) = 0;
  virtual void AppendSaved(std::vector<Tensor>& tensors) const = 0;
  // The op can make its result again, the same bits, until its own Backward has run.
  virtual bool CanRecreate() const { return false; }
  virtual Tensor Recreate() { return Tensor(); }

  uint64_t sequence = 0;                              // order of recording
  std::vector<std::shared_ptr<AutogradMeta>> inputs;  // null where no gradient is needed
};

// A tensor kept for the backward pass, without its own tape (so nothing holds itself alive). A
// value that its op can cheaply make again from what it keeps anyway (Node::CanRecreate) isn't
// kept: the op is, and is asked when the value is needed.
class Saved {
 public:
  Saved() = default;
  Saved& operator=(const Tensor& tensor);
  bool defined() const { return tensor_.defined() || source_ != nullptr; }
  // Throws Error naming the op when the bytes were written since they were saved.
  Tensor get(const char* op) const;
  // What is kept: undefined where the value will be made again.
  const Tensor& unchecked() const { return tensor_; }

 private:
  Tensor tensor_;
  uint64_t version_ = 0;
  std::shared_ptr<Node> source_;
  Shape shape_;
};

template <int N>
using Grads = std::array<Tensor, N>;

// Base of all ops: which inputs need a gradient.
struct Op {
  bool needs(int input) const {
    return static_cast<size_t>(input) < needs_.size() && needs_[input];
  }
  std::vector<bool> needs_;  // empty when nothing is recorded
};

// The autograd slot of a tensor that needs a gradient.
class AutogradMeta : public AutogradSlot {
 public:
  ~AutogradMeta() override;

  std::shared_ptr<Node> producer;  // null: a leaf
  bool requires_grad = false;      // leaves only
  Tensor grad;                     // leaves only: the accumulator
  Shape shape;
  DType dtype = DType::kF32;
  Backend* backend = nullptr;
};

// Null when `x` needs no gradient.
std::shared_ptr<AutogradMeta> MetaOf(const Tensor& x);
// Puts `node`, whose inputs are `inputs`, behind `y`.
void Record(Tensor& y, std::shared_ptr<Node> node, absl::Span<const Tensor> inputs);

template <typename O>
class OpNode final : public Node {
 public:
  explicit OpNode(O op) : op_(std::move(op)) {}
  const char* name() const override { return O::kName; }
  std::vector<Tensor> Backward(const Tensor& dy, bool retain) override {
    LORICA_CHECK(op_.has_value(), "[", O::kName, "] backward twice over the same tape; ",
                 "pass retain_graph to keep it");
    auto grads = op_->Backward(dy);
    recreated_ = Tensor();
    if (!retain) op_.reset();
    return {std::make_move_iterator(grads.begin()), std::make_move_iterator(grads.end())};
  }
  void AppendSaved(std::vector<Tensor>& tensors) const override {
    if (!op_.has_value()) return;
    std::apply([&](const auto&... saved) { (Append(saved, tensors), ...); }, op_->saved());
  }
  bool CanRecreate() const override {
    return requires(const O& op) { op.Recreate(); };
  }
  // Several users (q, k and v of one norm) share what the first one asked for.
  Tensor Recreate() override {
    if constexpr (requires(const O& op) { op.Recreate(); }) {
      if (!recreated_.defined() && op_.has_value()) recreated_ = op_->Recreate();
    }
    return recreated_;
  }

 private:
  static void Append(const Saved& saved, std::vector<Tensor>& tensors) {
    tensors.push_back(saved.unchecked());
  }
  static void Append(const std::vector<Saved>& list, std::vector<Tensor>& tensors) {
    for (const Saved& saved : list) Append(saved, tensors);
  }

  std::optional<O> op_;
  Tensor recreated_;
};

// Runs `op` on a list of inputs, of which undefined ones are allowed; Forward takes the list.
template <typename O>
Tensor ApplyList(O op, const std::vector<Tensor>& inputs) {
  bool record = false;
  if (GradEnabled()) {
    op.needs_.resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      op.needs_[i] = inputs[i].defined() && RequiresGrad(inputs[i]);
      record = record || op.needs_[i];
    }
    if (!record) op.needs_.clear();
  }
  Tensor y = op.Forward(inputs);
  y.set_autograd(nullptr);
  if (record) Record(y, std::make_shared<OpNode<O>>(std::move(op)), inputs);
  return y;
}

// Runs `op` on its inputs; Forward takes them one by one.
template <typename O, typename... Inputs>
Tensor Apply(O op, const Inputs&... inputs) {
  bool record = false;
  if (GradEnabled()) {
    op.needs_ = {(inputs.defined() && RequiresGrad(inputs))...};
    record = ((inputs.defined() && RequiresGrad(inputs)) || ...);
    if (!record) op.needs_.clear();
  }
  Tensor y = op.Forward(inputs...);
  y.set_autograd(nullptr);
  if (record) Record(y, std::make_shared<OpNode<O>>(std::move(op)), {{inputs...}});
  return y;
}

}  // namespace lorica

#endif  // LORICA_AUTOGRAD_OP_H_
