// Adapters of a text model that is part of a larger one: names in their files, and merging.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/autograd/autograd.h"
#include "lorica/io/safetensors.h"
#include "lorica/nn/model_loader.h"
#include "lorica/peft/peft_files.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/random.h"
#include "lorica/train/merge_model.h"
#include "support/tensor_matchers.h"
#include "support/text_part_folder.h"
#include "train/temp_folder.h"

namespace lorica {
namespace {

using ::lorica::testing::Near;
using ::lorica::testing::SameBits;
using ::testing::Contains;
using ::testing::Each;
using ::testing::StartsWith;

constexpr char kOwn[] = "base_model.model.model.layers.";
constexpr char kWhole[] = "base_model.model.model.language_model.layers.";

class TextPartAdaptersTest : public ::testing::Test {
 protected:
  std::string WriteModel(const TextPartOptions& options = {}) {
    const std::string path = folder_ / (options.untied ? "untied" : "tied");
    std::filesystem::create_directories(path);
    WriteTextPartFolder(path, options);
    return path;
  }
  std::unique_ptr<CausalLm> Load(const std::string& path) {
    auto loaded = LoadModel(path, *backend_, DType::kF32);
    if (!loaded.ok()) throw Error(std::string(loaded.status().message()));
    return std::move(loaded->model);
  }
  AdapterSet Adapt(CausalLm& model) {
    auto set = InjectLora(model, *backend_, DType::kF32,
                          {.rank = 3,
                           .alpha = 5,
                           .targets = {"q_proj", "down_proj", "lm_head"},
                           .rank_pattern = {{"*.layers.1.*", 2}},
                           .alpha_pattern = {{"*.layers.2.*", 7}}});
    if (!set.ok()) throw Error(std::string(set.status().message()));
    uint64_t seed = 3;
    set->ForEachFactor(0, [&](const std::string&, Tensor& master) {
      RandomStream random(++seed, 1);
      std::vector<double> values(static_cast<size_t>(master.numel()));
      for (double& value : values) value = 0.2 * random.Normal();
      const Tensor tensor = Tensor::FromHost<double>(*backend_, master.shape(), values);
      backend_->Copy(raw::Cast(tensor, master.dtype()).view(), master.mutable_view());
    });
    return *std::move(set);
  }
  AdapterSet LoadAdapter(const std::string& path, CausalLm& model) {
    auto set = LoadPeftAdapter(path, model, *backend_, DType::kF32);
    if (!set.ok()) throw Error(std::string(set.status().message()));
    return *std::move(set);
  }
  // As "own" or "whole", by names of the text model alone or of the whole one.
  std::string Save(const AdapterSet& set, bool whole) {
    const std::string path = folder_ / (whole ? "whole" : "own");
    std::filesystem::remove_all(path);
    const absl::Status saved = SavePeftAdapter(PosixFiles(), path, set, {.text_part = whole});
    EXPECT_TRUE(saved.ok()) << saved;
    return path;
  }
  static std::vector<std::string> Names(const std::string& file) {
    const auto opened = SafetensorsFile::Open(file);
    EXPECT_TRUE(opened.ok()) << opened.status();
    std::vector<std::string> names;
    for (const SafetensorsEntry& entry : opened->entries()) names.push_back(entry.name);
    return names;
  }
  static Tensor Logits(CausalLm& model) {
    const NoGrad no_grad;
    const std::vector<int32_t> ids = {3, 1, 4, 1, 5, 9, 2, 6};
    const ForwardContext context =
        ForwardContext::ForSequences(Sequences::Single(static_cast<int64_t>(ids.size())));
    return model.Logits(model.Hidden(ids, context), context);
  }
  static nlohmann::json Json(const std::string& path) {
    return nlohmann::json::parse(ReadText(path));
  }

