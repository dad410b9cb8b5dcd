#include <cmath>
#include <limits>

#include "kernel_fixture.h"
#include "simd_targets.h"

namespace lorica::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct UnaryCase {
  UnaryOp op;
  const char* name;
  double (*value)(double);
  double low, high;  // where it is smooth
};

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

const std::vector<UnaryCase>& UnaryCases() {
  static const auto& cases = *new std::vector<UnaryCase>{
      {UnaryOp::kNeg, "neg", [](double x) { return -x; }, -3, 3},
      {UnaryOp::kExp, "exp", [](double x) { return std::exp(x); }, -6, 6},
      {UnaryOp::kLog, "log", [](double x) { return std::log(x); }, 0.05, 8},
      {UnaryOp::kSqrt, "sqrt", [](double x) { return std::sqrt(x); }, 0.05, 8},
      {UnaryOp::kSquare, "square", [](double x) { return x * x; }, -3, 3},
      {UnaryOp::kSigmoid, "sigmoid", Sigmoid, -9, 9},
      {UnaryOp::kTanh, "tanh", [](double x) { return std::tanh(x); }, -4, 4},
      {UnaryOp::kRelu, "relu", [](double x) { return x > 0 ? x : 0; }, -3, 3},
      {UnaryOp::kSilu, "silu", [](double x) { return x * Sigmoid(x); }, -9, 9},
      {UnaryOp::kGelu, "gelu", [](double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); },
       -5, 5},
      {UnaryOp::kGeluTanh, "gelu_tanh",
       [](double x) {
         const double pi = 3.14159265358979323846;
         return 0.5 * x * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
       },
       -5, 5},
  };
  return cases;
}

TEST(UnaryTest, MatchesDoubleReference) {
  Machine machine(2);
  for (const UnaryCase& test : UnaryCases()) {
    for (DType dtype : ComputeTypes()) {
      for (const Shape& shape : {Shape{1}, Shape{3, 7}, Shape{40000}}) {
        const HostTensor x = HostTensor::Random(shape, dtype, 1, test.low, test.high);
        HostTensor y(shape, dtype);
        machine->Unary(test.op, x.view(), y.mutable_view());
        std::vector<double> want = x.ToDoubles();
        for (double& value : want) value = test.value(value);
        ExpectClose(y, want, 4, 0, test.name);
      }
    }
  }
}

TEST(UnaryTest, GradientMatchesCentralDifferences) {
  Machine machine(2);
  for (const UnaryCase& test : UnaryCases()) {
    for (DType dtype : ComputeTypes()) {
      const Shape shape{37, 29};
      const HostTensor x = HostTensor::Random(shape, dtype, 2, test.low, test.high);
      const HostTensor dy = HostTensor::Random(shape, dtype, 3);
      HostTensor dx(shape, dtype);
      machine->UnaryGrad(test.op, x.view(), dy.view(), dx.mutable_view());
      std::vector<double> want;
      for (int64_t i = 0; i < x.numel(); ++i) {
        const double at = x.At(i), h = 1e-5;
        want.push_back(dy.At(i) * (test.value(at + h) - test.value(at - h)) / (2 * h));
      }
      // Truncation and cancellation leave 1e-9 of a difference quotient.
      const double units = dtype == DType::kF64 ? 1e-8 / Epsilon(dtype) : 16;
      ExpectClose(dx, want, units, 0, test.name);
      HostTensor in_place = dy;
      machine->UnaryGrad(test.op, x.view(), in_place.view(), in_place.mutable_view());
      EXPECT_TRUE(SameBits(in_place, dx)) << test.name;
    }
  }
}

