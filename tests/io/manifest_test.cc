#include "lorica/io/manifest.h"

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "io_fixture.h"
#include "lorica/io/crc32c.h"

namespace lorica {
namespace {

using testing::HasSubstr;

// A [4, 6] tensor of f32 in two boxes of two files, a scalar and an empty one.
Manifest Example() {
  Manifest manifest;
  manifest.step = 1200;
  manifest.run_id = "run \"7\"";
  manifest.nonce = "0123456789abcdef";
  manifest.writers = 2;
  manifest.layout = {{"dp", 2}, {"tp", 1}};
  manifest.base_fingerprint = "sha";
  manifest.scalars = {{"text", std::string("a\nb")}, {"count", int64_t{-5}}, {"loss", 0.1}};
  manifest.tensors = {
      {"w",
       StoredType::kF32,
       {4, 6},
       "lora_a",
       {"rank", "in"},
       {{"s0", {0, 0}, {4, 2}, 64, 96, 1}, {"s1", {0, 2}, {4, 4}, 64, 128, 2}}},
      {"x", StoredType::kF64, {}, "", {}, {{"s0", {}, {}, 96, 104, 3}}},
      {"e", StoredType::kF32, {0, 3}, "", {}, {{"s1", {0, 0}, {0, 3}, 128, 128, 0}}}};
  manifest.files = {{"s0", 104, 4}, {"s1", 128, 0xFFFFFFFFu}};
  return manifest;
}

// The text with a checksum that fits again, as an attacker would write it.
std::string Resealed(std::string text) {
  constexpr size_t kDigits = 12;  // behind {\n"crc32c":"
  constexpr size_t kBody = kDigits + 8 + 3;
  const uint32_t crc = Crc32c(AsBytes(absl::string_view(text).substr(kBody)));
  text.replace(kDigits, 8, absl::StrCat(absl::Hex(crc, absl::kZeroPad8)));
  return text;
}

TEST(ManifestTest, RoundTrips) {
  const auto text = FormatManifest(Example());
  ASSERT_OK(text);
  EXPECT_EQ(Resealed(*text), *text);
  const auto back = ParseManifest(*text, "M");
  ASSERT_OK(back);
  EXPECT_EQ(back->step, 1200);
  EXPECT_EQ(back->run_id, "run \"7\"");
  EXPECT_EQ(back->nonce, "0123456789abcdef");
  EXPECT_EQ(back->writers, 2);
  EXPECT_EQ(back->layout.at("dp"), 2);
  EXPECT_EQ(back->scalars, Example().scalars);
  ASSERT_EQ(back->tensors.size(), 3u);
  EXPECT_EQ(back->tensors[0].axes, (std::vector<std::string>{"rank", "in"}));
  EXPECT_EQ(back->tensors[0].role, "lora_a");
  EXPECT_EQ(back->tensors[0].chunks[1].offset, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(back->tensors[0].chunks[1].end, 128u);
  EXPECT_EQ(back->tensors[1].type, StoredType::kF64);
  EXPECT_EQ(back->files[1].crc32c, 0xFFFFFFFFu);
  EXPECT_EQ(*FormatManifest(*back), *text);
}

TEST(ManifestTest, DoublesKeepEveryBit) {
  std::vector<double> values = {0.1,
                                -0.0,
                                1.0,
                                1e22,
                                5e-324,
                                std::numeric_limits<double>::max(),
                                std::numeric_limits<double>::infinity(),
                                -std::numeric_limits<double>::infinity(),
                                std::nan("")};
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) values.push_back(std::bit_cast<double>(random()));
  Manifest manifest;
  for (size_t i = 0; i < values.size(); ++i) manifest.scalars[absl::StrCat(i)] = values[i];
  const auto back = ParseManifest(*FormatManifest(manifest), "M");
  ASSERT_OK(back);
  for (size_t i = 0; i < values.size(); ++i) {
    const double* got = std::get_if<double>(&back->scalars.at(absl::StrCat(i)));
    ASSERT_NE(got, nullptr) << values[i];
    EXPECT_EQ(std::bit_cast<uint64_t>(*got), std::bit_cast<uint64_t>(values[i])) << values[i];
  }
}

TEST(ManifestTest, IntegersAndDoublesStayApart) {
  Manifest manifest;
  manifest.scalars = {{"i", int64_t{3}}, {"d", 3.0}, {"min", INT64_MIN}, {"max", INT64_MAX}};
  EXPECT_EQ(ParseManifest(*FormatManifest(manifest), "M")->scalars, manifest.scalars);
}

TEST(ManifestTest, EveryFlippedByteIsNoticed) {
  const std::string text = *FormatManifest(Example());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string bad = text;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_FALSE(ParseManifest(bad, "M").ok()) << i;
    EXPECT_FALSE(ParseManifest(text.substr(0, i), "M").ok()) << i;
  }
}

struct EditCase {
  const char* name;
  std::function<void(Manifest*)> edit;
  const char* message;
};

void PrintTo(const EditCase& c, std::ostream* out) { *out << c.name; }

class InconsistentManifestTest : public testing::TestWithParam<EditCase> {};

TEST_P(InconsistentManifestTest, IsRefused) {
  Manifest manifest = Example();
  GetParam().edit(&manifest);
  const absl::Status checked = CheckManifest(manifest, "M");
  ASSERT_FALSE(checked.ok());
  EXPECT_THAT(std::string(checked.message()), HasSubstr(GetParam().message));
  EXPECT_FALSE(FormatManifest(manifest).ok());
}

INSTANTIATE_TEST_SUITE_P(
    Cases, InconsistentManifestTest,
    testing::Values(
        EditCase{"NegativeStep", [](Manifest* m) { m->step = -1; }, "step -1 is negative"},
        EditCase{"NoWriters", [](Manifest* m) { m->writers = 0; }, "found 0 writers"},
        EditCase{"FileOutside", [](Manifest* m) { m->files[0].name = "../s0"; }, "isn't allowed"},
        EditCase{"FileHidden", [](Manifest* m) { m->files[0].name = ".s0"; }, "isn't allowed"},
        EditCase{"FileIsManifest", [](Manifest* m) { m->files[0].name = "MANIFEST.json"; },
                 "isn't allowed"},
        EditCase{"FileTwice", [](Manifest* m) { m->files[0].name = "s1"; }, "is listed twice"},
        EditCase{"FileNotListed", [](Manifest* m) { m->files.pop_back(); },
                 "isn't listed under files"},
        EditCase{"TensorTwice", [](Manifest* m) { m->tensors[1].name = "w"; }, "is listed twice"},
        EditCase{"BlockType", [](Manifest* m) { m->tensors[0].type = StoredType::kQ8_0; },
                 "has the block type Q8_0"},
        EditCase{"WrongAxes", [](Manifest* m) { m->tensors[0].axes = {"rank"}; }, "has 1 axes"},
        EditCase{"NegativeShape",
                 [](Manifest* m) {
                   m->tensors[0].shape = {-4, 6};
                 },
                 "is negative or too large"},
        EditCase{"ShapeOverflow",
                 [](Manifest* m) {
                   m->tensors[0].shape = {int64_t{1} << 40, int64_t{1} << 40};
                 },
                 "is negative or too large"},
        EditCase{"ManyDimensions", [](Manifest* m) { m->tensors[0].shape.assign(17, 1); },
                 "has 17 dimensions"},
        EditCase{"MissingBox", [](Manifest* m) { m->tensors[0].chunks.pop_back(); },
                 "has 24 elements, its chunks hold 8"},
        EditCase{"BoxTwice",
                 [](Manifest* m) { m->tensors[0].chunks.push_back(m->tensors[0].chunks[0]); },
                 "is covered twice"},
        EditCase{"BoxesOverlap",
                 [](Manifest* m) {
                   m->tensors[0].chunks[0].offset = {0, 1};
                 },
                 "is covered twice by its chunks at [0, 1] and [0, 2]"},
        EditCase{"BoxOutside",
                 [](Manifest* m) {
                   m->tensors[0].chunks[1].offset = {0, 3};
                 },
                 "goes outside"},
        EditCase{"BoxAtNegative",
                 [](Manifest* m) {
                   m->tensors[0].chunks[1].offset = {0, -1};
                 },
                 "goes outside"},
        EditCase{"BoxOffsetOverflow",
                 [](Manifest* m) {
                   m->tensors[0].chunks[1].offset = {INT64_MAX, 2};
                 },
                 "goes outside"},
        EditCase{"BoxOfOtherRank", [](Manifest* m) { m->tensors[0].chunks[1].offset = {0}; },
                 "has a chunk at [0] of shape [4, 4]"},
        EditCase{"ScalarInTwoBoxes",
                 [](Manifest* m) { m->tensors[1].chunks.push_back(m->tensors[1].chunks[0]); },
                 "is covered twice"},
        EditCase{"ScalarWithoutBox", [](Manifest* m) { m->tensors[1].chunks.clear(); },
                 "has 1 elements, its chunks hold 0"},
        EditCase{"RangeBeyondFile", [](Manifest* m) { m->files[1].size = 127; },
                 "lies in bytes 64 to 128 of \"s1\", which has 127"},
        EditCase{"RangeReversed", [](Manifest* m) { m->tensors[0].chunks[1].begin = 129; },
                 "lies in bytes 129 to 128"},
        EditCase{"RangeOfOtherSize", [](Manifest* m) { m->tensors[0].chunks[1].begin = 60; },
                 "which takes 64 bytes, in 68 bytes"},
        EditCase{"RangesShared",
                 [](Manifest* m) {
                   m->tensors[1].chunks[0].begin = 90;
                   m->tensors[1].chunks[0].end = 98;
                 },
                 "shares bytes of \"s0\" with tensor \"w\""}),
    [](const auto& test) { return std::string(test.param.name); });

struct TextCase {
  const char* name;
  const char* from;
  const char* to;
  const char* message;
};

void PrintTo(const TextCase& c, std::ostream* out) { *out << c.name; }

class HostileManifestTest : public testing::TestWithParam<TextCase> {};

TEST_P(HostileManifestTest, IsRefusedWithAReason) {
  const std::string text = *FormatManifest(Example());
  const std::string bad = Resealed(absl::StrReplaceAll(text, {{GetParam().from, GetParam().to}}));
  ASSERT_NE(bad, text) << "the edit must hit something";
  const auto manifest = ParseManifest(bad, "M");
  ASSERT_FALSE(manifest.ok());
  EXPECT_THAT(std::string(manifest.status().message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, HostileManifestTest,
    testing::Values(
        TextCase{"OtherVersion", "\"format_version\": 1", "\"format_version\": 2",
                 "format_version: expected 1, found 2"},
        TextCase{"UnknownKey", "\"step\"", "\"steps\"", "steps: unknown key"},
        TextCase{"MissingKey", "\t\"step\": 1200,\n", "",
                 "step: expected an integer, found nothing"},
        TextCase{"StepIsString", "1200", "\"1200\"", "step: expected an integer, found a string"},
        TextCase{"StepIsHuge", "1200", "99999999999999999999", "step: expected an integer"},
        TextCase{"DuplicateKey", "\"writers\": 2", "\"writers\": 2, \"writers\": 2",
                 "key \"writers\" occurs twice"},
        TextCase{"UnknownDtype", "\"F64\"", "\"F65\"", "dtype: unknown dtype \"F65\""},
        TextCase{"NegativeSize", "\"size\": 104", "\"size\": -104",
                 "size: expected a non-negative"},
        TextCase{"ShortChecksum", "\"ffffffff\"", "\"fffffff\"", "8 hexadecimal digits"},
        TextCase{"UpperChecksum", "\"ffffffff\"", "\"FFFFFFFF\"", "8 hexadecimal digits"},
        TextCase{"ScalarIsArray", "-5", "[]", "count: expected an integer, a float or a string"},
        TextCase{"ScalarIsNull", "-5", "null", "count: expected an integer, a float or a string"},
        TextCase{"ScalarIsHuge", "-5", "18446744073709551615", "count: expected an integer"},
        TextCase{"TensorsIsObject", "\"axes\": []", "\"axes\": {}", "axes: expected an array"},
        TextCase{"DeepNesting", "-5", "[[[[[[[[]]]]]]]]", "nested deeper"},
        TextCase{"NotJson", "\"step\": 1200,", "\"step\": 1200", "JSON at byte"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(ManifestTest, ManyBoxesAreCheckedQuickly) {
  Manifest manifest;
  ManifestTensor tensor{"w", StoredType::kU8, {4096, 2}, "", {}, {}};
  for (int64_t i = 0; i < 4096; ++i) {
    const uint64_t at = static_cast<uint64_t>(2 * i);
    tensor.chunks.push_back({"s", {i, 0}, {1, 2}, at, at + 2, 0});
  }
  manifest.tensors = {tensor};
  manifest.files = {{"s", 8192, 0}};
  EXPECT_OK(CheckManifest(manifest, "M"));
  manifest.tensors[0].chunks.push_back({"s", {0, 0}, {0, 0}, 0, 0, 0});
  EXPECT_FALSE(CheckManifest(manifest, "M").ok());
}

}  // namespace
}  // namespace lorica
