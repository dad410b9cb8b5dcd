// Every writer's files read as what was written, and lie as their readers expect.
#include "lorica/io/gguf.h"
#include "peft/layouts/layout_fixture.h"
#include "support/described_gguf.h"

namespace lorica {
namespace {

using testing::AdapterShape;
using testing::LayoutTest;

constexpr AdapterLayout kLayouts[] = {
    AdapterLayout::kPeft2d, AdapterLayout::kPeft3d, AdapterLayout::kPeft3d018,
    AdapterLayout::kMlx,    AdapterLayout::kGguf,   AdapterLayout::kSglang,
};

TEST_F(LayoutTest, EveryLayoutKeepsEveryDelta) {
  const AdapterShape shapes[] = {
      {.experts = 3, .rank = 2},
      {.experts = 2, .rank = 3},
      {.hidden = 8, .width = 8},
      {.hidden = 16, .width = 6},
      {.hidden = 8, .width = 4},  // hidden is the width of gate_up
      {.down = false},
      {.gate_up = false},
      {.kind = "split"},
      {.kind = "split", .down = false},
      {.experts = 2, .rank = 3, .kind = "shared-outer"},
      {.rslora = true},
      {.kind = "split", .rslora = true},
      {.down_rank = 4},
      {.down_alpha = 5},
      {.kind = "split", .down_rank = 3, .down_alpha = 2.5},
      {.experts = 1, .rank = 1},
  };
  int index = 0;
  for (const AdapterShape& shape : shapes) {
    const StoredAdapter adapter = Make(shape);
    for (const AdapterLayout layout : kLayouts) {
      SCOPED_TRACE(::testing::Message() << Name(layout) << ", shape " << index);
      const std::string path =
          Write(adapter, layout, "a" + std::to_string(index) + std::string(Name(layout)));
      const auto read = Read(path, {.base = &base_});
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->layout, layout);
      const absl::Status same = CompareDeltas(read->adapter, adapter);
      EXPECT_TRUE(same.ok()) << same;
      // Without the model too, but for GGUF.
      if (layout == AdapterLayout::kGguf) continue;
      const auto alone = Read(path);
      ASSERT_TRUE(alone.ok()) << alone.status();
      EXPECT_TRUE(CompareDeltas(alone->adapter, adapter).ok());
      EXPECT_EQ(alone->adapter.base_model, "base");
    }
    ++index;
  }
}

TEST_F(LayoutTest, LayersNeedntHaveTheSameProjections) {
  StoredAdapter adapter = Make({});
  StoredModule alone = Experts({.down_rank = 4, .down_alpha = 3}, "down_proj", 6, 8, false, false);
  alone.path = "model.layers.2.mlp.experts.down_proj";
  adapter.modules.push_back(alone);
  for (const AdapterLayout layout : kLayouts) {
    SCOPED_TRACE(Name(layout));
    const std::string path = Write(adapter, layout, "a" + std::string(Name(layout)));
    const auto read = Read(path, {.base = &base_});
    ASSERT_TRUE(read.ok()) << read.status();
    const absl::Status same = CompareDeltas(read->adapter, adapter);
    EXPECT_TRUE(same.ok()) << same;
    EXPECT_EQ(read->adapter.modules.size(), adapter.modules.size());
  }
  // A configuration names projections of all layers at once.
  const Tensors tensors = ReadTensors(folder_ + "/a" + std::string(Name(AdapterLayout::kPeft2d)) +
                                      "/adapter_model.safetensors");
  const std::string gate = "base_model.model.model.layers.2.mlp.experts.1.gate_proj.lora_A.weight";
  ASSERT_EQ(tensors.count(gate), 1u);
  EXPECT_EQ(tensors.at(gate).shape, (std::vector<int64_t>{2, 8}));
}

TEST_F(LayoutTest, SglangReadsGateAndUpTogether) {
  StoredAdapter adapter = Make({.kind = "split", .down = false});
  adapter.modules.erase(adapter.modules.end() - 2);  // gate_proj
  const std::string path = Write(adapter, AdapterLayout::kSglang);
  const Tensors tensors = ReadTensors(path + "/adapter_model.safetensors");
  const std::string gate = "base_model.model.model.layers.1.mlp.experts.gate_proj.lora_B.weight";
  ASSERT_EQ(tensors.count(gate), 1u);
  EXPECT_EQ(tensors.at(gate).shape, (std::vector<int64_t>{3, 6, 2}));
  EXPECT_EQ(tensors.at(gate).values, std::vector<float>(36, 0.0f));
  const auto read = Read(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(CompareDeltas(read->adapter, adapter).ok());
}

TEST_F(LayoutTest, HowFactorsBeganIsKept) {
  StoredAdapter adapter = Make({});
  adapter.init = "gaussian";
  const auto read = Read(Write(adapter, AdapterLayout::kPeft2d, "init"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->adapter.init, "gaussian");
}

TEST_F(LayoutTest, TheKindOfExpertsSurvivesPeftLayouts) {
  for (const char* kind : {"fused", "split", "shared-outer"}) {
    const StoredAdapter adapter = Make({.kind = kind});
    for (const AdapterLayout layout :
         {AdapterLayout::kPeft2d, AdapterLayout::kPeft3d, AdapterLayout::kPeft3d018}) {
      const auto read = Read(Write(adapter, layout, std::string(kind) + std::string(Name(layout))));
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(ExpertKindName(read->adapter), kind) << Name(layout);
      ASSERT_EQ(read->adapter.modules.size(), adapter.modules.size());
      for (const StoredModule& want : adapter.modules) {
        for (const StoredModule& got : read->adapter.modules) {
          if (got.path != want.path) continue;
          EXPECT_TRUE(testing::SameBits(got.a, want.a)) << want.path << " in " << Name(layout);
          EXPECT_TRUE(testing::SameBits(got.b, want.b)) << want.path << " in " << Name(layout);
          EXPECT_EQ(got.scale(), want.scale());
        }
      }
    }
  }
}

TEST_F(LayoutTest, PackedFactorsFoldRanksAsPeftDoes) {
  const AdapterShape shape{.experts = 3, .rank = 2};
  const StoredAdapter adapter = Make(shape);
  const StoredModule& gate_up = adapter.modules[2];
  ASSERT_EQ(LastName(gate_up.path), "gate_up_proj");
  const std::string key = "base_model.model.model.layers.1.mlp.experts.base_layer.lora_";
  const Tensors in_out =
      ReadTensors(Write(adapter, AdapterLayout::kPeft3d, "i") + "/adapter_model.safetensors");
  const Tensors out_in =
      ReadTensors(Write(adapter, AdapterLayout::kPeft3d018, "o") + "/adapter_model.safetensors");
  const NamedTensor &a = in_out.at(key + "A.weight"), &b = in_out.at(key + "B.weight");
  const NamedTensor &x = out_in.at(key + "A.weight"), &y = out_in.at(key + "B.weight");
  EXPECT_EQ(a.shape, (std::vector<int64_t>{6, 8}));
  EXPECT_EQ(b.shape, (std::vector<int64_t>{12, 6}));
  EXPECT_EQ(x.shape, (std::vector<int64_t>{6, 12}));
  EXPECT_EQ(y.shape, (std::vector<int64_t>{8, 6}));
  const float* stored_a = gate_up.a.data<float>();
  const float* stored_b = gate_up.b.data<float>();
  for (int64_t e = 0; e < 3; ++e) {
    for (int64_t j = 0; j < 2; ++j) {
      for (int64_t i = 0; i < 8; ++i) {
        const float want = stored_a[(e * 2 + j) * 8 + i];
        EXPECT_EQ(a.values[static_cast<size_t>((e * 2 + j) * 8 + i)], want);
        EXPECT_EQ(y.values[static_cast<size_t>(i * 6 + j * 3 + e)], want);
      }
      for (int64_t o = 0; o < 12; ++o) {
        const float want = stored_b[(e * 12 + o) * 2 + j];
        EXPECT_EQ(b.values[static_cast<size_t>(o * 6 + j * 3 + e)], want);
        EXPECT_EQ(x.values[static_cast<size_t>((e * 2 + j) * 12 + o)], want);
      }
    }
  }
}

TEST_F(LayoutTest, GateAndUpOfTheirOwnStackToTwiceTheRank) {
  const std::string path = Write(Make({.rank = 2, .kind = "split"}), AdapterLayout::kPeft3d);
  const auto tensors = ReadTensors(path + "/adapter_model.safetensors");
  EXPECT_EQ(
      tensors.at("base_model.model.model.layers.1.mlp.experts.base_layer.lora_A.weight").shape,
      (std::vector<int64_t>{12, 8}));
  EditConfig(path, [](nlohmann::ordered_json& json) {
    EXPECT_EQ(json["rank_pattern"].dump(), R"({"model.layers.1.mlp.experts.gate_up_proj":4})");
    EXPECT_EQ(json["alpha_pattern"].dump(), R"({"model.layers.1.mlp.experts.gate_up_proj":14})");
    // PEFT takes this name for a part of experts where it stands among modules.
    EXPECT_EQ(json["target_parameters"][0], "model.layers.0.mlp.gate_proj.weight");
  });
}

TEST_F(LayoutTest, SharedFactorsOfSglangHaveOneExpert) {
  const StoredAdapter adapter = Make({.kind = "shared-outer"});
  const std::string path = Write(adapter, AdapterLayout::kSglangSharedOuter);
  const Tensors tensors = ReadTensors(path + "/adapter_model.safetensors");
  const std::string experts = "base_model.model.model.layers.1.mlp.experts.";
  EXPECT_EQ(tensors.at(experts + "gate_proj.lora_A.weight").shape[0], 1);
  EXPECT_EQ(tensors.at(experts + "up_proj.lora_B.weight").shape[0], 3);
  EXPECT_EQ(tensors.at(experts + "down_proj.lora_A.weight").shape[0], 3);
  EXPECT_EQ(tensors.at(experts + "down_proj.lora_B.weight").shape[0], 1);
  const auto read = Read(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->layout, AdapterLayout::kSglangSharedOuter);
  EXPECT_EQ(ExpertKindName(read->adapter), "shared-outer");
  EXPECT_TRUE(CompareDeltas(read->adapter, adapter).ok());

  const std::string other = Place(AdapterLayout::kSglangSharedOuter, "b");
  const absl::Status refused =
      WriteStoredAdapter(Make({}), AdapterLayout::kSglangSharedOuter, other, &base_);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("one A of gate_proj"));
}

TEST_F(LayoutTest, EqualFirstFactorsMeanFusedWhereNobodyNotedTheKind) {
  const StoredAdapter fused = Make({});
  const std::string path = Write(fused, AdapterLayout::kPeft2d);
  Forget(path);
  EXPECT_EQ(ExpertKindName(Read(path)->adapter), "fused");
  EditTensors(path, [](Tensors& tensors) {
    tensors.at("base_model.model.model.layers.1.mlp.experts.1.up_proj.lora_A.weight").values[3] +=
        1;
  });
  EXPECT_EQ(ExpertKindName(Read(path)->adapter), "split");
}

TEST_F(LayoutTest, NumberedNamesOfMixtral) {
  StoredAdapter adapter = Make({.kind = "split"});
  adapter.form.numbered_names = true;
  const std::string path = Write(adapter, AdapterLayout::kPeft2d);
  const Tensors tensors = ReadTensors(path + "/adapter_model.safetensors");
  EXPECT_EQ(
      tensors.count("base_model.model.model.layers.1.block_sparse_moe.experts.2.w3.lora_B.weight"),
      1u);
  const auto read = Read(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->adapter.form.numbered_names);
  EXPECT_TRUE(CompareDeltas(read->adapter, adapter).ok());
}

TEST_F(LayoutTest, InterleavedRowsOfGptOss) {
  StoredAdapter adapter = Make({});
  adapter.form = {.interleaved = true, .transposed = true};
  base_.form = adapter.form;
  const StoredModule& gate_up = adapter.modules[2];
  const std::string path = Write(adapter, AdapterLayout::kPeft3d);
  const NamedTensor b =
      ReadTensors(path + "/adapter_model.safetensors")
          .at("base_model.model.model.layers.1.mlp.experts.base_layer.lora_B.weight");
  // Row 3 is the second up row: row 6 + 1 of [gate; up].
  EXPECT_EQ(b.values[3 * 6], gate_up.b.data<float>()[7 * 2]);
  EXPECT_TRUE(CompareDeltas(Read(path)->adapter, adapter).ok());
  // PEFT 0.18 was right about such parameters: nothing is turned around.
  const std::string old = Write(adapter, AdapterLayout::kPeft3d018, "old");
  EXPECT_EQ(ReadTensors(old + "/adapter_model.safetensors")
                .at("base_model.model.model.layers.1.mlp.experts.base_layer.lora_B.weight")
                .values,
            b.values);
  EXPECT_TRUE(CompareDeltas(Read(old)->adapter, adapter).ok());
  // Another program's file doesn't tell the order of rows.
  Forget(path);
  EditConfig(path, [](nlohmann::ordered_json& json) {
    json["base_model_name_or_path"] = "openai/gpt-oss-20b";
    json["peft_version"] = "0.21.2";
  });
  EXPECT_THAT(ReadError(path), ::testing::HasSubstr("--model"));
  EXPECT_TRUE(CompareDeltas(Read(path, {.base = &base_})->adapter, adapter).ok());
}

TEST_F(LayoutTest, GgufNamesAxesAndRotation) {
  base_.model_type = "mixtral";
  base_.architecture = "llama";
  const StoredAdapter adapter = Make({});
  const std::string path = Write(adapter, AdapterLayout::kGguf);
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*file->GetString("general.type"), "adapter");
  EXPECT_EQ(*file->GetF64("adapter.lora.alpha"), 7);
  const GgufTensor* down = file->Find("blk.1.ffn_down_exps.weight.lora_a");
  ASSERT_NE(down, nullptr);
  EXPECT_EQ(down->shape, (std::vector<int64_t>{3, 2, 6}));
  const GgufTensor* q = file->Find("blk.0.attn_q.weight.lora_b");
  ASSERT_NE(q, nullptr);
  std::vector<float> values(16);
  std::memcpy(values.data(), file->Bytes(*q).data(), 64);
  // 2 heads of 4: file row 1 is the first of a head's second half.
  EXPECT_EQ(values[2], adapter.modules[0].b.data<float>()[2 * 2]);
  EXPECT_TRUE(CompareDeltas(Read(path, {.base = &base_})->adapter, adapter).ok());
  EXPECT_THAT(ReadError(path), ::testing::HasSubstr("--model"));
}

// A model in a GGUF file counts as what it was converted from.
TEST_F(LayoutTest, FactsOfGgufModels) {
  const std::string path = folder_ + "/base.gguf";
  const auto write = [&](const GgufMetadata& metadata, const std::vector<GgufTensorSpec>& specs) {
    auto file = PosixFiles().Open(path, OpenMode::kReplace);
    ASSERT_TRUE(file.ok()) << file.status();
    auto writer = GgufWriter::Begin(**file, metadata, specs);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const GgufTensorSpec& spec : specs) {
      const std::vector<uint8_t> zeros(*StoredBytes(spec.type, spec.shape));
      ASSERT_TRUE(writer->AppendTensor(zeros).ok());
    }
    ASSERT_TRUE(writer->Finish().ok() && (*file)->Close().ok());
  };
  for (const auto& [name, file] : DescribedGgufs().items()) {
    std::vector<GgufTensorSpec> specs;
    for (const nlohmann::json& row : file.at("tensors")) {
      specs.push_back({row[0], StoredType::kF32, row[1].get<std::vector<int64_t>>()});
    }
    write(DescribedMetadata(name), specs);
    const auto facts = ReadBaseFacts(path);
    ASSERT_TRUE(facts.ok()) << facts.status();
    EXPECT_EQ(facts->model_type, name == "deepseek_v2_lite" ? "deepseek_v2"
                                 : name == "glm4_moe_lite"  ? "deepseek_v3"
                                                            : name);
    EXPECT_EQ(facts->architecture, file.at("metadata")[0][2]) << name;
    const auto folder =
        ReadBaseFacts(std::string(LORICA_SOURCE_ROOT "/tests/golden/models/") + name + "/model");
    ASSERT_TRUE(folder.ok()) << folder.status();
    EXPECT_EQ(facts->hidden, folder->hidden) << name;
    EXPECT_EQ(facts->experts, folder->experts) << name;
    EXPECT_EQ(facts->expert_width, folder->expert_width) << name;
    EXPECT_EQ(facts->heads, folder->heads) << name;
    EXPECT_EQ(facts->form.numbered_names, folder->form.numbered_names) << name;
    EXPECT_EQ(facts->form.interleaved, folder->form.interleaved) << name;
    EXPECT_EQ(facts->form.transposed, folder->form.transposed) << name;
    EXPECT_EQ(facts->gguf_tensors.size(), specs.size()) << name;
  }
  // Models that can't be run here.
  for (const auto& [architecture, type] :
       {std::pair("glm-dsa", "glm_moe_dsa"), std::pair("llama4", "llama4_text")}) {
    GgufMetadata metadata;
    metadata.SetString("general.architecture", architecture);
    metadata.SetU32(std::string(architecture) + ".expert_count", 5);
    write(metadata, {});
    const auto facts = ReadBaseFacts(path);
    ASSERT_TRUE(facts.ok()) << facts.status();
    EXPECT_EQ(facts->model_type, type);
    EXPECT_EQ(facts->architecture, architecture);
    EXPECT_EQ(facts->experts, 5);
  }
}

