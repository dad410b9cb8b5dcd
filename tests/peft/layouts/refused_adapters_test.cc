// Files that contradict themselves, and what can't be settled: refused, in one sentence that says
// what is wrong and what would help.
#include <limits>

#include "peft/layouts/layout_fixture.h"

namespace lorica {
namespace {

using testing::AdapterShape;
using ::testing::AllOf;
using ::testing::HasSubstr;

class RefusedAdaptersTest : public testing::LayoutTest {
 protected:
  static constexpr char kExperts[] = "base_model.model.model.layers.1.mlp.experts.";
  static constexpr char kInner[] =
      "base_model.model.model.layers.1.mlp.experts.base_layer.lora_B.weight";

  // B's columns counted expert by expert, as Megatron-Bridge has them.
  void TurnExpertMajor(const std::string& path, int64_t experts, int64_t rank) {
    EditTensors(path, [&](Tensors& tensors) {
      for (auto& [name, tensor] : tensors) {
        if (name.find("experts") == std::string::npos || name.find("lora_B") == std::string::npos) {
          continue;
        }
        const std::vector<float> old = tensor.values;
        for (int64_t o = 0; o < tensor.shape[0]; ++o) {
          for (int64_t e = 0; e < experts; ++e) {
            for (int64_t j = 0; j < rank; ++j) {
              tensor.values[static_cast<size_t>(o * experts * rank + e * rank + j)] =
                  old[static_cast<size_t>(o * experts * rank + j * experts + e)];
            }
          }
        }
      }
    });
  }
};

TEST_F(RefusedAdaptersTest, RankAxisNobodyTells) {
  for (const auto& [experts, rank] : {std::pair<int64_t, int64_t>{3, 2}, {2, 3}}) {
    const StoredAdapter adapter = Make({.experts = experts, .rank = rank});
    const std::string path = Write(adapter, AdapterLayout::kPeft3d, "a" + std::to_string(experts));
    Forget(path);
    EXPECT_THAT(ReadError(path), HasSubstr("--expert-axis rank-major"));
    EXPECT_TRUE(CompareDeltas(Read(path, {.axis = ExpertAxis::kRankMajor})->adapter, adapter).ok());
    EXPECT_FALSE(
        CompareDeltas(Read(path, {.axis = ExpertAxis::kExpertMajor})->adapter, adapter).ok());
    TurnExpertMajor(path, experts, rank);
    EXPECT_TRUE(
        CompareDeltas(Read(path, {.axis = ExpertAxis::kExpertMajor})->adapter, adapter).ok());
  }
}

TEST_F(RefusedAdaptersTest, OneRankOrOneExpertHasOneAxis) {
  for (const auto& [experts, rank] : {std::pair<int64_t, int64_t>{3, 1}, {1, 3}}) {
    const StoredAdapter adapter = Make({.experts = experts, .rank = rank});
    const std::string path = Write(adapter, AdapterLayout::kPeft3d, "a" + std::to_string(experts));
    Forget(path);
    const auto read = Read(path);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(CompareDeltas(read->adapter, adapter).ok());
  }
}

TEST_F(RefusedAdaptersTest, PairsTellTheirOrientationEvenWhenSquare) {
  for (const int64_t width : {8, 4, 3}) {
    const StoredAdapter adapter = Make({.hidden = 8, .width = width});
    for (const AdapterLayout layout : {AdapterLayout::kPeft3d, AdapterLayout::kPeft3d018}) {
      const std::string path =
          Write(adapter, layout, std::to_string(width) + std::string(Name(layout)));
      Forget(path);
      const auto read = Read(path, {.axis = ExpertAxis::kRankMajor});
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->layout, layout);
      EXPECT_TRUE(CompareDeltas(read->adapter, adapter).ok());
    }
  }
}

TEST_F(RefusedAdaptersTest, OneSquareParameterNeedsVersionOrOption) {
  const StoredAdapter adapter = Make({.hidden = 8, .width = 8, .gate_up = false});
  for (const AdapterLayout layout : {AdapterLayout::kPeft3d, AdapterLayout::kPeft3d018}) {
    const bool old = layout == AdapterLayout::kPeft3d018;
    const std::string path = Write(adapter, layout, std::string(Name(layout)));
    Forget(path);
    AdapterReadOptions options{.axis = ExpertAxis::kRankMajor, .base = &base_};
    EXPECT_THAT(ReadError(path, options), HasSubstr("--expert-orientation in-out|out-in"));
    options.orientation = old ? ExpertOrientation::kOutIn : ExpertOrientation::kInOut;
    EXPECT_TRUE(CompareDeltas(Read(path, options)->adapter, adapter).ok());
    EditConfig(path, [&](nlohmann::ordered_json& json) {
      json["peft_version"] = old ? "0.18.1" : "0.21.2";
    });
    EXPECT_TRUE(CompareDeltas(Read(path)->adapter, adapter).ok());
  }
}

TEST_F(RefusedAdaptersTest, OptionAgainstSizes) {
  const std::string path = Write(Make({}), AdapterLayout::kPeft3d);
  EXPECT_THAT(ReadError(path, {.orientation = ExpertOrientation::kOutIn}),
              HasSubstr("--expert-orientation contradicts the sizes"));
}

TEST_F(RefusedAdaptersTest, OneParameterIsNamedByTargetParameters) {
  const std::string path = Write(Make({.down = false}), AdapterLayout::kPeft3d);
  EditConfig(path, [](nlohmann::ordered_json& json) {
    json["target_parameters"] = {"layers.0.mlp.gate_proj.weight", "gate_up_proj", "down_proj"};
  });
  EXPECT_THAT(ReadError(path), HasSubstr("names both gate_up_proj and down_proj"));
  EditConfig(path, [](nlohmann::ordered_json& json) {
    json["target_parameters"] = {"layers.0.mlp.gate_proj.weight"};
  });
  EXPECT_THAT(ReadError(path), HasSubstr("names none of them"));
}

TEST_F(RefusedAdaptersTest, MissingExpert) {
  const std::string path = Write(Make({.kind = "split"}), AdapterLayout::kPeft2d);
  EditTensors(path, [](Tensors& tensors) {
    for (const char* factor : {"A", "B"}) {
      tensors.erase(std::string(kExperts) + "1.down_proj.lora_" + factor + ".weight");
    }
  });
  EXPECT_THAT(ReadError(path), AllOf(HasSubstr("down_proj"), HasSubstr("found none of expert 1")));
}

TEST_F(RefusedAdaptersTest, AProjectionThatAllExpertsOfALayerLack) {
  const std::string path = Write(Make({}), AdapterLayout::kPeft2d);
  EditTensors(path, [](Tensors& tensors) {
    for (auto it = tensors.begin(); it != tensors.end();) {
      const bool gone = it->first.find(kExperts) == 0 && it->first.find(".up_proj.") < 100;
      it = gone ? tensors.erase(it) : std::next(it);
    }
  });
  EXPECT_THAT(ReadError(path), HasSubstr("has no factors for up_proj, which target_modules"));
}

TEST_F(RefusedAdaptersTest, OptionAgainstWhatLoricaNoted) {
  const std::string path = Write(Make({.width = 8, .gate_up = false}), AdapterLayout::kPeft3d);
  EXPECT_THAT(ReadError(path, {.axis = ExpertAxis::kExpertMajor}),
              HasSubstr("--expert-axis contradicts the configuration"));
  EXPECT_THAT(ReadError(path, {.orientation = ExpertOrientation::kOutIn}),
              HasSubstr("--expert-orientation contradicts the configuration"));
  EXPECT_EQ(
      ReadError(path, {.axis = ExpertAxis::kRankMajor, .orientation = ExpertOrientation::kInOut}),
      "");
}

TEST_F(RefusedAdaptersTest, LastExpertMissingAgainstTheModel) {
  const std::string path = Write(Make({}), AdapterLayout::kPeft2d);
  base_.experts = 4;
  EXPECT_THAT(ReadError(path, {.base = &base_}), HasSubstr("found none of expert 3"));
  const std::string packed = Write(Make({}), AdapterLayout::kPeft3d, "b");
  base_.experts = 4;
  EXPECT_THAT(ReadError(packed, {.base = &base_}), HasSubstr("expected 4 experts"));
}

TEST_F(RefusedAdaptersTest, FactorWithoutPartner) {
  const std::string path = Write(Make({}), AdapterLayout::kPeft2d);
  EditTensors(path, [](Tensors& tensors) {
    tensors.erase(std::string(kExperts) + "1.up_proj.lora_B.weight");
  });
  EXPECT_THAT(ReadError(path), AllOf(HasSubstr("1.up_proj"), HasSubstr("has no lora_B")));
}

TEST_F(RefusedAdaptersTest, ExtraKeys) {
  const char* const keys[] = {"base_model.model.model.layers.0.self_attn.q_proj.lora_C.weight",
                              "nonsense",
                              "base_model.model.model.layers.1.mlp.experts.0.gate_proj.lora_A.bias",
                              "base_model.model.model.layers.1.mlp.experts.-1.w1.lora_A.weight",
                              "base_model.model.model.layers.1.mlp.experts.x.lora_A.weight"};
  int index = 0;
  for (const char* key : keys) {
    const std::string path = Write(Make({}), AdapterLayout::kPeft2d, std::to_string(index++));
    EditTensors(path, [&](Tensors& tensors) { tensors[key] = {{2, 8}, std::vector<float>(16)}; });
    EXPECT_NE(ReadError(path), "") << key;
  }
  // A pair that is complete and named by nothing.
  const std::string path = Write(Make({}), AdapterLayout::kPeft3d, "pair");
  EditTensors(path, [&](Tensors& tensors) {
    const std::string module = "base_model.model.model.layers.0.self_attn.k_proj.lora_";
    tensors[module + "A.weight"] = {{2, 8}, std::vector<float>(16)};
    tensors[module + "B.weight"] = {{8, 2}, std::vector<float>(16)};
  });
  EXPECT_THAT(ReadError(path), HasSubstr("which neither target_modules nor target_parameters"));
}

TEST_F(RefusedAdaptersTest, NotANumber) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::string path = Write(Make({}), AdapterLayout::kPeft3d);
    EditTensors(path, [&](Tensors& tensors) { tensors.at(kInner).values[5] = value; });
    EXPECT_THAT(ReadError(path), AllOf(HasSubstr("base_layer.lora_B"), HasSubstr("NaN")));
  }
}

