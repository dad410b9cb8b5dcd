#include <functional>
#include <string>
#include <vector>

#include "io_fixture.h"
#include "lorica/io/gguf.h"
#include "lorica/io/tensor_source.h"

namespace lorica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Part {
  uint32_t number;
  uint32_t count;
  uint32_t tensors;
  std::vector<std::string> names;
};

// Each tensor is [2] of the number of its part.
void WritePart(const std::string& path, const Part& part) {
  GgufMetadata metadata;
  if (part.number == 0) metadata.SetString("general.architecture", "llama");
  metadata.SetU32("split.no", part.number);
  metadata.SetU32("split.count", part.count);
  metadata.SetI32("split.tensors.count", static_cast<int32_t>(part.tensors));
  std::vector<GgufTensorSpec> specs;
  for (const std::string& name : part.names) specs.push_back({name, StoredType::kF32, {2}});
  auto commit = FileCommit::Begin(PosixFiles(), path);
  ASSERT_OK(commit);
  auto writer = GgufWriter::Begin(commit->file(), metadata, specs);
  ASSERT_OK(writer);
  const std::vector<float> values(2, static_cast<float>(part.number));
  for (size_t i = 0; i < part.names.size(); ++i) ASSERT_OK(writer->AppendTensor(AsBytes(values)));
  ASSERT_OK(writer->Finish());
  ASSERT_OK(commit->Commit());
}

class GgufSplitTest : public testing::Test {
 protected:
  std::string Path(int number) const {
    return folder_ / absl::StrCat("m-0000", number, "-of-00003.gguf");
  }
  void WriteAll() {
    WritePart(Path(1), {0, 3, 4, {"a"}});
    WritePart(Path(2), {1, 3, 4, {"b", "c"}});
    WritePart(Path(3), {2, 3, 4, {"d"}});
  }
  std::string ErrorOf(const std::string& path) const {
    const auto file = GgufFile::Open(path);
    return std::string(file.status().message());
  }

  TempFolder folder_;
};

TEST_F(GgufSplitTest, TheFirstPartBringsTheOthersAlong) {
  WriteAll();
  auto file = GgufFile::Open(Path(1));
  ASSERT_OK(file);
  EXPECT_EQ(file->parts(), 3u);
  EXPECT_EQ(*file->GetString("general.architecture"), "llama");
  const std::unique_ptr<TensorSource> source = MakeGgufSource(*std::move(file));
  EXPECT_THAT(source->names(), ElementsAre("a", "b", "c", "d"));
  const std::pair<const char*, float> expected[] = {{"a", 0}, {"b", 1}, {"c", 1}, {"d", 2}};
  for (const auto& [name, value] : expected) {
    float values[2];
    ASSERT_OK(source->ReadAll(name, DType::kF32, values));
    EXPECT_EQ(values[1], value) << name;
  }
  EXPECT_EQ(source->Where("d"), absl::StrCat(Path(3), ": tensor \"d\""));
}

TEST_F(GgufSplitTest, AnotherPartThanTheFirstIsRefused) {
  WriteAll();
  EXPECT_EQ(ErrorOf(Path(2)), absl::StrCat(Path(2), ": GGUF: expected the first part of 3, named ",
                                           "*-00001-of-00003.gguf, found part 2"));
}

TEST_F(GgufSplitTest, AMissingPartIsNamed) {
  WriteAll();
  ASSERT_OK(PosixFiles().RemoveFile(Path(3)));
  EXPECT_EQ(ErrorOf(Path(1)), absl::StrCat(Path(1), ": GGUF: part 3 of 3, ",
                                           "\"m-00003-of-00003.gguf\", is missing beside it"));
  EXPECT_EQ(GgufFile::Open(Path(1)).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(GgufSplitTest, ARenamedFirstPartIsRefused) {
  WriteAll();
  ASSERT_OK(PosixFiles().Rename(Path(1), folder_ / "m.gguf"));
  EXPECT_THAT(ErrorOf(folder_ / "m.gguf"), HasSubstr("a name that ends in -00001-of-00003.gguf"));
}

TEST_F(GgufSplitTest, PartsThatContradictEachOtherAreRefused) {
  const std::pair<Part, const char*> cases[] = {
      {{2, 3, 4, {"b", "c"}}, "expected 1 under \"split.no\" of part 2 of 3, found 2"},
      {{1, 4, 4, {"b", "c"}}, "expected 3 under \"split.count\" of part 2 of 3, found 4"},
      {{1, 3, 5, {"b", "c"}}, "expected 4 under \"split.tensors.count\" of part 2 of 3, found 5"},
      {{1, 3, 4, {"b"}}, "expected 4 tensors in 3 parts by \"split.tensors.count\", found 3"},
      {{1, 3, 4, {"b", "a"}}, "tensor \"a\" is also in "},
  };
  for (const auto& [second, message] : cases) {
    WriteAll();
    WritePart(Path(2), second);
    EXPECT_THAT(ErrorOf(Path(1)), HasSubstr(message));
  }
}

TEST_F(GgufSplitTest, APartWithoutItsNumberIsRefused) {
  WriteAll();
  GgufMetadata metadata;
  metadata.SetString("general.architecture", "llama");
  auto commit = FileCommit::Begin(PosixFiles(), Path(2));
  ASSERT_OK(commit);
  ASSERT_OK(GgufWriter::Begin(commit->file(), metadata, {}));
  ASSERT_OK(commit->Commit());
  EXPECT_THAT(ErrorOf(Path(1)), HasSubstr("GGUF key \"split.no\": expected"));
}

TEST_F(GgufSplitTest, AHugeCountEndsAtTheFirstMissingPart) {
  WritePart(folder_ / "m-00001-of-65535.gguf", {0, 65535, 4, {"a"}});
  EXPECT_THAT(ErrorOf(folder_ / "m-00001-of-65535.gguf"), HasSubstr("part 2 of 65535"));
  WritePart(folder_ / "n.gguf", {0, 100000, 4, {"a"}});
  EXPECT_THAT(ErrorOf(folder_ / "n.gguf"), HasSubstr("at most 99999 parts, found 100000"));
}

TEST_F(GgufSplitTest, OnePartOfOneIsAPlainFile) {
  WritePart(folder_ / "single.gguf", {0, 1, 1, {"a"}});
  const auto file = GgufFile::Open(folder_ / "single.gguf");
  ASSERT_OK(file);
  EXPECT_EQ(file->parts(), 1u);
}

}  // namespace
}  // namespace lorica
