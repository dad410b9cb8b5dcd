// Merging into GGUF files, of experts, and of models in 8-bit floats.
#include "lorica/train/merge_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/gguf.h"
#include "lorica/io/safetensors.h"
#include "lorica/nn/model_loader.h"
#include "lorica/peft/merge.h"
#include "lorica/peft/peft_files.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/random.h"
#include "support/described_gguf.h"
#include "train/golden_run.h"
#include "train/temp_folder.h"

namespace lorica {
namespace {

using ::testing::HasSubstr;

using Values = std::map<std::string, std::vector<float>>;

class MergeModelTest : public ::testing::Test {
 protected:
  MergeModelTest() : backend_(MakeCpuBackend(pool_)) {
    config_.family = "llama";
    config_.vocab_size = 40;
    config_.hidden_size = 32;
    config_.intermediate_size = 48;  // rows of down_proj are no whole blocks of Q8_0
    config_.layers = 2;
    config_.heads = 4;
    config_.kv_heads = 2;
    config_.head_dim = config_.rope.channels = 8;
    config_.rms_norm_eps = 1e-5;
    config_.tied = true;
  }

  std::unique_ptr<CausalLm> RandomModel() {
    auto model = std::make_unique<CausalLm>(config_, DType::kF32);
    ForEachParameter(*model, [&](const std::string& path, Parameter& parameter) {
      RandomStream random(7, HashName(path));
      std::vector<double> values(static_cast<size_t>(parameter.numel()));
      for (double& value : values) value = (parameter.shape().rank() == 1) + 0.2 * random.Normal();
      parameter.Assign(
          raw::Cast(Tensor::FromHost<double>(*backend_, parameter.shape(), values), DType::kF32));
    });
    return model;
  }

  static std::vector<float> ToFloats(const Tensor& tensor) {
    std::vector<float> floats;
    for (const double value : tensor.ToDoubles()) floats.push_back(static_cast<float>(value));
    return floats;
  }

  // Its GGUF form, matrices as `type`; in two parts where `split`. Returns the path to open.
  std::string WriteGguf(CausalLm& model, StoredType type, bool split = false) {
    struct Piece {
      GgufTensorSpec spec;
      std::vector<uint8_t> bytes;
    };
    std::vector<Piece> pieces;
    ForEachParameter(model, [&](const std::string& path, Parameter& parameter) {
      const GgufPlace place = PlaceInGguf(path, config_);
      std::vector<float> values = ToFloats(parameter.value());
      const int64_t rows = parameter.shape()[0];
      const size_t row = values.size() / static_cast<size_t>(rows);
      if (place.interleaved_heads > 0) {
        const std::vector<float> from = values;
        const int64_t head = rows / place.interleaved_heads;
        for (int64_t r = 0; r < rows; ++r) {  // row r of the file is row `at` of the model
          const int64_t at = r - r % head + r % 2 * (head / 2) + r % head / 2;
          std::copy_n(from.begin() + at * static_cast<int64_t>(row), row,
                      values.begin() + r * static_cast<int64_t>(row));
        }
      }
      Piece piece;
      const bool matrix = parameter.shape().rank() == 2 && row % 32 == 0;
      piece.spec = {place.name,
                    matrix ? type : StoredType::kF32,
                    {parameter.shape().begin(), parameter.shape().end()}};
      piece.bytes.resize(*StoredBytes(piece.spec.type, piece.spec.shape));
      EXPECT_TRUE(EncodeElements(piece.spec.type, values, absl::MakeSpan(piece.bytes)).ok());
      pieces.push_back(std::move(piece));
    });
    const size_t cut = split ? pieces.size() / 2 : pieces.size();
    const std::string first = folder_ / (split ? "base-00001-of-00002.gguf" : "base.gguf");
    for (size_t part = 0; part < (split ? 2 : 1); ++part) {
      GgufMetadata metadata;
      if (part == 0) {
        metadata.SetString("general.architecture", "llama");
        metadata.SetU32("general.file_type", 99);
        const std::pair<const char*, int64_t> numbers[] = {
            {"block_count", config_.layers},
            {"embedding_length", config_.hidden_size},
            {"feed_forward_length", config_.intermediate_size},
            {"attention.head_count", config_.heads},
            {"attention.head_count_kv", config_.kv_heads}};
        for (const auto& [key, value] : numbers) {
          metadata.SetU32(absl::StrCat("llama.", key), static_cast<uint32_t>(value));
        }
        metadata.SetF32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
        metadata.SetStrings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
      }
      if (split) {
        metadata.SetU32("split.no", static_cast<uint32_t>(part));
        metadata.SetU32("split.count", 2);
        metadata.SetI32("split.tensors.count", static_cast<int32_t>(pieces.size()));
      }
      const size_t begin = part == 0 ? 0 : cut, end = part == 0 ? cut : pieces.size();
      std::vector<GgufTensorSpec> specs;
      for (size_t i = begin; i < end; ++i) specs.push_back(pieces[i].spec);
      auto file = PosixFiles().Open(part == 0 ? first : folder_ / "base-00002-of-00002.gguf",
                                    OpenMode::kReplace);
      EXPECT_TRUE(file.ok()) << file.status();
      auto writer = GgufWriter::Begin(**file, metadata, specs);
      EXPECT_TRUE(writer.ok()) << writer.status();
      for (size_t i = begin; i < end; ++i) {
        EXPECT_TRUE(writer->AppendTensor(pieces[i].bytes).ok());
      }
      EXPECT_TRUE(writer->Finish().ok());
      EXPECT_TRUE((*file)->Close().ok());
    }
    return first;
  }