TEST(UnaryTest, NanPropagates) {
  Machine machine(1);
  for (const UnaryCase& test : UnaryCases()) {
    for (DType dtype : ComputeTypes()) {
      // In a full vector and in a tail.
      for (int64_t at : {int64_t{2}, int64_t{66}}) {
        HostTensor x = HostTensor::Random({67}, dtype, 4, 0.5, 1);
        x.Set(at, kNan);
        HostTensor y({67}, dtype), dx({67}, dtype);
        machine->Unary(test.op, x.view(), y.mutable_view());
        EXPECT_TRUE(std::isnan(y.At(at))) << test.name << " " << dtype;
        EXPECT_FALSE(std::isnan(y.At(1))) << test.name << " " << dtype;
        const HostTensor ones = HostTensor::Random({67}, dtype, 5, 1, 1);
        machine->UnaryGrad(test.op, ones.view(), x.view(), dx.mutable_view());
        EXPECT_TRUE(std::isnan(dx.At(at))) << test.name << " " << dtype;
      }
    }
  }
}

TEST(UnaryTest, EndsOfTheRange) {
  Machine machine(1);
  struct Row {
    UnaryOp op;
    double x, want;
  };
  const std::vector<Row> rows = {{UnaryOp::kExp, kInfinity, kInfinity},
                                 {UnaryOp::kExp, -kInfinity, 0},
                                 {UnaryOp::kExp, 1e30, kInfinity},
                                 {UnaryOp::kExp, -1e30, 0},
                                 {UnaryOp::kExp, 0, 1},
                                 {UnaryOp::kLog, 0, -kInfinity},
                                 {UnaryOp::kLog, -1, kNan},
                                 {UnaryOp::kLog, kInfinity, kInfinity},
                                 {UnaryOp::kLog, 1, 0},
                                 {UnaryOp::kSigmoid, kInfinity, 1},
                                 {UnaryOp::kSigmoid, -kInfinity, 0},
                                 {UnaryOp::kSigmoid, -2000, 0},
                                 {UnaryOp::kTanh, kInfinity, 1},
                                 {UnaryOp::kTanh, -kInfinity, -1},
                                 {UnaryOp::kTanh, 50, 1},
                                 {UnaryOp::kRelu, -kInfinity, 0},
                                 {UnaryOp::kRelu, kInfinity, kInfinity},
                                 {UnaryOp::kSilu, kInfinity, kInfinity},
                                 {UnaryOp::kSilu, 3000, 3008},
                                 {UnaryOp::kGelu, -64, 0},
                                 {UnaryOp::kGelu, kInfinity, kInfinity},
                                 {UnaryOp::kSqrt, -1, kNan},
                                 {UnaryOp::kSquare, -kInfinity, kInfinity}};
  for (DType dtype : ComputeTypes()) {
    for (const Row& row : rows) {
      HostTensor x({1}, dtype, {row.x}), y({1}, dtype);
      machine->Unary(row.op, x.view(), y.mutable_view());
      const double want = row.want == 3008 ? x.At(0) : row.want;
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(y.At(0))) << static_cast<int>(row.op) << " at " << row.x;
      } else if (want == 0) {
        EXPECT_LT(std::abs(y.At(0)), 1e-300) << static_cast<int>(row.op) << " at " << row.x;
      } else {
        EXPECT_EQ(y.At(0), want) << static_cast<int>(row.op) << " at " << row.x;
      }
    }
  }
}

TEST(UnaryTest, SinglePrecisionExpIsWithinOneUnit) {
  ForEachTarget([] {
    const std::string target = CpuTargetName();
    Machine machine(1);
    const int64_t n = 200001;
    HostTensor x({n}, DType::kF32), y({n}, DType::kF32);
    for (int64_t i = 0; i < n; ++i) {
      x.Set(i, -87.3 + (88.7 + 87.3) * static_cast<double>(i) / static_cast<double>(n - 1));
    }
    machine->Unary(UnaryOp::kExp, x.view(), y.mutable_view());
    double worst = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double want = std::exp(x.At(i));
      const double unit = std::ldexp(1.0, std::ilogb(want) - 23);
      worst = std::max(worst, std::abs(y.At(i) - want) / unit);
    }
    EXPECT_LE(worst, 1.01) << target;
  });
}

