// Bytes as adapter_config.json: parse, ask which modules it means and at which rank.
#include <cstddef>
#include <cstdint>

#include "lorica/peft/peft_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto config = lorica::ParsePeftConfig({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!config.ok()) return 0;
  for (const absl::string_view path :
       {"lm_head", "model.embed_tokens", "model.layers.0.self_attn.q_proj",
        "model.layers.11.mlp.experts.3.down_proj"}) {
    if (config->Saves(path) && config->Adapts(path)) __builtin_trap();
    if (config->RankOf(path) < 1) __builtin_trap();
    (void)config->AlphaOf(path);
  }
  return 0;
}
