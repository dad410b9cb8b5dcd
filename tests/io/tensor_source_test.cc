#include "lorica/io/tensor_source.h"

#include <memory>
#include <string>
#include <vector>

#include "io_fixture.h"
#include "lorica/tensor/check.h"

namespace lorica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// One tensor [2, 2] of f32 a name.
void WriteShard(const std::string& path, const std::vector<std::string>& names) {
  static const std::vector<float> kValues = {1, 2, 3, 4};
  std::vector<SafetensorsTensor> tensors;
  for (const std::string& name : names) {
    tensors.push_back({name, StoredType::kF32, {2, 2}, AsBytes(kValues)});
  }
  ASSERT_OK(WriteSafetensors(PosixFiles(), path, tensors, {}));
}

std::string ErrorOf(const std::string& folder) {
  const auto source = OpenFolderSource(folder);
  return source.ok() ? "no error" : std::string(source.status().message());
}

TEST(TensorSourceTest, ReadsRowsAndConverts) {
  const TempFolder folder;
  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  const std::vector<float> bias = {7, 8, 9};
  ASSERT_OK(WriteSafetensors(PosixFiles(), folder / "a.safetensors",
                             {{"w", StoredType::kF32, {3, 2}, AsBytes(values)},
                              {"bias", StoredType::kF32, {3}, AsBytes(bias)},
                              {"ids", StoredType::kI64, {0}, {}}},
                             {}));
  const auto opened = OpenSafetensorsSource(folder / "a.safetensors");
  ASSERT_OK(opened);
  const TensorSource& source = **opened;
  EXPECT_EQ(source.names().size(), 3u);
  EXPECT_EQ(source.Find("w")->shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(source.Find("none"), nullptr);
  std::vector<double> f64(4);
  ASSERT_OK(source.Read("w", 1, 2, DType::kF64, f64.data()));
  EXPECT_THAT(f64, ElementsAre(2, 3, 4, 5));
  std::vector<BF16> bf16(3);
  ASSERT_OK(source.ReadAll("bias", DType::kBF16, bf16.data()));
  EXPECT_EQ(static_cast<float>(bf16[2]), 9.0f);
  EXPECT_EQ(source.Bytes("w")->size(), 24u);

  EXPECT_THROW(source.Read("w", 2, 2, DType::kF64, f64.data()).IgnoreError(), Error);
  EXPECT_THROW(source.Read("w", -1, 1, DType::kF64, f64.data()).IgnoreError(), Error);
  const absl::Status absent = source.ReadAll("biass", DType::kF32, f64.data());
  EXPECT_EQ(absent.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(absent.message()), HasSubstr("the nearest name is \"bias\""));
  const absl::Status unsupported = source.ReadAll("ids", DType::kF32, f64.data());
  EXPECT_THAT(std::string(unsupported.message()),
              HasSubstr("tensor \"ids\": type I64 is not supported as f32"));
}

TEST(TensorSourceTest, ReadsGguf) {
  const TempFolder folder;
  const std::vector<float> values(64, 0.5f);
  std::vector<uint8_t> blocks(68);
  ASSERT_OK(EncodeElements(StoredType::kQ8_0, values, absl::MakeSpan(blocks)));
  auto commit = FileCommit::Begin(PosixFiles(), folder / "m.gguf");
  ASSERT_OK(commit);
  const std::vector<GgufTensorSpec> specs = {{"q", StoredType::kQ8_0, {2, 32}},
                                             {"v", StoredType::kQ8_0, {64}}};
  auto writer = GgufWriter::Begin(commit->file(), {}, specs);
  ASSERT_OK(writer);
  ASSERT_OK(writer->AppendTensor(blocks));
  ASSERT_OK(writer->AppendTensor(blocks));
  ASSERT_OK(writer->Finish());
  ASSERT_OK(commit->Commit());

  auto file = GgufFile::Open(folder / "m.gguf");
  ASSERT_OK(file);
  const std::unique_ptr<TensorSource> source = MakeGgufSource(*std::move(file));
  EXPECT_THAT(source->names(), ElementsAre("q", "v"));
  std::vector<float> row(32);
  ASSERT_OK(source->Read("q", 1, 1, DType::kF32, row.data()));
  EXPECT_NEAR(row[31], 0.5f, 1e-3);
  ASSERT_OK(source->Read("v", 32, 32, DType::kF32, row.data()));
  EXPECT_THROW(source->Read("v", 1, 32, DType::kF32, row.data()).IgnoreError(), Error);
}

TEST(FolderSourceTest, SingleFile) {
  const TempFolder folder;
  WriteShard(folder / "model.safetensors", {"a", "b"});
  WriteShard(folder / "other.safetensors", {"c"});
  const auto source = OpenFolderSource(folder.path());
  ASSERT_OK(source);
  EXPECT_THAT((*source)->names(), ElementsAre("a", "b"));
}

TEST(FolderSourceTest, ShardsByIndex) {
  const TempFolder folder;
  WriteShard(folder / "x-1.safetensors", {"a"});
  WriteShard(folder / "x-2.safetensors", {"b", "c"});
  WriteShard(folder / "consolidated.safetensors", {"a"});  // not in the index: not read
  WriteOrDie(folder / "model.safetensors.index.json",
             R"({"metadata": {"total_size": 48},
                 "weight_map": {"a": "x-1.safetensors", "b": "x-2.safetensors", "c": "x-2.safetensors"}})");
  const auto source = OpenFolderSource(folder.path());
  ASSERT_OK(source);
  EXPECT_THAT((*source)->names(), ElementsAre("a", "b", "c"));
  EXPECT_THAT((*source)->Where("b"), HasSubstr("x-2.safetensors: tensor \"b\""));
}