TEST(UnaryTest, ValueDependsOnNeitherPositionNorLengthNorThreads) {
  for (const UnaryCase& test : UnaryCases()) {
    for (DType dtype : ComputeTypes()) {
      const int64_t n = 33333;
      const HostTensor x = HostTensor::Random({n}, dtype, 6, test.low, test.high);
      const HostTensor all = SameOnAllThreads([&](Backend& backend) {
        HostTensor y({n}, dtype);
        backend.Unary(test.op, x.view(), y.mutable_view());
        return y;
      });
      Machine machine(1);
      for (int64_t i : {int64_t{0}, int64_t{5}, int64_t{17000}, n - 1}) {
        HostTensor one({1}, dtype);
        machine->Unary(test.op, x.Strided({1}, {1}, i), one.mutable_view());
        EXPECT_EQ(one.At(0), all.At(i)) << test.name << " " << dtype << " " << i;
      }
    }
  }
}

TEST(UnaryTest, StridedViewsAndEmptyShapes) {
  Machine machine(2);
  for (DType dtype : ComputeTypes()) {
    const HostTensor x = HostTensor::Random({6, 50}, dtype, 7);
    HostTensor y({50, 6}, dtype);
    machine->Unary(UnaryOp::kSilu, x.Strided({50, 6}, {1, 50}), y.mutable_view());
    HostTensor plain({6, 50}, dtype);
    machine->Unary(UnaryOp::kSilu, x.view(), plain.mutable_view());
    for (int64_t i = 0; i < 6; ++i) {
      for (int64_t j = 0; j < 50; ++j) EXPECT_EQ(y.At(j * 6 + i), plain.At(i * 50 + j));
    }
    HostTensor empty({0, 5}, dtype);
    machine->Unary(UnaryOp::kSilu, empty.view(), empty.mutable_view());
    machine->UnaryGrad(UnaryOp::kSilu, empty.view(), empty.view(), empty.mutable_view());
  }
}

// --- Binary.

double Reference(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSub:
      return a - b;
    case BinaryOp::kMul:
      return a * b;
    case BinaryOp::kDiv:
      return a / b;
    case BinaryOp::kMax:
      return std::max(a, b);
  }
  return 0;
}

constexpr BinaryOp kBinaryOps[] = {BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul, BinaryOp::kDiv,
                                   BinaryOp::kMax};

struct BroadcastCase {
  Shape shape, a_strides, b_strides;
};

TEST(BinaryTest, BroadcastsByStrides) {
  const std::vector<BroadcastCase> cases = {
      {{3, 1000}, {1000, 1}, {1000, 1}},   // same shape
      {{70, 33}, {33, 1}, {0, 1}},         // row vector
      {{70, 33}, {33, 1}, {1, 0}},         // column
      {{70, 33}, {0, 0}, {33, 1}},         // scalar
      {{5, 4, 3}, {12, 1, 4}, {0, 3, 1}},  // transposed
      {{2, 1, 7, 1, 3}, {21, 9, 3, 4, 1}, {3, 0, 0, 8, 1}},
      {{1}, {1}, {0}},
      {{}, {}, {}},
      {{0, 4}, {4, 1}, {0, 1}},
      {{4, 700}, {700, 1}, {0, 2}},
  };
  Machine machine(2);
  for (DType dtype : ComputeTypes()) {
    const HostTensor a = HostTensor::Random({3000}, dtype, 8);
    const HostTensor b = HostTensor::Random({3000}, dtype, 9, 0.5, 3);
    for (const BroadcastCase& test : cases) {
      for (BinaryOp op : kBinaryOps) {
        HostTensor y(test.shape, dtype);
        machine->Binary(op, a.Strided(test.shape, test.a_strides),
                        b.Strided(test.shape, test.b_strides), y.mutable_view());
        std::vector<double> want;
        for (int64_t i = 0; i < y.numel(); ++i) {
          int64_t rest = i, ia = 0, ib = 0;
          for (int axis = test.shape.rank() - 1; axis >= 0; --axis) {
            const int64_t at = rest % test.shape[axis];
            rest /= test.shape[axis];
            ia += at * test.a_strides[axis];
            ib += at * test.b_strides[axis];
          }
          want.push_back(Reference(op, a.At(ia), b.At(ib)));
        }
        ExpectClose(y, want, 0.5, 0, test.shape.ToString());
      }
    }
  }
}

