// A training loop of one's own: own data, own loss, own update rule, progress and cancelling by
// callback; from the library only the model, its adapters and gradients.
//
// Pairs of sequences are made here: one that counts upwards and one that counts downwards. The loss
// is that of preferences: -log sigmoid(beta (log p(upwards) - log p(downwards))), the update is
// gradient descent with momentum. Given a model's path the loop runs on that model, else on a small
// random one.
// usage: custom_loop [MODEL]
#include <atomic>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lorica/autograd/ops.h"
#include "lorica/nn/init.h"
#include "lorica/nn/model_loader.h"
#include "lorica/peft/adapter_set.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/train/trainer.h"

namespace {

using lorica::DType;
using lorica::Tensor;

constexpr int64_t kLength = 12;  // tokens of a sequence
constexpr int kSteps = 30;
constexpr double kBeta = 0.1;
constexpr double kLearningRate = 0.02;
constexpr double kMomentum = 0.9;

// Both members of a pair, one behind the other: what a forward pass takes. The last token of each
// has nothing to predict.
struct Pair {
  std::vector<int32_t> ids;
  std::vector<int32_t> targets;
  std::vector<float> signs;  // of each row's loss in the margin
};

Pair MakePair(int32_t start) {
  Pair pair;
  for (const int direction : {1, -1}) {
    for (int64_t i = 0; i < kLength; ++i) {
      const int32_t id = start + static_cast<int32_t>(direction * i);
      pair.ids.push_back(id);
      pair.targets.push_back(i + 1 < kLength ? id + direction : -1);
      pair.signs.push_back(direction > 0 ? -1.0f : 1.0f);
    }
  }
  return pair;
}

// A loss is -log p, so losses of the unwanted minus losses of the wanted is the margin of log p.
Tensor PreferenceLoss(lorica::CausalLm& model, lorica::Backend& backend, const Pair& pair) {
  const lorica::Sequences sequences = {{0, kLength, 2 * kLength}};
  const lorica::ForwardContext context = lorica::ForwardContext::ForSequences(sequences);
  const Tensor losses = model.Loss(pair.ids, pair.targets, context);  // [2 kLength]
  const Tensor signs = Tensor::FromHost<float>(backend, {2 * kLength}, pair.signs);
  const Tensor margin = lorica::Sum(lorica::Mul(losses, signs));
  const Tensor loss = lorica::Neg(lorica::Log(lorica::Sigmoid(lorica::Affine(margin, kBeta))));
  lorica::Backward(loss);  // here, where the context that the tape refers to still lives
  return loss;
}

// velocity = momentum * velocity + gradient; parameter -= rate * velocity.
class Descent {
 public:
  explicit Descent(lorica::ParameterGroup parameters) : parameters_(std::move(parameters)) {
    for (const lorica::NamedParameter& parameter : parameters_) {
      velocity_.emplace_back(static_cast<size_t>(parameter.master.numel()), 0.0f);
    }
  }

  void Step() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Tensor gradient = lorica::Grad(parameters_[i].master);
      if (!gradient.defined()) continue;
      const float* g = gradient.data<float>();
      float* p = parameters_[i].master.mutable_data<float>();
      for (size_t j = 0; j < velocity_[i].size(); ++j) {
        velocity_[i][j] = static_cast<float>(kMomentum * velocity_[i][j] + g[j]);
        p[j] -= static_cast<float>(kLearningRate * velocity_[i][j]);
      }
    }
    lorica::ZeroGrad(parameters_);
  }

 private:
  lorica::ParameterGroup parameters_;
  std::vector<std::vector<float>> velocity_;
};

struct Callbacks {
  std::function<void(int step, double loss)> progress;
  std::function<bool()> cancelled;
};

// The last loss; the first one in `first`.
double Train(lorica::CausalLm& model, lorica::Backend& backend, const lorica::AdapterSet& adapters,
             const Callbacks& callbacks, double* first) {
  Descent descent(lorica::ParametersOf(adapters));
  double loss = 0;
  for (int step = 0; step < kSteps && !callbacks.cancelled(); ++step) {
    loss = PreferenceLoss(model, backend, MakePair(20 + step % 5)).item();
    if (step == 0) *first = loss;
    descent.Step();
    callbacks.progress(step, loss);
  }
  return loss;
}

absl::StatusOr<std::unique_ptr<lorica::CausalLm>> MakeModel(const char* path,
                                                            lorica::Backend& backend) {
  if (path != nullptr) {
    absl::StatusOr<lorica::LoadedModel> loaded = lorica::LoadModel(path, backend, DType::kF32);
    if (!loaded.ok()) return loaded.status();
    return std::move(loaded->model);
  }
  lorica::ModelConfig config;
  config.family = "llama";
  config.vocab_size = 64;
  config.hidden_size = 32;
  config.intermediate_size = 64;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 8;
  config.rope.channels = config.head_dim;
  auto model = std::make_unique<lorica::CausalLm>(config, DType::kF32);
  lorica::InitializeRandom(*model, backend, {.seed = 3});
  return model;
}

// A handler may set a flag and no more; the loop asks for it.
std::atomic<bool> interrupted{false};

int Run(const char* path) {
  lorica::ThreadPool pool(lorica::AvailableCores());
  const std::unique_ptr<lorica::Backend> backend = lorica::MakeCpuBackend(pool);
  absl::StatusOr<std::unique_ptr<lorica::CausalLm>> model = MakeModel(path, *backend);
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", std::string(model.status().message()).c_str());
    return 3;
  }
  const absl::StatusOr<lorica::AdapterSet> adapters =
      lorica::InjectLora(**model, *backend, DType::kF32, {.rank = 4, .alpha = 8});
  if (!adapters.ok()) {
    std::fprintf(stderr, "%s\n", std::string(adapters.status().message()).c_str());
    return 3;
  }

  std::signal(SIGINT, [](int) { interrupted = true; });
  Callbacks callbacks;
  callbacks.progress = [](int step, double loss) {
    if (step % 5 == 0) std::printf("step %2d: loss %.4f\n", step, loss);
  };
  callbacks.cancelled = [] { return interrupted.load(); };
  double first = 0;
  const double last = Train(**model, *backend, *adapters, callbacks, &first);
  std::printf("from %.4f to %.4f\n", first, last);
  return last < first ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2) {
    std::fprintf(stderr, "usage: custom_loop [MODEL]\n");
    return 2;
  }
  return Run(argc == 2 ? argv[1] : nullptr);
}