  // The model as the file of that name in gguf_models.json.
  static void WriteDescribed(const std::string& name, CausalLm& model, const std::string& path) {
    std::map<std::string, Tensor> values;
    ForEachParameter(model, [&](const std::string& own, Parameter& parameter) {
      for (const GgufHalf& half : HalvesInGguf(own, parameter.value(), model.config())) {
        values[half.name] = raw::Contiguous(half.values);
      }
      values[PlaceInGguf(own, model.config()).name] = parameter.value();
    });
    std::vector<GgufTensorSpec> specs;
    for (const Json& row : DescribedGgufs().at(name).at("tensors")) {
      specs.push_back({row[0], StoredType::kF32, row[1].get<std::vector<int64_t>>()});
    }
    auto file = PosixFiles().Open(path, OpenMode::kReplace);
    ASSERT_TRUE(file.ok()) << file.status();
    auto writer = GgufWriter::Begin(**file, DescribedMetadata(name), specs);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const GgufTensorSpec& spec : specs) {
      const Tensor& one = values.at(spec.name);
      ASSERT_TRUE(writer->AppendTensor({one.data<uint8_t>(), one.bytes()}).ok()) << spec.name;
    }
    ASSERT_TRUE(writer->Finish().ok());
    ASSERT_TRUE((*file)->Close().ok());
  }

  // An adapter for q_proj and down_proj of the second layer, and for what `more` names.
  std::string WriteAdapter(std::vector<std::string> more = {}) {
    auto model = RandomModel();
    more.push_back("layers.1.self_attn.q_proj");
    more.push_back("layers.1.mlp.down_proj");
    auto set = InjectLora(*model, *backend_, DType::kF32,
                          {.rank = 3, .alpha = 6, .targets = std::move(more)});
    EXPECT_TRUE(set.ok()) << set.status();
    set->ForEachFactor(0, [&](const std::string& name, Tensor& master) {
      RandomStream random(9, HashName(name));
      std::vector<double> values(static_cast<size_t>(master.numel()));
      for (double& value : values) value = 0.2 * random.Normal();
      backend_->Copy(
          raw::Cast(Tensor::FromHost<double>(*backend_, master.shape(), values), master.dtype())
              .view(),
          master.mutable_view());
    });
    const std::string path = folder_ / "adapter";
    EXPECT_TRUE(SavePeftAdapter(PosixFiles(), path, *set).ok());
    return path;
  }

  // The parameters of a model, an adapter merged into them where one is named.
  Values Load(const std::string& path, const std::string& adapter = "") {
    auto loaded = LoadModel(path, *backend_, DType::kF32);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    Values values;
    if (!loaded.ok()) return values;
    if (!adapter.empty()) {
      auto set = LoadPeftAdapter(adapter, *loaded->model, *backend_, DType::kF32);
      EXPECT_TRUE(set.ok()) << set.status();
      auto merged = MergedWeights::Merge(*loaded->model, *set);
      EXPECT_TRUE(merged.ok()) << merged.status();
      merged->Keep();
    }
    ForEachParameter(*loaded->model, [&](const std::string& name, Parameter& parameter) {
      values[name] = ToFloats(parameter.value());
    });
    return values;
  }

