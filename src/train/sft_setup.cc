#include "lorica/train/sft_setup.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lorica/nn/model_loader.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/status.h"
#include "lorica/train/exit_status.h"
#include "lorica/train/toml_options.h"

namespace lorica::internal {
namespace {

void Say(const SftCallbacks& callbacks, const std::string& text) {
  if (callbacks.on_message) callbacks.on_message(text);
}

// A config.json, or a folder with one and no weights beside it.
std::string ConfigPath(const std::string& model) {
  return absl::EndsWith(model, ".json") ? model : JoinPath(model, "config.json");
}
bool IsConfigAlone(const std::string& model) {
  if (IsGgufPath(model)) return false;
  if (absl::EndsWith(model, ".json")) return true;
  if (!PosixFiles().Stat(ConfigPath(model)).ok()) return false;
  const absl::StatusOr<std::vector<std::string>> names = PosixFiles().List(model);
  return names.ok() && std::none_of(names->begin(), names->end(), [](const std::string& name) {
           return absl::EndsWith(name, ".safetensors") ||
                  absl::EndsWith(name, ".safetensors.index.json");
         });
}

absl::Status OpenBaseModel(SftSetup& setup, bool with_weights, bool config_alone) {
  const SftOptions& options = setup.options;
  const DType compute = ComputeTypeOf(options);
  if (config_alone) {
    LORICA_ASSIGN_OR_RETURN(const ModelConfig config,
                            AsInputError(ReadModelConfigFile(ConfigPath(options.model))));
    setup.model = std::make_unique<CausalLm>(WithExpertOptions(config, options), compute);
    setup.notes = config.notes;
    setup.notes.push_back("planned from the configuration alone; no weights were looked at");
    return absl::OkStatus();
  }
  LORICA_ASSIGN_OR_RETURN(const ModelFiles files, AsInputError(OpenModel(options.model)));
  LORICA_ASSIGN_OR_RETURN(setup.fingerprint, AsInputError(Fingerprint(files)));
  setup.model = std::make_unique<CausalLm>(WithExpertOptions(files.config, options), compute);
  if (with_weights) {
    // A model that trains needs bytes of its own, and a mapped file would be read twice.
    const LoadOptions load = {.borrow = !IsFullTraining(options)};
    LORICA_RETURN_IF_ERROR(AsInputError(LoadWeights(*setup.model, files, *setup.backend, load)));
  }
  setup.notes = files.config.notes;
  return absl::OkStatus();
}

bool HeadTrains(const SftSetup& setup) {
  if (IsFullTraining(setup.options)) return true;
  const AdapterHost* head = &setup.model->lm_head();
  return std::any_of(setup.adapters.modules().begin(), setup.adapters.modules().end(),
                     [&](const AdaptedModule& module) { return module.host == head; });
}

// Parameters of full training: what a gradient can reach.
int64_t TrainedInFull(CausalLm& model) {
  int64_t count = 0;
  ForEachParameter(model, [&](const std::string&, Parameter& parameter) {
    if (parameter.differentiable()) count += parameter.numel();
  });
  return count;
}

// Values of the optimizer's state. Counted from the tree, so that it works without weights.
int64_t OptimizerValues(SftSetup& setup) {
  const bool muon = setup.options.optimizer == "muon" && IsFullTraining(setup.options);
  // Trained routers under Muon would need half; they are small.
  if (!muon) return 2 * setup.memory.trained_parameters;
  int64_t values = 0;
  ForEachParameter(*setup.model, [&](const std::string& path, Parameter& parameter) {
    if (!parameter.differentiable()) return;
    const bool table = path == "lm_head.weight" || path == "model.embed_tokens.weight";
    const bool matrix = parameter.shape().rank() == 2 && !table;
    const ParameterRole role = matrix ? ParameterRole::kMatrix : ParameterRole::kVector;
    values += parameter.numel() * StateCopies(OptimizerKind::kMuon, role, parameter.shape().rank());
  });
  return values;
}

// Fills in how steps are cut and what memory they take.
void PlanPasses(SftSetup& setup) {
  const SftOptions& options = setup.options;
  MemoryFacts& facts = setup.memory;
  facts.config = &setup.model->config();
  facts.model_parameters = CountParameters(*setup.model);
  facts.compute = ComputeTypeOf(options);
  facts.full_training = IsFullTraining(options);
  facts.head_trains = HeadTrains(setup);
  facts.recompute = options.recompute == "full";
  facts.trained_parameters = facts.full_training
                                 ? TrainedInFull(*setup.model)
                                 : setup.adapters.CountParameters() + setup.router_parameters;
  facts.optimizer_values = OptimizerValues(setup);

  TrainerOptions& trainer = setup.trainer_options;
  trainer.optimizer = OptimizerOptionsOf(options);
  trainer.max_grad_norm = options.max_grad_norm;
  trainer.batch_size = options.batch_size;
  trainer.epochs = options.epochs;
  trainer.max_steps = options.max_steps;
  trainer.shuffle = options.shuffle;
  trainer.seed = static_cast<uint64_t>(options.seed);
  trainer.recompute = facts.recompute;
  trainer.router_bias_update = options.router_bias_update;
  trainer.batch.packing = options.packing;
  trainer.batch.row_tokens = options.max_length;
  trainer.batch.rows = options.micro_batch_size.value_or(0);
  trainer.batch.pass_tokens = TokensPerPass(facts);
  if (setup.train.has_value()) {
    trainer.schedule = ScheduleOf(options, TotalSteps(setup.train->size(), trainer));
  }

  // The largest pass that can come: rows of the longest length that records or packing give.
  const int64_t longest =
      setup.train.has_value() ? setup.train->statistics().longest : options.max_length;
  const int64_t step_tokens = longest * options.batch_size;
  if (trainer.batch.rows > 0) {
    const int64_t row = options.packing ? options.max_length : longest;
    facts.tokens = std::min(step_tokens, trainer.batch.rows * row);
  } else {
    facts.tokens = std::min(step_tokens, std::max(longest, trainer.batch.pass_tokens));
  }
}

// What an epoch takes where files have weights.
absl::Status Mix(SftSetup& setup) {
  std::vector<MixturePart> parts;
  bool weighted = false;
  double records = 0;
  for (size_t i = 0; i < setup.train_files.size(); ++i) {
    const DatasetFile& file = setup.train->files()[i];
    parts.push_back({file.begin, file.end, setup.train_files[i].weight});
    weighted = weighted || parts.back().weight != 1;
    records += parts.back().weight * static_cast<double>(parts.back().records());
  }
  if (!weighted) return absl::OkStatus();
  if (records > std::numeric_limits<uint32_t>::max() || EpochLength(parts) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--data: expected weights that give an epoch of 1 to 2^32 - 1 records, found ", records));
  }
  setup.trainer_options.mixture = std::move(parts);
  return absl::OkStatus();
}

// What the chat template passes over would be missing from the training without a word.
void NoteUnwritten(const DatasetStatistics& data, std::vector<std::string>* notes) {
  const auto note = [&](const RecordCount& records, absl::string_view what) {
    if (records.count == 0) return;
    notes->push_back(
        absl::StrCat("the chat template ", what, " of ", records.count, " of ", data.records,
                     " records, so they aren't trained on (the first: ", records.first, ")"));
  };
  note(data.unwritten_tools, "writes none of the tools");
  note(data.unwritten_calls, "leaves out tool calls");
}

std::string JoinNames(const std::vector<std::string>& paths) { return absl::StrJoin(paths, ", "); }

absl::Status LoadData(SftSetup& setup, bool with_weights, const SftCallbacks& callbacks) {
  const SftOptions& options = setup.options;
  if (options.data.empty()) return absl::OkStatus();
  LORICA_ASSIGN_OR_RETURN(const DataFiles files, AsDataNameError(FindDataFiles(options.data)));
  setup.train_files = files.train;
  std::vector<std::string> paths;
  for (const DataFile& file : files.train) paths.push_back(file.path);
  DataOptions data = {.train_on = options.train_on,
                      .system = options.system,
                      .overlong = options.overlong,
                      .max_length = options.max_length,
                      .vocab_size = setup.model->config().vocab_size,
                      .now = setup.now,
                      .deduplicate = options.deduplicate,
                      .find_unwritten = true,
                      .memory_bytes = options.data_memory * 1'000'000,
                      .spool_folder = with_weights ? options.output : "",
                      .pool = setup.pool.get(),
                      .progress = callbacks.on_reading,
                      .cancelled = callbacks.cancelled};
  Say(callbacks,
      absl::StrCat("reading ",
                   paths.size() == 1 ? paths[0] : absl::StrCat(paths.size(), " data files")));
  LORICA_ASSIGN_OR_RETURN(setup.train, LoadDataset(paths, *setup.text, data));
  NoteUnwritten(setup.train->statistics(), &setup.notes);
  LORICA_RETURN_IF_ERROR(Mix(setup));

  std::vector<std::string> held_out = files.valid;
  if (!options.eval_data.empty()) {
    LORICA_ASSIGN_OR_RETURN(held_out, AsDataNameError(FindHeldOutFiles(options.eval_data)));
  } else if (!held_out.empty()) {
    setup.notes.push_back(absl::StrCat("the run is evaluated on ", JoinNames(held_out),
                                       ", which lies beside the data"));
  }
  if (!files.test.empty()) {
    setup.notes.push_back(absl::StrCat(JoinNames(files.test), " is left alone"));
  }
  if (!held_out.empty()) {
    data.deduplicate = data.find_unwritten = false;
    LORICA_ASSIGN_OR_RETURN(setup.eval, LoadDataset(held_out, *setup.text, data));
  } else if (options.keep_best || options.early_stop.has_value() ||
             options.eval_every.has_value() || options.eval_at_start) {
    return absl::InvalidArgumentError(
        "--keep-best, --early-stop, --eval-every and --eval-at-start need --eval-data or a data "
        "folder with a valid file");
  }
  return absl::OkStatus();
}

}  // namespace

ParameterGroup SftSetup::Parameters() {
  ParameterGroup group;
  if (!IsFullTraining(options)) group = ParametersOf(adapters);
  // All of the model, or its routers: what else it has is frozen.
  for (NamedParameter& parameter : ParametersOf(*model)) group.push_back(std::move(parameter));
  return group;
}

absl::StatusOr<SftSetup> SetUp(const SftOptions& options, bool with_weights,
                               const SftCallbacks& callbacks, const std::optional<std::tm>& now) {
  SftSetup setup;
  setup.options = options;
  const std::time_t seconds = std::time(nullptr);
  localtime_r(&seconds, &setup.now);
  if (now.has_value()) setup.now = *now;
  const int threads = options.threads > 0
                          ? static_cast<int>(std::min<int64_t>(options.threads, 1024))
                          : AvailableCores();
  setup.pool = std::make_unique<ThreadPool>(threads);
  setup.backend = MakeCpuBackend(*setup.pool);
  // An adapter may bring copies of base weights, which are compared.
  const bool load = with_weights || !options.init_adapter.empty();
  Say(callbacks, absl::StrCat("loading ", options.model));
  const bool config_alone = !load && IsConfigAlone(options.model);
  LORICA_RETURN_IF_ERROR(OpenBaseModel(setup, load, config_alone));
  LORICA_RETURN_IF_ERROR(CheckExpertOptions(options, setup.model->config()));
  LORICA_RETURN_IF_ERROR(MakeTrainableParts(setup, load));
  ModelText text;
  if (!config_alone) {
    LORICA_ASSIGN_OR_RETURN(text, LoadModelText(options.model, options.chat_template));
  }
  setup.text = std::make_unique<const ModelText>(std::move(text));
  LORICA_RETURN_IF_ERROR(LoadData(setup, with_weights, callbacks));
  if (!options.sample.empty() && !setup.text->tokenizer.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(options.model, ": --sample needs a tokenizer, and the model has none"));
  }
  PlanPasses(setup);
  return setup;
}

RunIdentity IdentityOf(const SftSetup& setup) {
  RunIdentity identity;
  SftOptions options = setup.options;
  identity.options =
      FixedOptions([&](OptionVisitor& visitor) { VisitSftOptions(options, visitor); });
  std::string weights;
  for (size_t i = 0; i < setup.train_files.size(); ++i) {
    const DatasetFile& file = setup.train->files()[i];
    identity.data.push_back({NameOf(file.path), file.bytes, file.crc32c});
    absl::StrAppend(&weights, i == 0 ? "" : ", ", setup.train_files[i].weight);
  }
  // The names of the files may change, how often they are taken may not.
  identity.options.emplace_back("weights of the data", weights);
  identity.tokens = setup.train->fingerprint();
  identity.chat_template = setup.text->TemplateFingerprint();
  identity.base_model = setup.fingerprint;
  return identity;
}

}  // namespace lorica::internal
