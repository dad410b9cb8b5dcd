// LoRA for a module that knows nothing of it. A small network, written here, stands for a model
// that was trained elsewhere; adapters are hung on its linears and trained until it computes
// something else, while its own weights stay as they are.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "lorica/autograd/ops.h"
#include "lorica/nn/init.h"
#include "lorica/nn/linear.h"
#include "lorica/optim/optimizer.h"
#include "lorica/peft/adapter_set.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/random.h"
#include "lorica/train/trainer.h"

namespace {

using lorica::DType;
using lorica::Tensor;

constexpr int64_t kRows = 64;
constexpr int64_t kChannels = 16;
constexpr int64_t kHidden = 32;
constexpr int kSteps = 200;

// y = down(tanh(up(x))), [T, C] -> [T, C]. All that a module owes the library is Visit.
class Perceptron : public lorica::Module {
 public:
  Perceptron()
      : up_(lorica::nn::Linear::Declare(kHidden, kChannels, /*with_bias=*/true, DType::kF32)),
        down_(lorica::nn::Linear::Declare(kChannels, kHidden, /*with_bias=*/false, DType::kF32)) {}

  Tensor Forward(const Tensor& x, const lorica::ForwardContext& context) {
    return down_.Forward(lorica::Tanh(up_.Forward(x, context)), context);
  }

  void Visit(lorica::ModuleVisitor& visitor) override {
    visitor.OnChild("up", up_);
    visitor.OnChild("down", down_);
  }

 private:
  lorica::nn::Linear up_;
  lorica::nn::Linear down_;
};

// Seeded values in [-1, 1).
Tensor RandomInput(lorica::Backend& backend) {
  lorica::RandomStream stream(1, lorica::HashName("input"));
  std::vector<float> values(kRows * kChannels);
  for (float& value : values) value = static_cast<float>(2 * stream.Uniform() - 1);
  return Tensor::FromHost<float>(backend, {kRows, kChannels}, values);
}

// What the network shall learn: channels in reverse, as sines.
Tensor Target(lorica::Backend& backend, const Tensor& x) {
  const std::vector<double> input = x.ToDoubles();
  std::vector<float> values(input.size());
  for (size_t row = 0; row < static_cast<size_t>(kRows); ++row) {
    for (size_t c = 0; c < static_cast<size_t>(kChannels); ++c) {
      values[row * kChannels + c] =
          static_cast<float>(std::sin(input[row * kChannels + (kChannels - 1 - c)]));
    }
  }
  return Tensor::FromHost<float>(backend, {kRows, kChannels}, values);
}

}  // namespace

int main() {
  lorica::ThreadPool pool(lorica::AvailableCores());
  const std::unique_ptr<lorica::Backend> backend = lorica::MakeCpuBackend(pool);

  Perceptron model;
  lorica::InitializeRandom(model, *backend, {.seed = 7, .standard_deviation = 0.2});

  lorica::LoraConfig config;
  config.rank = 8;
  config.targets = {"up", "down"};
  absl::StatusOr<lorica::AdapterSet> adapters =
      lorica::InjectLora(model, *backend, DType::kF32, config);
  if (!adapters.ok()) {
    std::fprintf(stderr, "%s\n", std::string(adapters.status().message()).c_str());
    return 1;
  }
  std::printf("%lld parameters, %lld in adapters\n",
              static_cast<long long>(lorica::CountParameters(model)),
              static_cast<long long>(adapters->CountParameters()));

  const Tensor x = RandomInput(*backend);
  const Tensor target = Target(*backend, x);
  const lorica::ForwardContext context =
      lorica::ForwardContext::ForSequences(lorica::Sequences::Single(kRows));
  lorica::OptimizerOptions options;
  options.adamw.lr = 0.01;
  const std::unique_ptr<lorica::Optimizer> optimizer =
      lorica::MakeOptimizer(options, lorica::ParametersOf(*adapters));

  double first = 0;
  double last = 0;
  for (int step = 0; step < kSteps; ++step) {
    const Tensor error = lorica::Sub(model.Forward(x, context), target);
    const Tensor loss = lorica::Mean(lorica::Square(error));
    last = loss.item();
    if (step == 0) first = last;
    if (step % 40 == 0) std::printf("step %3d: loss %.5f\n", step, last);
    lorica::Backward(loss);
    optimizer->Step({});
    lorica::ZeroGrad(optimizer->parameters());
  }
  std::printf("step %3d: loss %.5f\n", kSteps, last);
  // A run that learns nothing is a failure of this example.
  return last < 0.5 * first ? 0 : 1;
}