  // As `type` has them.
  static std::vector<float> Rounded(const std::vector<float>& values, StoredType type) {
    const int64_t count = static_cast<int64_t>(values.size());
    std::vector<uint8_t> bytes(*StoredBytes(type, {count}));
    EXPECT_TRUE(EncodeElements(type, values, absl::MakeSpan(bytes)).ok());
    std::vector<float> back(values.size());
    EXPECT_TRUE(ConvertElements(type, bytes, count, DType::kF32, back.data()).ok());
    return back;
  }

  absl::StatusOr<MergeSummary> Merge(const std::string& model, const std::string& adapter,
                                     const std::string& output, const std::string& dtype) {
    return MergeModel({.model = model, .adapter = adapter, .output = output, .dtype = dtype},
                      *backend_);
  }

  ModelConfig config_;
  ThreadPool pool_{1};
  std::unique_ptr<Backend> backend_;
  TempFolder folder_;
};

TEST_F(MergeModelTest, GgufInEveryWritableType) {
  auto model = RandomModel();
  const std::string base = WriteGguf(*model, StoredType::kF32);
  const std::string adapter = WriteAdapter();
  const Values merged = Load(base, adapter);
  const std::tuple<const char*, StoredType, uint32_t> types[] = {{"f32", StoredType::kF32, 0},
                                                                 {"f16", StoredType::kF16, 1},
                                                                 {"bf16", StoredType::kBF16, 32},
                                                                 {"q8_0", StoredType::kQ8_0, 7}};
  for (const auto& [name, type, file_type] : types) {
    const std::string output = folder_ / absl::StrCat(name, ".gguf");
    const auto summary = Merge(base, adapter, output, name);
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_EQ(summary->merged, 2);
    const auto file = GgufFile::Open(output);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(*file->GetU64("general.file_type"), file_type);
    EXPECT_EQ(file->GetStrings("tokenizer.ggml.tokens")->size(), 2u);
    EXPECT_EQ(file->Has("general.quantization_version"), type == StoredType::kQ8_0);
    EXPECT_EQ(file->Find("output_norm.weight")->type, StoredType::kF32);
    EXPECT_EQ(file->Find("blk.0.attn_q.weight")->type, type);
    const StoredType down = type == StoredType::kQ8_0 ? StoredType::kF16 : type;
    EXPECT_EQ(file->Find("blk.0.ffn_down.weight")->type, down);
    for (const auto& [path, values] : Load(output)) {
      const bool vector = absl::EndsWith(path, "norm.weight");
      const StoredType stored = vector                                 ? StoredType::kF32
                                : absl::StrContains(path, "down_proj") ? down
                                                                       : type;
      EXPECT_EQ(values, Rounded(merged.at(path), stored)) << name << " " << path;
    }
  }
}

TEST_F(MergeModelTest, StoredKeepsEveryByteThatTheAdapterDoesNotChange) {
  auto model = RandomModel();
  const std::string base = WriteGguf(*model, StoredType::kQ8_0, /*split=*/true);
  const std::string adapter = WriteAdapter();
  const std::string output = folder_ / "m.gguf";
  const auto summary = Merge(base, adapter, output, "stored");
  ASSERT_TRUE(summary.ok()) << summary.status();
  const auto before = GgufFile::Open(base);
  const auto after = GgufFile::Open(output);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->parts(), 1u);
  EXPECT_FALSE(after->Has("split.count"));
  EXPECT_EQ(*after->GetU64("general.file_type"), 99u);
  ASSERT_EQ(after->tensors().size(), before->tensors().size());
  int changed = 0;
  for (size_t i = 0; i < before->tensors().size(); ++i) {
    const GgufTensor& was = before->tensors()[i];
    const GgufTensor& is = after->tensors()[i];
    EXPECT_EQ(is.name, was.name);
    EXPECT_EQ(is.type, was.type);
    changed += before->Bytes(was) != after->Bytes(is) ? 1 : 0;
  }
  EXPECT_EQ(changed, 2);
}