TEST_F(RefusedAdaptersTest, WrongRanks) {
  const std::string path = Write(Make({}), AdapterLayout::kPeft3d);
  EditConfig(path, [](nlohmann::ordered_json& json) { json["r"] = 4; });
  EXPECT_THAT(ReadError(path), HasSubstr("rank 4"));
  const std::string single = Write(Make({}), AdapterLayout::kPeft2d, "b");
  EditConfig(single, [](nlohmann::ordered_json& json) {
    json["rank_pattern"] = {{"experts.1.up_proj", 3}};
  });
  EXPECT_THAT(ReadError(single), HasSubstr("rank 3"));
}

TEST_F(RefusedAdaptersTest, TwoLayoutsInOneFile) {
  const std::string path = Write(Make({}), AdapterLayout::kPeft2d);
  EditTensors(path, [](Tensors& tensors) {
    tensors[kInner] = {{12, 6}, std::vector<float>(72)};
    tensors["base_model.model.model.layers.1.mlp.experts.base_layer.lora_A.weight"] = {
        {6, 8}, std::vector<float>(48)};
  });
  EXPECT_THAT(ReadError(path), HasSubstr("two layouts"));
}

TEST_F(RefusedAdaptersTest, UnsupportedFeaturesByName) {
  const std::string path = Write(Make({}), AdapterLayout::kPeft3d);
  EditConfig(path, [](nlohmann::ordered_json& json) { json["use_dora"] = true; });
  EXPECT_THAT(ReadError(path), HasSubstr("use_dora"));
}

