// Models, records and expected values of tests/golden/models, for the tests of this folder.
#ifndef LORICA_TESTS_TRAIN_GOLDEN_RUN_H_
#define LORICA_TESTS_TRAIN_GOLDEN_RUN_H_

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lorica/io/tensor_source.h"
#include "lorica/nn/model_loader.h"
#include "lorica/peft/peft_files.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/train/trainer.h"

namespace lorica {

inline std::string GoldenPath(const std::string& name) {
  return std::string(LORICA_SOURCE_ROOT "/tests/golden/models/") + name;
}

inline nlohmann::json GoldenJson(const std::string& name) {
  std::ifstream file(GoldenPath(name));
  return nlohmann::json::parse(file);
}

// Records `which` of a case's batches.jsonl.
inline MemorySource GoldenRecords(const std::string& name, const std::vector<int>& which) {
  std::ifstream file(GoldenPath(name + "/batches.jsonl"));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  std::vector<TrainingSequence> sequences;
  for (const int i : which) {
    sequences.push_back(TrainingSequence::FromLabels(lines[i]["input_ids"], lines[i]["labels"]));
  }
  return MemorySource(std::move(sequences));
}

// A model on a backend of its own.
struct GoldenModel {
  GoldenModel(const std::string& name, DType compute, int threads = 1)
      : pool(threads), backend(MakeCpuBackend(pool)) {
    absl::StatusOr<LoadedModel> loaded = LoadModel(GoldenPath(name + "/model"), *backend, compute);
    if (!loaded.ok()) throw Error(std::string(loaded.status().message()));
    model = std::move(loaded->model);
  }
  AdapterSet LoadAdapter(const std::string& name) {
    absl::StatusOr<AdapterSet> set =
        LoadPeftAdapter(GoldenPath(name), *model, *backend, model->compute_dtype());
    if (!set.ok()) throw Error(std::string(set.status().message()));
    return *std::move(set);
  }

  ThreadPool pool;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<CausalLm> model;
};

// All tensors of a safetensors file.
inline std::map<std::string, std::vector<double>> GoldenTensors(const std::string& name) {
  absl::StatusOr<std::unique_ptr<TensorSource>> source = OpenSafetensorsSource(GoldenPath(name));
  if (!source.ok()) throw Error(std::string(source.status().message()));
  std::map<std::string, std::vector<double>> tensors;
  for (const std::string& key : (*source)->names()) {
    int64_t count = 1;
    for (const int64_t extent : (*source)->Find(key)->shape) count *= extent;
    std::vector<double> values(static_cast<size_t>(count));
    const absl::Status read = (*source)->ReadAll(key, DType::kF64, values.data());
    if (!read.ok()) throw Error(std::string(read.message()));
    tensors[key] = std::move(values);
  }
  return tensors;
}

// The run that trajectory.json describes.
inline TrainerOptions GoldenOptions(const nlohmann::json& run) {
  TrainerOptions options;
  options.optimizer.adamw = {.lr = run["optimizer"]["lr"],
                             .beta1 = run["optimizer"]["betas"][0],
                             .beta2 = run["optimizer"]["betas"][1],
                             .eps = run["optimizer"]["eps"],
                             .weight_decay = run["optimizer"]["weight_decay"]};
  options.max_grad_norm = run["clip_max_norm"].is_null() ? 0 : run["clip_max_norm"].get<double>();
  options.schedule.kind = ScheduleKind::kConstant;
  if (run["schedule"].is_object()) {
    options.schedule.kind = ScheduleKind::kCosine;
    options.schedule.warmup_steps = run["schedule"]["num_warmup_steps"];
  }
  options.batch_size = static_cast<int64_t>(run["records"].size());
  options.epochs = static_cast<int64_t>(run["steps"].size());
  options.shuffle = false;
  return options;
}

}  // namespace lorica

#endif  // LORICA_TESTS_TRAIN_GOLDEN_RUN_H_
