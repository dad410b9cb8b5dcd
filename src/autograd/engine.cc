#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <unordered_set>

#include "lorica/autograd/autograd.h"
#include "lorica/autograd/op.h"
#include "lorica/tensor/backend.h"

namespace lorica {
namespace {

thread_local bool grad_enabled = true;

uint64_t NextSequence() {
  // Only the order matters, and only within one tape.
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

AutogradMeta* SlotOf(const Tensor& x) { return static_cast<AutogradMeta*>(x.autograd().get()); }

// `grad` in the shape and type of the value it belongs to: broadcasting undone, in one place for
// all ops.
Tensor Fit(const Tensor& grad, const Shape& shape, DType dtype) {
  Tensor fitted = raw::Contiguous(grad);
  if (!(fitted.shape() == shape)) {
    // Leading axes that broadcasting added are made explicit, so that ranks agree.
    Shape same_rank = fitted.shape();
    for (int i = 0; i < same_rank.rank(); ++i) {
      const int from_end = same_rank.rank() - i;
      same_rank[i] = from_end <= shape.rank() ? shape[-from_end] : 1;
    }
    Tensor sum = Tensor::Empty(fitted.backend(), same_rank, fitted.dtype());
    fitted.backend().SumTo(fitted.view(), sum.mutable_view());
    fitted = sum.WithShape(shape);
  }
  return raw::Cast(fitted, dtype);
}

// sum += grad, in place when nobody else holds the sum's bytes.
void AddInto(Tensor& sum, const Tensor& grad) {
  if (!sum.defined()) {
    sum = grad;
    return;
  }
  Backend& backend = sum.backend();
  if (sum.storage().use_count() == 1) {
    backend.Binary(BinaryOp::kAdd, sum.view(), grad.view(), sum.mutable_view());
    return;
  }
  Tensor result = Tensor::Empty(backend, sum.shape(), sum.dtype());
  backend.Binary(BinaryOp::kAdd, sum.view(), grad.view(), result.mutable_view());
  sum = result;
}

void AddToLeaf(AutogradMeta& leaf, const Tensor& grad) {
  const DType type = AccumulatorOf(leaf.dtype);
  const Tensor wide = raw::Cast(grad, type);
  if (!leaf.grad.defined()) {
    leaf.grad = raw::Clone(wide);
    return;
  }
  Tensor& sum = leaf.grad;
  sum.backend().Binary(BinaryOp::kAdd, sum.view(), wide.view(), sum.mutable_view());
}

// Walks the tape from y. A consumer is always recorded after what it consumes, so taking the latest
// recorded node first visits every node after all its consumers, in an order that depends on the
// program alone.
void Run(const Tensor& y, const Tensor& dy, bool retain,
         std::unordered_map<AutogradMeta*, Tensor>* captured) {
  NoGrad no_grad;
  std::shared_ptr<AutogradMeta> root = MetaOf(y);
  LORICA_CHECK(root != nullptr, "[backward] the tensor needs no gradient");
  Tensor seed = dy;
  if (seed.defined()) {
    LORICA_CHECK(seed.shape() == y.shape(), "[backward] gradient of shape ", seed.shape(), " for ",
                 y.shape());
  } else {
    seed = Tensor::Full(y.backend(), y.shape(), y.dtype(), 1);
  }

  std::unordered_map<AutogradMeta*, Tensor> pending;
  const auto later = [](const std::shared_ptr<AutogradMeta>& a,
                        const std::shared_ptr<AutogradMeta>& b) {
    return a->producer->sequence < b->producer->sequence;
  };
  std::vector<std::shared_ptr<AutogradMeta>> heap;

  const auto arrive = [&](const std::shared_ptr<AutogradMeta>& meta, const Tensor& grad) {
    const Tensor fitted = Fit(grad, meta->shape, meta->dtype);
    if (captured != nullptr) {
      auto it = captured->find(meta.get());
      if (it != captured->end()) {
        AddInto(it->second, fitted);
        return;
      }
    }
    if (meta->producer == nullptr) {
      AddToLeaf(*meta, fitted);
      return;
    }
    auto [it, inserted] = pending.try_emplace(meta.get());
    AddInto(it->second, fitted);
    if (inserted) {
      heap.push_back(meta);
      std::push_heap(heap.begin(), heap.end(), later);
    }
  };

  arrive(root, seed);
  seed = Tensor();
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const std::shared_ptr<AutogradMeta> meta = std::move(heap.back());
    heap.pop_back();
    auto it = pending.find(meta.get());
    Tensor grad = std::move(it->second);
    pending.erase(it);
    Node& node = *meta->producer;
    std::vector<Tensor> grads = node.Backward(grad, retain);
    grad = Tensor();
    LORICA_CHECK(grads.size() == node.inputs.size(), "[", node.name(), "] gave ", grads.size(),
                 " gradients for ", node.inputs.size(), " inputs");
    for (size_t i = 0; i < grads.size(); ++i) {
      if (node.inputs[i] != nullptr && grads[i].defined()) {
        Tensor one = std::move(grads[i]);
        arrive(node.inputs[i], one);
      }
    }
  }
}

}  // namespace

Saved& Saved::operator=(const Tensor& tensor) {
  *this = Saved();
  const std::shared_ptr<AutogradMeta> meta = tensor.defined() ? MetaOf(tensor) : nullptr;
  if (meta != nullptr && meta->producer != nullptr && meta->producer->CanRecreate()) {
    source_ = meta->producer;
    shape_ = tensor.shape();
    return *this;
  }
  tensor_ = tensor.Detach();
  version_ = tensor_.defined() ? tensor_.storage()->version() : 0;
  return *this;
}

Tensor Saved::get(const char* op) const {
  if (source_ != nullptr) {
    const Tensor again = source_->Recreate();
    LORICA_CHECK(again.defined(), "[", op, "] an input's op, ", source_->name(),
                 ", has already given up what it kept");
    return again.WithShape(shape_);
  }
  LORICA_CHECK(tensor_.defined(), "[", op, "] internal: a tensor that was not saved is read");
  LORICA_CHECK(tensor_.storage()->version() == version_, "[", op, "] a tensor of shape ",
               tensor_.shape(), " saved for the backward pass was overwritten: version ", version_,
               " when saved, ", tensor_.storage()->version(), " now");
  return tensor_;
}

// Dropping the last handle of a long chain must not recurse through it: producers are handed to a
// work list.
AutogradMeta::~AutogradMeta() {
  if (producer == nullptr) return;
  static thread_local std::vector<std::shared_ptr<Node>>* work_list = nullptr;
  if (work_list != nullptr) {
    work_list->push_back(std::move(producer));
    return;
  }
  std::vector<std::shared_ptr<Node>> list;
  work_list = &list;
  list.push_back(std::move(producer));
  while (!list.empty()) {
    std::shared_ptr<Node> node = std::move(list.back());
    list.pop_back();
    node.reset();
  }
  work_list = nullptr;
}

std::shared_ptr<AutogradMeta> MetaOf(const Tensor& x) {
  auto meta = std::static_pointer_cast<AutogradMeta>(x.autograd());
  if (meta == nullptr || (meta->producer == nullptr && !meta->requires_grad)) return nullptr;
  return meta;
}

void Record(Tensor& y, std::shared_ptr<Node> node, absl::Span<const Tensor> inputs) {
  node->sequence = NextSequence();
  node->inputs.reserve(inputs.size());
  for (const Tensor& x : inputs) node->inputs.push_back(x.defined() ? MetaOf(x) : nullptr);
  auto meta = std::make_shared<AutogradMeta>();
  meta->producer = std::move(node);
  meta->shape = y.shape();
  meta->dtype = y.dtype();
  meta->backend = &y.backend();
  y.set_autograd(std::move(meta));
}

bool RequiresGrad(const Tensor& x) { return x.autograd() != nullptr && MetaOf(x) != nullptr; }

void SetRequiresGrad(Tensor& leaf, bool requires_grad) {
  LORICA_CHECK(leaf.defined(), "[requires_grad] undefined tensor");
  LORICA_CHECK(IsCompute(leaf.dtype()), "[requires_grad] ", leaf.dtype(),
               " values have no gradient");
  AutogradMeta* meta = SlotOf(leaf);
  LORICA_CHECK(meta == nullptr || meta->producer == nullptr,
               "[requires_grad] only leaves can be marked");
  if (meta == nullptr) {
    if (!requires_grad) return;
    auto fresh = std::make_shared<AutogradMeta>();
    fresh->shape = leaf.shape();
    fresh->dtype = leaf.dtype();
    fresh->backend = &leaf.backend();
    meta = fresh.get();
    leaf.set_autograd(std::move(fresh));
  }
  meta->requires_grad = requires_grad;
}

Tensor Grad(const Tensor& leaf) {
  AutogradMeta* meta = SlotOf(leaf);
  return meta == nullptr ? Tensor() : meta->grad;
}

Tensor& GradAccumulator(const Tensor& leaf) {
  AutogradMeta* meta = SlotOf(leaf);
  LORICA_CHECK(meta != nullptr && meta->producer == nullptr,
               "[grad] only a leaf that needs a gradient has an accumulator");
  if (!meta->grad.defined()) {
    meta->grad = Tensor::Zeros(*meta->backend, meta->shape, AccumulatorOf(meta->dtype));
  }
  return meta->grad;
}

void ZeroGrad(const Tensor& leaf) {
  AutogradMeta* meta = SlotOf(leaf);
  if (meta != nullptr) meta->grad = Tensor();
}

void Backward(const Tensor& y, const Tensor& dy, const BackwardOptions& options) {
  Run(y, dy, options.retain_graph, nullptr);
}

std::vector<Tensor> Gradients(const Tensor& y, const Tensor& dy, absl::Span<const Tensor> inputs,
                              const BackwardOptions& options) {
  std::unordered_map<AutogradMeta*, Tensor> captured;
  for (const Tensor& x : inputs) {
    if (RequiresGrad(x)) captured.emplace(SlotOf(x), Tensor());
  }
  Run(y, dy, options.retain_graph, &captured);
  std::vector<Tensor> grads;
  for (const Tensor& x : inputs) {
    grads.push_back(RequiresGrad(x) ? captured[SlotOf(x)] : Tensor());
  }
  return grads;
}

bool GradEnabled() { return grad_enabled; }

GradMode::GradMode(bool enabled) : previous_(grad_enabled) { grad_enabled = enabled; }
GradMode::~GradMode() { grad_enabled = previous_; }

size_t SavedBytes(const Tensor& y) {
  size_t total = 0;
  std::unordered_set<const AutogradMeta*> seen;
  std::unordered_set<const Storage*> storages;
  std::vector<const AutogradMeta*> stack;
  if (RequiresGrad(y)) stack.push_back(SlotOf(y));
  while (!stack.empty()) {
    const AutogradMeta* meta = stack.back();
    stack.pop_back();
    if (!seen.insert(meta).second || meta->producer == nullptr) continue;
    std::vector<Tensor> tensors;
    meta->producer->AppendSaved(tensors);
    for (const Tensor& t : tensors) {
      if (t.defined() && storages.insert(t.storage().get()).second) total += t.storage()->bytes();
    }
    for (const auto& input : meta->producer->inputs) {
      if (input != nullptr) stack.push_back(input.get());
    }
  }
  return total;
}

}  // namespace lorica
