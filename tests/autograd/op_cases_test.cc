// Every generic test of an op, driven by its row in support/op_cases.cc.
#include "support/op_cases.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lorica/autograd/autograd.h"
#include "lorica/autograd/gradcheck.h"
#include "lorica/tensor/cpu_backend.h"
#include "support/tensor_matchers.h"

namespace lorica {
namespace {

using testing::MakeInputs;
using testing::Near;
using testing::OpCase;
using testing::OpCases;
using testing::SameBits;
using testing::Values;

class OpCasesTest : public ::testing::TestWithParam<OpCase> {
 protected:
  std::vector<Tensor> Inputs(uint64_t seed = 1) {
    return MakeInputs(*backend_, GetParam(), GetParam().shapes, seed);
  }
  static std::vector<Values> ValuesOf(const std::vector<Tensor>& inputs) {
    std::vector<Values> values;
    for (const Tensor& x : inputs) values.push_back(x.ToDoubles());
    return values;
  }
  static std::vector<Tensor> CastAll(const std::vector<Tensor>& inputs, DType dtype) {
    std::vector<Tensor> result;
    for (const Tensor& x : inputs) result.push_back(raw::Cast(x, dtype));
    return result;
  }
  std::vector<Tensor> RequireAll(std::vector<Tensor> inputs) {
    const int count = GetParam().differentiable;
    for (size_t i = 0; i < inputs.size(); ++i) {
      SetRequiresGrad(inputs[i], count < 0 || static_cast<int>(i) < count);
    }
    return inputs;
  }
  // Inputs rounded to `dtype` first, so that only the op's own error is seen.
  void ExpectForward(DType dtype, double unit) {
    const OpCase& row = GetParam();
    const std::vector<Tensor> inputs = CastAll(Inputs(), dtype);
    const double tolerance = 8 * unit * std::sqrt(static_cast<double>(row.sum_length));
    EXPECT_TRUE(Near(row.function(inputs), row.reference(ValuesOf(inputs)), tolerance));
  }

  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
};

TEST_P(OpCasesTest, ForwardMatchesTheReferenceInF64) { ExpectForward(DType::kF64, 0x1.0p-52); }
TEST_P(OpCasesTest, ForwardMatchesTheReferenceInF32) { ExpectForward(DType::kF32, 0x1.0p-23); }
TEST_P(OpCasesTest, ForwardMatchesTheReferenceInBf16) { ExpectForward(DType::kBF16, 0x1.0p-8); }

TEST_P(OpCasesTest, GradientsMatchCentralDifferences) {
  EXPECT_EQ(Gradcheck(GetParam().function, RequireAll(Inputs())), "");
}

TEST_P(OpCasesTest, StridedInputsGiveTheSameBits) {
  std::vector<Tensor> inputs = CastAll(Inputs(), DType::kF32), strided;
  for (const Tensor& x : inputs) {
    // Every second column of a wider tensor, from an offset on.
    Shape wide = x.shape();
    wide[-1] = 2 * wide[-1] + 1;
    Tensor storage = Tensor::Full(*backend_, wide, x.dtype(), 77);
    Shape strides = storage.strides();
    strides[-1] = 2;
    Tensor view(storage.storage(), x.shape(), strides, 1, x.dtype());
    backend_->Copy(x.view(), view.mutable_view());
    strided.push_back(view);
  }
  // A product's weight must lie contiguous; that one stays.
  if (GetParam().name.find("linear") != std::string::npos ||
      GetParam().name.find("embedding") != std::string::npos) {
    for (size_t i = GetParam().name.find("embedding") == std::string::npos; i < inputs.size();
         ++i) {
      strided[i] = inputs[i];
    }
  }
  EXPECT_TRUE(SameBits(GetParam().function(strided), GetParam().function(inputs)));
}

TEST_P(OpCasesTest, Bf16GradientsFollowF64) {
  const OpCase& row = GetParam();
  std::vector<Tensor> narrow = RequireAll(CastAll(Inputs(), DType::kBF16));
  std::vector<Tensor> exact = RequireAll(CastAll(CastAll(Inputs(), DType::kBF16), DType::kF64));
  Backward(row.function(narrow));
  Backward(row.function(exact));
  for (size_t i = 0; i < narrow.size(); ++i) {
    if (!Grad(exact[i]).defined()) continue;
    ASSERT_TRUE(Grad(narrow[i]).defined());
    EXPECT_EQ(Grad(narrow[i]).dtype(), DType::kF32);
    const Values want = Grad(exact[i]).ToDoubles();
    double largest = 0;
    for (double w : want) largest = std::max(largest, std::abs(w));
    // Cancelling sums (softmax) may leave little of the terms; their size is that of the seed, 1.
    if (largest < 0.05) continue;
    EXPECT_TRUE(
        Near(Grad(narrow[i]), want, 24 * 0x1.0p-8 * std::sqrt(static_cast<double>(row.sum_length))))
        << "input " << i;
  }
}

TEST_P(OpCasesTest, SavesTheBytesThatItSays) {
  const std::vector<Tensor> inputs = RequireAll(CastAll(Inputs(), DType::kF32));
  EXPECT_EQ(SavedBytes(GetParam().function(inputs)), static_cast<size_t>(GetParam().saved_bytes));
  NoGrad no_grad;
  EXPECT_FALSE(RequiresGrad(GetParam().function(inputs)));
}

TEST_P(OpCasesTest, RefusesWrongShapesAndTypes) {
  const OpCase& row = GetParam();
  if (!row.bad_shapes.empty()) {
    const std::vector<Tensor> bad = MakeInputs(*backend_, row, row.bad_shapes, 1);
    try {
      row.function(bad);
      FAIL() << "wrong shapes were accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(row.bad_text), std::string::npos) << error.what();
    }
  }
  if (row.shapes.size() >= 2 && row.name.find("embedding") == std::string::npos) {
    std::vector<Tensor> mixed = Inputs();
    mixed[1] = raw::Cast(mixed[1], DType::kF32);
    EXPECT_THROW(row.function(mixed), Error);
  }
}

TEST_P(OpCasesTest, ThreadsDontChangeBits) {
  const std::vector<Tensor> inputs = RequireAll(CastAll(Inputs(3), DType::kF32));
  const Tensor y = GetParam().function(inputs);
  Backward(y);
  for (int threads : {1, 3}) {
    ThreadPool pool(threads);
    std::unique_ptr<Backend> backend = MakeCpuBackend(pool);
    std::vector<Tensor> other =
        RequireAll(CastAll(MakeInputs(*backend, GetParam(), GetParam().shapes, 3), DType::kF32));
    const Tensor other_y = GetParam().function(other);
    EXPECT_TRUE(SameBits(other_y, y));
    Backward(other_y);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!Grad(inputs[i]).defined()) continue;
      EXPECT_TRUE(SameBits(Grad(other[i]), Grad(inputs[i])));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpCasesTest, ::testing::ValuesIn(OpCases()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace lorica
