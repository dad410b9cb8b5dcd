// Backend::Copy and Fill: any strides, any pair of types.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/tensor.h"

namespace lorica {
namespace {

class CopyTest : public testing::Test {
 protected:
  template <typename From, typename To>
  To Convert(From value) {
    To result{};
    backend_->Copy({&value, {1}, {1}, DTypeOf<From>::value},
                   {&result, {1}, {1}, DTypeOf<To>::value});
    return result;
  }
  uint16_t ToHalf(double value) {
    uint16_t result = 0;
    backend_->Copy({&value, {1}, {1}, DType::kF64}, {&result, {1}, {1}, DType::kF16});
    return result;
  }

  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
};

TEST_F(CopyTest, EveryPairOfTypesKeepsSmallIntegers) {
  const DType types[] = {DType::kF32, DType::kBF16, DType::kF64, DType::kF16,
                         DType::kI32, DType::kI64,  DType::kU8,  DType::kBool};
  for (DType from : types) {
    for (DType to : types) {
      const std::vector<double> values = {0, 1, 1, 0, 1};
      const Tensor start = Tensor::FromHost<double>(*backend_, {5}, values);
      const Tensor there = raw::Cast(raw::Cast(start, from), to);
      EXPECT_EQ(raw::Cast(there, DType::kF64).ToDoubles(), values) << from << " to " << to;
    }
  }
}

TEST_F(CopyTest, RoundsToNearestEven) {
  EXPECT_EQ((Convert<float, BF16>(1.00390625f).bits), 0x3F80);       // a tie, down to even
  EXPECT_EQ((Convert<float, BF16>(1.01171875f).bits), 0x3F82);       // a tie, up to even
  EXPECT_EQ((Convert<float, BF16>(1.0039063692f).bits), 0x3F81);     // above the tie
  EXPECT_EQ((Convert<double, float>(1 + 0x1p-24)), 1.0f);            // a tie, down to even
  EXPECT_EQ((Convert<double, float>(1 + 0x1.8p-23)), 1 + 0x1p-22f);  // a tie, up to even
  EXPECT_TRUE(std::isnan(static_cast<float>(Convert<float, BF16>(NAN))));
  EXPECT_EQ(static_cast<float>(Convert<double, BF16>(1e300)), INFINITY);
}

// 1 + 2^-8 is a tie of bf16, 2^-40 breaks it; f32 in between would lose 2^-40 and round to even.
TEST_F(CopyTest, NarrowingFromF64RoundsOnce) {
  EXPECT_EQ((Convert<double, BF16>(1 + 0x1p-8 + 0x1p-40).bits), 0x3F81);
  EXPECT_EQ((Convert<double, BF16>(1 + 0x1p-8).bits), 0x3F80);
  EXPECT_EQ((Convert<double, BF16>(-(1 + 0x1p-8 + 0x1p-40)).bits), 0xBF81);
  EXPECT_EQ((Convert<double, BF16>(1 + 0x3p-8 - 0x1p-40).bits), 0x3F81);
  EXPECT_EQ(ToHalf(1 + 0x1p-11 + 0x1p-40), 0x3C01);
  EXPECT_EQ(ToHalf(1 + 0x1p-11), 0x3C00);
}

TEST_F(CopyTest, IntegersTruncateAndSaturate) {
  EXPECT_EQ((Convert<float, int32_t>(2.9f)), 2);
  EXPECT_EQ((Convert<float, int32_t>(-2.9f)), -2);
  EXPECT_EQ((Convert<float, int32_t>(1e20f)), std::numeric_limits<int32_t>::max());
  EXPECT_EQ((Convert<float, int32_t>(-1e20f)), std::numeric_limits<int32_t>::min());
  EXPECT_EQ((Convert<double, int64_t>(1e300)), std::numeric_limits<int64_t>::max());
  EXPECT_EQ((Convert<float, int32_t>(NAN)), 0);
  EXPECT_EQ((Convert<float, uint8_t>(-1.f)), 0);
  EXPECT_EQ((Convert<float, uint8_t>(300.f)), 255);
  EXPECT_EQ((Convert<int64_t, double>((int64_t{1} << 52) + 1)), 0x1p52 + 1);
}

TEST_F(CopyTest, DenormalsKeepTheirBits) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ((Convert<float, float>(tiny)), tiny);
  EXPECT_EQ((Convert<float, double>(tiny)), double(tiny));
}

TEST_F(CopyTest, AnyStridesOnBothSides) {
  // Three axes, permuted on one side and with gaps on the other.
  const int64_t a = 3, b = 5, c = 7;
  std::vector<float> source(static_cast<size_t>(a * b * c));
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i);
  std::vector<double> target(static_cast<size_t>(c * b * (a + 2)), -1);
  backend_->Copy({source.data(), {c, b, a}, {1, c, b * c}, DType::kF32},
                 {target.data(), {c, b, a}, {b * (a + 2), a + 2, 1}, DType::kF64});
  for (int64_t k = 0; k < c; ++k) {
    for (int64_t j = 0; j < b; ++j) {
      for (int64_t i = 0; i < a + 2; ++i) {
        const double want = i < a ? static_cast<double>(i * b * c + j * c + k) : -1;
        ASSERT_EQ(target[static_cast<size_t>((k * b + j) * (a + 2) + i)], want);
      }
    }
  }
}

TEST_F(CopyTest, LargeCopiesAreWhole) {
  Tensor x = Tensor::Empty(*backend_, {700, 1000}, DType::kI32);
  int32_t* values = x.mutable_data<int32_t>();
  for (int32_t i = 0; i < 700000; ++i) values[i] = i;
  const Tensor flat = raw::Clone(x);
  const Tensor turned = raw::Contiguous(x.Transpose(0, 1));
  for (int32_t i = 0; i < 700; ++i) {
    for (int32_t j = 0; j < 1000; ++j) {
      ASSERT_EQ(flat.data<int32_t>()[i * 1000 + j], i * 1000 + j);
      ASSERT_EQ(turned.data<int32_t>()[j * 700 + i], i * 1000 + j);
    }
  }
}

TEST_F(CopyTest, BroadcastByStrideZero) {
  const float row[3] = {1, 2, 3};
  float out[6] = {};
  backend_->Copy({row, {2, 3}, {0, 1}, DType::kF32}, {out, {2, 3}, {3, 1}, DType::kF32});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(out[i], row[i % 3]);
}

TEST_F(CopyTest, EmptyAndScalar) {
  Tensor empty = Tensor::Zeros(*backend_, {0, 4}, DType::kF32);
  backend_->Copy(empty.view(), empty.mutable_view());
  const Tensor scalar = Tensor::Full(*backend_, {}, DType::kBF16, 2.5);
  EXPECT_EQ(scalar.item(), 2.5);
  EXPECT_EQ(raw::Cast(scalar, DType::kF64).item(), 2.5);
}

TEST_F(CopyTest, FillRespectsStrides) {
  std::vector<float> values(12, 7);
  backend_->Fill({values.data(), {3, 2}, {4, 1}, DType::kF32}, -1.5);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], i % 4 < 2 ? -1.5f : 7.f);
}

TEST_F(CopyTest, HostRoundTrip) {
  const std::vector<BF16> in = {BF16(1.f), BF16(-2.f)};
  Tensor x = Tensor::FromHost<BF16>(*backend_, {2}, in);
  std::vector<BF16> out(2);
  backend_->CopyToHost(x.view(), out.data());
  EXPECT_EQ(out[0].bits, in[0].bits);
  EXPECT_EQ(out[1].bits, in[1].bits);
}

}  // namespace
}  // namespace lorica
