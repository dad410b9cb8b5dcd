// What of a model is trained: everything, or adapters that are made or read, and routers.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/crc32c.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/router.h"
#include "lorica/peft/peft_files.h"
#include "lorica/peft/target_pattern.h"
#include "lorica/tensor/status.h"
#include "lorica/train/exit_status.h"
#include "lorica/train/sft_setup.h"

namespace lorica::internal {
namespace {

std::string Contradiction(const std::string& path, absl::string_view what, double here,
                          double there) {
  return absl::StrCat("--", what, " contradicts --init-adapter: ", path, " has ", there, " there, ",
                      here, " by the options");
}

// Options that were given must say what the adapter says.
absl::Status CheckAgainstAdapter(const SftSetup& setup) {
  const SftOptions& options = setup.options;
  LoraConfig config = LoraConfigOf(options, setup.model->config());
  const bool split =
      std::any_of(setup.adapters.modules().begin(), setup.adapters.modules().end(),
                  [](const AdaptedModule& module) { return module.part != HostPart::kAll; });
  if (split) config.expert_kind = ExpertLoraKind::kSplit;
  if (config.expert_kind == ExpertLoraKind::kSplit && !split) {
    return absl::InvalidArgumentError(
        "--expert-lora split contradicts --init-adapter: gate and up share an A there");
  }
  if (!options.target.empty() || !options.exclude.empty()) {
    LORICA_ASSIGN_OR_RETURN(const TargetSelection selection,
                            AsOptionError(SelectTargets(*setup.model, options.target,
                                                        options.exclude, config.expert_kind)));
    std::vector<std::string> wanted, there;
    for (const TargetCandidate& module : selection.selected) wanted.push_back(module.path);
    for (const AdaptedModule& module : setup.adapters.modules()) there.push_back(module.path);
    if (wanted != there) {
      return absl::InvalidArgumentError(
          absl::StrCat("--target and --exclude contradict --init-adapter: they select ",
                       wanted.size(), " modules, the adapter has ", there.size(), " others"));
    }
  }
  const bool rank_given = options.lora_rank.has_value() || !options.rank_pattern.empty();
  if (options.moe_rank_scaling && !rank_given) {
    return absl::InvalidArgumentError(
        "--moe-rank-scaling with --init-adapter: expected the --lora-rank that the adapter's ranks "
        "of experts were divided from, found none");
  }
  const bool alpha_given = options.lora_alpha.has_value() || !options.alpha_pattern.empty();
  for (const AdaptedModule& module : setup.adapters.modules()) {
    const LoraFactors& factors = module.adapter->factors(0);
    const TargetCandidate candidate = {module.path, module.host};
    const int64_t rank = RankOf(config, candidate);
    const double alpha = AlphaOf(config, candidate);
    if (rank_given && rank != factors.rank()) {
      return absl::InvalidArgumentError(Contradiction(module.path, "lora-rank",
                                                      static_cast<double>(rank),
                                                      static_cast<double>(factors.rank())));
    }
    if (alpha_given && alpha != factors.alpha) {
      return absl::InvalidArgumentError(
          Contradiction(module.path, "lora-alpha", alpha, factors.alpha));
    }
    if (!options.lora_scaling.empty() && config.scaling != factors.scaling) {
      return absl::InvalidArgumentError(
          absl::StrCat("--lora-scaling contradicts --init-adapter: expected ",
                       Name(factors.scaling), ", found ", options.lora_scaling));
    }
  }
  return absl::OkStatus();
}

// The adapter's folder holds routers in full.
bool SavesRouters(const SftOptions& options) {
  return !IsFullTraining(options) && (options.train_router || options.router_bias_update > 0);
}

absl::Status LoadInitialAdapter(SftSetup& setup) {
  SftOptions& options = setup.options;
  LORICA_ASSIGN_OR_RETURN(
      setup.adapters,
      AsInputError(LoadPeftAdapter(options.init_adapter, *setup.model, *setup.backend,
                                   ComputeTypeOf(options), static_cast<uint64_t>(options.seed))));
  LORICA_RETURN_IF_ERROR(CheckAgainstAdapter(setup));
  for (const ReplacedWeight& weight : setup.adapters.replaced()) {
    if (weight.is_own) continue;
    if (setup.model->config().moe.experts > 0) {
      return absl::UnimplementedError(absl::StrCat("--init-adapter: ", options.init_adapter,
                                                   " brings the weights of ", weight.path,
                                                   " in full (modules_to_save), and training on "
                                                   "from such an adapter of a model with experts "
                                                   "isn't supported"));
    }
    setup.notes.push_back(absl::StrCat(weight.path,
                                       " has the weights that the adapter brings in full "
                                       "(modules_to_save); they stay as they are and are "
                                       "written with the result"));
    // They are base weights of this run: it goes on with the same ones only.
    const Tensor& values = weight.values;
    absl::StrAppend(&setup.fingerprint, " + ", weight.path, " ",
                    Crc32c({values.data<uint8_t>(), values.bytes()}));
  }
  if (!setup.adapters.routers().empty() && !SavesRouters(options)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--init-adapter: ", options.init_adapter, " brings the router ",
                     setup.adapters.routers()[0].path,
                     " in full (modules_to_save); --train-router trains on from it"));
  }
  for (const AdaptedModule& module : setup.adapters.modules()) {
    LoraFactors& factors = module.adapter->factors(0);
    if (options.lora_dropout > 0 && module.host->kind() == AdapterHost::Kind::kEmbedding) {
      return absl::InvalidArgumentError(
          absl::StrCat("--lora-dropout: an embedding has no branch input to drop: ", module.path));
    }
    factors.dropout = options.lora_dropout;
  }
  return absl::OkStatus();
}

