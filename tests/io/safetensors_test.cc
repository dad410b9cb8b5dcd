#include "lorica/io/safetensors.h"

#include <string>
#include <vector>

#include "io_fixture.h"
#include "lorica/tensor/check.h"

namespace lorica {
namespace {

using testing::HasSubstr;

TEST(SafetensorsTest, WritesAndReadsBack) {
  const TempFolder folder;
  const std::string path = folder / "a.safetensors";
  const std::vector<uint8_t> flags = {1, 0, 1};
  const std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  const std::vector<double> scalar = {0.1};
  ASSERT_OK(WriteSafetensors(PosixFiles(), path,
                             {{"flags", StoredType::kBool, {3}, flags},
                              {"weight", StoredType::kF32, {2, 3}, AsBytes(weight)},
                              {"empty", StoredType::kF32, {0, 4}, {}},
                              {"scalar", StoredType::kF64, {}, AsBytes(scalar)}},
                             {{"format", "pt"}, {"text", "line\n\"quoted\" \xC3\xA9"}}));
  EXPECT_THAT(folder.List(), testing::ElementsAre("a.safetensors"));

  const auto file = SafetensorsFile::Open(path);
  ASSERT_OK(file);
  ASSERT_EQ(file->entries().size(), 4u);
  // Widest first, so all are aligned; the data begins on a cache line.
  EXPECT_EQ(file->entries()[0].name, "scalar");
  EXPECT_EQ(file->entries()[0].begin % 64, 0u);
  EXPECT_EQ(file->Find("weight")->begin % 4, 0u);
  EXPECT_EQ(file->Find("weight")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file->Bytes(*file->Find("weight")), AsBytes(weight));
  EXPECT_EQ(file->Bytes(*file->Find("scalar")), AsBytes(scalar));
  EXPECT_EQ(file->Bytes(*file->Find("flags")), absl::MakeConstSpan(flags));
  EXPECT_TRUE(file->Bytes(*file->Find("empty")).empty());
  EXPECT_EQ(file->Find("other"), nullptr);
  EXPECT_EQ(file->metadata().at("text"), "line\n\"quoted\" \xC3\xA9");
}

TEST(SafetensorsTest, StreamsInAnyPieces) {
  const TempFolder folder;
  auto sink = PosixFiles().Open(folder / "a", OpenMode::kCreateNew);
  ASSERT_OK(sink);
  auto writer = SafetensorsWriter::Begin(
      **sink, {{"b", StoredType::kU8, {3}}, {"a", StoredType::kU8, {2}}}, {});
  ASSERT_OK(writer);
  ASSERT_OK(writer->Append(AsBytes("12")));
  EXPECT_THROW(writer->Finish().IgnoreError(), Error);
  ASSERT_OK(writer->Append(AsBytes("345")));
  EXPECT_THROW(writer->Append(AsBytes("6")).IgnoreError(), Error);
  ASSERT_OK(writer->Finish());
  ASSERT_OK((*sink)->Close());
  const auto file = SafetensorsFile::Open(folder / "a");
  ASSERT_OK(file);
  EXPECT_EQ(file->entries()[0].name, "b");
  EXPECT_EQ(file->Bytes(*file->Find("a")), AsBytes("45"));
}

TEST(SafetensorsTest, WriterRefusesBadNames) {
  const TempFolder folder;
  const std::vector<uint8_t> byte = {1};
  const SafetensorsTensor good{"a", StoredType::kU8, {1}, byte};
  const auto write = [&](const std::string& name) {
    return WriteSafetensors(PosixFiles(), folder / "f", {good, {name, StoredType::kU8, {1}, byte}},
                            {});
  };
  EXPECT_FALSE(write("a").ok());
  EXPECT_FALSE(write("__metadata__").ok());
  EXPECT_FALSE(write("\xFF").ok());
  EXPECT_TRUE(folder.List().empty()) << "a failed write leaves nothing behind";
  EXPECT_THROW(WriteSafetensors(PosixFiles(), folder / "f", {{"a", StoredType::kU8, {2}, byte}}, {})
                   .IgnoreError(),
               Error);
}

TEST(SafetensorsTest, ReadsMinimalFiles) {
  ASSERT_OK(SafetensorsFile::Parse(AsBytes(SafetensorsBytes("{}", "")), "x"));
  ASSERT_OK(SafetensorsFile::Parse(AsBytes(SafetensorsBytes("{}      ", "")), "x"));
  // Empty tensors may share a place with others.
  const std::string bytes =
      SafetensorsBytes(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                       R"("e":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                       R"("f":{"dtype":"U8","shape":[3,0],"data_offsets":[1,1]}})",
                       "x");
  const auto file = SafetensorsFile::Parse(AsBytes(bytes), "x");
  ASSERT_OK(file);
  EXPECT_EQ(file->entries().size(), 3u);
}

struct HostileCase {
  const char* name;
  std::string bytes;
  const char* message;
};

void PrintTo(const HostileCase& c, std::ostream* out) { *out << c.name; }

std::string One(absl::string_view dtype, absl::string_view shape, absl::string_view offsets,
                size_t data) {
  return SafetensorsBytes(absl::StrCat(R"({"t":{"dtype":)", dtype, R"(,"shape":)", shape,
                                       R"(,"data_offsets":)", offsets, "}}"),
                          std::string(data, 'x'));
}

std::vector<HostileCase> HostileCases() {
  const std::string good = One("\"F32\"", "[2,3]", "[0,24]", 24);
  return {
      {"Empty", "", "expected at least 8 bytes, found 0"},
      {"ShortLength", "1234567", "expected at least 8 bytes, found 7"},
      {"HugeLength", Raw<uint64_t>(UINT64_MAX), "announce a header of 18446744073709551615 bytes"},
      {"LongLength", Raw<uint64_t>(100) + "{}", "goes past the end of the file"},
      {"EmptyHeader", Raw<uint64_t>(0), "expected '{' at byte 8"},
      {"LeadingSpace", SafetensorsBytes(" {}", ""), "expected '{' at byte 8"},
      {"CutHeader", good.substr(0, 40), "goes past the end of the file"},
      {"CutData", good.substr(0, good.size() - 1), "lie outside of the 23 data bytes"},
      {"TrailingData", good + "y", "the tensors end at data byte 24, but 25 bytes"},
      {"NotJson", SafetensorsBytes("{]", ""), "safetensors header: JSON at byte 1"},
      {"InvalidUtf8", SafetensorsBytes("{\"\xFF\":1}", ""), "JSON at byte"},
      {"DeepNesting", SafetensorsBytes("{\"a\":" + std::string(100000, '['), ""), "nested deeper"},
      {"DuplicateName",
       SafetensorsBytes(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                        R"("t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                        "xy"),
       "key \"t\" occurs twice"},
      {"EntryIsNumber", SafetensorsBytes(R"({"t":1})", ""), "tensor \"t\": expected an object"},
      {"EntryLacksDtype", SafetensorsBytes(R"({"t":{"shape":[],"data_offsets":[0,1]}})", "x"),
       "expected a string under \"dtype\""},
      {"EntryLacksShape", SafetensorsBytes(R"({"t":{"dtype":"U8","data_offsets":[0,1]}})", "x"),
       "expected an array under \"shape\""},
      {"EntryHasExtraKey",
       SafetensorsBytes(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"crc":0}})", "x"),
       "unknown key \"crc\""},
      {"UnknownDtype", One("\"F31\"", "[1]", "[0,4]", 4), "unknown dtype \"F31\""},
      {"NegativeDimension", One("\"F32\"", "[-1]", "[0,4]", 4), "expected integers from 0"},
      {"FractionalDimension", One("\"F32\"", "[1.5]", "[0,4]", 4), "expected integers from 0"},
      {"HugeDimension", One("\"F32\"", "[18446744073709551615]", "[0,4]", 4),
       "expected integers from 0"},
      {"OverflowingProduct", One("\"F32\"", "[4294967296,4294967296,4294967296]", "[0,4]", 4),
       "is negative or too large"},
      {"OverflowHiddenByZero", One("\"F32\"", "[0,4294967296,4294967296]", "[0,0]", 0),
       "is negative or too large"},
      {"OverflowingBytes", One("\"F64\"", "[2305843009213693953]", "[0,8]", 8), "is too large"},
      {"ManyDimensions",
       One(
           "\"U8\"",
           "[1" +
               [] {
                 std::string ones;
                 for (int i = 0; i < 64; ++i) ones += ",1";
                 return ones;
               }() +
               "]",
           "[0,1]", 1),
       "expected at most 64 numbers"},
      {"SizeDiffersFromShape", One("\"F32\"", "[2,3]", "[0,20]", 20),
       "expected 24 bytes for F32 [2, 3], data_offsets span 20"},
      {"OffsetsReversed", One("\"U8\"", "[0]", "[1,0]", 1), "lie outside"},
      {"OffsetsBeyondFile", One("\"U8\"", "[8]", "[0,9223372036854775807]", 8), "lie outside"},
      {"ThreeOffsets", One("\"U8\"", "[1]", "[0,1,2]", 1), "expected 2 data_offsets, found 3"},
      {"NegativeOffset", One("\"U8\"", "[1]", "[-1,0]", 1), "expected integers from 0"},
      {"Overlap",
       SafetensorsBytes(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                        R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                        "xyz"),
       "tensor \"b\": starts at data byte 1, but the tensor before it overlaps it"},
      {"Gap",
       SafetensorsBytes(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                        R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                        "xyz"),
       "tensor \"b\": starts at data byte 2, but the tensor before it ends at 1"},
      {"GapAtStart", One("\"U8\"", "[1]", "[1,2]", 2), "starts at data byte 1"},
      {"MetadataIsArray", SafetensorsBytes(R"({"__metadata__":[]})", ""),
       "expected an object as __metadata__"},
      {"MetadataHoldsNumber", SafetensorsBytes(R"({"__metadata__":{"a":1}})", ""),
       "expected a string under key \"a\" of __metadata__"},
  };
}