TEST_F(LayoutTest, MlxAxesAndScale) {
  const std::string path = Write(Make({}), AdapterLayout::kMlx);
  const Tensors tensors = ReadTensors(path + "/adapters.safetensors");
  EXPECT_EQ(tensors.at("model.layers.0.self_attn.q_proj.lora_a").shape,
            (std::vector<int64_t>{8, 2}));
  EXPECT_EQ(tensors.at("model.layers.1.mlp.switch_mlp.down_proj.lora_b").shape,
            (std::vector<int64_t>{3, 8, 2}));
  EditConfig(path, [](nlohmann::ordered_json& json) {
    EXPECT_EQ(json["lora_parameters"]["scale"], 3.5);
    EXPECT_EQ(json["lora_parameters"]["keys"][0], "mlp.gate_proj");
  });
}

TEST_F(LayoutTest, OneScaleIsFoldedOnlyWhereReadersKnowOne) {
  const StoredAdapter adapter = Make({.down_alpha = 5});
  const auto folded = Read(Write(adapter, AdapterLayout::kMlx, "m"));
  const auto kept = Read(Write(adapter, AdapterLayout::kPeft3d, "p"));
  for (const StoredModule& module : folded->adapter.modules) EXPECT_EQ(module.scale(), 3.5);
  EXPECT_EQ(kept->adapter.modules.back().path, "model.layers.1.mlp.experts.gate_up_proj");
  for (const StoredModule& module : kept->adapter.modules) {
    EXPECT_EQ(module.scale(), LastName(module.path) == "down_proj" ? 2.5 : 3.5);
  }
}