TEST(BinaryTest, MayWriteOverAnOperandAndIntoStrides) {
  Machine machine(2);
  for (DType dtype : ComputeTypes()) {
    const HostTensor a = HostTensor::Random({40, 50}, dtype, 10);
    const HostTensor b = HostTensor::Random({50}, dtype, 11);
    const TensorView row = b.Strided({40, 50}, {0, 1});
    HostTensor y({40, 50}, dtype);
    machine->Binary(BinaryOp::kMul, a.view(), row, y.mutable_view());
    HostTensor over = a;
    machine->Binary(BinaryOp::kMul, over.view(), row, over.mutable_view());
    EXPECT_TRUE(SameBits(over, y));
    HostTensor transposed({50, 40}, dtype);
    machine->Binary(BinaryOp::kMul, a.view(), row, transposed.MutableStrided({40, 50}, {1, 40}));
    for (int64_t i = 0; i < 40; ++i) {
      for (int64_t j = 0; j < 50; ++j) EXPECT_EQ(transposed.At(j * 40 + i), y.At(i * 50 + j));
    }
  }
}

TEST(BinaryTest, MaxKeepsNanOfEitherSide) {
  Machine machine(1);
  for (DType dtype : ComputeTypes()) {
    HostTensor a({3}, dtype, {kNan, 1, 2}), b({3}, dtype, {1, kNan, 1}), y({3}, dtype);
    machine->Binary(BinaryOp::kMax, a.view(), b.view(), y.mutable_view());
    EXPECT_TRUE(std::isnan(y.At(0)));
    EXPECT_TRUE(std::isnan(y.At(1)));
    EXPECT_EQ(y.At(2), 2);
  }
}

TEST(BinaryTest, BF16RoundsToNearestEven) {
  Machine machine(1);
  // 1 + 2^-8 lies between 1 and 1 + 2^-7: to even 1; 1 + 3 * 2^-8 to even 1 + 2^-6.
  const int64_t n = 40;
  HostTensor a({n}, DType::kBF16), b({n}, DType::kBF16), y({n}, DType::kBF16);
  for (int64_t i = 0; i < n; ++i) {
    a.Set(i, i % 2 == 0 ? 1.0 : 1.0 + 0x1p-7);
    b.Set(i, 0x1p-8);
  }
  machine->Binary(BinaryOp::kAdd, a.view(), b.view(), y.mutable_view());
  for (int64_t i = 0; i < n; ++i) EXPECT_EQ(y.At(i), i % 2 == 0 ? 1.0 : 1.0 + 0x1p-6) << i;
}

TEST(AffineTest, MatchesReference) {
  Machine machine(2);
  for (DType dtype : ComputeTypes()) {
    const HostTensor x = HostTensor::Random({123, 321}, dtype, 12);
    HostTensor y = x;
    machine->Affine(y.view(), 0.3, -1.7, y.mutable_view());
    std::vector<double> want = x.ToDoubles();
    for (double& value : want) value = value * 0.3 - 1.7;
    ExpectClose(y, want, 2);
  }
}

// --- Rows.