class HostileSafetensorsTest : public testing::TestWithParam<HostileCase> {};

TEST_P(HostileSafetensorsTest, IsRefusedWithAReason) {
  // A copy of exact size on the heap: a read past the end is seen by the address sanitizer.
  const std::vector<uint8_t> bytes(GetParam().bytes.begin(), GetParam().bytes.end());
  const auto file = SafetensorsFile::Parse(bytes, "bad.safetensors");
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(std::string(file.status().message()), HasSubstr(GetParam().message));
  EXPECT_THAT(std::string(file.status().message()), testing::StartsWith("bad.safetensors: "));
}

INSTANTIATE_TEST_SUITE_P(Cases, HostileSafetensorsTest, testing::ValuesIn(HostileCases()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(SafetensorsTest, EveryPrefixAndEveryFlippedByteIsHandled) {
  const std::string good = One("\"F32\"", "[2,3]", "[0,24]", 24);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(
        SafetensorsFile::Parse(AsBytes(absl::string_view(good).substr(0, size)), "x").ok());
  }
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      const auto file = SafetensorsFile::Parse(AsBytes(bad), "x");
      if (!file.ok()) continue;
      for (const auto& entry : file->entries()) EXPECT_EQ(file->Bytes(entry).size(), 24u);
    }
  }
}

TEST(SafetensorsTest, ReadsTheGoldenModels) {
  const auto file = SafetensorsFile::Open(LORICA_SOURCE_ROOT
                                          "/tests/golden/models/llama_gqa/model/model.safetensors");
  if (absl::IsNotFound(file.status())) GTEST_SKIP() << file.status().message();
  ASSERT_OK(file);
  EXPECT_NE(file->Find("model.embed_tokens.weight"), nullptr);
}

}  // namespace
}  // namespace lorica
