// Latent attention: the training form against its formula, the compressed decoding form against
// the training form, adapters on every projection included.
#include "lorica/nn/mla.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lorica/autograd/gradcheck.h"
#include "lorica/tensor/random.h"
#include "nn/nn_fixture.h"

namespace lorica {
namespace {

using testing::Near;

constexpr int64_t kHidden = 22, kHeads = 3, kRank = 10, kNope = 6, kRope = 4, kValue = 7;

// Two slots of different rank.
class TwoSlots final : public LinearAdapter {
 public:
  TwoSlots(Backend& backend, const Shape& weight, DType dtype) {
    for (const int64_t rank : {2, 5}) {
      LoraBranch branch;
      RandomStream stream(3, static_cast<uint64_t>(rank * 1000 + weight[0]));
      const auto random = [&](const Shape& shape) {
        std::vector<double> values(static_cast<size_t>(shape.numel()));
        for (double& value : values) value = 0.3 * stream.Normal();
        return raw::Cast(Tensor::FromHost<double>(backend, shape, values), dtype);
      };
      branch.a = random({rank, weight[1]});
      branch.b = random({weight[0], rank});
      branches_.push_back(branch);
    }
  }
  absl::Span<const LoraBranch> Branches(DType, bool) override { return branches_; }

 private:
  std::vector<LoraBranch> branches_;
};

class MlaTest : public ::testing::TestWithParam<int64_t> {
 protected:
  // `top_k` above 0: sparse.
  nn::MlaAttention Make(DType dtype, bool interleaved = true, int64_t top_k = 0) {
    nn::MlaConfig config;
    config.hidden = kHidden;
    config.heads = kHeads;
    config.q_lora_rank = GetParam();
    config.kv_lora_rank = kRank;
    config.qk_nope_head_dim = kNope;
    config.qk_rope_head_dim = kRope;
    config.v_head_dim = kValue;
    config.bias = true;
    config.scale = 0.3;
    if (top_k > 0) config.indexer = {.heads = 5, .head_dim = 7, .top_k = top_k};
    config_ = config;
    RopeConfig rope;
    rope.channels = kRope;
    rope.interleaved = interleaved;
    nn::MlaAttention mla(config, std::make_shared<Rotary>(rope), dtype,
                         std::make_shared<nn::KeyChoice>());
    ForEachParameter(mla, [&](const std::string& path, Parameter& parameter) {
      RandomStream stream(7, HashName(path));
      std::vector<double> values(static_cast<size_t>(parameter.numel()));
      for (double& value : values) value = 0.4 * stream.Normal();
      parameter.Assign(
          raw::Cast(Tensor::FromHost<double>(backend_, parameter.shape(), values), dtype));
    });
    return mla;
  }
  void Adapt(nn::MlaAttention& mla, DType dtype) {
    ForEachModule(mla, [&](const std::string&, Module& module) {
      auto* host = dynamic_cast<AdapterHost*>(&module);
      if (host != nullptr) {
        host->set_adapter(std::make_shared<TwoSlots>(backend_, host->weight_shape(), dtype));
      }
    });
  }
  Tensor Input(int64_t tokens, DType dtype) {
    RandomStream stream(11, 1);
    std::vector<double> values(static_cast<size_t>(tokens * kHidden));
    for (double& value : values) value = stream.Normal();
    return raw::Cast(Tensor::FromHost<double>(backend_, {tokens, kHidden}, values), dtype);
  }

  void CheckDecoding(int64_t top_k);

