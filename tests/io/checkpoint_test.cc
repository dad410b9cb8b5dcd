#include "lorica/io/checkpoint.h"

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "io_fixture.h"
#include "lorica/io/crc32c.h"
#include "lorica/tensor/check.h"

namespace lorica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Tensors whose values tell the step.
class CheckpointTest : public testing::Test {
 protected:
  CheckpointContents Contents(int64_t step) {
    a_.assign(6, static_cast<float>(step));
    flags_ = {1, 0, 1};
    CheckpointContents contents;
    contents.step = step;
    contents.run_id = "run";
    contents.base_fingerprint = "base";
    contents.scalars = {{"epoch", int64_t{2}}, {"best", 0.1}, {"rng", std::string("x")}};
    contents.tensors = {
        {"flags", StoredType::kU8, {3}, "mask", {}, flags_},
        {"layer.a", StoredType::kF32, {2, 3}, "lora_a", {"rank", "in"}, AsBytes(a_)},
        {"empty", StoredType::kF32, {0, 3}, "lora_b", {}, {}}};
    return contents;
  }

  std::string Write(int64_t step) {
    const auto path = WriteCheckpoint(PosixFiles(), folder_.path(), Contents(step));
    EXPECT_OK(path);
    return path.ok() ? *path : "";
  }

  std::vector<int64_t> Steps() {
    std::vector<int64_t> steps;
    const auto list = ListCheckpoints(folder_.path());
    EXPECT_OK(list);
    if (list.ok()) {
      for (const CheckpointPlace& place : list->complete) steps.push_back(place.step);
    }
    return steps;
  }

  const TempFolder folder_;
  std::vector<float> a_;
  std::vector<uint8_t> flags_;
};