absl::Status TrainRouters(SftSetup& setup, const std::vector<SavedRouter>& routers,
                          bool with_weights) {
  const SftOptions& options = setup.options;
  for (const SavedRouter& router : routers) {
    if (std::any_of(setup.adapters.modules().begin(), setup.adapters.modules().end(),
                    [&](const AdaptedModule& module) { return module.host == router.router; })) {
      return absl::InvalidArgumentError(
          absl::StrCat("--train-router: ", router.path,
                       " has an adapter by --target already; expected one of the two"));
    }
    for (const std::string& pattern : options.exclude) {
      if (!MatchesTarget(pattern, router.path, AdapterHost::Kind::kLinear)) continue;
      return absl::InvalidArgumentError(absl::StrCat("--train-router: --exclude ", Quoted(pattern),
                                                     " leaves out the router ", router.path,
                                                     "; expected one of the two"));
    }
    for (const RouterPart& part : TrainablePartsOf(*router.router)) {
      setup.router_parameters += part.parameter->numel();
      if (with_weights) part.parameter->MakeTrainable();
    }
  }
  return absl::OkStatus();
}

// The balancing loss has a gradient for what stands in or before a router.
absl::Status CheckBalancing(SftSetup& setup) {
  if (setup.options.aux_loss == 0 || setup.options.train_router) return absl::OkStatus();
  bool trained = false, reached = false;
  ForEachModule(*setup.model, [&](const std::string&, Module& module) {
    if (const auto* host = dynamic_cast<AdapterHost*>(&module)) {
      for (const AdaptedModule& adapted : setup.adapters.modules()) {
        trained = trained || adapted.host == host;
      }
    }
    reached = reached || (trained && dynamic_cast<nn::Router*>(&module) != nullptr);
  });
  if (reached) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--aux-loss: expected something that trains in or before a router, found nothing that the "
      "balancing loss reaches; use --train-router or another --target");
}

// Routers that are trained in place, or whose correction bias moves.
absl::Status PrepareRouters(SftSetup& setup, bool with_weights) {
  LORICA_RETURN_IF_ERROR(CheckBalancing(setup));
  if (!SavesRouters(setup.options)) return absl::OkStatus();
  std::vector<SavedRouter> routers = ListRouters(*setup.model);
  if (setup.options.train_router) {
    LORICA_RETURN_IF_ERROR(TrainRouters(setup, routers, with_weights));
  }
  if (with_weights) setup.adapters.set_routers(std::move(routers));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckExpertOptions(const SftOptions& options, const ModelConfig& model) {
  if (model.moe.experts > 0) {
    if (options.router_bias_update > 0 && !model.moe.correction_bias) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--router-bias-update: expected a model whose routers have a correction bias, "
          "found ",
          options.model, " (", model.family, ") without"));
    }
    return absl::OkStatus();
  }
  const SftOptions standard;
  const std::pair<const char*, bool> given[] = {
      {"expert-lora", options.expert_lora != standard.expert_lora},
      {"moe-rank-scaling", options.moe_rank_scaling},
      {"router-weight", !options.router_weight.empty()},
      {"numerics", options.numerics != standard.numerics},
      {"train-router", options.train_router},
      {"aux-loss", options.aux_loss > 0},
      {"router-bias-update", options.router_bias_update > 0},
  };
  for (const auto& [name, is_given] : given) {
    if (is_given) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--", name, ": expected a model with experts, found ", options.model, " without"));
    }
  }
  return absl::OkStatus();
}

absl::Status MakeTrainableParts(SftSetup& setup, bool with_weights) {
  SftOptions& options = setup.options;
  CausalLm& model = *setup.model;
  if (IsFullTraining(options)) {
    if (with_weights) MakeTrainable(model);
    return absl::OkStatus();
  }
  if (!options.init_adapter.empty()) {
    LORICA_RETURN_IF_ERROR(LoadInitialAdapter(setup));
    return PrepareRouters(setup, with_weights);
  }
  LoraConfig config = LoraConfigOf(options, model.config());
  config.declare_only = !with_weights;
  // The same selection that injecting makes, for what it leaves out.
  LORICA_ASSIGN_OR_RETURN(
      TargetSelection selection,
      AsOptionError(SelectTargets(model, config.targets, config.excludes, config.expert_kind)));
  setup.left_out = std::move(selection.left_out);
  setup.matches = std::move(selection.matches);
  LORICA_ASSIGN_OR_RETURN(
      setup.adapters,
      AsOptionError(InjectLora(model, *setup.backend, ComputeTypeOf(options), config)));
  for (const std::string& note : setup.adapters.notes()) setup.notes.push_back(note);
  return PrepareRouters(setup, with_weights);
}

}  // namespace lorica::internal
