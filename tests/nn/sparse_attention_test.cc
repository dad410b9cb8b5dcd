// Whole models with sparse attention: what a choice of keys must survive.
#include "lorica/autograd/autograd.h"
#include "nn/nn_fixture.h"

namespace lorica {
namespace {

using ::lorica::testing::SameBits;

class SparseAttentionTest : public NnTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::unique_ptr<CausalLm> Load(Backend& backend) {
    auto loaded =
        LoadModel(GoldenPath(std::string("models/") + GetParam() + "/model"), backend, DType::kF32);
    if (!loaded.ok()) throw Error(std::string(loaded.status().message()));
    MakeTrainable(*loaded->model);
    return std::move(loaded->model);
  }
  static std::vector<Tensor> Gradients(CausalLm& model) {
    std::vector<Tensor> grads;
    ForEachParameter(model, [&](const std::string&, Parameter& parameter) {
      if (parameter.trainable()) grads.push_back(Grad(parameter.master()));
    });
    return grads;
  }
};

// Other sequences run through the model between a forward pass and its recompute: blocks keep what
// they chose, those that share an indexer too.
TEST_P(SparseAttentionTest, RecomputeKeepsTheChoiceWhateverRunsBetween) {
  const std::vector<int32_t> ids = RandomIds(45, 53, 8), others = RandomIds(45, 53, 9);
  std::vector<Tensor> want;
  for (const bool recompute : {false, true}) {
    const auto model = Load(backend_);
    ForwardContext context = ContextOf({31, 14});
    context.recompute = recompute;
    const Tensor loss = Sum(model->Loss(ids, ids, context));
    if (recompute) {
      const NoGrad no_grad;
      model->Loss(others, others, ContextOf({20, 25}));
      model->Loss({others.data(), 8}, {others.data(), 8}, ContextOf({8}));  // dense
    }
    Backward(loss);
    const std::vector<Tensor> grads = Gradients(*model);
    if (!recompute) {
      want = grads;
      continue;
    }
    ASSERT_GT(want.size(), 20u);
    ASSERT_EQ(grads.size(), want.size());
    for (size_t i = 0; i < grads.size(); ++i) EXPECT_TRUE(SameBits(grads[i], want[i])) << i;
  }
}

TEST_P(SparseAttentionTest, ThreadsChangeNoBit) {
  const std::vector<int32_t> ids = RandomIds(90, 53, 10);
  std::vector<Tensor> want;
  for (const int threads : {1, 3}) {
    TestBackend machine(threads);
    const auto model = Load(*machine.backend);
    Backward(Sum(model->Loss(ids, ids, ContextOf({90}))));
    std::vector<Tensor> grads;
    for (const Tensor& grad : Gradients(*model)) {
      grads.push_back(Tensor::FromHost<double>(backend_, grad.shape(), grad.ToDoubles()));
    }
    if (threads == 1) want = grads;
    ASSERT_GT(want.size(), 20u);
    ASSERT_EQ(grads.size(), want.size());
    for (size_t i = 0; i < grads.size(); ++i) EXPECT_TRUE(SameBits(grads[i], want[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SparseAttentionTest,
                         ::testing::Values("deepseek_v32", "glm_moe_dsa"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace lorica
