// Choices that a recomputed function makes once.
//
// Recompute runs a function again in the backward pass. What it then computes has the same bits,
// but a choice (the experts of a token, and with it how rows are dispatched) must not even be
// computed again: it is kept from the first run and handed out in the same order.
#ifndef LORICA_AUTOGRAD_KEPT_CHOICE_H_
#define LORICA_AUTOGRAD_KEPT_CHOICE_H_

#include <functional>
#include <memory>

namespace lorica {

namespace internal {
std::shared_ptr<const void> KeepChoice(const std::function<std::shared_ptr<const void>()>& make);
}  // namespace internal

// What `make` returns; within a function that Recompute runs again, what the call of the same
// number returned in the first run. Functions may be nested.
template <typename T, typename Make>
std::shared_ptr<const T> KeepChoice(const Make& make) {
  return std::static_pointer_cast<const T>(internal::KeepChoice(
      [&]() -> std::shared_ptr<const void> { return std::make_shared<const T>(make()); }));
}

}  // namespace lorica

#endif  // LORICA_AUTOGRAD_KEPT_CHOICE_H_
