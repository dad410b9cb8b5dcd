// The list of options of `lorica sft`: names, help and variables.
#include "lorica/train/sft_options.h"

namespace lorica {
namespace {

constexpr absl::string_view kInput = "Input and output";
constexpr absl::string_view kAdapter = "Adapter";
constexpr absl::string_view kData = "Data";
constexpr absl::string_view kSteps = "Steps";
constexpr absl::string_view kOptimizer = "Optimizer";
constexpr absl::string_view kEvaluation = "Evaluation";
constexpr absl::string_view kCheckpoints = "Checkpoints";
constexpr absl::string_view kRunning = "Running";

// `may_change` where a resumed run may differ. Model, data and template are compared by content
// (their fingerprints stand in the checkpoint), so their paths may change.
void VisitAdapter(SftOptions& o, OptionVisitor& v) {
  v.On({.name = "lora-rank",
        .group = kAdapter,
        .help = "rank of the adapter; 0 trains the whole model and makes none",
        .default_text = "16"},
       o.lora_rank);
  v.On({.name = "lora-alpha",
        .group = kAdapter,
        .help = "strength: the branch is multiplied by alpha / rank",
        .default_text = "32"},
       o.lora_alpha);
  v.On({.name = "lora-scaling",
        .group = kAdapter,
        .help = "alpha / rank, or rslora: alpha / sqrt(rank)",
        .choices = {"standard", "rslora"},
        .default_text = "standard"},
       o.lora_scaling);
  v.On({.name = "lora-dropout",
        .group = kAdapter,
        .help = "share of the branch input that is dropped in training"},
       o.lora_dropout);
  v.On({.name = "lora-init",
        .group = kAdapter,
        .help = "how A starts; B is zero (embeddings: the other way round)",
        .choices = {"kaiming", "xavier", "gaussian"}},
       o.lora_init);
  v.On({.name = "target",
        .group = kAdapter,
        .help =
            "pattern of module paths to adapt (repeatable): *_proj, q_proj, all-linear, all (with "
            "experts), ...",
        .default_text = "*_proj and kv_a_proj_with_mqa"},
       o.target);
  v.On({.name = "exclude",
        .group = kAdapter,
        .help = "pattern of module paths to leave alone (repeatable); wins over --target"},
       o.exclude);
  v.On({.name = "rank-pattern",
        .group = kAdapter,
        .help = "PATTERN=RANK for some modules (repeatable); the first match counts"},
       o.rank_pattern);
  v.On({.name = "alpha-pattern",
        .group = kAdapter,
        .help = "PATTERN=ALPHA for some modules (repeatable); the first match counts"},
       o.alpha_pattern);
  v.On({.name = "init-adapter",
        .group = kAdapter,
        .help = "start from this adapter folder: its weights, rank, alpha, scaling and targets"},
       o.init_adapter);
  v.On({.name = "expert-lora",
        .group = kAdapter,
        .help = "how stacked experts carry adapters: one A for gate and up, an A each, or outer "
                "factors that experts share",
        .choices = {"fused", "split", "shared-outer"}},
       o.expert_lora);
  v.On({.name = "moe-rank-scaling",
        .group = kAdapter,
        .help = "divide the rank of experts by the experts of a token, rounded down"},
       o.moe_rank_scaling);
  v.On({.name = "router-weight",
        .group = kAdapter,
        .help = "where a token's weight multiplies: before-down or after-down",
        .default_text = "after-down; with --numerics automodel the family's"},
       o.router_weight);
  v.On({.name = "train-router",
        .group = kAdapter,
        .help = "train routers in full beside the adapters; adapter/ then holds them "
                "(modules_to_save)"},
       o.train_router);
  v.On({.name = "aux-loss",
        .group = kAdapter,
        .help = "coefficient of the load-balancing loss, taken over the tokens of a forward pass"},
       o.aux_loss);
  v.On(
      {.name = "router-bias-update",
       .group = kAdapter,
       .help = "how far the correction bias of an expert moves after a step, up where it had fewer "
               "tokens than the mean, else down; adapter/ then holds the routers"},
      o.router_bias_update);
  v.On({.name = "adapter-format",
        .group = kAdapter,
        .help =
            "what adapter/ is written as; both are the same without experts. PEFT loads experts of "
            "qwen2_moe, gpt_oss and qwen3_5_moe from peft-3d alone",
        .choices = {"peft-2d", "peft-3d"}},
       o.adapter_format);
}

void VisitData(SftOptions& o, OptionVisitor& v) {
  v.On({.name = "max-length", .group = kData, .help = "tokens of a record, at most"}, o.max_length);
  v.On({.name = "overlong",
        .group = kData,
        .help = "what becomes of longer records",
        .choices = {"truncate", "error", "drop"}},
       o.overlong);
  v.On({.name = "deduplicate",
        .group = kData,
        .help = "leave out records that are equal to an earlier one; else they are only counted"},
       o.deduplicate);
  v.On({.name = "data-memory",
        .group = kData,
        .help = "MB of tokens kept in memory; the rest is read again when it is trained",
        .may_change = true},
       o.data_memory);
  v.On({.name = "packing",
        .group = kData,
        .help = "several records in one row, without attention across them"},
       o.packing);
  v.On({.name = "shuffle", .group = kData, .help = "a new order of records in each epoch"},
       o.shuffle);
  v.On({.name = "train-on",
        .group = kData,
        .help = "which tokens of a conversation are trained",
        .choices = {"assistant", "last", "all"}},
       o.train_on);
  v.On({.name = "system",
        .group = kData,
        .help = "system message for conversations without one",
        .default_text = "the template's"},
       o.system);
  v.On({.name = "chat-template",
        .group = kData,
        .help = "one of the model's templates by name, or a file",
        .default_text = "the model's",
        .may_change = true},
       o.chat_template);
}

void VisitSteps(SftOptions& o, OptionVisitor& v) {
  v.On({.name = "epochs", .group = kSteps, .help = "passes over the data", .may_change = true},
       o.epochs);
  v.On({.name = "max-steps",
        .group = kSteps,
        .help = "optimizer steps, at most",
        .default_text = "no limit",
        .may_change = true},
       o.max_steps);
  v.On({.name = "batch-size", .group = kSteps, .help = "records of an optimizer step"},
       o.batch_size);
  v.On(
      {.name = "micro-batch-size",
       .group = kSteps,
       .help = "rows of a forward pass; the adapter comes out the same, unless --aux-loss is given",
       .default_text = "by memory",
       .may_change = true},
      o.micro_batch_size);
}

void VisitOptimizer(SftOptions& o, OptionVisitor& v) {
  v.On({.name = "optimizer",
        .group = kOptimizer,
        .help = "muon leaves adapters, embeddings, head and vectors to adamw",
        .choices = {"adamw", "muon"}},
       o.optimizer);
  v.On({.name = "lr", .group = kOptimizer, .help = "learning rate"}, o.lr);
  v.On({.name = "schedule",
        .group = kOptimizer,
        .help = "course of the learning rate after the warm-up",
        .choices = {"constant", "linear", "cosine"}},
       o.schedule);
  v.On({.name = "warmup-steps",
        .group = kOptimizer,
        .help = "steps of linear warm-up; wins over --warmup-ratio",
        .default_text = "by --warmup-ratio"},
       o.warmup_steps);
  v.On({.name = "warmup-ratio",
        .group = kOptimizer,
        .help = "share of all steps that is warm-up, rounded up"},
       o.warmup_ratio);
  v.On({.name = "min-lr-ratio",
        .group = kOptimizer,
        .help = "share of the learning rate that linear and cosine end with"},
       o.min_lr_ratio);
  v.On({.name = "beta1", .group = kOptimizer, .help = "decay of the first moment"}, o.beta1);
  v.On({.name = "beta2", .group = kOptimizer, .help = "decay of the second moment"}, o.beta2);
  v.On({.name = "eps", .group = kOptimizer, .help = "added to the denominator"}, o.eps);
  v.On({.name = "weight-decay", .group = kOptimizer, .help = "decoupled decay"}, o.weight_decay);
  v.On({.name = "max-grad-norm",
        .group = kOptimizer,
        .help = "global norm that gradients are clipped to; 0: no clipping"},
       o.max_grad_norm);
  v.On({.name = "muon-lr", .group = kOptimizer, .help = "learning rate of Muon's matrices"},
       o.muon_lr);
  v.On({.name = "muon-momentum", .group = kOptimizer, .help = "momentum of Muon"}, o.muon_momentum);
  v.On({.name = "muon-nesterov", .group = kOptimizer, .help = "Nesterov momentum in Muon"},
       o.muon_nesterov);
}

void VisitEvaluation(SftOptions& o, OptionVisitor& v) {
  v.On({.name = "eval-data",
        .group = kEvaluation,
        .help = "held-out files, patterns or folders",
        .default_text = "the valid file of a data folder",
        .may_change = true},
       o.eval_data);
  v.On({.name = "eval-every",
        .group = kEvaluation,
        .help = "steps between evaluations",
        .default_text = "after the last step only",
        .may_change = true},
       o.eval_every);
  v.On({.name = "eval-at-start",
        .group = kEvaluation,
        .help = "also evaluate before the first step",
        .may_change = true},
       o.eval_at_start);
  v.On({.name = "keep-best",
        .group = kEvaluation,
        .help = "adapter/ is the one of the best evaluation",
        .may_change = true},
       o.keep_best);
  v.On({.name = "early-stop",
        .group = kEvaluation,
        .help = "end after this many evaluations without improvement",
        .default_text = "never",
        .may_change = true},
       o.early_stop);
  v.On({.name = "sample",
        .group = kEvaluation,
        .help = "prompt to answer before and after training (repeatable)",
        .may_change = true},
       o.sample);
  v.On({.name = "sample-tokens",
        .group = kEvaluation,
        .help = "tokens of an answer, at most",
        .may_change = true},
       o.sample_tokens);
}

void VisitRunning(SftOptions& o, OptionVisitor& v) {
  v.On({.name = "save-every",
        .group = kCheckpoints,
        .help = "steps between checkpoints",
        .default_text = "after the last step only",
        .may_change = true},
       o.save_every);
  v.On({.name = "keep",
        .group = kCheckpoints,
        .help = "checkpoints that are kept, at most",
        .may_change = true},
       o.keep);
  v.On({.name = "resume",
        .group = kCheckpoints,
        .help = "auto: from the newest checkpoint in the output folder; never; or a checkpoint's "
                "folder",
        .may_change = true},
       o.resume);
  v.On({.name = "fresh-optimizer",
        .group = kCheckpoints,
        .help = "start the optimizer's moments anew when resuming",
        .may_change = true},
       o.fresh_optimizer);
  v.On({.name = "dtype",
        .group = kRunning,
        .help = "compute type; f64 is slow and exact",
        .choices = {"bf16", "f32", "f64"}},
       o.dtype);
  v.On({.name = "recompute",
        .group = kRunning,
        .help = "full: keep only the input of each block and run it again for the gradient",
        .choices = {"none", "full"}},
       o.recompute);
  v.On({.name = "numerics",
        .group = kRunning,
        .help = "where experts round: once per product, or at every step as NeMo AutoModel",
        .choices = {"fast", "automodel"}},
       o.numerics);
  v.On({.name = "threads",
        .group = kRunning,
        .help = "threads; 0: the cores that this process may use",
        .may_change = true},
       o.threads);
  v.On({.name = "seed", .group = kRunning, .help = "of start values, order of records and dropout"},
       o.seed);
  v.On({.name = "backend", .group = kRunning, .help = "device kind", .choices = {"cpu", "cuda"}},
       o.backend);
  v.On({.name = "device", .group = kRunning, .help = "device number"}, o.device);
}

}  // namespace

void VisitSftOptions(SftOptions& o, OptionVisitor& v) {
  v.On({.name = "model",
        .group = kInput,
        .help = "Hugging Face folder or .gguf file",
        .may_change = true},
       o.model);
  v.On({.name = "data",
        .group = kInput,
        .help = "JSONL or JSON files (gz, zst, xz too), 'patterns*', folders with train and valid "
                "files; NAME@0.3 takes 0.3 of its records an epoch",
        .may_change = true},
       o.data);
  v.On({.name = "output", .group = kInput, .help = "folder of the run", .may_change = true},
       o.output);
  VisitAdapter(o, v);
  VisitData(o, v);
  VisitSteps(o, v);
  VisitOptimizer(o, v);
  VisitEvaluation(o, v);
  VisitRunning(o, v);
}

}  // namespace lorica
