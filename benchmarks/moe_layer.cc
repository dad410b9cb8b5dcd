// One mixture-of-experts layer, forward and backward, timed: the base alone, and with adapters on
// its experts.
//
//   moe_layer [--repeats N] [--threads N] [--dtype f32|bf16] [--rank R]
//
// Hidden size 512, 32 experts of width 256, 4 of them a token, 2048 tokens in 4 sequences; the base
// is frozen, the input needs a gradient. Prints one JSON document; times are the least of the
// repeats.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>

#include "lorica/autograd/autograd.h"
#include "lorica/nn/init.h"
#include "lorica/nn/moe.h"
#include "lorica/peft/adapter_set.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/random.h"

namespace lorica {
namespace {

constexpr int64_t kHidden = 512, kExperts = 32, kWidth = 256, kTopK = 4, kTokens = 2048;

struct Options {
  int repeats = 5, threads = 2, rank = 8;
  DType dtype = DType::kF32;
};

struct Times {
  double forward = 1e9, backward = 1e9;
  double cpu =
      1e9;  // processor time of both, on all threads: what a busy machine leaves comparable
};

Times Measure(nn::Moe& moe, Backend& backend, const Options& options) {
  RandomStream random(5, 1);
  std::vector<float> values(kTokens * kHidden);
  for (float& v : values) v = static_cast<float>(random.Normal());
  const Tensor input =
      raw::Cast(Tensor::FromHost<float>(backend, {kTokens, kHidden}, values), options.dtype);
  const ForwardContext context =
      ForwardContext::ForSequences({{0, 512, 1024, 1536, static_cast<int32_t>(kTokens)}});
  Times best;
  for (int i = 0; i <= options.repeats; ++i) {
    Tensor x = input.Detach();
    SetRequiresGrad(x, true);
    const std::clock_t cpu = std::clock();
    const auto start = std::chrono::steady_clock::now();
    const Tensor y = moe.Forward(x, context);
    const auto middle = std::chrono::steady_clock::now();
    Backward(y, input);
    const auto end = std::chrono::steady_clock::now();
    if (i == 0) continue;  // allocations
    best.cpu = std::min(best.cpu, static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
    best.forward = std::min(best.forward, std::chrono::duration<double>(middle - start).count());
    best.backward = std::min(best.backward, std::chrono::duration<double>(end - middle).count());
  }
  return best;
}

int Run(const Options& options) {
  ThreadPool pool(options.threads);
  const std::unique_ptr<Backend> backend = MakeCpuBackend(pool);
  nn::MoeConfig config;
  config.hidden = kHidden;
  config.experts = kExperts;
  config.expert_width = kWidth;
  config.router.top_k = kTopK;
  config.router.normalize = true;
  nn::Moe moe(config, options.dtype);
  InitializeRandom(moe, *backend);
  // Multiply-adds of the base's products, forward.
  const double work = double(kTokens * kTopK) * (3.0 * kHidden * kWidth);
  std::printf("{");
  const auto print = [&](const char* name, const Times& t) {
    std::printf(
        "\"%s\": {\"forward_seconds\": %.4f, \"backward_seconds\": %.4f, "
        "\"cpu_seconds\": %.4f, \"forward_gflops\": %.1f}",
        name, t.forward, t.backward, t.cpu, 2e-9 * work / t.forward);
  };
  print("base", Measure(moe, *backend, options));
  for (ExpertLoraKind kind :
       {ExpertLoraKind::kFused, ExpertLoraKind::kSplit, ExpertLoraKind::kSharedOuter}) {
    const auto set =
        InjectLora(moe, *backend, options.dtype,
                   {.rank = options.rank, .targets = {"experts"}, .expert_kind = kind});
    LORICA_CHECK(set.ok(), set.status().ToString());
    std::printf(", ");
    print(std::string(Name(kind)).c_str(), Measure(moe, *backend, options));
    set->Detach();
  }
  std::printf("}\n");
  return 0;
}

}  // namespace
}  // namespace lorica

int main(int argc, char** argv) {
  lorica::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--repeats") options.repeats = std::atoi(value.c_str());
    if (name == "--threads") options.threads = std::atoi(value.c_str());
    if (name == "--rank") options.rank = std::atoi(value.c_str());
    if (name == "--dtype") {
      options.dtype = value == "bf16" ? lorica::DType::kBF16 : lorica::DType::kF32;
    }
  }
  return lorica::Run(options);
}
