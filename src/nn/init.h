// Fresh weights for training from scratch.
#ifndef LORICA_NN_INIT_H_
#define LORICA_NN_INIT_H_

#include <cstdint>

#include "lorica/nn/module.h"
#include "lorica/tensor/backend.h"

namespace lorica {

struct InitOptions {
  uint64_t seed = 0;
  double standard_deviation = 0.02;  // of matrices
};

// Gives every parameter below `root` values, as transformers does for Llama-like models: matrices
// normal, biases (names that end with "bias") 0, weights of norms (other vectors) 1. A value
// depends on the seed, the parameter's path and its place in the parameter alone.
void InitializeRandom(Module& root, Backend& backend, const InitOptions& options = {});

}  // namespace lorica

#endif  // LORICA_NN_INIT_H_
