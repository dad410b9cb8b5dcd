// Models written as GGUF files, for the tests of this folder.
#ifndef LORICA_TESTS_NN_GGUF_FIXTURE_H_
#define LORICA_TESTS_NN_GGUF_FIXTURE_H_

#include <string>
#include <vector>

#include "lorica/io/gguf.h"
#include "lorica/nn/decoder.h"
#include "nn/nn_fixture.h"

namespace lorica {

// The keys that all architectures share.
GgufMetadata MetadataOf(const ModelConfig& config);

struct ExtraTensor {
  std::string name;
  std::vector<float> values;
};
// The model's f32 tensors by their names in a GGUF file, rows of q and k moved and weights of norms
// shifted as its architecture wants. Those of which a file may have halves are in halves unless
// `whole`.
EditableTensors GgufTensors(CausalLm& model, bool whole);
void WriteGguf(const std::string& path, const EditableTensors& tensors,
               const GgufMetadata& metadata);

// With those tensors, whole, and some more.
void WriteGguf(const std::string& path, CausalLm& model, const GgufMetadata& metadata,
               const std::vector<ExtraTensor>& extra = {});

}  // namespace lorica

#endif  // LORICA_TESTS_NN_GGUF_FIXTURE_H_