TEST_F(CheckpointTest, WritesAndReadsBack) {
  const std::string path = Write(1200);
  EXPECT_EQ(path, folder_ / "step-00001200");
  EXPECT_THAT(*PosixFiles().List(path),
              ElementsAre("MANIFEST.json", "shard-00000-of-00001.safetensors"));
  EXPECT_EQ(ReadOrDie(folder_ / "LATEST"), "step-00001200\n");
  EXPECT_THAT(folder_.List(), ElementsAre("LATEST", "step-00001200"));

  const auto reader = CheckpointReader::Open(path);
  ASSERT_OK(reader);
  EXPECT_EQ(reader->manifest().step, 1200);
  EXPECT_EQ(reader->manifest().run_id, "run");
  EXPECT_EQ(reader->manifest().base_fingerprint, "base");
  EXPECT_EQ(reader->Find("layer.a")->role, "lora_a");
  EXPECT_EQ(*reader->GetInt("epoch"), 2);
  EXPECT_EQ(*reader->GetDouble("best"), 0.1);
  EXPECT_EQ(*reader->GetString("rng"), "x");
  EXPECT_FALSE(reader->GetInt("best").ok());
  EXPECT_EQ(reader->GetInt("none").status().code(), absl::StatusCode::kNotFound);
  std::vector<float> a(6);
  ASSERT_OK(reader->Load("layer.a", StoredType::kF32, {2, 3},
                         {reinterpret_cast<uint8_t*>(a.data()), 24}));
  EXPECT_EQ(a, a_);
  ASSERT_OK(reader->Load("empty", StoredType::kF32, {0, 3}, {}));
  ASSERT_OK(reader->VerifyAll());

  EXPECT_OK(reader->ExpectTensors({"empty", "layer.a", "flags"}));
  EXPECT_THAT(std::string(reader->ExpectTensors({"layer.a", "flags"}).message()),
              HasSubstr("tensor \"empty\" isn't expected"));
  EXPECT_THAT(std::string(reader->ExpectTensors({"layer.a", "flags", "empty", "z"}).message()),
              HasSubstr("expected a tensor \"z\""));
  uint8_t bytes[24];
  EXPECT_THAT(std::string(reader->Load("layer.a", StoredType::kF32, {3, 2}, bytes).message()),
              HasSubstr("expected F32 [3, 2], found F32 [2, 3]"));
  EXPECT_FALSE(reader->Load("layer.a", StoredType::kI32, {2, 3}, bytes).ok());
  EXPECT_EQ(reader->Load("b", StoredType::kF32, {2, 3}, bytes).code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointTest, LoadsBoxes) {
  const auto reader = CheckpointReader::Open(Write(1));
  ASSERT_OK(reader);
  uint8_t box[2];
  ASSERT_OK(reader->LoadBox("flags", {1}, {2}, box));
  EXPECT_EQ(box[0], 0);
  EXPECT_EQ(box[1], 1);
  EXPECT_THROW(reader->LoadBox("flags", {2}, {2}, box).IgnoreError(), Error);
  EXPECT_THROW(reader->LoadBox("flags", {1}, {1}, box).IgnoreError(), Error);
}

TEST_F(CheckpointTest, RefusesAnExistingStep) {
  Write(5);
  EXPECT_EQ(WriteCheckpoint(PosixFiles(), folder_.path(), Contents(5)).status().code(),
            absl::StatusCode::kAlreadyExists);
}

// Shards of several writers, put together by hand: global tensors come out whole.
TEST_F(CheckpointTest, AssemblesTensorsFromManyShards) {
  const int64_t rows = 5, columns = 7;
  std::vector<int32_t> whole(static_cast<size_t>(rows * columns));
  std::iota(whole.begin(), whole.end(), 0);
  struct Box {
    std::vector<int64_t> offset, shape;
  };
  const std::vector<Box> boxes = {
      {{0, 0}, {2, 7}}, {{2, 0}, {3, 4}}, {{2, 4}, {3, 3}}, {{5, 0}, {0, 7}}};
  Manifest manifest;
  manifest.step = 3;
  manifest.writers = static_cast<int64_t>(boxes.size());
  manifest.tensors = {{"t", StoredType::kI32, {rows, columns}, "", {}, {}}};
  auto commit = DirectoryCommit::Begin(PosixFiles(), folder_ / "step-00000003");
  ASSERT_OK(commit);
  for (size_t i = 0; i < boxes.size(); ++i) {
    std::vector<int32_t> part;
    for (int64_t r = 0; r < boxes[i].shape[0]; ++r) {
      for (int64_t c = 0; c < boxes[i].shape[1]; ++c) {
        part.push_back(whole[static_cast<size_t>((boxes[i].offset[0] + r) * columns +
                                                 boxes[i].offset[1] + c)]);
      }
    }
    const std::string name = absl::StrCat("shard-", i, ".safetensors");
    auto file = commit->Create(name);
    ASSERT_OK(file);
    auto writer = SafetensorsWriter::Begin(
        **file, {{ChunkName("t", i), StoredType::kI32, boxes[i].shape}}, {});
    ASSERT_OK(writer);
    const uint64_t begin = writer->entries()[0].begin, end = writer->entries()[0].end;
    ASSERT_OK(writer->Append(AsBytes(part)));
    ASSERT_OK(writer->Finish());
    ASSERT_OK((*file)->Close());
    const std::string bytes = ReadOrDie(JoinPath(commit->temporary_path(), name));
    manifest.files.push_back({name, bytes.size(), Crc32c(AsBytes(bytes))});
    manifest.tensors[0].chunks.push_back(
        {name, boxes[i].offset, boxes[i].shape, begin, end, Crc32c(AsBytes(part))});
  }
  ASSERT_OK(commit->WriteFile(kManifestName, *FormatManifest(manifest)));
  ASSERT_OK(commit->Commit());

  const auto reader = CheckpointReader::Open(folder_ / "step-00000003");
  ASSERT_OK(reader);
  ASSERT_OK(reader->VerifyAll());
  std::vector<int32_t> got(whole.size());
  ASSERT_OK(reader->Load("t", StoredType::kI32, {rows, columns},
                         {reinterpret_cast<uint8_t*>(got.data()), got.size() * 4}));
  EXPECT_EQ(got, whole);
  // Every box of every size.
  for (int64_t r = 0; r <= rows; ++r) {
    for (int64_t c = 0; c <= columns; ++c) {
      for (int64_t h = 0; h <= rows - r; ++h) {
        for (int64_t w = 0; w <= columns - c; ++w) {
          std::vector<int32_t> box(static_cast<size_t>(h * w), -1);
          ASSERT_OK(reader->LoadBox("t", {r, c}, {h, w},
                                    {reinterpret_cast<uint8_t*>(box.data()), box.size() * 4}));
          for (int64_t i = 0; i < h; ++i) {
            for (int64_t j = 0; j < w; ++j) {
              ASSERT_EQ(box[static_cast<size_t>(i * w + j)],
                        whole[static_cast<size_t>((r + i) * columns + c + j)]);
            }
          }
        }
      }
    }
  }
}

TEST_F(CheckpointTest, FlippedDataIsFoundOnLoad) {
  const std::string shard = JoinPath(Write(1), "shard-00000-of-00001.safetensors");
  std::string bytes = ReadOrDie(shard);
  bytes[bytes.size() - 1] ^= 1;
  WriteOrDie(shard, bytes);
  const auto reader = CheckpointReader::Open(folder_ / "step-00000001");
  ASSERT_OK(reader);
  uint8_t flags[3];
  const absl::Status loaded = reader->Load("flags", StoredType::kU8, {3}, flags);
  EXPECT_EQ(loaded.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(loaded.message()), HasSubstr("tensor \"flags\""));
  EXPECT_EQ(reader->VerifyAll().code(), absl::StatusCode::kDataLoss);
}

TEST_F(CheckpointTest, DamagedFoldersAreNotComplete) {
  Write(1);
  Write(2);
  Write(3);
  Write(4);
  Write(5);
  Write(6);
  ASSERT_OK(PosixFiles().RemoveFile(folder_ / "step-00000002/shard-00000-of-00001.safetensors"));
  ASSERT_OK(PosixFiles().RemoveFile(folder_ / "step-00000003/MANIFEST.json"));
  ASSERT_OK(PosixFiles().Truncate(folder_ / "step-00000004/shard-00000-of-00001.safetensors", 100));
  WriteOrDie(folder_ / "step-00000005/extra.safetensors", "x");
  ASSERT_OK(PosixFiles().Rename(folder_ / "step-00000006", folder_ / "step-00000007"));
  ASSERT_OK(PosixFiles().MakeDirectory(folder_ / "step-8"));  // not a name of ours
  WriteOrDie(folder_ / "LATEST", "step-00000004\n");          // only a hint
  EXPECT_THAT(Steps(), ElementsAre(1));
  const auto list = ListCheckpoints(folder_.path());
  ASSERT_EQ(list->damaged.size(), 5u);
  EXPECT_THAT(std::string(list->damaged[2].message()), HasSubstr("bytes, found 100"));
  EXPECT_THAT(std::string(list->damaged[3].message()),
              HasSubstr("\"extra.safetensors\" isn't listed"));
  EXPECT_THAT(std::string(list->damaged[4].message()), HasSubstr("the manifest is of step 6"));
}

TEST_F(CheckpointTest, ShardsOfAnotherStepAreRefused) {
  Write(1);
  a_.clear();
  CheckpointContents other = Contents(2);
  other.tensors[0].name = "flagz";
  ASSERT_OK(WriteCheckpoint(PosixFiles(), folder_.path(), other));
  ASSERT_OK(PosixFiles().Rename(folder_ / "step-00000002/shard-00000-of-00001.safetensors",
                                folder_ / "step-00000001/shard-00000-of-00001.safetensors"));
  const auto reader = CheckpointReader::Open(folder_ / "step-00000001");
  ASSERT_FALSE(reader.ok());
  EXPECT_THAT(std::string(reader.status().message()), HasSubstr("differ on tensor \"flags#0\""));
}

TEST_F(CheckpointTest, ListsNewestFirst) {
  EXPECT_TRUE(ListCheckpoints(folder_ / "absent")->complete.empty());
  for (int64_t step : {9, 100, 10, 123456789}) Write(step);
  EXPECT_THAT(Steps(), ElementsAre(123456789, 100, 10, 9));
}

TEST_F(CheckpointTest, KeepsNewestAndChosen) {
  for (int64_t step : {1, 2, 3, 4, 5}) Write(step);
  WriteOrDie(folder_ / "step-00000001/extra", "x");  // damaged: stays
  ASSERT_OK(KeepNewest(PosixFiles(), folder_.path(), 2, {2}));
  EXPECT_THAT(Steps(), ElementsAre(5, 4, 2));
  EXPECT_THAT(folder_.List(), ElementsAre("LATEST", "step-00000001", "step-00000002",
                                          "step-00000004", "step-00000005"));
  EXPECT_THROW(KeepNewest(PosixFiles(), folder_.path(), 0).IgnoreError(), Error);
}

TEST_F(CheckpointTest, RemovesLeftoversOnRequest) {
  Write(1);
  ASSERT_OK(PosixFiles().MakeDirectory(folder_ / TemporaryName("step-00000002", MakeNonce())));
  ASSERT_OK(PosixFiles().MakeDirectory(folder_ / ".trash-step-00000000.x"));
  WriteOrDie(folder_ / ".trash-step-00000000.x/f", "x");
  ASSERT_OK(PosixFiles().MakeDirectory(folder_ / ".keep"));
  EXPECT_THAT(Steps(), ElementsAre(1));
  ASSERT_OK(RemoveLeftovers(PosixFiles(), folder_.path()));
  EXPECT_THAT(folder_.List(), ElementsAre(".keep", "LATEST", "step-00000001"));
}

}  // namespace
}  // namespace lorica
