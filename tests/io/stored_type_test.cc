#include "lorica/io/stored_type.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "io_fixture.h"
#include "lorica/io/json_file.h"
#include "lorica/tensor/check.h"

namespace lorica {
namespace {

using testing::HasSubstr;

std::vector<uint8_t> FromHex(const std::string& hex) {
  const std::string bytes = absl::HexStringToBytes(hex);
  return {bytes.begin(), bytes.end()};
}

std::vector<float> FloatsFromHex(const std::string& hex) {
  const std::vector<uint8_t> bytes = FromHex(hex);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Json Golden() {
  auto json = ReadJsonFile(LORICA_SOURCE_ROOT "/tests/golden/gguf_blocks.json");
  return json.ok() ? *json : Json();
}

// 64-bit FNV-1a, in hexadecimal.
std::string Fnv1a(const std::vector<float>& values) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const float value : values) {
    const float same_nan = std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value;
    for (const char byte : Raw(same_nan)) {
      hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001B3u;
    }
  }
  return absl::StrCat(absl::Hex(hash, absl::kZeroPad16));
}

class GoldenBlocksTest : public testing::TestWithParam<StoredType> {
 protected:
  void SetUp() override {
    const Json golden = Golden()["decode"][std::string(Name(GetParam()))];
    blocks_ = FromHex(golden["blocks"].get<std::string>());
    samples_ = FloatsFromHex(golden["every_37th"].get<std::string>());
    hash_ = golden["fnv1a"].get<std::string>();
    count_ =
        blocks_.size() / TraitsOf(GetParam()).block_bytes * TraitsOf(GetParam()).block_elements;
    ASSERT_GE(count_, 10u * 32);
  }

  std::vector<float> Decode() const {
    std::vector<float> values(count_);
    EXPECT_OK(ConvertElements(GetParam(), blocks_, static_cast<int64_t>(count_), DType::kF32,
                              values.data()));
    return values;
  }

  std::vector<uint8_t> blocks_;
  std::vector<float> samples_;
  std::string hash_;
  size_t count_ = 0;
};

// Bit for bit, but for the bits of NaN; -0 and 0 differ.
TEST_P(GoldenBlocksTest, DecodesAsTheReferencePackage) {
  const std::vector<float> f32 = Decode();
  for (size_t i = 0; i < samples_.size(); ++i) {
    if (std::isnan(samples_[i]) && std::isnan(f32[i * 37])) continue;
    ASSERT_EQ(Raw(f32[i * 37]), Raw(samples_[i])) << "element " << i * 37;
  }
  EXPECT_EQ(Fnv1a(f32), hash_);

  const int64_t count = static_cast<int64_t>(count_);
  std::vector<double> f64(count_);
  ASSERT_OK(ConvertElements(GetParam(), blocks_, count, DType::kF64, f64.data()));
  std::vector<BF16> bf16(count_);
  ASSERT_OK(ConvertElements(GetParam(), blocks_, count, DType::kBF16, bf16.data()));
  for (size_t i = 0; i < count_; ++i) {
    if (std::isnan(f32[i])) continue;
    ASSERT_EQ(f64[i], static_cast<double>(f32[i])) << i;
    ASSERT_EQ(bf16[i].bits, BF16(f32[i]).bits) << i;
  }
}

TEST_P(GoldenBlocksTest, DecodesFromAnyAddressAndByParts) {
  const std::vector<float> want = Decode();
  blocks_.insert(blocks_.begin(), 0);
  const size_t width = TraitsOf(GetParam()).block_bytes;
  const size_t elements = TraitsOf(GetParam()).block_elements;
  std::vector<float> got(elements);
  ASSERT_OK(ConvertElements(GetParam(), absl::MakeConstSpan(blocks_).subspan(1 + width, width),
                            static_cast<int64_t>(elements), DType::kF32, got.data()));
  EXPECT_EQ(std::memcmp(got.data(), want.data() + elements, elements * sizeof(float)), 0);
}

INSTANTIATE_TEST_SUITE_P(Types, GoldenBlocksTest,
                         testing::Values(StoredType::kQ4_0, StoredType::kQ4_1, StoredType::kQ5_0,
                                         StoredType::kQ5_1, StoredType::kQ8_0, StoredType::kQ2_K,
                                         StoredType::kQ3_K, StoredType::kQ4_K, StoredType::kQ5_K,
                                         StoredType::kQ6_K, StoredType::kIQ4_NL,
                                         StoredType::kIQ4_XS, StoredType::kMXFP4),
                         [](const auto& test) { return std::string(Name(test.param)); });

TEST(EncodeElementsTest, EveryWritableGgmlTypeAsTheReferencePackage) {
  const Json golden = Golden()["encode"];
  const std::vector<float> values = FloatsFromHex(golden["values"].get<std::string>());
  for (const StoredType type :
       {StoredType::kF32, StoredType::kF16, StoredType::kBF16, StoredType::kQ8_0}) {
    const std::vector<uint8_t> want = FromHex(golden[std::string(Name(type))].get<std::string>());
    ASSERT_EQ(want.size(), *StoredBytes(type, {static_cast<int64_t>(values.size())}));
    std::vector<uint8_t> got(want.size());
    ASSERT_OK(EncodeElements(type, values, absl::MakeSpan(got)));
    EXPECT_EQ(got, want) << Name(type);
  }
}

TEST(EncodeElementsTest, Q8RefusesWhatItCannotHold) {
  std::vector<uint8_t> out(34);
  std::vector<float> values(32, 1.0f);
  for (float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e9f}) {
    values[5] = bad;
    EXPECT_FALSE(EncodeElements(StoredType::kQ8_0, values, absl::MakeSpan(out)).ok()) << bad;
  }
  values.assign(32, 1e-42f);  // the reciprocal of the scale overflows
  EXPECT_OK(EncodeElements(StoredType::kQ8_0, values, absl::MakeSpan(out)));
  EXPECT_EQ(out, std::vector<uint8_t>(34, 0));
}

