// Models with random adapters on every linear and every expert: decoding, merging and recompute
// must agree with the plain forward pass of the same adapted model, whatever the family.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lorica/autograd/autograd.h"
#include "lorica/nn/kv_cache.h"
#include "lorica/nn/model_loader.h"
#include "lorica/peft/adapter_set.h"
#include "lorica/peft/merge.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/random.h"
#include "support/tensor_matchers.h"
#include "toy_model.h"

namespace lorica {
namespace {

using testing::Near;
using testing::RandomTensor;
using testing::SameBits;

constexpr ExpertLoraKind kKinds[] = {ExpertLoraKind::kFused, ExpertLoraKind::kSplit,
                                     ExpertLoraKind::kSharedOuter};

class AdaptedFamiliesTest : public ::testing::TestWithParam<const char*> {
 protected:
  // With routing weights before or after the down projection.
  void Load(DType compute, ExpertLoraKind kind, bool before_down = false) {
    set_ = AdapterSet();
    const std::string path =
        std::string(LORICA_SOURCE_ROOT "/tests/golden/models/") + GetParam() + "/model";
    auto files = OpenModel(path);
    ASSERT_TRUE(files.ok()) << files.status();
    files->config.moe.placement =
        before_down ? RouterWeightPlacement::kBeforeDown : RouterWeightPlacement::kAfterDown;
    model_ = std::make_unique<CausalLm>(files->config, compute);
    const absl::Status status = LoadWeights(*model_, *files, *backend_);
    ASSERT_TRUE(status.ok()) << status;
    LoraConfig config;
    config.rank = 3;
    config.alpha = 2;
    config.targets = {"all"};
    config.expert_kind = kind;
    auto set = InjectLora(*model_, *backend_, compute, config);
    ASSERT_TRUE(set.ok()) << set.status();
    set_ = *std::move(set);
    uint64_t seed = 11;
    set_.ForEachFactor(0, [&](const std::string&, Tensor& master) {
      const Tensor values = RandomTensor(*backend_, master.shape(), master.dtype(), ++seed);
      backend_->Affine(values.view(), 0.3, 0, master.mutable_view());
    });
  }

