// LoRA on the experts of a mixture: on a model's folder, else on a small random one. Shows where
// the tokens of each step went.
// usage: expert_lora [MODEL]
#include <cstdio>

#include "lorica/lorica.h"
#include "lorica/tensor/status.h"

namespace {

constexpr char kConfig[] = R"({"model_type": "qwen3_moe", "vocab_size": 64, "hidden_size": 32,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
  "intermediate_size": 64, "num_experts": 8, "num_experts_per_tok": 2,
  "moe_intermediate_size": 16, "norm_topk_prob": true})";

absl::Status Tune(const char* path) {
  lorica::ThreadPool pool(2);
  const auto backend = lorica::MakeCpuBackend(pool);
  std::unique_ptr<lorica::CausalLm> model;
  if (path != nullptr) {
    LORICA_ASSIGN_OR_RETURN(lorica::LoadedModel loaded,
                            lorica::LoadModel(path, *backend, lorica::DType::kF32));
    model = std::move(loaded.model);
  } else {
    LORICA_ASSIGN_OR_RETURN(const auto config, lorica::ParseModelConfig(kConfig, "expert_lora"));
    model = std::make_unique<lorica::CausalLm>(config, lorica::DType::kF32);
    lorica::InitializeRandom(*model, *backend, {.seed = 1, .standard_deviation = 0.1});
  }

  // Only a pattern that spells `experts` reaches them.
  lorica::LoraConfig lora{.rank = 4, .alpha = 8, .targets = {"*_proj", "*.experts"}};
  LORICA_ASSIGN_OR_RETURN(const lorica::AdapterSet adapters,
                          lorica::InjectLora(*model, *backend, lorica::DType::kF32, lora));

  std::vector<lorica::TrainingSequence> counting;
  for (int32_t start = 1; start <= 32; ++start) {
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < 16; ++i) ids.push_back(start + i);
    counting.push_back(lorica::TrainingSequence::FromLabels(ids, ids));
  }
  const lorica::MemorySource source(std::move(counting));
  lorica::Trainer trainer(*model, lorica::ParametersOf(adapters), source,
                          {.optimizer = {.adamw = {.lr = 0.02}}, .epochs = 4});
  while (!trainer.done()) {
    LORICA_ASSIGN_OR_RETURN(const lorica::StepMetrics step, trainer.Step());
    std::printf("step %d: loss %.3f\n", static_cast<int>(step.step), step.loss);
    for (const auto& [layer, load] : step.loads) {
      std::printf("  %s:", layer.c_str());
      for (const int64_t tokens : load) std::printf(" %d", static_cast<int>(tokens));
      std::printf("\n");
    }
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) { return Tune(argc > 1 ? argv[1] : nullptr).ok() ? 0 : 1; }