TEST_F(LayoutTest, AScaleOfZeroStaysZero) {
  StoredAdapter adapter = Make({.kind = "split"});
  for (StoredModule& module : adapter.modules) {
    if (LastName(module.path) == "gate_proj") module.alpha = 0;
  }
  for (const AdapterLayout layout : kLayouts) {
    const auto read = Read(Write(adapter, layout, std::string(Name(layout))), {.base = &base_});
    ASSERT_TRUE(read.ok()) << read.status();
    const absl::Status same = CompareDeltas(read->adapter, adapter);
    EXPECT_TRUE(same.ok()) << Name(layout) << ": " << same;
  }
}

TEST_F(LayoutTest, EmbeddingsAndJoinedProjectionsInGguf) {
  base_ = {.model_type = "phi3", .architecture = "phi3", .hidden = 8, .heads = 2, .kv_heads = 1};
  StoredAdapter adapter;
  adapter.modules.push_back(Dense("model.embed_tokens", 11, 8, {}));
  adapter.modules[0].kind = StoredModule::Kind::kEmbedding;
  adapter.modules.push_back(Dense("model.layers.0.mlp.gate_up_proj", 8, 12, {}));
  adapter.modules.push_back(Dense("model.layers.0.self_attn.qkv_proj", 8, 16, {}));
  for (const AdapterLayout layout : kLayouts) {
    const auto read = Read(Write(adapter, layout, std::string(Name(layout))), {.base = &base_});
    ASSERT_TRUE(read.ok()) << read.status();
    const absl::Status same = CompareDeltas(read->adapter, adapter);
    EXPECT_TRUE(same.ok()) << Name(layout) << ": " << same;
  }
}