TEST(FolderSourceTest, ShardsWithoutIndex) {
  const TempFolder folder;
  WriteShard(folder / "model-00001-of-00002.safetensors", {"a"});
  EXPECT_THAT(ErrorOf(folder.path()), HasSubstr("expected 2 shards, number 2 is missing"));
  WriteShard(folder / "model-00002-of-00002.safetensors", {"b"});
  WriteShard(folder / "adapter_model.safetensors", {"lora"});
  const auto source = OpenFolderSource(folder.path());
  ASSERT_OK(source);
  EXPECT_THAT((*source)->names(), ElementsAre("a", "b"));
  WriteShard(folder / "model-00001-of-00003.safetensors", {"a"});
  EXPECT_THAT(ErrorOf(folder.path()), HasSubstr("found some of 2 and some of 3"));
}

TEST(FolderSourceTest, OtherFileNames) {
  const TempFolder folder;
  WriteShard(folder / "first.safetensors", {"a"});
  WriteShard(folder / "second.safetensors", {"b"});
  ASSERT_OK(OpenFolderSource(folder.path()));
  WriteShard(folder / "third.safetensors", {"a"});
  EXPECT_THAT(ErrorOf(folder.path()),
              testing::MatchesRegex(
                  "tensor \"a\" occurs in both .*first.safetensors and .*third.safetensors"));
}

TEST(FolderSourceTest, NothingThere) {
  const TempFolder folder;
  EXPECT_THAT(ErrorOf(folder.path()), HasSubstr("expected model.safetensors"));
  EXPECT_THAT(ErrorOf(folder / "absent"), HasSubstr("No such file or directory"));
}

TEST(FolderSourceTest, IndexAndShardsMustAgree) {
  const TempFolder folder;
  const auto write_index = [&](const std::string& map) {
    WriteOrDie(folder / "model.safetensors.index.json", "{\"weight_map\": " + map + "}");
  };
  WriteShard(folder / "s1.safetensors", {"a"});
  WriteShard(folder / "s2.safetensors", {"b"});

  write_index(R"({"a": "s1.safetensors", "b": "s2.safetensors", "c": "s3.safetensors"})");
  EXPECT_THAT(ErrorOf(folder.path()), HasSubstr("shard \"s3.safetensors\" is missing"));
  write_index(R"({"a": "s1.safetensors", "b": "s2.safetensors", "c": "s2.safetensors"})");
  EXPECT_THAT(ErrorOf(folder.path()),
              HasSubstr("tensor \"c\" should be in \"s2.safetensors\", which doesn't hold it"));
  WriteShard(folder / "s2.safetensors", {"b", "d"});
  write_index(R"({"a": "s1.safetensors", "b": "s2.safetensors"})");
  EXPECT_THAT(ErrorOf(folder.path()), HasSubstr("tensor \"d\" isn't named in"));
  WriteShard(folder / "s2.safetensors", {"b", "a"});
  EXPECT_THAT(ErrorOf(folder.path()), HasSubstr("tensor \"a\" occurs in both"));
  write_index(R"({"a": "../s1.safetensors"})");
  EXPECT_THAT(ErrorOf(folder.path()),
              HasSubstr("expected a file name, found \"../s1.safetensors\""));
  write_index(R"({"a": 1})");
  EXPECT_THAT(ErrorOf(folder.path()), HasSubstr("weight_map.a: expected a string"));
  write_index("{}");
  EXPECT_THAT(ErrorOf(folder.path()), HasSubstr("expected at least one tensor"));
  write_index("[]");
  EXPECT_THAT(ErrorOf(folder.path()), HasSubstr("weight_map: expected an object, found an array"));
  write_index(R"({"a": "s1.safetensors"})");
  EXPECT_EQ(ErrorOf(folder.path()), "no error");
  WriteShard(folder / "model.safetensors", {"a"});
  EXPECT_THAT(ErrorOf(folder.path()), HasSubstr("found both model.safetensors and"));
}

}  // namespace
}  // namespace lorica
