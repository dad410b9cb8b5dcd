// What a training run needs of memory, estimated before it starts.
#ifndef LORICA_TRAIN_MEMORY_PLAN_H_
#define LORICA_TRAIN_MEMORY_PLAN_H_

#include <cstdint>

#include "lorica/nn/model_config.h"
#include "lorica/optim/optimizer.h"
#include "lorica/tensor/dtype.h"

namespace lorica {

struct MemoryPlan {
  int64_t weights = 0;      // the model in the compute type
  int64_t trained = 0;      // masters, their copies in the compute type, gradients
  int64_t optimizer = 0;    // moments
  int64_t activations = 0;  // kept for the backward pass, of one forward pass
  int64_t logits = 0;       // of one forward pass
  int64_t total() const { return weights + trained + optimizer + activations + logits; }
};

struct MemoryFacts {
  const ModelConfig* config = nullptr;
  int64_t model_parameters = 0;
  int64_t trained_parameters = 0;
  // State tensors times their values: 2 a trained parameter under AdamW.
  int64_t optimizer_values = 0;
  DType compute = DType::kF32;
  bool full_training = false;
  bool head_trains = false;  // then the logits of all tokens are kept
  bool recompute = false;
  int64_t tokens = 0;  // of one forward pass
};

// In bytes. Buffers that live within one op aren't counted; they come to a few activations of a
// layer.
MemoryPlan EstimateMemory(const MemoryFacts& facts);

// How many tokens a forward pass should have: enough to keep the kernels busy, few enough for
// activations of about a gigabyte. Depends on the model and options alone, so the choice is the
// same on every machine.
int64_t TokensPerPass(const MemoryFacts& facts);

}  // namespace lorica

#endif  // LORICA_TRAIN_MEMORY_PLAN_H_