TEST(DropoutTest, FollowsTheDocumentedRule) {
  for (DType dtype : ComputeTypes()) {
    for (double rate : {0.0, 0.1, 0.5, 0.999}) {
      const int64_t tokens = 21, channels = 603;
      const HostTensor x = HostTensor::Random({tokens, channels}, dtype, 13);
      std::vector<uint64_t> keys;
      for (int64_t t = 0; t < tokens; ++t) keys.push_back(MixBits(static_cast<uint64_t>(t)));
      const DropoutMask mask{rate, 0x123456789ABCDEFu, keys};
      const HostTensor y = SameOnAllThreads([&](Backend& backend) {
        HostTensor result = x;
        backend.Dropout(result.view(), mask, result.mutable_view());
        return result;
      });
      std::vector<double> want;
      int64_t kept_count = 0;
      for (int64_t t = 0; t < tokens; ++t) {
        for (int64_t c = 0; c < channels; ++c) {
          const auto words = Philox(CombineKeys(mask.key, keys[static_cast<size_t>(t)]),
                                    static_cast<uint64_t>(c) / 4, 0);
          const bool kept = words[static_cast<size_t>(c % 4)] * 0x1p-32 >= rate;
          kept_count += kept;
          want.push_back(kept ? x.At(t * channels + c) / (1 - rate) : 0.0);
        }
      }
      ExpectClose(y, want, 1);
      EXPECT_NEAR(static_cast<double>(kept_count) / (tokens * channels), 1 - rate, 0.02);
    }
  }
}

TEST(DropoutTest, RowDependsOnItsKeyAlone) {
  Machine machine(1);
  const HostTensor x = HostTensor::Random({2, 100}, DType::kF32, 14, 1, 1);
  const std::vector<uint64_t> keys = {5, 9}, swapped = {9, 5};
  HostTensor a({2, 100}, DType::kF32), b({2, 100}, DType::kF32);
  machine->Dropout(x.view(), {0.5, 1, keys}, a.mutable_view());
  machine->Dropout(x.view(), {0.5, 1, swapped}, b.mutable_view());
  EXPECT_FALSE(SameBits(a, b));
  for (int64_t c = 0; c < 100; ++c) EXPECT_EQ(a.At(c), b.At(100 + c));
}

TEST(ScaleRowsTest, MatchesReferenceOnStridedRows) {
  Machine machine(2);
  for (DType dtype : ComputeTypes()) {
    const HostTensor x = HostTensor::Random({9, 100}, dtype, 15);
    const HostTensor factor = HostTensor::Random({9}, AccumulatorOf(dtype), 16);
    HostTensor y({9, 70}, dtype);
    machine->ScaleRows(x.Strided({9, 70}, {100, 1}, 13), factor.view(), y.mutable_view());
    std::vector<double> want;
    for (int64_t r = 0; r < 9; ++r) {
      for (int64_t c = 0; c < 70; ++c) want.push_back(x.At(r * 100 + 13 + c) * factor.At(r));
    }
    ExpectClose(y, want, 0.5);
  }
}

TEST(ElementwiseTest, InstructionSetsAgree) {
  const HostTensor x = HostTensor::Random({1001}, DType::kF32, 17, 0.1, 4);
  const HostTensor dy = HostTensor::Random({1001}, DType::kF32, 18);
  const std::vector<uint64_t> keys = {77};
  std::vector<HostTensor> first;
  ForEachTarget([&] {
    const std::string target = CpuTargetName();
    Machine machine(1);
    std::vector<HostTensor> results;
    for (const UnaryCase& test : UnaryCases()) {
      HostTensor y({1001}, DType::kF32), dx({1001}, DType::kF32);
      machine->Unary(test.op, x.view(), y.mutable_view());
      machine->UnaryGrad(test.op, x.view(), dy.view(), dx.mutable_view());
      results.push_back(y);
      results.push_back(dx);
    }
    HostTensor kept({1, 1001}, DType::kF32);
    machine->Dropout(x.Strided({1, 1001}, {1001, 1}), {0.3, 4, keys}, kept.mutable_view());
    results.push_back(kept);
    if (first.empty()) first = results;
    for (size_t i = 0; i < results.size(); ++i) {
      ExpectClose(results[i], first[i].ToDoubles(), 8, 0, target);
    }
  });
}

}  // namespace
}  // namespace lorica::test
