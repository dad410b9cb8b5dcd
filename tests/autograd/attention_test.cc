// Attention on chosen keys: what a choice may be, and what it leaves of each query.
#include <gtest/gtest.h>

#include "lorica/autograd/autograd.h"
#include "lorica/autograd/ops.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/random.h"
#include "support/tensor_matchers.h"

namespace lorica {
namespace {

using testing::SameBits;

constexpr int64_t kTokens = 70, kTopK = 9;

class ChosenAttentionTest : public ::testing::Test {
 protected:
  Tensor Random(const Shape& shape, uint64_t seed) {
    RandomStream stream(seed, 2);
    std::vector<double> values(static_cast<size_t>(shape.numel()));
    for (double& value : values) value = stream.Normal();
    return Tensor::FromHost<double>(*backend_, shape, values);
  }
  Tensor Choice() {
    return ChooseKeys(Random({kTokens, 2, 3}, 1), Random({kTokens, 1, 3}, 2),
                      Random({kTokens, 2}, 3), spans_, kTopK);
  }
  // The output, and the gradients of q, k and v.
  std::vector<Tensor> Run(const Tensor& chosen) {
    std::vector<Tensor> leaves = {Random({kTokens, 4, 6}, 4), Random({kTokens, 2, 6}, 5),
                                  Random({kTokens, 2, 5}, 6)};
    for (Tensor& leaf : leaves) SetRequiresGrad(leaf, true);
    AttentionOptions options;
    options.spans = spans_;
    options.scale = 0.4;
    options.chosen = chosen;
    const Tensor y = Attention(leaves[0], leaves[1], leaves[2], options);
    Backward(Sum(Square(y)));
    std::vector<Tensor> results = {y.Detach()};
    for (const Tensor& leaf : leaves) results.push_back(Grad(leaf));
    return results;
  }

  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
  const std::vector<AttentionSpan> spans_ = {
      {.q_begin = 0, .q_length = kTokens, .k_begin = 0, .k_length = kTokens}};
};

TEST_F(ChosenAttentionTest, MalformedChoicesAreRefused) {
  const auto zeros = [&](const Shape& shape, DType dtype) {
    return Tensor::Zeros(*backend_, shape, dtype);
  };
  EXPECT_NO_THROW(Run(zeros({kTokens, 2}, DType::kI64)));
  EXPECT_NO_THROW(Run(zeros({kTokens, 3}, DType::kI64)));  // for more keys than there are
  EXPECT_THROW(Run(zeros({kTokens, 1}, DType::kI64)), Error);
  EXPECT_THROW(Run(zeros({kTokens - 1, 2}, DType::kI64)), Error);
  EXPECT_THROW(Run(zeros({kTokens + 1, 2}, DType::kI64)), Error);
  EXPECT_THROW(Run(zeros({2 * kTokens}, DType::kI64)), Error);
  EXPECT_THROW(Run(zeros({kTokens, 2}, DType::kF64)), Error);
  EXPECT_THROW(Run(zeros({kTokens, 4}, DType::kI64).Narrow(1, 0, 2)), Error);
}

// Bits of later tokens, and of keys that don't exist.
TEST_F(ChosenAttentionTest, KeysThatAQueryCannotSeeStayUnseen) {
  const Tensor chosen = Choice();
  std::vector<int64_t> words(chosen.data<int64_t>(), chosen.data<int64_t>() + chosen.numel());
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t key = t + 1; key < 128; ++key) {
      words[static_cast<size_t>(2 * t + key / 64)] |= static_cast<int64_t>(uint64_t{1} << key % 64);
    }
  }
  Tensor more = Tensor::Zeros(*backend_, {kTokens, 2}, DType::kI64);
  std::copy(words.begin(), words.end(), more.mutable_data<int64_t>());
  const std::vector<Tensor> want = Run(chosen), got = Run(more);
  ASSERT_EQ(got.size(), 4u);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(SameBits(got[i], want[i])) << i;
  // The choice matters at all.
  EXPECT_FALSE(SameBits(Run(Tensor())[0], want[0]));
}

}  // namespace
}  // namespace lorica