TEST_F(MergeModelTest, AHeadThatIsNoLongerTheEmbeddingIsWrittenApart) {
  auto model = RandomModel();
  const std::string base = WriteGguf(*model, StoredType::kF32);
  const std::string adapter = WriteAdapter({"lm_head"});
  const auto summary = Merge(base, adapter, folder_ / "m.gguf", "stored");
  ASSERT_TRUE(summary.ok()) << summary.status();
  const Values want = Load(base, adapter);
  const Values got = Load(folder_ / "m.gguf");
  EXPECT_EQ(got.count("lm_head.weight"), 1u);
  EXPECT_EQ(got, want);
}

TEST_F(MergeModelTest, WhatCannotBecomeAGgufFileIsRefused) {
  auto model = RandomModel();
  ASSERT_TRUE(SaveModel(*model, folder_ / "model").ok());
  const std::string adapter = WriteAdapter();
  EXPECT_THAT(
      std::string(Merge(folder_ / "model", adapter, folder_ / "m.gguf", "f32").status().message()),
      HasSubstr("only a GGUF model can become a GGUF file"));
  EXPECT_THAT(
      std::string(Merge(folder_ / "model", adapter, folder_ / "m", "q8_0").status().message()),
      HasSubstr("found \"q8_0\" for a folder"));
  EXPECT_FALSE(PosixFiles().Stat(folder_ / "m.gguf").ok());
}

// One by one, under Mixtral's own names, transposed: each as in the model's files. Merging compares
// the logits of what it wrote by itself.
TEST_F(MergeModelTest, ExpertsAreWrittenWhereTheFilesHaveThem) {
  for (const std::string name : {"deepseek_v3", "mixtral", "gpt_oss"}) {
    const std::string model = GoldenPath(name + "/model"), output = folder_ / name;
    const auto summary = Merge(model, GoldenPath(name + "/adapter"), output, "stored");
    ASSERT_TRUE(summary.ok()) << summary.status();
    const auto before = SafetensorsFile::Open(model + "/model.safetensors");
    const auto after = SafetensorsFile::Open(output + "/model.safetensors");
    ASSERT_TRUE(before.ok() && after.ok());
    ASSERT_EQ(after->entries().size(), before->entries().size());
    int changed = 0;
    for (const SafetensorsEntry& entry : before->entries()) {
      const SafetensorsEntry* written = after->Find(entry.name);
      ASSERT_NE(written, nullptr) << entry.name;
      EXPECT_EQ(written->shape, entry.shape) << entry.name;
      const bool same = after->Bytes(*written) == before->Bytes(entry);
      if (absl::StrContains(entry.name, "experts") && !absl::EndsWith(entry.name, "_bias")) {
        EXPECT_FALSE(same) << entry.name;
        ++changed;
      }
      if (absl::StrContains(entry.name, "norm")) {
        EXPECT_TRUE(same) << entry.name;
      }
    }
    EXPECT_GT(changed, 3);
  }
}

// Gate and up apart, kv_b in two, rows in turn: each as in the model's file.
TEST_F(MergeModelTest, ExpertsAreWrittenWhereTheGgufFileHasThem) {
  for (const std::string name : {"deepseek_v3", "mixtral", "qwen2_moe", "gpt_oss"}) {
    SCOPED_TRACE(name);
    auto model = LoadModel(GoldenPath(name + "/model"), *backend_, DType::kF32);
    ASSERT_TRUE(model.ok()) << model.status();
    const std::string base = folder_ / (name + ".gguf"), output = folder_ / (name + "_m.gguf");
    WriteDescribed(name, *model->model, base);
    const auto summary = Merge(base, GoldenPath(name + "/adapter"), output, "stored");
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_EQ(Load(output), Load(base, GoldenPath(name + "/adapter")));
    const auto before = GgufFile::Open(base), after = GgufFile::Open(output);
    ASSERT_TRUE(before.ok() && after.ok());
    ASSERT_EQ(after->tensors().size(), before->tensors().size());
    int changed = 0;
    for (const GgufTensor& tensor : before->tensors()) {
      const GgufTensor* written = after->Find(tensor.name);
      ASSERT_NE(written, nullptr) << tensor.name;
      EXPECT_EQ(written->shape, tensor.shape) << tensor.name;
      if (!absl::StrContains(tensor.name, "_exps.weight")) continue;
      EXPECT_NE(after->Bytes(*written), before->Bytes(tensor)) << tensor.name;
      ++changed;
    }
    EXPECT_GE(changed, 6);

    // As a folder too, without a tokenizer as the file has none.
    const auto folder = Merge(base, GoldenPath(name + "/adapter"), folder_ / name, "f32");
    ASSERT_TRUE(folder.ok()) << folder.status();
    EXPECT_EQ(Load(folder_ / name), Load(output));
  }
}

