// BaseFacts: what layouts of adapters need to know about a base model. Unlike a ModelConfig it
// takes any configuration, also of models that can't be run here.
#ifndef LORICA_PEFT_LAYOUTS_BASE_FACTS_H_
#define LORICA_PEFT_LAYOUTS_BASE_FACTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/io/file_system.h"
#include "lorica/nn/model_config.h"
#include "lorica/peft/stored_adapter.h"

namespace lorica {

struct BaseFacts {
  std::string model_type;    // of config.json, or the one that a GGUF file stands for
  std::string architecture;  // as GGUF names it; empty where it is unknown
  int64_t hidden = 0;        // width of the experts' input
  int64_t experts = 0;       // routed experts; 0: none
  int64_t expert_width = 0;  // 0: unknown
  int64_t heads = 0;
  int64_t kv_heads = 0;
  ExpertForm form;
  // Of a GGUF file: the shapes of its tensors by name. Else empty.
  std::map<std::string, std::vector<int64_t>> gguf_tensors;
};

// From a Hugging Face folder's config.json or a GGUF file; no weights are read.
absl::StatusOr<BaseFacts> ReadBaseFacts(const std::string& path, FileSystem& files = PosixFiles());

// Of a model that is here.
BaseFacts BaseFactsOf(const ModelConfig& config);

}  // namespace lorica

#endif  // LORICA_PEFT_LAYOUTS_BASE_FACTS_H_