  TestBackend owner_;
  Backend& backend_ = *owner_.backend;
  nn::MlaConfig config_;
};

// The formula, one output at a time.
std::vector<double> Reference(nn::MlaAttention& mla, const std::vector<double>& x, int64_t tokens,
                              bool interleaved) {
  using Rows = std::vector<std::vector<double>>;
  const auto values = [&](const std::string& path) {
    std::vector<double> found;
    ForEachParameter(mla, [&](const std::string& name, Parameter& parameter) {
      if (name == path) found = parameter.value().ToDoubles();
    });
    return found;
  };
  const auto linear = [&](const Rows& in, const std::string& name) {
    const std::vector<double> w = values(name + ".weight"), b = values(name + ".bias");
    const size_t width = in[0].size(), out = w.size() / width;
    Rows y;
    for (const auto& row : in) {
      y.emplace_back(out);
      for (size_t o = 0; o < out; ++o) {
        double sum = b.empty() ? 0 : b[o];
        for (size_t i = 0; i < width; ++i) sum += w[o * width + i] * row[i];
        y.back()[o] = sum;
      }
    }
    return y;
  };
  const auto norm = [&](Rows rows, const std::string& name) {
    const std::vector<double> w = values(name + ".weight");
    for (auto& row : rows) {
      double squares = 0;
      for (double v : row) squares += v * v;
      const double scale = 1 / std::sqrt(squares / static_cast<double>(row.size()) + 1e-6);
      for (size_t i = 0; i < row.size(); ++i) row[i] *= scale * w[i];
    }
    return rows;
  };
  const auto rotate = [&](double* v, int64_t position) {
    std::vector<double> in(v, v + kRope);
    for (int64_t i = 0; i < kRope / 2; ++i) {
      const double angle =
          static_cast<double>(position) * std::pow(10000.0, -2.0 * static_cast<double>(i) / kRope);
      const int64_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + kRope / 2;
      v[a] = in[a] * std::cos(angle) - in[b] * std::sin(angle);
      v[b] = in[b] * std::cos(angle) + in[a] * std::sin(angle);
    }
  };
  Rows input;
  for (int64_t t = 0; t < tokens; ++t) {
    input.emplace_back(x.begin() + t * kHidden, x.begin() + (t + 1) * kHidden);
  }
  const bool direct = !values("q_proj.weight").empty();
  Rows q = direct ? linear(input, "q_proj")
                  : linear(norm(linear(input, "q_a_proj"), "q_a_layernorm"), "q_b_proj");
  Rows both = linear(input, "kv_a_proj_with_mqa"), latent;
  for (int64_t t = 0; t < tokens; ++t) {
    latent.emplace_back(both[t].begin(), both[t].begin() + kRank);
    rotate(both[t].data() + kRank, t);
    for (int64_t h = 0; h < kHeads; ++h) rotate(q[t].data() + h * (kNope + kRope) + kNope, t);
  }
  const Rows kv = linear(norm(latent, "kv_a_layernorm"), "kv_b_proj");
  Rows y(tokens, std::vector<double>(kHeads * kValue));
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < kHeads; ++h) {
      std::vector<double> p;
      double total = 0;
      for (int64_t s = 0; s <= t; ++s) {
        double dot = 0;
        const double* qt = q[t].data() + h * (kNope + kRope);
        const double* ks = kv[s].data() + h * (kNope + kValue);
        for (int64_t i = 0; i < kNope; ++i) dot += qt[i] * ks[i];
        for (int64_t i = 0; i < kRope; ++i) dot += qt[kNope + i] * both[s][kRank + i];
        p.push_back(std::exp(0.3 * dot));
        total += p.back();
      }
      for (int64_t s = 0; s <= t; ++s) {
        for (int64_t v = 0; v < kValue; ++v) {
          y[t][h * kValue + v] += p[s] / total * kv[s][h * (kNope + kValue) + kNope + v];
        }
      }
    }
  }
  std::vector<double> flat;
  for (const auto& row : linear(y, "o_proj")) flat.insert(flat.end(), row.begin(), row.end());
  return flat;
}

TEST_P(MlaTest, TrainingFormIsTheFormula) {
  for (const bool interleaved : {false, true}) {
    nn::MlaAttention mla = Make(DType::kF64, interleaved);
    const Tensor x = Input(9, DType::kF64);
    EXPECT_TRUE(
        Near(mla.Forward(x, ContextOf({9})), Reference(mla, x.ToDoubles(), 9, interleaved), 1e-12));
  }
}

TEST_P(MlaTest, GradientOfTheInputMatchesDifferences) {
  nn::MlaAttention mla = Make(DType::kF64);
  Adapt(mla, DType::kF64);
  ForwardContext context = ContextOf({4, 3});
  context.spans = AdapterSpans({{1, 0, 4}, {0, 4, 7}}, 7);
  Tensor x = Input(7, DType::kF64);
  SetRequiresGrad(x, true);
  EXPECT_EQ(
      Gradcheck([&](const std::vector<Tensor>& inputs) { return mla.Forward(inputs[0], context); },
                {x}),
      "");
}

// Chunks of two sequences through the cache, rows served by either adapter or by none.
void MlaTest::CheckDecoding(int64_t top_k) {
  const NoGrad no_grad;
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    nn::MlaAttention mla = Make(dtype, true, top_k);
    Adapt(mla, dtype);
    const std::vector<int> slots = {0, 1, -1};
    std::vector<AdapterSpan> spans;
    const int64_t tokens = 11;
    for (int s = 0; s < 3; ++s) spans.push_back({slots[s], s * tokens, (s + 1) * tokens});
    const Tensor x = Input(3 * tokens, dtype);
    ForwardContext whole = ContextOf({tokens, tokens, tokens});
    whole.spans = AdapterSpans(spans, 3 * tokens);
    const Tensor want = mla.Forward(x, whole);

    KvCache cache(backend_, nn::MlaCacheConfig(config_, 1, dtype), 3);
    double worst = 0, largest = 0;
    for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, 5}, {5, 6}, {6, 7}, {7, 11}}) {
      ForwardContext part = ContextOf({to - from, to - from, to - from});
      part.positions = cache.Positions(part.sequences);
      part.cache = &cache;
      std::vector<AdapterSpan> part_spans;
      std::vector<Tensor> rows;
      for (int s = 0; s < 3; ++s) {
        part_spans.push_back({slots[s], s * (to - from), (s + 1) * (to - from)});
        rows.push_back(x.Narrow(0, s * tokens + from, to - from));
      }
      part.spans = AdapterSpans(part_spans, 3 * (to - from));
      cache.Begin(part.sequences);
      const Tensor got = mla.Forward(Concat(rows, 0), part);
      cache.Commit();
      for (int s = 0; s < 3; ++s) {
        const auto a = raw::Contiguous(got.Narrow(0, s * (to - from), to - from)).ToDoubles();
        const auto b = raw::Contiguous(want.Narrow(0, s * tokens + from, to - from)).ToDoubles();
        for (size_t i = 0; i < a.size(); ++i) {
          worst = std::max(worst, std::abs(a[i] - b[i]));
          largest = std::max(largest, std::abs(b[i]));
        }
      }
    }
    // Roundings between x and y: about ten of the compute type, of values no larger than y's terms.
    const double unit = dtype == DType::kF64 ? 0x1p-53 : dtype == DType::kF32 ? 0x1p-24 : 0x1p-9;
    EXPECT_LE(worst, 32 * unit * largest) << dtype;
    EXPECT_EQ(cache.keys(0).dim(2), kRank + kRope + (top_k > 0 ? 7 : 0));
    EXPECT_EQ(cache.values(0).bytes(), 0u);
  }
}

