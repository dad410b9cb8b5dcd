// One optimizer step of LoRA, timed: the same work as peer_pytorch.py.
//
//   lora_step [--shape smollm2|qwen3-moe] [--model MODEL] [--target PATTERN]... [--rank R]
//             [--steps N] [--warmup M] [--threads N] [--dtype f32|bf16] [--recompute]
//
// 4 sequences of 512 tokens, none masked, alpha 32, AdamW; adapters of rank 16 on all linears of
// every layer unless told otherwise. Prints one JSON document. Weights don't change the time:
// without --model they are random. `peak_bytes` is the engine's own count (MemoryStats).
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "lorica/nn/init.h"
#include "lorica/nn/model_loader.h"
#include "lorica/optim/adamw.h"
#include "lorica/peft/adapter_set.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/random.h"

namespace lorica {
namespace {

constexpr int kBatch = 4, kLength = 512;

struct Options {
  std::string shape = "smollm2", model;
  std::vector<std::string> targets;
  int rank = 16, steps = 5, warmup = 1, threads = 2;
  DType dtype = DType::kF32;
  bool recompute = false;
};

constexpr char kSmolLm2[] = R"({"model_type": "llama", "vocab_size": 49152,
    "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
    "num_attention_heads": 9, "num_key_value_heads": 3, "rms_norm_eps": 1e-5,
    "max_position_embeddings": 8192, "rope_theta": 100000.0, "tie_word_embeddings": true})";
constexpr char kQwen3Moe[] = R"({"model_type": "qwen3_moe", "vocab_size": 4096,
    "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 8, "head_dim": 64,
    "num_attention_heads": 8, "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
    "num_experts": 32, "num_experts_per_tok": 4, "moe_intermediate_size": 256,
    "norm_topk_prob": true, "max_position_embeddings": 8192, "rope_theta": 100000.0,
    "tie_word_embeddings": true})";

int Run(const Options& options) {
  ThreadPool pool(options.threads);
  const std::unique_ptr<Backend> backend = MakeCpuBackend(pool);
  std::unique_ptr<CausalLm> model;
  if (options.model.empty()) {
    const auto config =
        ParseModelConfig(options.shape == "smollm2" ? kSmolLm2 : kQwen3Moe, options.shape);
    LORICA_CHECK(config.ok(), config.status().ToString());
    model = std::make_unique<CausalLm>(*config, options.dtype);
    InitializeRandom(*model, *backend);
  } else {
    auto loaded = LoadModel(options.model, *backend, options.dtype);
    LORICA_CHECK(loaded.ok(), loaded.status().ToString());
    model = std::move(loaded->model);
  }
  auto adapters = InjectLora(*model, *backend, options.dtype,
                             {.rank = options.rank, .alpha = 32, .targets = options.targets});
  LORICA_CHECK(adapters.ok(), adapters.status().ToString());
  ParameterGroup group;
  int64_t trained_parameters = 0;
  adapters->ForEachFactor(0, [&](const std::string& name, Tensor& master) {
    trained_parameters += master.numel();
    group.push_back({name, master, ParameterRole::kLoraA});
  });
  AdamW optimizer({}, group);

  RandomStream random(0, 0);
  std::vector<int32_t> ids, targets;
  Sequences sequences;
  const auto vocab_size = static_cast<uint64_t>(model->config().vocab_size);
  for (int s = 0; s < kBatch; ++s) {
    for (int t = 0; t < kLength; ++t) {
      ids.push_back(static_cast<int32_t>(3 + random.Below(vocab_size - 3)));
    }
    for (int t = 0; t + 1 < kLength; ++t) targets.push_back(ids[s * kLength + t + 1]);
    targets.push_back(-1);
    sequences.offsets.push_back((s + 1) * kLength);
  }
  ForwardContext context = ForwardContext::ForSequences(sequences);
  context.training = true;
  context.recompute = options.recompute;

  std::vector<double> seconds, losses;
  for (int step = 0; step < options.warmup + options.steps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    const Tensor loss = Sum(model->Loss(ids, targets, context));
    Backward(loss);
    optimizer.Step({.grad_scale = 1.0 / (kBatch * (kLength - 1))});
    ZeroGrad(group);
    losses.push_back(loss.item() / (kBatch * (kLength - 1)));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (step >= options.warmup) seconds.push_back(elapsed.count());
  }
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[sorted.size() / 2];
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("{\"threads\": %d, \"dtype\": \"%s\", \"target\": \"%s\", \"step_seconds\": [",
              options.threads, std::string(Name(options.dtype)).c_str(), CpuTargetName().c_str());
  for (size_t i = 0; i < seconds.size(); ++i) std::printf("%s%.4f", i ? ", " : "", seconds[i]);
  std::printf(
      "], \"median_seconds\": %.4f, \"tokens_per_second\": %.1f, \"peak_rss_bytes\": %lld, "
      "\"peak_bytes\": %zu, \"trained_parameters\": %lld, \"first_loss\": %.6f, \"last_loss\": "
      "%.6f}\n",
      median, kBatch * kLength / median, static_cast<long long>(usage.ru_maxrss) * 1024,
      backend->allocator().stats().peak, static_cast<long long>(trained_parameters), losses.front(),
      losses.back());
  return 0;
}

}  // namespace
}  // namespace lorica

int main(int argc, char** argv) {
  lorica::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--recompute") {
      options.recompute = true;
      continue;
    }
    if (i + 1 == argc) {
      std::fprintf(stderr, "%s needs a value\n", flag.c_str());
      return 2;
    }
    const std::string value = argv[++i];
    if (flag == "--model")
      options.model = value;
    else if (flag == "--shape" && (value == "smollm2" || value == "qwen3-moe"))
      options.shape = value;
    else if (flag == "--target")
      options.targets.push_back(value);
    else if (flag == "--rank")
      options.rank = std::max(1, std::atoi(value.c_str()));
    else if (flag == "--steps")
      options.steps = std::max(1, std::atoi(value.c_str()));
    else if (flag == "--warmup")
      options.warmup = std::atoi(value.c_str());
    else if (flag == "--threads")
      options.threads = std::max(1, std::atoi(value.c_str()));
    else if (flag == "--dtype")
      options.dtype = value == "bf16" ? lorica::DType::kBF16 : lorica::DType::kF32;
    else {
      std::fprintf(stderr, "unknown option %s %s\n", flag.c_str(), value.c_str());
      return 2;
    }
  }
  if (options.targets.empty()) options.targets = {"all-linear"};
  return lorica::Run(options);
}
