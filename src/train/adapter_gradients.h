// The gradients of an adapter as a file that looks like the adapter's own.
#ifndef LORICA_TRAIN_ADAPTER_GRADIENTS_H_
#define LORICA_TRAIN_ADAPTER_GRADIENTS_H_

#include <string>

#include "absl/status/status.h"
#include "lorica/io/file_system.h"
#include "lorica/peft/adapter_set.h"
#include "lorica/peft/stored_adapter.h"
#include "lorica/tensor/backend.h"

namespace lorica {

// Gives the routers that `adapters` brings in full a gradient, as its factors have one.
void MakeRoutersTrainable(const AdapterSet& adapters);

// Writes `scale` times the accumulated gradient of every factor, and of weight and bias of every
// router, to the safetensors file `path`, each under the key and in the shape that it has in an
// adapter of a model with experts of `form`; f32, or f64 where the factors are. A correction bias
// has no gradient and is left out.
absl::Status WriteAdapterGradients(const AdapterSet& adapters, const ExpertForm& form, double scale,
                                   Backend& backend, FileSystem& files, const std::string& path);

}  // namespace lorica

#endif  // LORICA_TRAIN_ADAPTER_GRADIENTS_H_
