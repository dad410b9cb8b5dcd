#include "lorica/io/gguf.h"

#include <memory>
#include <string>
#include <vector>

#include "io_fixture.h"
#include "lorica/tensor/check.h"

namespace lorica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Text(absl::string_view text) { return absl::StrCat(Raw<uint64_t>(text.size()), text); }

std::string Header(uint64_t tensors, uint64_t values, uint32_t version = 3) {
  return absl::StrCat("GGUF", Raw(version), Raw(tensors), Raw(values));
}

// A metadata entry with an encoded value.
std::string Entry(absl::string_view key, uint32_t type, absl::string_view value) {
  return absl::StrCat(Text(key), Raw(type), value);
}

std::string TensorInfo(absl::string_view name, const std::vector<uint64_t>& dimensions,
                       uint32_t type, uint64_t offset) {
  std::string info = absl::StrCat(Text(name), Raw<uint32_t>(dimensions.size()));
  for (uint64_t size : dimensions) info += Raw(size);
  return absl::StrCat(info, Raw(type), Raw(offset));
}

// Pads to the alignment and appends the data.
std::string WithData(std::string header, absl::string_view data, size_t alignment = 32) {
  header.append((alignment - header.size() % alignment) % alignment, '\0');
  return absl::StrCat(header, data);
}

