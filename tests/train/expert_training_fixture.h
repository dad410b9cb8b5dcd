// Small runs of models with experts.
#ifndef LORICA_TESTS_TRAIN_EXPERT_TRAINING_FIXTURE_H_
#define LORICA_TESTS_TRAIN_EXPERT_TRAINING_FIXTURE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lorica/autograd/autograd.h"
#include "train/sft_fixture.h"

namespace lorica {

class ExpertTraining : public SftFixture {
 protected:
  // Latent attention, 2 layers of 8 experts of which a token takes 3, sigmoid routers with a
  // correction bias.
  SftOptions MoeOptions(const std::string& output) const {
    SftOptions options = Options(output);
    options.model = GoldenPath("deepseek_v3/model");
    options.target = {"*_proj", "*.experts"};
    options.lora_dropout = 0;
    return options;
  }

  static absl::Status Failed(const SftOptions& options) { return RunSft(options).status(); }

  // Routers of `model`, and tensors of adapters by key.
  static std::map<std::string, std::vector<double>> Tensors(const std::string& file) {
    absl::StatusOr<std::unique_ptr<TensorSource>> source = OpenSafetensorsSource(file);
    EXPECT_TRUE(source.ok()) << source.status();
    std::map<std::string, std::vector<double>> tensors;
    for (const std::string& key : (*source)->names()) {
      int64_t count = 1;
      for (const int64_t extent : (*source)->Find(key)->shape) count *= extent;
      tensors[key].resize(static_cast<size_t>(count));
      EXPECT_TRUE((*source)->ReadAll(key, DType::kF64, tensors[key].data()).ok());
    }
    return tensors;
  }
  static std::map<std::string, std::vector<double>> AdapterTensors(const SftOptions& options) {
    return Tensors(options.output + "/adapter/adapter_model.safetensors");
  }

  static MetricsLog Log(const SftOptions& options) {
    absl::StatusOr<MetricsLog> log = ReadMetrics(PosixFiles(), options.output + "/metrics.jsonl");
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }

  static std::vector<double> Logits(CausalLm& model) {
    const NoGrad no_grad;
    const std::vector<int32_t> ids = {3, 1, 4, 1, 5, 9, 2, 6, 5};
    const ForwardContext context =
        ForwardContext::ForSequences(Sequences::Single(static_cast<int64_t>(ids.size())));
    return model.Logits(model.Hidden(ids, context), context).ToDoubles();
  }
};

}  // namespace lorica

#endif  // LORICA_TESTS_TRAIN_EXPERT_TRAINING_FIXTURE_H_