TEST_F(LayoutTest, ComparingDeltasSeesEachFactor) {
  const StoredAdapter adapter = Make({});
  ASSERT_TRUE(CompareDeltas(adapter, adapter).ok());
  for (size_t m = 0; m < adapter.modules.size(); ++m) {
    for (const bool is_a : {true, false}) {
      StoredAdapter changed = adapter;
      Tensor& factor = is_a ? changed.modules[m].a : changed.modules[m].b;
      factor = raw::Clone(factor);
      factor.mutable_data<float>()[factor.numel() - 1] *= 1.000001f;
      EXPECT_FALSE(CompareDeltas(changed, adapter).ok());
    }
    StoredAdapter scaled = adapter;
    scaled.modules[m].alpha *= 1.000001;
    EXPECT_FALSE(CompareDeltas(scaled, adapter).ok());
    StoredAdapter missing = adapter;
    missing.modules.erase(missing.modules.begin() + static_cast<ptrdiff_t>(m));
    EXPECT_FALSE(CompareDeltas(missing, adapter).ok());
    EXPECT_FALSE(CompareDeltas(adapter, missing).ok());
  }
}

TEST_F(LayoutTest, DeltasAreScaledProducts) {
  StoredModule module = Dense("p", 2, 3, {.rank = 2});
  const std::vector<double> delta = DeltaOf(module, 0);
  const std::vector<double> a = module.a.ToDoubles(), b = module.b.ToDoubles();
  for (size_t o = 0; o < 3; ++o) {
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_DOUBLE_EQ(delta[o * 2 + i], 3.5 * (b[o * 2] * a[i] + b[o * 2 + 1] * a[2 + i]));
    }
  }
  module.kind = StoredModule::Kind::kEmbedding;
  EXPECT_EQ(DeltaOf(module, 0)[1], delta[2]);
}

}  // namespace
}  // namespace lorica