TEST(GgufTest, ReadsEveryTypeOfValue) {
  const std::string bytes =
      Header(0, 13) + Entry("u8", 0, Raw<uint8_t>(200)) + Entry("i8", 1, Raw<int8_t>(-100)) +
      Entry("u16", 2, Raw<uint16_t>(60000)) + Entry("i16", 3, Raw<int16_t>(-30000)) +
      Entry("u32", 4, Raw<uint32_t>(4000000000u)) + Entry("i32", 5, Raw<int32_t>(-7)) +
      Entry("f32", 6, Raw<float>(0.1f)) + Entry("bool", 7, Raw<uint8_t>(1)) +
      Entry("string", 8, Text("abc")) + Entry("u64", 10, Raw<uint64_t>(UINT64_MAX)) +
      Entry("i64", 11, Raw<int64_t>(INT64_MIN)) + Entry("f64", 12, Raw<double>(0.1)) +
      Entry("strings", 9, Raw<uint32_t>(8) + Raw<uint64_t>(3) + Text("a") + Text("") + Text("bc"));
  const auto file = GgufFile::Parse(AsBytes(bytes), "x.gguf");
  ASSERT_OK(file);
  EXPECT_EQ(file->keys().size(), 13u);
  EXPECT_EQ(file->keys()[1], "i8");
  EXPECT_EQ(*file->GetU64("u8"), 200u);
  EXPECT_EQ(*file->GetI64("i8"), -100);
  EXPECT_EQ(*file->GetU64("u16"), 60000u);
  EXPECT_EQ(*file->GetI64("i16"), -30000);
  EXPECT_EQ(*file->GetI64("u32"), 4000000000);
  EXPECT_EQ(*file->GetI64("i32"), -7);
  EXPECT_EQ(*file->GetF64("i32"), -7.0);
  EXPECT_EQ(*file->GetF64("f32"), static_cast<double>(0.1f));
  EXPECT_EQ(*file->GetF64("f64"), 0.1);
  EXPECT_EQ(*file->GetBool("bool"), true);
  EXPECT_EQ(*file->GetString("string"), "abc");
  EXPECT_EQ(*file->GetU64("u64"), UINT64_MAX);
  EXPECT_EQ(*file->GetI64("i64"), INT64_MIN);
  EXPECT_THAT(*file->GetStrings("strings"), ElementsAre("a", "", "bc"));
  EXPECT_EQ(file->Describe("u64"), "u64 18446744073709551615");
  EXPECT_EQ(file->Describe("string"), "string \"abc\"");
  EXPECT_EQ(file->Describe("strings"), "array of 3 string");
  EXPECT_EQ(file->Describe("bool"), "bool true");

  EXPECT_EQ(file->GetI64("string").status().message(),
            "x.gguf: GGUF key \"string\": expected an integer, found string");
  EXPECT_FALSE(file->GetI64("u64").ok());
  EXPECT_FALSE(file->GetU64("i32").ok());
  EXPECT_FALSE(file->GetF64("u64").ok());
  EXPECT_FALSE(file->GetString("strings").ok());
  EXPECT_FALSE(file->GetStrings("string").ok());
  EXPECT_EQ(file->GetU64("absent").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(*file->GetU64Or("absent", 3), 3u);
  EXPECT_EQ(*file->GetStringOr("string", "d"), "abc");
  EXPECT_FALSE(file->GetBoolOr("u8", true).ok());
}

TEST(GgufTest, ReadsArraysOfNumbers) {
  const std::string bytes =
      Header(0, 3, 2) +
      Entry("i32", 9, Raw<uint32_t>(5) + Raw<uint64_t>(2) + Raw<int32_t>(-1) + Raw<int32_t>(2)) +
      Entry("f32", 9, Raw<uint32_t>(6) + Raw<uint64_t>(1) + Raw<float>(0.5f)) +
      Entry("bool", 9, Raw<uint32_t>(7) + Raw<uint64_t>(2) + std::string("\1\0", 2));
  const auto file = GgufFile::Parse(AsBytes(bytes), "x.gguf");
  ASSERT_OK(file);
  EXPECT_EQ(file->version(), 2u);
  EXPECT_THAT(*file->GetInts("i32"), ElementsAre(-1, 2));
  EXPECT_THAT(*file->GetFloats("f32"), ElementsAre(0.5));
  EXPECT_THAT(*file->GetInts("bool"), ElementsAre(1, 0));
  EXPECT_FALSE(file->GetInts("f32").ok());
  EXPECT_FALSE(file->GetFloats("i32").ok());
}

TEST(GgufTest, ReadsTensorsRowMajor) {
  const std::string bytes =
      WithData(Header(2, 1) + Entry("general.alignment", 4, Raw<uint32_t>(64)) +
                   TensorInfo("w", {3, 2}, 0, 0) + TensorInfo("q", {32, 2}, 8, 64),
               std::string(64 + 68, 'x'), 64);
  const auto file = GgufFile::Parse(AsBytes(bytes), "x.gguf");
  ASSERT_OK(file);
  EXPECT_EQ(file->alignment(), 64u);
  ASSERT_EQ(file->tensors().size(), 2u);
  EXPECT_EQ(file->tensors()[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file->Find("q")->type, StoredType::kQ8_0);
  EXPECT_EQ(file->Bytes(*file->Find("w")).size(), 24u);
  EXPECT_EQ(file->Bytes(*file->Find("q")).size(), 68u);
  EXPECT_EQ(file->Find("q")->begin % 64, 0u);
  EXPECT_EQ(file->Find("z"), nullptr);
}

TEST(GgufTest, WriterRoundTrips) {
  const TempFolder folder;
  GgufMetadata metadata;
  metadata.SetString("general.architecture", "llama");
  metadata.SetU32("llama.block_count", 2);
  metadata.SetF32("eps", 1e-5f);
  metadata.SetF64("wide", 0.1);
  metadata.SetI32("minus", -3);
  metadata.SetU64("big", UINT64_MAX);
  metadata.SetBool("flag", true);
  metadata.SetStrings("tokens", std::vector<std::string>{"a", "", "\xC4\xA0x"});
  metadata.SetI32s("types", {1, 3});
  metadata.SetF32s("scores", {0.5f});
  EXPECT_THROW(metadata.SetU32("eps", 1), Error);
  EXPECT_THROW(metadata.SetU32("general.alignment", 1), Error);
  const std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  const std::vector<uint8_t> blocks(34, 7);
  {
    auto commit = FileCommit::Begin(PosixFiles(), folder / "m.gguf");
    ASSERT_OK(commit);
    auto writer = GgufWriter::Begin(commit->file(), metadata,
                                    std::vector<GgufTensorSpec>{{"w", StoredType::kF32, {2, 3}},
                                                                {"q", StoredType::kQ8_0, {32}}});
    ASSERT_OK(writer);
    EXPECT_THROW(writer->AppendTensor(blocks).IgnoreError(), Error);
    ASSERT_OK(writer->AppendTensor(AsBytes(weight)));
    EXPECT_THROW(writer->Finish().IgnoreError(), Error);
    ASSERT_OK(writer->AppendTensor(blocks));
    ASSERT_OK(writer->Finish());
    ASSERT_OK(commit->Commit());
  }
  const auto file = GgufFile::Open(folder / "m.gguf");
  ASSERT_OK(file);
  EXPECT_EQ(*file->GetString("general.architecture"), "llama");
  EXPECT_EQ(*file->GetU64("big"), UINT64_MAX);
  EXPECT_EQ(*file->GetF64("wide"), 0.1);
  EXPECT_EQ(*file->GetBool("flag"), true);
  EXPECT_THAT(*file->GetStrings("tokens"), ElementsAre("a", "", "\xC4\xA0x"));
  EXPECT_THAT(*file->GetInts("types"), ElementsAre(1, 3));
  EXPECT_EQ(file->Find("w")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file->Bytes(*file->Find("w")), AsBytes(weight));
  EXPECT_EQ(file->Bytes(*file->Find("q")), absl::MakeConstSpan(blocks));

  // All of the metadata copied into another file.
  GgufMetadata copy;
  for (const std::string& key : file->keys()) copy.Copy(*file, key);
  auto commit = FileCommit::Begin(PosixFiles(), folder / "copy.gguf");
  ASSERT_OK(commit);
  ASSERT_OK(GgufWriter::Begin(commit->file(), copy, {}));
  ASSERT_OK(commit->Commit());
  const auto copied = GgufFile::Open(folder / "copy.gguf");
  ASSERT_OK(copied);
  EXPECT_EQ(copied->keys(), file->keys());
  for (const std::string& key : file->keys()) EXPECT_EQ(copied->Describe(key), file->Describe(key));
  EXPECT_THAT(*copied->GetStrings("tokens"), ElementsAre("a", "", "\xC4\xA0x"));
}

struct HostileCase {
  const char* name;
  std::string bytes;
  const char* message;
};

void PrintTo(const HostileCase& c, std::ostream* out) { *out << c.name; }

std::vector<HostileCase> HostileCases() {
  const auto one_tensor = [](const std::string& info, size_t data) {
    return WithData(Header(1, 0) + info, std::string(data, 'x'));
  };
  return {
      {"Empty", "", "ends inside the magic"},
      {"WrongMagic", std::string("GGML") + std::string(20, '\0'), "expected the bytes \"GGUF\""},
      {"Version1", Header(0, 0, 1), "version 1 is not supported"},
      {"Version4", Header(0, 0, 4), "version 4 is not supported"},
      {"BigEndian", Header(0, 0, 3u << 24), "big-endian files are not supported"},
      {"CutCounts", Header(0, 0).substr(0, 20), "ends inside the metadata count"},
      {"HugeValueCount", Header(0, UINT64_MAX), "announces 18446744073709551615 metadata entries"},
      {"HugeTensorCount", Header(UINT64_MAX, 0), "announces 18446744073709551615 tensors"},
      {"LongKey", Header(0, 1) + Raw<uint64_t>(UINT64_MAX) + std::string(99, 'k'),
       "ends inside the metadata key"},
      {"KeyOver64K", Header(0, 1) + Entry(std::string(65536, 'k'), 0, "x"),
       "expected at most 65535 bytes in the metadata key"},
      {"EmptyKey", Header(0, 1) + Entry("", 4, Raw<uint32_t>(1)), "empty metadata key"},
      {"KeyIsNoUtf8", Header(0, 1) + Entry("\xFFk", 4, Raw<uint32_t>(1)),
       "expected valid UTF-8 in the metadata key"},
      {"UnknownValueType", Header(0, 1) + Entry("k", 13, Raw<uint64_t>(1)),
       "key \"k\": unknown value type 13"},
      {"CutScalar", Header(0, 1) + Entry("k", 4, "\1\1"), "go past the end of the file"},
      {"LongString", Header(0, 1) + Entry("k", 8, Raw<uint64_t>(50) + "x"),
       "ends inside the string value"},
      {"HugeArray", Header(0, 1) + Entry("k", 9, Raw<uint32_t>(4) + Raw<uint64_t>(UINT64_MAX / 4)),
       "values of type u32 go past the end of the file"},
      {"HugeStringArray",
       Header(0, 1) + Entry("k", 9, Raw<uint32_t>(8) + Raw<uint64_t>(UINT64_MAX)),
       "ends inside the string value"},
      {"NestedArray",
       Header(0, 1) + Entry("k", 9, Raw<uint32_t>(9) + Raw<uint64_t>(1) + Raw<uint32_t>(9)),
       "arrays of arrays are not supported"},
      {"UnknownElementType", Header(0, 1) + Entry("k", 9, Raw<uint32_t>(77) + Raw<uint64_t>(0)),
       "unknown value type 77"},
      {"DuplicateKey", Header(0, 2) + Entry("k", 0, "x") + Entry("k", 0, "x"),
       "key \"k\" occurs twice"},
      {"ZeroAlignment", Header(0, 1) + Entry("general.alignment", 4, Raw<uint32_t>(0)),
       "expected a power of two as general.alignment, found 0"},
      {"OddAlignment", Header(0, 1) + Entry("general.alignment", 4, Raw<uint32_t>(48)), "found 48"},
      {"AlignmentIsString", Header(0, 1) + Entry("general.alignment", 8, Text("32")),
       "expected a non-negative integer, found string"},
      {"FiveDimensions", one_tensor(TensorInfo("t", {1, 1, 1, 1, 1}, 0, 0), 4),
       "expected at most 4 dimensions, found 5"},
      {"HugeDimensionCount",
       WithData(Header(1, 0) + Text("t") + Raw<uint32_t>(UINT32_MAX) + std::string(64, '\1'), ""),
       "expected at most 4 dimensions"},
      {"NegativeDimension", one_tensor(TensorInfo("t", {UINT64_MAX}, 0, 0), 4),
       "dimension 18446744073709551615 is too large"},
      {"OverflowingProduct", one_tensor(TensorInfo("t", {1ull << 40, 1ull << 40}, 0, 0), 4),
       "is negative or too large"},
      {"UnknownTensorType", one_tensor(TensorInfo("t", {1}, 4, 0), 4), "unknown ggml type 4"},
      {"BrokenBlock", one_tensor(TensorInfo("t", {33}, 2, 0), 36), "expected a multiple of 32"},
      {"DuplicateTensor",
       WithData(Header(2, 0) + TensorInfo("t", {1}, 0, 0) + TensorInfo("t", {1}, 0, 32),
                std::string(64, 'x')),
       "tensor \"t\" occurs twice"},
      {"UnalignedOffset", one_tensor(TensorInfo("t", {1}, 0, 16), 64),
       "offset 16 isn't a multiple of the alignment 32"},
      {"OffsetBeyondFile", one_tensor(TensorInfo("t", {1}, 0, 1ull << 62), 4),
       "go past the end of the file"},
      {"SizeBeyondFile", one_tensor(TensorInfo("t", {2}, 0, 0), 7), "go past the end of the file"},
      {"NoData", Header(1, 0) + TensorInfo("t", {1}, 0, 0), "past the end of the file"},
      {"NoDataForEmptyTensor", Header(1, 0) + TensorInfo("t", {0, 0}, 0, 0),
       "the tensors' data should begin at byte 96, past the end of the file, which has 65 bytes"},
      {"Overlap",
       WithData(Header(2, 0) + TensorInfo("a", {16}, 0, 0) + TensorInfo("b", {1}, 0, 32),
                std::string(64, 'x')),
       "tensors \"a\" and \"b\" overlap"},
  };
}

class HostileGgufTest : public testing::TestWithParam<HostileCase> {};

TEST_P(HostileGgufTest, IsRefusedWithAReason) {
  const std::vector<uint8_t> bytes(GetParam().bytes.begin(), GetParam().bytes.end());
  const auto file = GgufFile::Parse(bytes, "bad.gguf");
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(std::string(file.status().message()), HasSubstr(GetParam().message));
  EXPECT_THAT(std::string(file.status().message()), testing::StartsWith("bad.gguf: "));
}

INSTANTIATE_TEST_SUITE_P(Cases, HostileGgufTest, testing::ValuesIn(HostileCases()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(GgufTest, EveryPrefixIsRefused) {
  const std::string good =
      WithData(Header(1, 2) + Entry("k", 8, Text("value")) +
                   Entry("a", 9, Raw<uint32_t>(8) + Raw<uint64_t>(2) + Text("x") + Text("y")) +
                   TensorInfo("t", {2, 2}, 0, 0),
               std::string(16, 'x'));
  ASSERT_OK(GgufFile::Parse(AsBytes(good), "x"));
  for (size_t size = 0; size < good.size(); ++size) {
    const std::vector<uint8_t> cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(GgufFile::Parse(cut, "x").ok()) << size;
  }
}

}  // namespace
}  // namespace lorica
