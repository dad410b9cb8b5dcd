#include "lorica/train/training_checkpoint.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "lorica/io/atomic_commit.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

constexpr char kOptionPrefix[] = "option.";
// "expert_load.0": "<path>: 12 0 7".
constexpr char kLoadPrefix[] = "expert_load.";

StoredType StoredTypeOf(const Tensor& tensor) {
  return tensor.dtype() == DType::kF64 ? StoredType::kF64 : StoredType::kF32;
}

std::vector<int64_t> ShapeOf(const Tensor& tensor) {
  return {tensor.shape().begin(), tensor.shape().end()};
}

absl::Span<const uint8_t> BytesOf(const Tensor& tensor) {
  return {static_cast<const uint8_t*>(tensor.view().data), tensor.bytes()};
}

std::string StateName(const NamedParameter& parameter, absl::string_view kind) {
  return absl::StrCat(parameter.path, ":", kind);
}

// Names of the axes of a factor; none for other parameters, whose axes their modules know.
std::vector<std::string> AxesOf(const NamedParameter& parameter) {
  std::vector<std::string> axes;
  if (parameter.role == ParameterRole::kLoraA) axes = {"rank", "in"};
  if (parameter.role == ParameterRole::kLoraB) axes = {"out", "rank"};
  // Stacked experts.
  if (!axes.empty() && parameter.master.rank() == 3) axes.insert(axes.begin(), "expert");
  return axes;
}

CheckpointTensor Describe(std::string name, const NamedParameter& parameter, const Tensor& tensor,
                          absl::string_view role) {
  return {.name = std::move(name),
          .type = StoredTypeOf(tensor),
          .shape = ShapeOf(tensor),
          .role = std::string(role),
          .axes = AxesOf(parameter),
          .bytes = BytesOf(tensor)};
}

absl::Status LoadInto(const CheckpointReader& reader, const std::string& name, Tensor& tensor) {
  const StoredType type = StoredTypeOf(tensor);
  const std::vector<int64_t> shape = ShapeOf(tensor);
  return reader.Load(name, type, shape,
                     {static_cast<uint8_t*>(tensor.mutable_view().data), tensor.bytes()});
}

void PutFile(const std::string& prefix, const FileFingerprint& file,
             std::map<std::string, ManifestScalar>& scalars) {
  scalars[prefix + ".name"] = file.name;
  scalars[prefix + ".size"] = file.size;
  scalars[prefix + ".crc32c"] = int64_t{file.crc32c};
}

absl::StatusOr<FileFingerprint> GetFile(const CheckpointReader& reader, const std::string& prefix) {
  FileFingerprint file;
  LORICA_ASSIGN_OR_RETURN(file.name, reader.GetString(prefix + ".name"));
  LORICA_ASSIGN_OR_RETURN(file.size, reader.GetInt(prefix + ".size"));
  LORICA_ASSIGN_OR_RETURN(const int64_t crc, reader.GetInt(prefix + ".crc32c"));
  file.crc32c = static_cast<uint32_t>(crc);
  return file;
}

constexpr char kTimeKey[] = "template_time";
constexpr char kTimeFormat[] = "%Y-%m-%dT%H:%M:%S";

absl::StatusOr<std::tm> GetTime(const CheckpointReader& reader) {
  LORICA_ASSIGN_OR_RETURN(const std::string text, reader.GetString(kTimeKey));
  std::tm time = {};
  const char* end = strptime(text.c_str(), kTimeFormat, &time);
  if (end == nullptr || *end != '\0') {
    return absl::DataLossError(absl::StrCat(reader.path(), ": ", kTimeKey,
                                            ": expected a time such as 2024-05-31T23:59:00, found ",
                                            Quoted(text)));
  }
  return time;
}

std::string Text(const FileFingerprint& file) {
  return absl::StrFormat("%s of %d bytes, crc32c %08x", Quoted(file.name), file.size, file.crc32c);
}

ParameterGroup Joined(const ParameterGroup& parameters, const ParameterGroup& buffers) {
  ParameterGroup all = parameters;
  all.insert(all.end(), buffers.begin(), buffers.end());
  return all;
}

absl::StatusOr<ExpertLoads> GetLoads(const CheckpointReader& reader) {
  ExpertLoads loads;
  for (;;) {
    const std::string key = absl::StrCat(kLoadPrefix, loads.size());
    if (reader.manifest().scalars.count(key) == 0) return loads;
    LORICA_ASSIGN_OR_RETURN(const std::string text, reader.GetString(key));
    const size_t colon = text.find(": ");
    const std::string where = absl::StrCat(reader.path(), ": ", key);
    if (colon == std::string::npos) {
      return absl::DataLossError(
          absl::StrCat(where, ": expected a layer and its load, found ", Quoted(text)));
    }
    LayerLoad layer{text.substr(0, colon), {}};
    LORICA_ASSIGN_OR_RETURN(layer.load, ParseLoad(text.substr(colon + 2), where));
    loads.push_back(std::move(layer));
  }
}

}  // namespace