TEST_F(RefusedAdaptersTest, SizesThatFitNothing) {
  const std::string path = Write(Make({}), AdapterLayout::kPeft3d);
  EditTensors(path, [](Tensors& tensors) {
    tensors.at(kInner) = {{9, 6}, std::vector<float>(54)};
  });
  EXPECT_THAT(ReadError(path), HasSubstr("fit together"));
}

TEST_F(RefusedAdaptersTest, ARouterWithoutItsWeight) {
  StoredAdapter adapter = Make({});
  for (const char* layer : {"1", "2"}) {
    const std::string router = std::string("model.layers.") + layer + ".mlp.gate";
    adapter.saved.push_back({router, "weight", Random({3, 8})});
    adapter.saved.push_back({router, "e_score_correction_bias", Random({3})});
  }
  for (const AdapterLayout layout : {AdapterLayout::kPeft2d, AdapterLayout::kPeft3d}) {
    const std::string path = Write(adapter, layout, layout == AdapterLayout::kPeft2d ? "2d" : "3d");
    // By its last name, which the other layer's weight answers to as well.
    for (const char* name : {"model.layers.2.mlp.gate", "gate"}) {
      EditConfig(path, [&](nlohmann::ordered_json& json) {
        json["modules_to_save"] = {"model.layers.1.mlp.gate", name};
      });
      EXPECT_EQ(ReadError(path), "");
    }
    EditTensors(path, [](Tensors& tensors) {
      ASSERT_EQ(tensors.erase("base_model.model.model.layers.2.mlp.gate.weight"), 1u);
    });
    EXPECT_THAT(ReadError(path), HasSubstr("has no weight of \"model.layers.2.mlp.gate\""));
  }
}

TEST_F(RefusedAdaptersTest, NoAdapterAtAll) {
  EXPECT_THAT(ReadError(folder_), HasSubstr("adapter_model.safetensors"));
  std::ofstream(folder_ + "/file") << "text";
  EXPECT_THAT(ReadError(folder_ + "/file"), HasSubstr("expected an adapter folder"));
}

}  // namespace
}  // namespace lorica
