#include <memory>
#include <string>
#include <vector>

#include "io_fixture.h"
#include "lorica/io/stored_type.h"
#include "lorica/io/tensor_source.h"

namespace lorica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Stored {
  std::string name;
  StoredType type;
  std::vector<int64_t> shape;
  std::string bytes;
};

class BlockScaledSourceTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<TensorSource>> Open(const std::vector<Stored>& stored,
                                                     int64_t rows = 2, int64_t columns = 4) {
    std::vector<SafetensorsTensor> tensors;
    for (const Stored& one : stored) {
      tensors.push_back({one.name, one.type, one.shape, AsBytes(one.bytes)});
    }
    const std::string path = folder_ / "x.safetensors";
    const absl::Status written = WriteSafetensors(PosixFiles(), path, tensors, {});
    if (!written.ok()) return written;
    auto source = OpenSafetensorsSource(path);
    if (!source.ok()) return source.status();
    return MakeBlockScaledSource(*std::move(source), rows, columns);
  }
  std::string ErrorOf(const std::vector<Stored>& stored) {
    return std::string(Open(stored).status().message());
  }

  static std::string Floats(const std::vector<float>& values) {
    std::string bytes;
    for (const float value : values) bytes += Raw(value);
    return bytes;
  }
  // `count` different 8-bit floats, none of them NaN.
  static std::string Codes(int64_t count) {
    std::string bytes;
    for (int64_t i = 0; i < count; ++i) bytes += static_cast<char>(i * 29 % 120 + i % 2 * 128);
    return bytes;
  }
  static float ValueOf(StoredType type, char code) {
    float value;
    const std::string bytes(1, code);
    if (!ConvertElements(type, AsBytes(bytes), 1, DType::kF32, &value).ok()) std::abort();
    return value;
  }

  TempFolder folder_;
};

// Ragged edges: 5 x 7 in blocks of 2 x 4. A scale such as 0.1 makes the product round.
TEST_F(BlockScaledSourceTest, EveryValueIsOneProductRoundedOnce) {
  const std::vector<float> scales = {0.1f, 0.2f, 0.3f, 0.7f, 1.1f, 1.3f};  // [3, 2]
  for (const StoredType type : {StoredType::kF8E4M3, StoredType::kF8E5M2}) {
    const std::string codes = Codes(35);
    const auto source = Open({{"w", type, {5, 7}, codes},
                              {"w_scale_inv", StoredType::kF32, {3, 2}, Floats(scales)},
                              {"plain", StoredType::kF32, {2}, Floats({1, 2})}});
    ASSERT_OK(source);
    EXPECT_THAT((*source)->names(), ElementsAre("plain", "w"));
    EXPECT_EQ((*source)->Find("w_scale_inv"), nullptr);
    std::vector<float> f32(35);
    std::vector<double> f64(35);
    std::vector<BF16> bf16(35);
    ASSERT_OK((*source)->ReadAll("w", DType::kF32, f32.data()));
    ASSERT_OK((*source)->ReadAll("w", DType::kF64, f64.data()));
    ASSERT_OK((*source)->ReadAll("w", DType::kBF16, bf16.data()));
    for (size_t i = 0; i < 35; ++i) {
      const float want = ValueOf(type, codes[i]) * scales[i / 7 / 2 * 2 + i % 7 / 4];
      ASSERT_EQ(f32[i], want) << i;
      ASSERT_EQ(f64[i], static_cast<double>(want)) << i;
      ASSERT_EQ(bf16[i].bits, BF16(want).bits) << i;
    }
    std::vector<float> part(14);
    ASSERT_OK((*source)->Read("w", 3, 2, DType::kF32, part.data()));
    EXPECT_EQ(part, std::vector<float>(f32.begin() + 21, f32.end()));
    float plain[2];
    ASSERT_OK((*source)->ReadAll("plain", DType::kF32, plain));
    EXPECT_EQ(plain[1], 2.0f);
  }
}

TEST_F(BlockScaledSourceTest, MatricesOfATensorHaveScalesOfTheirOwn) {
  const std::vector<float> scales = {1, 2, 3, 4, 5, 6, 7, 8};  // [2, 2, 2]
  const std::string codes = Codes(30);
  const auto source = Open({{"w", StoredType::kF8E4M3, {2, 3, 5}, codes},
                            {"w_scale_inv", StoredType::kF32, {2, 2, 2}, Floats(scales)}});
  ASSERT_OK(source);
  std::vector<float> second(15);
  ASSERT_OK((*source)->Read("w", 1, 1, DType::kF32, second.data()));
  for (size_t i = 0; i < 15; ++i) {
    ASSERT_EQ(second[i],
              ValueOf(StoredType::kF8E4M3, codes[15 + i]) * scales[4 + i / 5 / 2 * 2 + i % 5 / 4])
        << i;
  }
}

TEST_F(BlockScaledSourceTest, WhatDoesNotBelongTogetherIsRefused) {
  const Stored weight = {"w", StoredType::kF8E4M3, {3, 5}, Codes(15)};
  const Stored scale = {"w_scale_inv", StoredType::kF32, {2, 2}, Floats({1, 1, 1, 1})};
  EXPECT_OK(Open({weight, scale}));
  EXPECT_THAT(
      ErrorOf({weight}),
      HasSubstr("expected scales \"w_scale_inv\" for a weight of type F8_E4M3, found none"));
  EXPECT_THAT(ErrorOf({scale}),
              HasSubstr("expected a weight \"w\" of 8-bit floats beside it, found none"));
  Stored other = {"w", StoredType::kF32, {1, 1}, Floats({1})};
  EXPECT_THAT(ErrorOf({other, scale}), HasSubstr("8-bit floats beside it, found F32"));
  other = {"w_scale_inv", StoredType::kF32, {1, 4}, Floats({1, 1, 1, 1})};
  EXPECT_THAT(ErrorOf({weight, other}),
              HasSubstr("expected shape [2, 2], one scale for 2 x 4 of [3, 5], found [1, 4]"));
  other = {"w_scale_inv", StoredType::kI32, {2, 2}, Floats({1, 1, 1, 1})};
  EXPECT_THAT(ErrorOf({weight, other}), HasSubstr("expected scales of type F32, found I32"));
  other = {"v", StoredType::kF8E4M3, {3}, Codes(3)};
  EXPECT_THAT(ErrorOf({other, {"v_scale_inv", StoredType::kF32, {1}, Floats({1})}}),
              HasSubstr("expected a matrix of type F8_E4M3, found shape [3]"));
}

}  // namespace
}  // namespace lorica
