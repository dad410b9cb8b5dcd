// SftOptions: everything that a supervised fine-tuning run can be told, with its defaults.
#ifndef LORICA_TRAIN_SFT_OPTIONS_H_
#define LORICA_TRAIN_SFT_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/nn/model_config.h"
#include "lorica/optim/lr_schedule.h"
#include "lorica/optim/optimizer.h"
#include "lorica/peft/lora_config.h"
#include "lorica/tensor/dtype.h"
#include "lorica/train/option_list.h"

namespace lorica {

// Each field is the option of the same name ("lora_rank" is --lora-rank and lora-rank in TOML).
struct SftOptions {
  // Input and output.
  std::string model;              // a Hugging Face folder or a .gguf file
  std::vector<std::string> data;  // files, folders or patterns (train/data_files.h)
  std::string output;             // the run's folder

  // Adapter.
  // Absent: 16, 32 and "standard", or with init_adapter the adapter's own.
  std::optional<int64_t> lora_rank;  // 0: full training
  std::optional<double> lora_alpha;
  std::string lora_scaling;  // "standard" or "rslora"
  double lora_dropout = 0;
  std::string lora_init = "kaiming";  // or "xavier", "gaussian"
  std::vector<std::string> target;    // patterns (peft/target_pattern.h); empty: the dense linears
  std::vector<std::string> exclude;
  std::vector<std::string> rank_pattern;   // "PATTERN=RANK", the first match counts
  std::vector<std::string> alpha_pattern;  // "PATTERN=ALPHA"
  std::string init_adapter;                // start from this adapter
  std::string adapter_format = "peft-2d";  // or "peft-3d"; equal without experts
  std::string expert_lora = "fused";       // or "split", "shared-outer" (peft/lora_config.h)
  bool moe_rank_scaling = false;           // experts' rank is divided by the experts of a token
  std::string router_weight;               // "before-down" or "after-down"; empty: the model's
  bool train_router = false;               // routers in full, beside the adapters
  double aux_loss = 0;                     // coefficient of the load-balancing loss
  double router_bias_update = 0;           // step of the routers' correction biases; 0: they stay

  // Data.
  int64_t max_length = 2048;          // tokens of a record
  std::string overlong = "truncate";  // or "error", "drop"
  bool deduplicate = false;           // records equal to an earlier one are left out
  int64_t data_memory = 32;  // MB of tokens kept in memory; more are read as they are trained
  bool packing = true;
  bool shuffle = true;
  std::string train_on = "assistant";  // or "last", "all"
  std::string system;                  // system message where a record has none
  std::string chat_template;           // one of the model's templates by name, or a file

  // Steps.
  int64_t epochs = 1;
  std::optional<int64_t> max_steps;
  int64_t batch_size = 8;                   // records of an optimizer step
  std::optional<int64_t> micro_batch_size;  // rows of a forward pass; absent: by memory

  // Optimizer.
  std::string optimizer = "adamw";  // or "muon"
  double lr = 2e-4;
  std::string schedule = "cosine";  // or "linear", "constant"
  std::optional<int64_t> warmup_steps;
  double warmup_ratio = 0.03;  // where warmup_steps is absent
  double min_lr_ratio = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double max_grad_norm = 1;  // 0: no clipping
  double muon_lr = 0.02;
  double muon_momentum = 0.95;
  bool muon_nesterov = true;

  // Evaluation.
  std::vector<std::string> eval_data;
  std::optional<int64_t> eval_every;  // absent: after the last step only
  bool eval_at_start = false;         // also before the first step
  bool keep_best = false;             // adapter/ is the one of the best evaluation
  std::optional<int64_t> early_stop;  // evaluations without improvement
  std::vector<std::string> sample;    // prompts answered before and after
  int64_t sample_tokens = 128;        // of an answer, at most

  // Checkpoints.
  std::optional<int64_t> save_every;  // absent: after the last step only
  int64_t keep = 3;
  std::string resume = "auto";  // or "never", or the path of a checkpoint's folder
  bool fresh_optimizer = false;

  // Running.
  std::string dtype = "f32";       // or "bf16", "f64"
  std::string recompute = "none";  // or "full"
  std::string numerics = "fast";   // or "automodel"
  int64_t threads = 0;             // 0: the cores that the process may use
  int64_t seed = 0;
  std::string backend = "cpu";
  int64_t device = 0;
};

// Calls `visitor` for every option, in the order of the help.
void VisitSftOptions(SftOptions& options, OptionVisitor& visitor);

// What is wrong with the values themselves: out of range, not among the choices, contradicting each
// other. InvalidArgument naming the option. `need_paths` is false for a plan, which may come
// without data and output.
absl::Status Validate(const SftOptions& options, bool need_paths = true);

// The complete options as TOML text, and back: what stands in a run's config.toml. Keys that are
// absent from the text keep the value they have in `base`. An unknown key, a wrong type or a wrong
// choice is InvalidArgument that names the place and the nearest valid name.
std::string SftOptionsToToml(const SftOptions& options);
absl::StatusOr<SftOptions> SftOptionsFromToml(absl::string_view text, absl::string_view where,
                                              SftOptions base = {});

// Whether every parameter of the model is trained, and no adapter.
inline bool IsFullTraining(const SftOptions& options) { return options.lora_rank == 0; }

// The parts of valid options, in the terms of the floors below. (Schedules count steps: the total
// is known when the data is.)
// `model` gives what experts need; undefined sizes: no experts.
LoraConfig LoraConfigOf(const SftOptions& options, const ModelConfig& model = {});
// The model's configuration with the options that change how its experts compute.
ModelConfig WithExpertOptions(ModelConfig config, const SftOptions& options);
OptimizerOptions OptimizerOptionsOf(const SftOptions& options);
LrSchedule ScheduleOf(const SftOptions& options, int64_t total_steps);
DType ComputeTypeOf(const SftOptions& options);

}  // namespace lorica

#endif  // LORICA_TRAIN_SFT_OPTIONS_H_