// Every eight-bit weight becomes a plain one, and config.json says so.
TEST_F(MergeModelTest, EightBitModelBecomesAPlainOne) {
  auto model = RandomModel();
  ASSERT_TRUE(SaveModel(*model, folder_ / "plain").ok());
  const auto plain = SafetensorsFile::Open(folder_ / "plain/model.safetensors");
  ASSERT_TRUE(plain.ok());
  std::vector<std::vector<uint8_t>> kept;
  std::vector<SafetensorsTensor> tensors;
  kept.reserve(2 * plain->entries().size());
  for (const SafetensorsEntry& entry : plain->entries()) {
    if (!absl::EndsWith(entry.name, "_proj.weight")) {
      tensors.push_back({entry.name, entry.type, entry.shape, plain->Bytes(entry)});
      continue;
    }
    RandomStream random(5, HashName(entry.name));
    kept.emplace_back();
    for (int64_t i = 0; i < entry.shape[0] * entry.shape[1]; ++i) {
      kept.back().push_back(static_cast<uint8_t>(random.Below(0x50) + random.Below(2) * 128));
    }
    tensors.push_back({entry.name, StoredType::kF8E4M3, entry.shape, kept.back()});
    const std::vector<int64_t> shape = {(entry.shape[0] + 15) / 16, (entry.shape[1] + 15) / 16};
    kept.emplace_back(static_cast<size_t>(shape[0] * shape[1]) * sizeof(float));
    for (size_t i = 0; i < kept.back().size(); i += sizeof(float)) {
      const float scale = 0.01f * static_cast<float>(10 + random.Below(20));
      std::memcpy(&kept.back()[i], &scale, sizeof(scale));
    }
    tensors.push_back({entry.name + "_scale_inv", StoredType::kF32, shape, kept.back()});
  }
  const std::string base = folder_ / "eight";
  ASSERT_TRUE(MakeDirectories(PosixFiles(), base).ok());
  ASSERT_TRUE(WriteSafetensors(PosixFiles(), base + "/model.safetensors", tensors, {}).ok());
  std::string json = *PosixFiles().Read(folder_ / "plain/config.json", 1 << 20);
  json.insert(1,
              R"("quantization_config": {"quant_method": "fp8", "weight_block_size": [16, 16]},)");
  ASSERT_TRUE(
      WriteFileAtomically(PosixFiles(), base + "/config.json", absl::string_view(json)).ok());

  const std::string adapter = WriteAdapter();
  const Values want = Load(base, adapter);
  for (const auto& [dtype, type] :
       {std::pair("stored", StoredType::kBF16), std::pair("f32", StoredType::kF32)}) {
    const std::string output = folder_ / absl::StrCat("out_", dtype);
    const auto summary = Merge(base, adapter, output, dtype);
    ASSERT_TRUE(summary.ok()) << summary.status();
    const auto written = SafetensorsFile::Open(output + "/model.safetensors");
    ASSERT_TRUE(written.ok());
    EXPECT_EQ(written->entries().size(), plain->entries().size());
    EXPECT_EQ(PosixFiles().Read(output + "/config.json", 1 << 20)->find("quantization_config"),
              std::string::npos);
    for (const auto& [path, values] : Load(output)) {
      const bool eight = absl::EndsWith(path, "_proj.weight");
      EXPECT_EQ(values, Rounded(want.at(path), eight ? type : StoredType::kF32)) << path;
    }
  }
}

}  // namespace
}  // namespace lorica