  std::vector<int32_t> Ids(int64_t count, uint64_t seed) const {
    RandomStream stream(seed, 1);
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < count; ++i) {
      ids.push_back(static_cast<int32_t>(stream.Uniform() *
                                         static_cast<double>(model_->config().vocab_size)));
    }
    return ids;
  }
  static ForwardContext ContextOf(const std::vector<int64_t>& lengths) {
    Sequences sequences;
    for (const int64_t length : lengths) {
      sequences.offsets.push_back(sequences.offsets.back() + static_cast<int32_t>(length));
    }
    return ForwardContext::ForSequences(sequences);
  }
  Tensor Logits(const std::vector<int32_t>& ids, const ForwardContext& context) {
    return model_->Logits(model_->Hidden(ids, context), context);
  }
  Parameter& embedding() { return model_->model().embed_tokens().weight(); }

  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
  std::unique_ptr<CausalLm> model_;
  AdapterSet set_;
};

// Three sequences whose tokens come in pieces of all kinds: none, one, several.
TEST_P(AdaptedFamiliesTest, DecodingInPiecesIsTheFullPass) {
  const NoGrad no_grad;
  const std::vector<int64_t> lengths = {13, 1, 8};
  const std::vector<std::vector<int64_t>> pieces = {{1, 5, 2, 1, 4}, {0, 0, 1}, {6, 0, 1, 1}};
  for (const ExpertLoraKind kind : kKinds) {
    Load(DType::kF64, kind);
    if (HasFatalFailure()) return;
    KvCache cache(*backend_, model_->CacheConfig(), 3);
    std::vector<std::vector<int32_t>> ids;
    std::vector<Tensor> want;
    for (size_t s = 0; s < lengths.size(); ++s) {
      ids.push_back(Ids(lengths[s], s + 1));
      want.push_back(Logits(ids[s], ContextOf({lengths[s]})));
    }
    for (size_t pass = 0; pass < 5; ++pass) {
      ForwardContext context;
      std::vector<int32_t> given;
      for (size_t s = 0; s < 3; ++s) {
        const int64_t count = pass < pieces[s].size() ? pieces[s][pass] : 0;
        const auto from = ids[s].begin() + cache.length(static_cast<int>(s));
        given.insert(given.end(), from, from + count);
        context.sequences.offsets.push_back(static_cast<int32_t>(given.size()));
      }
      context.positions = cache.Positions(context.sequences);
      context.cache = &cache;
      const Tensor got = Logits(given, context);
      for (int s = 0; s < 3; ++s) {
        const int64_t count = context.sequences.size(s);
        if (count == 0) continue;
        EXPECT_TRUE(Near(got.Narrow(0, context.sequences.begin(s), count),
                         want[static_cast<size_t>(s)].Narrow(0, cache.length(s) - count, count),
                         1e-10))
            << Name(kind) << ", sequence " << s << ", pass " << pass;
      }
    }
    for (size_t s = 0; s < 3; ++s) EXPECT_EQ(cache.length(static_cast<int>(s)), lengths[s]);
  }
}

TEST_P(AdaptedFamiliesTest, MergedWeightsAreTheAdapters) {
  for (const ExpertLoraKind kind : kKinds) {
    for (const bool before_down : {false, true}) {
      Load(DType::kF64, kind, before_down);
      if (HasFatalFailure()) return;
      embedding().MakeTrainable();
      const std::vector<int32_t> ids = Ids(17, 3);
      const ForwardContext context = ContextOf({12, 5});
      std::vector<Tensor> logits, grads;
      std::optional<MergedWeights> merged;
      for (int pass = 0; pass < 3; ++pass) {
        if (pass == 1) {
          auto result = MergedWeights::Merge(*model_, set_);
          ASSERT_TRUE(result.ok()) << result.status();
          merged.emplace(*std::move(result));
        } else if (pass == 2) {
          merged->Unmerge();
        }
        ZeroGrad(embedding().master());
        Backward(Sum(model_->Loss(ids, ids, context)));
        grads.push_back(raw::Clone(Grad(embedding().master())));
        const NoGrad no_grad;
        logits.push_back(Logits(ids, context));
      }
      EXPECT_TRUE(Near(logits[1], logits[0], 1e-10)) << Name(kind) << before_down;
      EXPECT_TRUE(Near(grads[1], grads[0], 1e-10)) << Name(kind) << before_down;
      EXPECT_TRUE(SameBits(logits[2], logits[0])) << Name(kind) << before_down;
    }
  }
}

TEST_P(AdaptedFamiliesTest, RecomputeChangesNoGradientBit) {
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    for (const ExpertLoraKind kind : kKinds) {
      std::map<std::string, Tensor> grads[2];
      for (const bool recompute : {false, true}) {
        Load(compute, kind);
        if (HasFatalFailure()) return;
        const std::vector<int32_t> ids = Ids(44, 4);
        ForwardContext context = ContextOf({1, 19, 3, 0, 21});
        context.recompute = recompute;
        Backward(Sum(model_->Loss(ids, ids, context)));
        set_.ForEachFactor(0, [&](const std::string& name, Tensor& master) {
          grads[recompute][name] = Grad(master);
        });
      }
      ASSERT_EQ(grads[0].size(), grads[1].size());
      size_t compared = 0;
      for (const auto& [name, grad] : grads[0]) {
        ASSERT_EQ(grad.defined(), grads[1].at(name).defined()) << name;
        if (!grad.defined()) continue;
        EXPECT_TRUE(SameBits(grads[1].at(name), grad)) << Name(kind) << " " << name;
        ++compared;
      }
      EXPECT_GT(compared, 0u);
      EXPECT_EQ(compared, grads[0].size()) << Name(kind);  // a gradient reaches every factor
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, AdaptedFamiliesTest,
                         ::testing::Values("llama_gqa", "phi3", "mixtral", "qwen2_moe", "qwen3_moe",
                                           "olmoe", "deepseek_v2", "deepseek_v2_lite",
                                           "deepseek_v3", "glm4_moe", "glm4_moe_lite", "gpt_oss",
                                           "minimax_m2", "qwen3_5_moe", "deepseek_v32",
                                           "glm_moe_dsa"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace lorica