absl::Status CheckSameRun(const std::string& where, const RunIdentity& saved,
                          const RunIdentity& current) {
  std::vector<std::string> differing;
  const std::map<std::string, std::string> here(current.options.begin(), current.options.end());
  std::set<std::string> seen;
  for (const auto& [name, value] : saved.options) {
    seen.insert(name);
    const auto it = here.find(name);
    const std::string now = it == here.end() ? "no such option" : it->second;
    if (now != value)
      differing.push_back(absl::StrCat(name, " (", value, " there, ", now, " here)"));
  }
  for (const auto& [name, value] : current.options) {
    if (seen.count(name) == 0) {
      differing.push_back(absl::StrCat(name, " (absent there, ", value, " here)"));
    }
  }
  const bool options_differ = !differing.empty();
  if (saved.base_model != current.base_model) {
    differing.push_back(absl::StrCat("the model's content (", saved.base_model, " there, ",
                                     current.base_model, " here)"));
  }
  if (saved.chat_template != current.chat_template) {
    differing.push_back(absl::StrCat("the chat template (", saved.chat_template, " there, ",
                                     current.chat_template, " here)"));
  }
  const size_t files = std::max(saved.data.size(), current.data.size());
  for (size_t i = 0; i < files; ++i) {
    const std::string there = i < saved.data.size() ? Text(saved.data[i]) : "absent";
    const std::string now = i < current.data.size() ? Text(current.data[i]) : "absent";
    if (there == "absent" || now == "absent" || !(saved.data[i] == current.data[i])) {
      differing.push_back(
          absl::StrCat("data file ", i + 1, " (", there, " there; ", now, " here)"));
    }
  }
  if (differing.empty() && saved.tokens != current.tokens) {
    differing.push_back("the tokens that the data becomes");
  }
  if (differing.empty()) return absl::OkStatus();
  const std::string message =
      absl::StrCat(where, ": the checkpoint can't be continued by a run that differs in ",
                   absl::StrJoin(differing, ", "));
  return options_differ ? absl::InvalidArgumentError(message)
                        : absl::FailedPreconditionError(message);
}

ParameterCopies CopyParameters(const ParameterGroup& group) {
  ParameterCopies copies;
  for (const NamedParameter& parameter : group) {
    copies.push_back(raw::Clone(parameter.master.Detach()));
  }
  return copies;
}

absl::StatusOr<std::string> SaveTraining(FileSystem& files, const std::string& folder,
                                         const TrainingState& state, Optimizer& optimizer,
                                         const ParameterGroup& buffers,
                                         const ParameterCopies& best) {
  CheckpointContents contents;
  contents.step = state.step;
  contents.run_id = state.run_id;
  contents.base_fingerprint = state.run.base_model;
  auto& scalars = contents.scalars;
  scalars["position"] = state.position;
  scalars["optimizer_clock"] = state.clock;
  scalars["tokens"] = state.run.tokens;
  scalars["best_loss"] = state.evaluations.best_loss;
  scalars["best_step"] = state.evaluations.best_step;
  scalars["evaluations_without_improvement"] = state.evaluations.without_improvement;
  scalars["stopped_early"] = int64_t{state.stopped_early};
  scalars["evaluation_pending"] = int64_t{state.evaluation_pending};
  scalars["chat_template"] = state.run.chat_template;
  if (state.now.has_value()) {
    char text[32];
    if (std::strftime(text, sizeof text, kTimeFormat, &*state.now) > 0) {
      scalars[kTimeKey] = std::string(text);
    }
  }
  for (const auto& [name, value] : state.run.options) scalars[kOptionPrefix + name] = value;
  for (size_t i = 0; i < state.loads.size(); ++i) {
    scalars[absl::StrCat(kLoadPrefix, i)] =
        absl::StrCat(state.loads[i].path, ": ", LoadText(state.loads[i].load));
  }
  scalars["data_files"] = static_cast<int64_t>(state.run.data.size());
  for (size_t i = 0; i < state.run.data.size(); ++i) {
    PutFile(absl::StrCat("data.", i), state.run.data[i], scalars);
  }

  for (const NamedParameter& parameter : optimizer.parameters()) {
    contents.tensors.push_back(
        Describe(parameter.path, parameter, parameter.master, Name(parameter.role)));
  }
  optimizer.VisitState(
      [&](const NamedParameter& parameter, absl::string_view kind, Tensor& tensor) {
        contents.tensors.push_back(Describe(StateName(parameter, kind), parameter, tensor, kind));
      });
  for (const NamedParameter& buffer : buffers) {
    contents.tensors.push_back(Describe(buffer.path, buffer, buffer.master, "buffer"));
  }
  const ParameterGroup all = Joined(optimizer.parameters(), buffers);
  for (size_t i = 0; i < best.size(); ++i) {
    const NamedParameter& parameter = all[i];
    contents.tensors.push_back(Describe(StateName(parameter, "best"), parameter, best[i], "best"));
  }

  const std::string path = JoinPath(folder, CheckpointName(state.step));
  if (files.Stat(path).ok() && !CheckpointReader::Open(path, files).ok()) {
    LORICA_RETURN_IF_ERROR(RemoveTree(files, path));
  }
  return WriteCheckpoint(files, folder, contents);
}