TEST_P(MlaTest, CompressedDecodingEqualsTheTrainingForm) { CheckDecoding(0); }

// An indexer needs the latent of queries.
class SparseMlaTest : public MlaTest {};

// The choice is the same to the bit in both forms, the indexer's own adapters included.
TEST_P(SparseMlaTest, CompressedDecodingEqualsTheTrainingForm) {
  CheckDecoding(4);
  CheckDecoding(11);
}

TEST_P(SparseMlaTest, GradientOfTheInputMatchesDifferences) {
  nn::MlaAttention mla = Make(DType::kF64, true, 3);
  Adapt(mla, DType::kF64);
  ForwardContext context = ContextOf({8, 2});
  context.spans = AdapterSpans({{1, 0, 8}, {0, 8, 10}}, 10);
  Tensor x = Input(10, DType::kF64);
  SetRequiresGrad(x, true);
  EXPECT_EQ(
      Gradcheck([&](const std::vector<Tensor>& inputs) { return mla.Forward(inputs[0], context); },
                {x}),
      "");
}

// Where nothing has to be chosen nothing of the indexer is read: it is poisoned here.
TEST_P(SparseMlaTest, ShortSequencesAreDense) {
  const NoGrad no_grad;
  nn::MlaAttention dense = Make(DType::kF32), sparse = Make(DType::kF32, true, 9);
  const Tensor poison = Tensor::Full(backend_, {7, kHidden}, DType::kF32, std::nan(""));
  ForEachParameter(sparse, [&](const std::string& path, Parameter& parameter) {
    if (path == "indexer.wk.weight") parameter.Assign(poison);
  });
  const Tensor x = Input(15, DType::kF32);
  EXPECT_TRUE(
      testing::SameBits(sparse.Forward(x, ContextOf({9, 6})), dense.Forward(x, ContextOf({9, 6}))));
}

// Token t of the longer sequence sees the keys that it chose, not all before it.
TEST_P(SparseMlaTest, LongSequencesAreNot) {
  const NoGrad no_grad;
  nn::MlaAttention dense = Make(DType::kF64), sparse = Make(DType::kF64, true, 4);
  const Tensor x = Input(15, DType::kF64), y = sparse.Forward(x, ContextOf({12, 3}));
  const Tensor want = dense.Forward(x, ContextOf({12, 3}));
  EXPECT_TRUE(testing::SameBits(y.Narrow(0, 0, 4), want.Narrow(0, 0, 4)));
  EXPECT_TRUE(testing::SameBits(y.Narrow(0, 12, 3), want.Narrow(0, 12, 3)));
  EXPECT_FALSE(Near(y.Narrow(0, 4, 8), want.Narrow(0, 4, 8), 1e-3));
}

TEST_P(SparseMlaTest, NothingOfTheIndexerTrains) {
  nn::MlaAttention mla = Make(DType::kF32, true, 4);
  MakeTrainable(mla);
  int frozen = 0;
  ForEachParameter(mla, [&](const std::string& path, Parameter& parameter) {
    const bool indexer = path.rfind("indexer.", 0) == 0;
    EXPECT_EQ(parameter.trainable(), !indexer) << path;
    EXPECT_FALSE(parameter.buffer()) << path;  // it counts as a parameter of the model
    frozen += indexer;
  });
  EXPECT_EQ(frozen, 5);
}

INSTANTIATE_TEST_SUITE_P(QueryRank, MlaTest, ::testing::Values(0, 8),
                         [](const auto& param) { return "q" + std::to_string(param.param); });
INSTANTIATE_TEST_SUITE_P(QueryRank, SparseMlaTest, ::testing::Values(8),
                         [](const auto& param) { return "q" + std::to_string(param.param); });

}  // namespace
}  // namespace lorica
