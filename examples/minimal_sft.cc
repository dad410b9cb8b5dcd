// Fine-tunes a model in a program of one's own: what `lorica sft` does, in a few lines.
// usage: minimal_sft MODEL DATA.jsonl OUTPUT
#include <cstdio>

#include "lorica/train/exit_status.h"
#include "lorica/train/sft.h"

namespace {

int Run(char** arguments) {
  lorica::SftOptions options;
  options.model = arguments[1];
  options.data = {arguments[2]};
  options.output = arguments[3];
  options.lora_rank = 8;
  options.lr = 1e-3;

  lorica::SftCallbacks callbacks;
  callbacks.on_plan = [](const lorica::SftPlan& plan) {
    std::printf("training %lld of %lld parameters, %lld steps\n",
                static_cast<long long>(plan.trainable_parameters),
                static_cast<long long>(plan.model_parameters),
                static_cast<long long>(plan.total_steps));
  };
  callbacks.on_step = [](const lorica::StepMetrics& step, const lorica::SftProgress& progress) {
    std::printf("step %lld of %lld: loss %.4f\n", static_cast<long long>(step.step),
                static_cast<long long>(progress.total_steps), step.loss);
  };

  const absl::StatusOr<lorica::SftResult> result = lorica::RunSft(options, callbacks);
  if (!result.ok()) {
    // One sentence: what was expected, what was found, where.
    std::fprintf(stderr, "%s\n", std::string(result.status().message()).c_str());
    return lorica::ExitStatus(result.status());
  }
  std::printf("the adapter is in %s\n", result->result_path.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: minimal_sft MODEL DATA.jsonl OUTPUT\n");
    return lorica::kExitUsage;
  }
  return Run(argv);
}
