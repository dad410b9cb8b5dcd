// Routers that are trained beside adapters: in the adapter's files, merged, resumed.
#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "lorica/io/safetensors.h"
#include "lorica/train/convert_adapter.h"
#include "lorica/train/exit_status.h"
#include "lorica/train/merge_model.h"
#include "train/expert_training_fixture.h"

namespace lorica {
namespace {

using ::testing::HasSubstr;

class TrainedRouters : public ExpertTraining {
 protected:
  std::string AdapterWithRouters() const {
    SftOptions options = MoeOptions("run");
    options.train_router = true;
    options.target = {"o_proj"};
    options.max_steps = 1;
    return MustRun(options).result_path;
  }
  // What loading an adapter says.
  static std::string LoadError(const std::string& adapter) {
    GoldenModel base("deepseek_v3", DType::kF32);
    return std::string(
        LoadPeftAdapter(adapter, *base.model, *base.backend, DType::kF32).status().message());
  }
};

constexpr char kGate1[] = "base_model.model.model.layers.1.mlp.gate.";
constexpr char kGate2[] = "base_model.model.model.layers.2.mlp.gate.";

TEST_F(TrainedRouters, StandInTheAdapterAndComeBackWithIt) {
  SftOptions options = MoeOptions("run");
  options.train_router = true;
  const SftResult result = MustRun(options);
  const auto tensors = AdapterTensors(options);
  ASSERT_EQ(tensors.count(std::string(kGate1) + "weight"), 1u);
  ASSERT_EQ(tensors.count(std::string(kGate2) + "e_score_correction_bias"), 1u);
  const nlohmann::json config =
      nlohmann::json::parse(ReadText(options.output + "/adapter/adapter_config.json"));
  EXPECT_EQ(config["modules_to_save"],
            (nlohmann::json{"model.layers.1.mlp.gate", "model.layers.2.mlp.gate"}));

  GoldenModel base("deepseek_v3", DType::kF32);
  const std::vector<double> before = Logits(*base.model);
  const absl::StatusOr<AdapterSet> set =
      LoadPeftAdapter(result.result_path, *base.model, *base.backend, DType::kF32);
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_EQ(set->routers().size(), 2u);
  nn::Router& router = *set->routers()[0].router;
  const std::vector<double> own = set->routers()[0].originals[0].ToDoubles();
  EXPECT_EQ(router.weight().value().ToDoubles(), tensors.at(std::string(kGate1) + "weight"));
  EXPECT_NE(router.weight().value().ToDoubles(), own);
  EXPECT_NE(Logits(*base.model), before);
  set->Detach();
  EXPECT_EQ(router.weight().value().ToDoubles(), own);
  EXPECT_EQ(Logits(*base.model), before);
}

TEST_F(TrainedRouters, DependOnNoPassThreadOrRecompute) {
  SftOptions options = MoeOptions("one");
  options.train_router = true;
  options.router_bias_update = 0.01;
  options.micro_batch_size = 64;
  MustRun(options);
  SftOptions other = MoeOptions("other");
  other.train_router = true;
  other.router_bias_update = 0.01;
  other.micro_batch_size = 1;
  other.threads = 2;
  other.recompute = "full";
  other.packing = false;
  MustRun(other);
  EXPECT_EQ(AdapterTensors(options).count(std::string(kGate2) + "weight"), 1u);
  EXPECT_EQ(ReadText(options.output + "/adapter/adapter_model.safetensors"),
            ReadText(other.output + "/adapter/adapter_model.safetensors"));
}

TEST_F(TrainedRouters, AndBiasesResumeExactly) {
  SftOptions options = MoeOptions("whole");
  options.train_router = true;
  options.router_bias_update = 0.01;
  options.aux_loss = 0.01;
  options.keep_best = true;
  options.eval_every = 3;
  options.keep = 10;
  MustRun(options);
  SftOptions parts = options;
  parts.output = folder_ / "parts";
  for (const int64_t stop : {2, 5}) {  // in between two lines that tell loads
    bool stopped = false;
    SftCallbacks callbacks;
    callbacks.on_step = [&](const StepMetrics& step, const SftProgress&) {
      stopped = stopped || step.step == stop;
    };
    callbacks.cancelled = [&] { return stopped; };
    EXPECT_TRUE(absl::IsCancelled(RunSft(parts, callbacks).status()));
  }
  MustRun(parts);
  ExpectSameRun(options.output, parts.output);
}

TEST_F(TrainedRouters, InitAdapterTrainsOnFromItsRouters) {
  SftOptions first = MoeOptions("first");
  first.train_router = true;
  first.target = {"o_proj"};  // the folder of adapters without experts
  MustRun(first);
  SftOptions options = MoeOptions("second");
  options.target.clear();
  options.init_adapter = first.output + "/adapter";
  options.lora_rank.reset();
  options.lr = 0;
  const absl::Status refused = Failed(options);
  EXPECT_EQ(ExitStatus(refused), kExitUsage);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--train-router trains on from it"));
  options.train_router = true;
  MustRun(options);
  EXPECT_EQ(ReadText(first.output + "/adapter/adapter_model.safetensors"),
            ReadText(options.output + "/adapter/adapter_model.safetensors"));
  EXPECT_NE(AdapterTensors(options).at(std::string(kGate1) + "weight"),
            Tensors(GoldenPath("deepseek_v3/model/model.safetensors"))
                .at("model.layers.1.mlp.gate.weight"));
}

TEST_F(TrainedRouters, MergingAndConvertingKeepRouters) {
  SftOptions options = MoeOptions("run");
  options.train_router = true;
  options.router_bias_update = 0.01;
  const SftResult result = MustRun(options);
  ThreadPool pool(1);
  const auto backend = MakeCpuBackend(pool);
  const absl::StatusOr<MergeSummary> merged = MergeModel(
      {.model = options.model, .adapter = result.result_path, .output = folder_ / "merged"},
      *backend);
  ASSERT_TRUE(merged.ok()) << merged.status();
  const auto model = Tensors(folder_ / "merged/model.safetensors");
  const auto adapter = AdapterTensors(options);
  EXPECT_EQ(model.at("model.layers.1.mlp.gate.weight"), adapter.at(std::string(kGate1) + "weight"));
  EXPECT_EQ(model.at("model.layers.2.mlp.gate.e_score_correction_bias"),
            adapter.at(std::string(kGate2) + "e_score_correction_bias"));

  ConvertOptions convert;
  convert.adapter = result.result_path;
  convert.to = "peft-3d";
  convert.output = folder_ / "stacked";
  const absl::StatusOr<ConvertSummary> converted = ConvertAdapter(convert, *backend);
  ASSERT_TRUE(converted.ok()) << converted.status();
  EXPECT_EQ(
      Tensors(convert.output + "/adapter_model.safetensors").at(std::string(kGate1) + "weight"),
      adapter.at(std::string(kGate1) + "weight"));
  convert.to = "mlx";
  convert.output = folder_ / "mlx";
  EXPECT_THAT(std::string(ConvertAdapter(convert, *backend).status().message()),
              HasSubstr("brings in full"));
}

TEST_F(TrainedRouters, AnAdapterThatLacksAPartOfARouterIsRefused) {
  const std::string adapter = AdapterWithRouters();
  const std::string weights = adapter + "/adapter_model.safetensors";
  const std::string whole = ReadText(weights);
  // What loading says without the tensors of these names.
  const auto without = [&](const std::vector<std::string>& dropped) {
    WriteText(weights, whole);
    const auto file = SafetensorsFile::Open(weights);
    EXPECT_TRUE(file.ok()) << file.status();
    std::vector<SafetensorsTensor> kept;
    for (const SafetensorsEntry& entry : file->entries()) {
      if (std::count(dropped.begin(), dropped.end(), entry.name) > 0) continue;
      kept.push_back({entry.name, entry.type, entry.shape, file->Bytes(entry)});
    }
    EXPECT_EQ(kept.size() + dropped.size(), file->entries().size());
    EXPECT_TRUE(WriteSafetensors(PosixFiles(), folder_ / "kept", kept, {}).ok());
    std::filesystem::rename(folder_ / "kept", weights);
    return LoadError(adapter);
  };
  EXPECT_EQ(without({}), "");
  for (const int layer : {1, 2}) {
    const std::string router = absl::StrCat("model.layers.", layer, ".mlp.gate");
    const std::string key = absl::StrCat("base_model.model.", router, ".");
    for (const std::string part : {"weight", "e_score_correction_bias"}) {
      EXPECT_THAT(without({key + part}),
                  HasSubstr(absl::StrCat("has no ", part, " of the router \"", router,
                                         "\", which it brings in full")));
    }
    EXPECT_THAT(without({key + "weight", key + "e_score_correction_bias"}),
                HasSubstr(absl::StrCat("has no weight of \"", router,
                                       "\", which modules_to_save of adapter_config.json names")));
  }
}

TEST_F(TrainedRouters, AnAdapterWhoseConfigurationNamesOtherRoutersIsRefused) {
  const std::string adapter = AdapterWithRouters();
  const std::string path = adapter + "/adapter_config.json";
  nlohmann::json config = nlohmann::json::parse(ReadText(path));
  const auto naming = [&](const nlohmann::json& names) {
    config["modules_to_save"] = names;
    WriteText(path, config.dump());
    return LoadError(adapter);
  };
  // Layer 2's tensors belong to nothing.
  EXPECT_THAT(naming({"model.layers.1.mlp.gate"}),
              HasSubstr("base_model.model.model.layers.2.mlp.gate."));
  EXPECT_THAT(naming({"gate", "no_such"}), HasSubstr("names \"no_such\", but only"));
  EXPECT_EQ(naming({"gate"}), "");
}

}  // namespace
}  // namespace lorica