  TempFolder folder_;
  ThreadPool pool_{1};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
};

TEST_F(TextPartAdaptersTest, BothNamesGiveTheSameFactors) {
  const std::string path = WriteModel({.untied = true});
  const auto model = Load(path);
  const AdapterSet set = Adapt(*model);
  ASSERT_EQ(set.modules().size(), 3u * 2 + 1);
  const Tensor want = Logits(*model);
  std::map<std::string, uint64_t> dropout_keys[2];
  for (const bool whole : {false, true}) {
    SCOPED_TRACE(whole);
    const std::string saved = Save(set, whole);
    int in_layers = 0;
    for (const std::string& name : Names(saved + "/adapter_model.safetensors")) {
      if (name == "base_model.model.lm_head.lora_A.weight" ||
          name == "base_model.model.lm_head.lora_B.weight") {
        continue;
      }
      EXPECT_THAT(name, StartsWith(whole ? kWhole : kOwn));
      ++in_layers;
    }
    EXPECT_EQ(in_layers, 3 * 2 * 2);
    const auto other = Load(path);
    const AdapterSet again = LoadAdapter(saved, *other);
    ASSERT_EQ(again.modules().size(), set.modules().size());
    for (size_t i = 0; i < set.modules().size(); ++i) {
      const AdaptedModule &got = again.modules()[i], &had = set.modules()[i];
      EXPECT_EQ(got.path, had.path);
      const LoraFactors &factors = got.adapter->factors(0), &wanted = had.adapter->factors(0);
      EXPECT_TRUE(SameBits(factors.a, wanted.a)) << got.path;
      EXPECT_TRUE(SameBits(factors.b, wanted.b)) << got.path;
      EXPECT_EQ(factors.scale(), wanted.scale()) << got.path;
      dropout_keys[whole][got.path] = factors.dropout_key;
    }
    EXPECT_TRUE(SameBits(Logits(*other), want));
  }
  EXPECT_EQ(dropout_keys[0], dropout_keys[1]);  // trained on, both drop the same
}

// An embedding that an adapter brings in full has the text model's own name, whatever the file's.
TEST_F(TextPartAdaptersTest, ReplacedWeightsAreSavedUnderBothNames) {
  const std::string path = WriteModel();
  std::string saved;
  {
    const auto model = Load(path);
    AdapterSet set = Adapt(*model);
    saved = Save(set, true);
  }
  nlohmann::json config = Json(saved + "/adapter_config.json");
  config["modules_to_save"] = {"embed_tokens"};
  WriteText(saved + "/adapter_config.json", config.dump());
  const auto base = SafetensorsFile::Open(path + "/model.safetensors");
  ASSERT_TRUE(base.ok()) << base.status();
  const SafetensorsEntry* table = base->Find("language_model.model.embed_tokens.weight");
  ASSERT_NE(table, nullptr);
  std::vector<float> values(static_cast<size_t>(table->shape[0] * table->shape[1]), 0.25f);
  {
    const auto adapter = SafetensorsFile::Open(saved + "/adapter_model.safetensors");
    ASSERT_TRUE(adapter.ok()) << adapter.status();
    std::vector<SafetensorsTensor> tensors;
    for (const SafetensorsEntry& entry : adapter->entries()) {
      tensors.push_back({entry.name, entry.type, entry.shape, adapter->Bytes(entry)});
    }
    tensors.push_back({"base_model.model.model.language_model.embed_tokens.weight",
                       StoredType::kF32,
                       table->shape,
                       {reinterpret_cast<const uint8_t*>(values.data()), values.size() * 4}});
    ASSERT_TRUE(WriteSafetensors(PosixFiles(), folder_ / "new", tensors, {}).ok());
  }
  std::filesystem::rename(folder_ / "new", saved + "/adapter_model.safetensors");

  const auto model = Load(path);
  const AdapterSet set = LoadAdapter(saved, *model);
  ASSERT_GE(set.replaced().size(), 1u);
  EXPECT_EQ(set.replaced()[0].path, "model.embed_tokens");
  const Tensor want = Logits(*model);
  for (const bool whole : {false, true}) {
    SCOPED_TRACE(whole);
    const std::string again = Save(set, whole);
    const std::string name = whole ? "model.language_model.embed_tokens" : "model.embed_tokens";
    EXPECT_THAT(Names(again + "/adapter_model.safetensors"),
                Contains("base_model.model." + name + ".weight"));
    const auto other = Load(path);
    const AdapterSet loaded = LoadAdapter(again, *other);
    EXPECT_TRUE(SameBits(Logits(*other), want));
  }
}

TEST_F(TextPartAdaptersTest, MergingKeepsNamesAndSaysWhatIsTied) {
  for (const bool untied : {false, true}) {
    const std::string path = WriteModel({.untied = untied});
    const auto model = Load(path);
    EXPECT_EQ(model->lm_head().tied(), !untied);
    const AdapterSet set = Adapt(*model);
    const Tensor want = Logits(*model);
    for (const bool whole : {false, true}) {
      SCOPED_TRACE(absl::StrCat("untied ", untied, ", names of the whole ", whole));
      const std::string output = folder_ / "merged";
      std::filesystem::remove_all(output);
      const auto merged =
          MergeModel({.model = path, .adapter = Save(set, whole), .output = output}, *backend_);
      ASSERT_TRUE(merged.ok()) << merged.status();
      EXPECT_EQ(merged->merged, 3 * 2 + 1);
      // The head is another than the table now.
      std::vector<std::string> names = Names(path + "/model.safetensors");
      if (!untied) names.push_back("language_model.lm_head.weight");
      EXPECT_THAT(Names(output + "/model.safetensors"),
                  ::testing::UnorderedElementsAreArray(names));
      const nlohmann::json config = Json(output + "/config.json");
      EXPECT_EQ(config["tie_word_embeddings"], false);
      if (!untied) {
        EXPECT_EQ(config["text_config"]["tie_word_embeddings"], false);
      }
      EXPECT_EQ(config["vision_config"]["hidden_size"], 16);
      const auto again = Load(output);
      EXPECT_FALSE(again->lm_head().tied());
      EXPECT_TRUE(Near(Logits(*again), want, 1e-5));
    }
  }
}

// A head that stays the table is not written, and the configuration stays as it is.
TEST_F(TextPartAdaptersTest, MergingBesideTheHeadKeepsItTied) {
  const std::string path = WriteModel();
  const auto model = Load(path);
  auto set = InjectLora(*model, *backend_, DType::kF32, {.rank = 2, .targets = {"q_proj"}});
  ASSERT_TRUE(set.ok()) << set.status();
  const std::string output = folder_ / "merged";
  const auto merged =
      MergeModel({.model = path, .adapter = Save(*set, true), .output = output}, *backend_);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(Json(output + "/config.json"), Json(path + "/config.json"));
  EXPECT_EQ(Names(output + "/model.safetensors"), Names(path + "/model.safetensors"));
  EXPECT_TRUE(Load(output)->lm_head().tied());
}

}  // namespace
}  // namespace lorica