absl::StatusOr<TrainingState> ReadTrainingState(const CheckpointReader& reader) {
  TrainingState state;
  state.step = reader.manifest().step;
  state.run_id = reader.manifest().run_id;
  state.run.base_model = reader.manifest().base_fingerprint;
  LORICA_ASSIGN_OR_RETURN(state.position, reader.GetInt("position"));
  LORICA_ASSIGN_OR_RETURN(state.clock, reader.GetInt("optimizer_clock"));
  LORICA_ASSIGN_OR_RETURN(state.run.tokens, reader.GetString("tokens"));
  LORICA_ASSIGN_OR_RETURN(state.evaluations.best_loss, reader.GetDouble("best_loss"));
  LORICA_ASSIGN_OR_RETURN(state.evaluations.best_step, reader.GetInt("best_step"));
  LORICA_ASSIGN_OR_RETURN(state.evaluations.without_improvement,
                          reader.GetInt("evaluations_without_improvement"));
  LORICA_ASSIGN_OR_RETURN(const int64_t stopped, reader.GetInt("stopped_early"));
  state.stopped_early = stopped != 0;
  LORICA_ASSIGN_OR_RETURN(const int64_t pending, reader.GetInt("evaluation_pending"));
  state.evaluation_pending = pending != 0;
  LORICA_ASSIGN_OR_RETURN(state.run.chat_template, reader.GetString("chat_template"));
  LORICA_ASSIGN_OR_RETURN(state.loads, GetLoads(reader));
  if (reader.manifest().scalars.count(kTimeKey) > 0) {
    LORICA_ASSIGN_OR_RETURN(state.now, GetTime(reader));
  }
  LORICA_ASSIGN_OR_RETURN(const int64_t files, reader.GetInt("data_files"));
  if (files < 0 || files > static_cast<int64_t>(reader.manifest().scalars.size())) {
    return absl::DataLossError(
        absl::StrCat(reader.path(), ": data_files: ", files, " can't be right"));
  }
  for (int64_t i = 0; i < files; ++i) {
    LORICA_ASSIGN_OR_RETURN(FileFingerprint file, GetFile(reader, absl::StrCat("data.", i)));
    state.run.data.push_back(std::move(file));
  }
  for (const auto& [key, value] : reader.manifest().scalars) {
    if (key.rfind(kOptionPrefix, 0) != 0) continue;
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) {
      return absl::DataLossError(
          absl::StrCat(reader.path(), ": ", key, ": expected a text, found a number"));
    }
    state.run.options.emplace_back(key.substr(sizeof kOptionPrefix - 1), *text);
  }
  if (state.clock < 0 || state.clock > state.step) {
    return absl::DataLossError(absl::StrCat(reader.path(), ": the optimizer's clock ", state.clock,
                                            " isn't in 0 to ", state.step));
  }
  return state;
}

absl::Status LoadTraining(const CheckpointReader& reader, const TrainingState& state,
                          bool fresh_optimizer, Optimizer& optimizer, const ParameterGroup& buffers,
                          ParameterCopies* best) {
  const ParameterGroup parameters = Joined(optimizer.parameters(), buffers);
  std::vector<std::string> expected;
  bool has_best = false;
  for (const NamedParameter& parameter : parameters) {
    expected.push_back(parameter.path);
    has_best = has_best || reader.Find(StateName(parameter, "best")) != nullptr;
  }
  optimizer.VisitState([&](const NamedParameter& parameter, absl::string_view kind, Tensor&) {
    expected.push_back(StateName(parameter, kind));
  });
  if (has_best) {
    for (const NamedParameter& parameter : parameters) {
      expected.push_back(StateName(parameter, "best"));
    }
  }
  LORICA_RETURN_IF_ERROR(reader.ExpectTensors(expected));

  for (const NamedParameter& parameter : parameters) {
    Tensor master = parameter.master;
    LORICA_RETURN_IF_ERROR(LoadInto(reader, parameter.path, master));
  }
  best->clear();
  if (has_best) {
    *best = CopyParameters(parameters);
    for (size_t i = 0; i < parameters.size(); ++i) {
      LORICA_RETURN_IF_ERROR(LoadInto(reader, StateName(parameters[i], "best"), (*best)[i]));
    }
  }
  if (fresh_optimizer) return absl::OkStatus();

  absl::Status status;
  bool any_moment = false;
  optimizer.VisitState(
      [&](const NamedParameter& parameter, absl::string_view kind, Tensor& tensor) {
        if (!status.ok()) return;
        status = LoadInto(reader, StateName(parameter, kind), tensor);
        const absl::Span<const uint8_t> bytes = BytesOf(tensor);
        any_moment =
            any_moment || std::any_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b != 0; });
      });
  LORICA_RETURN_IF_ERROR(status);
  if (state.clock > 0 && !any_moment) {
    return absl::DataLossError(
        absl::StrCat(reader.path(), ": expected optimizer state of ", state.clock,
                     " steps, found only zeros; --fresh-optimizer starts without it"));
  }
  optimizer.set_clock(state.clock);
  return absl::OkStatus();
}

}  // namespace lorica