TEST(EncodeElementsTest, PlainTypesRoundTrip) {
  const std::vector<float> values = {0.5f, -1.25f, 65504.0f, 1.0f + 1.0f / 1024, -0.0f};
  for (StoredType type : {StoredType::kF32, StoredType::kF64, StoredType::kF16}) {
    std::vector<uint8_t> bytes(values.size() * TraitsOf(type).block_bytes);
    ASSERT_OK(EncodeElements(type, values, absl::MakeSpan(bytes)));
    std::vector<float> back(values.size());
    ASSERT_OK(ConvertElements(type, bytes, 5, DType::kF32, back.data()));
    EXPECT_EQ(back, values) << Name(type);
  }
  std::vector<uint8_t> bytes(2);
  ASSERT_OK(
      EncodeElements(StoredType::kBF16, {1.00390625f}, absl::MakeSpan(bytes)));  // a tie: to even
  EXPECT_EQ(bytes, (std::vector<uint8_t>{0x80, 0x3F}));
  bytes.resize(18);
  EXPECT_EQ(EncodeElements(StoredType::kQ4_0, std::vector<float>(32), absl::MakeSpan(bytes)).code(),
            absl::StatusCode::kUnimplemented);
}

TEST(ConvertElementsTest, WideSourcesRoundOnce) {
  const std::vector<double> values = {0.1, -1e300, 1.0 + 1e-12};
  std::vector<float> f32(3);
  ASSERT_OK(ConvertElements(StoredType::kF64, AsBytes(values), 3, DType::kF32, f32.data()));
  EXPECT_EQ(f32[0], 0.1f);
  EXPECT_EQ(f32[1], -std::numeric_limits<float>::infinity());
  std::vector<double> f64(3);
  ASSERT_OK(ConvertElements(StoredType::kF64, AsBytes(values), 3, DType::kF64, f64.data()));
  EXPECT_EQ(f64, values);
}

TEST(ConvertElementsTest, ManyPiecesAndTails) {
  std::vector<uint16_t> bits(3001);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(0x3C00 + i % 1024);
  std::vector<double> f64(bits.size());
  ASSERT_OK(ConvertElements(StoredType::kF16, AsBytes(bits), 3001, DType::kF64, f64.data()));
  for (size_t i = 0; i < bits.size(); ++i)
    ASSERT_EQ(f64[i], 1.0 + static_cast<double>(i % 1024) / 1024) << i;
}

TEST(ConvertElementsTest, IntegersKeepTheirType) {
  const std::vector<int32_t> values = {-5, 7};
  std::vector<int64_t> wide(2);
  ASSERT_OK(ConvertElements(StoredType::kI32, AsBytes(values), 2, DType::kI64, wide.data()));
  EXPECT_EQ(wide, (std::vector<int64_t>{-5, 7}));
  uint8_t flags[3];
  ASSERT_OK(
      ConvertElements(StoredType::kBool, std::vector<uint8_t>{0, 1, 200}, 3, DType::kBool, flags));
  EXPECT_EQ(flags[2], 1);
  float no;
  EXPECT_FALSE(ConvertElements(StoredType::kI32, AsBytes(values), 2, DType::kF32, &no).ok());
}

TEST(ConvertElementsTest, EightBitFloatsWidenExactly) {
  const auto one = [](StoredType type, uint8_t bits) {
    float value;
    EXPECT_OK(ConvertElements(type, std::vector<uint8_t>{bits}, 1, DType::kF32, &value));
    return value;
  };
  // Largest, smallest normal, subnormals, signed zero, NaN; E4M3 has no infinity.
  EXPECT_EQ(one(StoredType::kF8E4M3, 0x7E), 448.0f);
  EXPECT_EQ(one(StoredType::kF8E4M3, 0xFE), -448.0f);
  EXPECT_EQ(one(StoredType::kF8E4M3, 0x38), 1.0f);
  EXPECT_EQ(one(StoredType::kF8E4M3, 0x08), 0.015625f);
  EXPECT_EQ(one(StoredType::kF8E4M3, 0x07), 7.0f / 512);
  EXPECT_EQ(one(StoredType::kF8E4M3, 0x81), -1.0f / 512);
  EXPECT_EQ(Raw(one(StoredType::kF8E4M3, 0x80)), Raw(-0.0f));
  EXPECT_TRUE(std::isnan(one(StoredType::kF8E4M3, 0x7F)));
  EXPECT_TRUE(std::isnan(one(StoredType::kF8E4M3, 0xFF)));
  EXPECT_EQ(one(StoredType::kF8E5M2, 0x7B), 57344.0f);
  EXPECT_EQ(one(StoredType::kF8E5M2, 0x81), std::ldexp(-1.0f, -16));
  EXPECT_EQ(one(StoredType::kF8E5M2, 0x7C), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(one(StoredType::kF8E5M2, 0x7D)));
  EXPECT_EQ(one(StoredType::kF8E8M0, 127), 1.0f);
  EXPECT_EQ(one(StoredType::kF8E8M0, 0), std::ldexp(1.0f, -127));
  EXPECT_EQ(one(StoredType::kF8E8M0, 254), std::ldexp(1.0f, 127));
  EXPECT_TRUE(std::isnan(one(StoredType::kF8E8M0, 255)));
}

TEST(ConvertElementsTest, UnsupportedTypesAreNamed) {
  std::vector<float> out(256);
  const auto status =
      ConvertElements(StoredType::kIQ2_S, std::vector<uint8_t>(82), 256, DType::kF32, out.data());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(), "type IQ2_S is not supported as f32");
  EXPECT_FALSE(IsConvertible(StoredType::kC64, DType::kBF16));
}

TEST(ConvertElementsTest, WrongSizesThrow) {
  float out[2];
  EXPECT_THROW(
      ConvertElements(StoredType::kF32, std::vector<uint8_t>(7), 2, DType::kF32, out).IgnoreError(),
      Error);
  EXPECT_THROW(ConvertElements(StoredType::kQ8_0, std::vector<uint8_t>(34), 2, DType::kF32, out)
                   .IgnoreError(),
               Error);
}

TEST(StoredTypeTest, NamesAndNumbers) {
  EXPECT_EQ(*StoredTypeFromSafetensors("BF16"), StoredType::kBF16);
  EXPECT_THAT(std::string(StoredTypeFromSafetensors("Q4_0").status().message()),
              HasSubstr("unknown dtype \"Q4_0\""));
  EXPECT_EQ(*StoredTypeFromGgml(8), StoredType::kQ8_0);
  EXPECT_EQ(*StoredTypeFromGgml(30), StoredType::kBF16);
  for (uint32_t removed : {4u, 5u, 31u, 36u, 42u, 0xFFFFFFFFu})
    EXPECT_FALSE(StoredTypeFromGgml(removed).ok()) << removed;
  EXPECT_EQ(NativeDType(StoredType::kI64), DType::kI64);
  EXPECT_EQ(NativeDType(StoredType::kQ8_0), std::nullopt);
}

TEST(StoredTypeTest, SizesAreCheckedAgainstOverflow) {
  EXPECT_EQ(*StoredBytes(StoredType::kF32, {3, 5}), 60u);
  EXPECT_EQ(*StoredBytes(StoredType::kF64, {}), 8u);
  EXPECT_EQ(*StoredBytes(StoredType::kQ4_1, {2, 64}), 80u);
  EXPECT_EQ(*StoredBytes(StoredType::kF32, {0, 7}), 0u);
  const int64_t big = int64_t{1} << 33;
  EXPECT_FALSE(StoredBytes(StoredType::kU8, {big, big}).ok());
  EXPECT_FALSE(StoredBytes(StoredType::kU8, {0, big, big}).ok());
  EXPECT_FALSE(StoredBytes(StoredType::kF64, {int64_t{1} << 61}).ok());
  EXPECT_FALSE(StoredBytes(StoredType::kF32, {-1}).ok());
  EXPECT_THAT(std::string(StoredBytes(StoredType::kQ8_0, {64, 33}).status().message()),
              HasSubstr("multiple of 32"));
}

}  // namespace
}  // namespace lorica
