// The 164 cases of NeMo AutoModel's routing suite for grouped-expert LoRA, each mapped to what
// stands for its backend here, with expected values from tests/golden/experts.safetensors
// (make_experts.py).
//
//   backend       path                       ranks
//   loop          ExpertsReference           one
//   grouped_mm    Experts                    one
//   deepep_torch  ExpertsReference           two, each with its share of the experts
//   deepep_gmm    Experts                    two
//
// Cases with MX-FP8 products are refused by name. The type of factors makes no case of its own
// here: masters are f32 whatever the model computes in, so two storage cases of the suite run the
// same lines, and storage, being about what is held, runs on one rank's share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "lorica/autograd/autograd.h"
#include "lorica/autograd/ops.h"
#include "lorica/io/tensor_source.h"
#include "lorica/nn/moe.h"
#include "lorica/peft/adapter_set.h"
#include "lorica/tensor/cpu_backend.h"
#include "support/tensor_matchers.h"
#include "toy_model.h"

namespace lorica {
namespace {

using testing::Near;
using testing::SameBits;

enum class Group { kStorage, kEntryPoint, kZeroB, kMerged, kRounded, kSlotOrder, kEmpty };
enum class Empty { kNone, kZeroTokens, kMasked, kNoLocalRoutes };

struct SuiteCase {
  Group group;
  bool grouped = false;  // Experts, else ExpertsReference
  int ranks = 1;
  DType dtype = DType::kF32;
  bool after = false, bias = false, relu2 = true;
  bool f32_factors = false, mxfp8 = false;
  Empty empty = Empty::kNone;

  std::string name() const {
    static const char* const kGroups[] = {"storage", "entry",      "zero_b", "merged",
                                          "rounded", "slot_order", "empty"};
    static const char* const kEmpty[] = {"", "_zero_tokens", "_masked", "_no_local_routes"};
    return std::string(kGroups[static_cast<int>(group)]) + (grouped ? "_grouped" : "_loop") +
           (ranks == 2 ? "_two_ranks" : "") + (dtype == DType::kBF16 ? "_bf16" : "_f32") +
           (after ? "_after" : "_before") + (bias ? "_bias" : "") + (relu2 ? "" : "_swiglu_limit") +
           (f32_factors ? "_f32_factors" : "") + (mxfp8 ? "_mxfp8" : "") +
           kEmpty[static_cast<int>(empty)];
  }
};

std::vector<SuiteCase> AllCases() {
  std::vector<SuiteCase> all;
  const DType types[] = {DType::kF32, DType::kBF16};
  for (int backend = 0; backend < 4; ++backend) {
    SuiteCase c;
    c.grouped = backend % 2 == 1;
    c.ranks = backend < 2 ? 1 : 2;
    for (DType dtype : types) {
      for (bool f32_factors : {false, true}) {
        for (bool mxfp8 : {false, true}) {
          SuiteCase one = c;
          one.group = Group::kStorage;
          one.dtype = dtype;
          one.f32_factors = f32_factors;
          one.mxfp8 = mxfp8;
          all.push_back(one);
        }
      }
      for (bool after : {false, true}) {
        for (Empty empty : {Empty::kZeroTokens, Empty::kMasked, Empty::kNoLocalRoutes}) {
          SuiteCase one = c;
          one.group = Group::kEmpty;
          one.dtype = dtype;
          one.after = after;
          one.bias = true;
          one.empty = empty;
          all.push_back(one);
        }
      }
    }
    for (bool after : {false, true}) {
      for (bool bias : {false, true}) {
        SuiteCase one = c;
        one.after = after;
        one.bias = bias;
        for (bool relu2 : {false, true}) {
          one.relu2 = relu2;
          one.group = Group::kMerged;
          all.push_back(one);
          one.group = Group::kZeroB;
          for (DType dtype : types) {
            one.dtype = dtype;
            if (c.ranks == 1) all.push_back(one);
          }
          one.dtype = DType::kF32;
        }
        one.group = Group::kRounded;
        one.relu2 = true;
        one.dtype = DType::kBF16;
        all.push_back(one);
      }
    }
    SuiteCase one = c;
    if (c.ranks == 1) {
      one.group = Group::kSlotOrder;
      one.after = true;
      all.push_back(one);
    }
    if (backend == 0 || backend == 2) {
      one.group = Group::kEntryPoint;
      one.grouped = true;
      one.after = false;
      all.push_back(one);
    }
  }
  return all;
}

constexpr const char* kFactorNames[] = {"A1", "B1", "A2", "B2"};

// The fixture's tensors under a prefix.
class Fixture {
 public:
  explicit Fixture(Backend& backend) : backend_(backend) {
    auto source = OpenSafetensorsSource(LORICA_SOURCE_ROOT "/tests/golden/experts.safetensors");
    if (!source.ok()) throw Error(std::string(source.status().message()));
    source_ = *std::move(source);
  }
  Tensor Get(const std::string& name, DType type) const {
    const StoredTensorInfo* info = source_->Find(name);
    if (info == nullptr) throw Error("no " + name);
    Tensor t = Tensor::Empty(backend_, Shape(absl::MakeConstSpan(info->shape)), type);
    const absl::Status status = source_->ReadAll(name, type, t.mutable_view().data);
    if (!status.ok()) throw Error(std::string(status.message()));
    return t;
  }
  // i64 and bool.
  std::vector<int32_t> Integers(const std::string& name) const {
    const auto bytes = source_->Bytes(name);
    const StoredTensorInfo* info = source_->Find(name);
    size_t count = 1;
    for (int64_t extent : info->shape) count *= static_cast<size_t>(extent);
    const size_t width = bytes->size() / count;
    std::vector<int32_t> values;
    for (size_t i = 0; i < count; ++i) {
      uint64_t v = 0;
      for (size_t b = 0; b < width; ++b) v |= uint64_t{(*bytes)[i * width + b]} << (8 * b);
      values.push_back(static_cast<int32_t>(v));
    }
    return values;
  }

 private:
  Backend& backend_;
  std::unique_ptr<TensorSource> source_;
};

// What a case runs on: inputs, factors in one piece (each rank takes its experts from them).
struct Inputs {
  Tensor x, weights, g;
  Tensor w1, w2, b1, b2;
  Tensor factors[4];  // as kFactorNames
  double scale = 1.5;
  std::vector<int32_t> choices;
  std::vector<uint8_t> valid;
  GatedActivation activation;
  bool adapters = true;
};

struct Result {
  Tensor y, dx, dweights;
  std::vector<Tensor> dfactors;  // whole, experts of all ranks one behind the other
};

class RoutingSuite : public ::testing::TestWithParam<SuiteCase> {
 protected:
  Inputs Load(const SuiteCase& c) {
    const std::string at = std::string("suite/") + (c.relu2 ? "relu2/" : "swiglu_limit/");
    const DType wide = AccumulatorOf(c.dtype);
    Inputs s;
    s.x = fixture_.Get(at + "x", c.dtype);
    s.weights = fixture_.Get(at + "weights", wide);
    s.g = fixture_.Get(at + "g", c.dtype);
    s.w1 = fixture_.Get(at + "W1", c.dtype);
    s.w2 = fixture_.Get(at + "W2", c.dtype);
    if (c.bias) {
      s.b1 = fixture_.Get(at + "b1", c.dtype);
      s.b2 = fixture_.Get(at + "b2", c.dtype);
    }
    for (int i = 0; i < 4; ++i) s.factors[i] = fixture_.Get(at + kFactorNames[i], wide);
    s.choices = fixture_.Integers(at + "indices");
    for (int32_t v : fixture_.Integers(at + "mask")) s.valid.push_back(v != 0);
    if (c.relu2) {
      s.activation.kind = GatedActivation::Kind::kRelu2;
    } else {
      s.activation.limit = 0.7;
    }
    return s;
  }

  // Experts [begin, begin + count) as leaves or plain values.
  static Tensor Share(const Tensor& all, int64_t begin, int64_t count) {
    return all.defined() ? raw::Clone(all.Narrow(0, begin, count)).Detach() : Tensor();
  }

  Result Run(const SuiteCase& c, const Inputs& s, ExpertNumerics numerics) {
    const int64_t experts = s.w1.dim(0), tokens = s.x.dim(0), top_k = s.weights.dim(1);
    const DType wide = AccumulatorOf(c.dtype);
    const bool fold = numerics == ExpertNumerics::kFast;
    Tensor x = s.x.Detach(), weights = s.weights.Detach(), total;
    SetRequiresGrad(x, true);
    SetRequiresGrad(weights, true);
    std::vector<Tensor> leaves;
    for (int rank = 0; rank < c.ranks; ++rank) {
      const int64_t half = c.ranks == 1 ? experts : (experts + 1) / 2;
      const int64_t begin = rank * half, count = std::min(half, experts - begin);
      Tensor f[4];
      for (int i = 0; i < 4; ++i) {
        f[i] = Share(s.factors[i], begin, count);
        SetRequiresGrad(f[i], true);
        leaves.push_back(f[i]);
      }
      const GroupedBranch gate_up = MakeGroupedBranch({{.a = f[0], .b = f[1], .scale = s.scale}},
                                                      {{}}, s.w1.dim(1), c.dtype, fold);
      const GroupedBranch down = MakeGroupedBranch({{.a = f[2], .b = f[3], .scale = s.scale}}, {{}},
                                                   s.w2.dim(1), c.dtype, fold);
      const auto frozen = [&](const Tensor& t) {
        return t.defined() ? Weight(Share(t, begin, count), Tensor()) : Weight();
      };
      ExpertsArgs args;
      args.gate_up = {frozen(s.w1), frozen(s.b1), s.adapters ? &gate_up : nullptr};
      args.down = {frozen(s.w2), frozen(s.b2), s.adapters ? &down : nullptr};
      args.activation = s.activation;
      args.placement =
          c.after ? RouterWeightPlacement::kAfterDown : RouterWeightPlacement::kBeforeDown;
      args.numerics = numerics;
      args.accumulator_output = c.ranks > 1;
      args.plan = std::make_shared<const DispatchPlan>(
          MakeDispatchPlan(s.choices, tokens, top_k, count, s.valid, begin));
      const Tensor part =
          c.grouped ? Experts(x, weights, args) : ExpertsReference(x, weights, args);
      total = total.defined() ? Add(total, part) : part;
    }
    const Tensor y = Cast(total, c.dtype);
    Backward(y, s.g);
    Result result{y.Detach(), Grad(x), Grad(weights), {}};
    for (size_t i = 0; s.adapters && i < 4; ++i) {
      std::vector<Tensor> parts;
      for (size_t at = i; at < leaves.size(); at += 4) parts.push_back(Grad(leaves[at]));
      bool whole = true;
      for (const Tensor& part : parts) whole = whole && part.defined();
      result.dfactors.push_back(whole ? Concat(parts, 0) : Tensor());
    }
    EXPECT_EQ(y.dtype(), s.x.dtype());
    EXPECT_EQ(wide, weights.dtype());
    return result;
  }

  std::string At(const SuiteCase& c) const {
    return std::string("suite/") + (c.relu2 ? "relu2/" : "swiglu_limit/") +
           (c.after ? "after/" : "before/") + (c.bias ? "bias/" : "nobias/");
  }
  void ExpectNear(const Tensor& got, const std::string& name) {
    ASSERT_TRUE(got.defined()) << name;
    const std::vector<double> a = got.ToDoubles();
    const std::vector<double> b = fixture_.Get(name, DType::kF64).ToDoubles();
    ASSERT_EQ(a.size(), b.size()) << name;
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_NEAR(a[i], b[i], 2e-5 * std::abs(b[i]) + 2e-6) << name << " element " << i;
    }
  }
  static void ExpectZero(const Tensor& got, const Shape& shape) {
    ASSERT_TRUE(got.defined());
    EXPECT_EQ(got.shape(), shape);
    for (double v : got.ToDoubles()) EXPECT_EQ(v, 0);
  }

  void Storage(const SuiteCase& c);
  void EntryPoint(const SuiteCase& c);
  void ZeroB(const SuiteCase& c);
  void Merged(const SuiteCase& c);
  void Rounded(const SuiteCase& c);
  void SlotOrder(const SuiteCase& c);
  void NoRoutes(const SuiteCase& c);

  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
  Fixture fixture_{*backend_};
};

// Injection leaves the base's bytes where they are, adds exactly the factors, and trains them
// alone.
void RoutingSuite::Storage(const SuiteCase& c) {
  if (c.mxfp8) {
    const auto numerics = nn::ParseExpertNumerics("mxfp8");
    ASSERT_FALSE(numerics.ok());
    EXPECT_THAT(std::string(numerics.status().message()), ::testing::HasSubstr("mxfp8"));
    return;
  }
  nn::MoeConfig config;
  config.hidden = config.expert_width = 4;
  config.experts = c.ranks == 1 ? 3 : 2;
  config.router.top_k = 2;
  config.activation.kind = GatedActivation::Kind::kRelu2;
  config.expert_bias = true;
  config.numerics = c.grouped ? ExpertNumerics::kFast : ExpertNumerics::kAutomodel;
  nn::Moe moe(config, c.dtype);
  uint64_t seed = 3;
  ForEachParameter(moe, [&](const std::string&, Parameter& p) {
    p.Assign(testing::RandomTensor(*backend_, p.shape(), c.dtype, ++seed));
  });
  std::vector<Tensor> before, copies;
  ForEachParameter(moe, [&](const std::string&, Parameter& p) {
    before.push_back(p.value());
    copies.push_back(raw::Clone(p.value()));
  });
  const Tensor x = testing::RandomTensor(*backend_, {3, 4}, c.dtype, 1);
  const ForwardContext context = ForwardContext::ForSequences(Sequences::Single(3));
  const Tensor y = moe.Forward(x, context);
  const auto set =
      InjectLora(moe, *backend_, c.dtype, {.rank = 2, .alpha = 3, .targets = {"experts"}});
  ASSERT_TRUE(set.ok()) << set.status();
  size_t i = 0;
  ForEachParameter(moe, [&](const std::string& path, Parameter& p) {
    EXPECT_EQ(p.value().storage(), before[i].storage()) << path;
    EXPECT_TRUE(SameBits(p.value(), copies[i])) << path;
    EXPECT_FALSE(p.trainable()) << path;
    ++i;
  });
  std::vector<std::string> names;
  set->ForEachFactor(0, [&](const std::string& name, Tensor& master) {
    names.push_back(name);
    // Masters are f32 whatever the model computes in.
    EXPECT_EQ(master.dtype(), DType::kF32);
    EXPECT_TRUE(RequiresGrad(master));
  });
  EXPECT_THAT(names,
              ::testing::ElementsAre("experts.up_proj.lora_A", "experts.up_proj.lora_B",
                                     "experts.down_proj.lora_A", "experts.down_proj.lora_B"));
  EXPECT_TRUE(SameBits(moe.Forward(x, context), y));
}

void RoutingSuite::EntryPoint(const SuiteCase& c) {
  nn::MoeConfig config;
  config.hidden = config.expert_width = 4;
  config.experts = c.ranks == 1 ? 3 : 2;
  nn::Moe moe(config, DType::kF32);
  const auto set = InjectLora(moe, *backend_, DType::kF32, {.targets = {"*experts"}});
  EXPECT_FALSE(set.ok());  // a wildcard doesn't cross
  ASSERT_TRUE(InjectLora(moe, *backend_, DType::kF32, {.targets = {"experts"}}).ok());
  EXPECT_NE(moe.experts().gate_up().adapter(), nullptr);
  EXPECT_NE(moe.experts().down().adapter(), nullptr);
  EXPECT_EQ(moe.router().adapter(), nullptr);
}

void RoutingSuite::ZeroB(const SuiteCase& c) {
  Inputs s = Load(c);
  for (int i : {1, 3}) s.factors[i] = Tensor::Zeros(*backend_, s.factors[i].shape(), DType::kF32);
  const ExpertNumerics numerics =
      c.dtype == DType::kBF16 || !c.grouped ? ExpertNumerics::kAutomodel : ExpertNumerics::kFast;
  const Result with = Run(c, s, numerics);
  s.adapters = false;
  const Result parent = Run(c, s, numerics);
  EXPECT_EQ(with.y.ToDoubles(), parent.y.ToDoubles());
  EXPECT_EQ(with.dx.ToDoubles(), parent.dx.ToDoubles());
  EXPECT_EQ(with.dweights.ToDoubles(), parent.dweights.ToDoubles());
  EXPECT_GT(backend_->SumSquares(with.dfactors[1].view()), 0);  // the branch ran
  if (c.dtype == DType::kBF16) {
    const Tensor want =
        fixture_.Get(At(c) + (c.grouped ? "bf16_base_grouped" : "bf16_base_loop"), DType::kBF16);
    EXPECT_EQ(parent.y.ToDoubles(), want.ToDoubles());
    return;
  }
  ExpectNear(parent.y, At(c) + "base_y");
  ExpectNear(parent.dx, At(c) + "base_dx");
  ExpectNear(parent.dweights, At(c) + "base_dweights");
}

void RoutingSuite::Merged(const SuiteCase& c) {
  Inputs s = Load(c);
  const ExpertNumerics numerics = c.grouped ? ExpertNumerics::kFast : ExpertNumerics::kAutomodel;
  const Tensor base = raw::Clone(s.w1);
  const Result first = Run(c, s, numerics);
  ExpectNear(first.y, At(c) + "y");
  ExpectNear(first.dx, At(c) + "dx");
  ExpectNear(first.dweights, At(c) + "dweights");
  for (size_t i = 0; i < 4; ++i) {
    ExpectNear(first.dfactors[i], At(c) + "d" + kFactorNames[i]);
    EXPECT_GT(backend_->SumSquares(first.dfactors[i].view()), 0) << kFactorNames[i];
    // One step of gradient descent.
    Tensor step = Tensor::Empty(*backend_, s.factors[i].shape(), DType::kF32);
    backend_->Affine(first.dfactors[i].view(), -0.05, 0, step.mutable_view());
    s.factors[i] = Add(s.factors[i], step);
  }
  ExpectNear(Run(c, s, numerics).y, At(c) + "y_after_step");
  EXPECT_TRUE(SameBits(s.w1, base));
}

void RoutingSuite::Rounded(const SuiteCase& c) {
  const std::string name =
      std::string("bf16_") + (c.grouped ? "grouped_" : "loop_") + (c.ranks == 1 ? "1" : "2");
  const Result got = Run(c, Load(c), ExpertNumerics::kAutomodel);
  EXPECT_EQ(got.y.ToDoubles(), fixture_.Get(At(c) + name, DType::kBF16).ToDoubles());
  SuiteCase opposite = c;
  opposite.after = !c.after;
  EXPECT_NE(fixture_.Get(At(c) + name, DType::kBF16).ToDoubles(),
            fixture_.Get(At(opposite) + name, DType::kBF16).ToDoubles());
}

// Choices contribute 3, +1e20 and -1e20 in their order, experts +1e20, -1e20 and 3 in theirs.
void RoutingSuite::SlotOrder(const SuiteCase& c) {
  Inputs s;
  s.x = Tensor::Full(*backend_, {1, 1}, DType::kF32, 1);
  s.g = s.x;
  s.weights = Tensor::Full(*backend_, {1, 3}, DType::kF32, 1);
  s.w1 = Tensor::Full(*backend_, {3, 1, 1}, DType::kF32, 1);
  const std::vector<float> w2 = {1e20f, -1e20f, 3};
  s.w2 = Tensor::FromHost<float>(*backend_, {3, 1, 1}, w2);
  for (Tensor& f : s.factors) f = Tensor::Zeros(*backend_, {3, 1, 1}, DType::kF32);
  s.choices = {2, 0, 1};
  s.activation.kind = GatedActivation::Kind::kRelu2;
  const ExpertNumerics numerics = c.grouped ? ExpertNumerics::kFast : ExpertNumerics::kAutomodel;
  EXPECT_EQ(Run(c, s, numerics).y.item(), 0);
  SuiteCase before = c;
  before.after = false;
  EXPECT_EQ(Run(before, s, numerics).y.item(), 3);
}

void RoutingSuite::NoRoutes(const SuiteCase& c) {
  Inputs s = Load(c);
  if (c.empty == Empty::kZeroTokens) {
    s.x = Tensor::Empty(*backend_, {0, 4}, c.dtype);
    s.g = s.x;
    s.weights = Tensor::Empty(*backend_, {0, 2}, DType::kF32);
    s.choices.clear();
    s.valid.clear();
  } else if (c.empty == Empty::kMasked) {
    s.valid.assign(3, 0);
  } else {
    s.choices = {3, 4, 5, 3, 3, -1};
  }
  for (ExpertNumerics numerics : {ExpertNumerics::kFast, ExpertNumerics::kAutomodel}) {
    const Result got = Run(c, s, numerics);
    ExpectZero(got.y, s.x.shape());
    ExpectZero(got.dx, s.x.shape());
    ExpectZero(got.dweights, s.weights.shape());
    for (size_t i = 0; i < 4; ++i) ExpectZero(got.dfactors[i], s.factors[i].shape());
  }
}

TEST_P(RoutingSuite, Case) {
  const SuiteCase& c = GetParam();
  switch (c.group) {
    case Group::kStorage:
      return Storage(c);
    case Group::kEntryPoint:
      return EntryPoint(c);
    case Group::kZeroB:
      return ZeroB(c);
    case Group::kMerged:
      return Merged(c);
    case Group::kRounded:
      return Rounded(c);
    case Group::kSlotOrder:
      return SlotOrder(c);
    case Group::kEmpty:
      return NoRoutes(c);
  }
}

INSTANTIATE_TEST_SUITE_P(AutoModel, RoutingSuite, ::testing::ValuesIn(AllCases()),
                         [](const auto& one) { return one.param.name(); });

TEST(RoutingSuiteTable, HasAllCases) {
  std::map<Group, int> counts;
  for (const SuiteCase& c : AllCases()) ++counts[c.group];
  const std::map<Group, int> want = {
      {Group::kStorage, 32}, {Group::kEntryPoint, 2}, {Group::kZeroB, 32}, {Group::kMerged, 32},
      {Group::kRounded, 16}, {Group::kSlotOrder, 2},  {Group::kEmpty, 48}};
  EXPECT_EQ(counts, want);
  EXPECT_EQ(AllCases().size(), 164u);
}

// Beyond the suite: every activation, K = 1, 3 and 6, r = 5, one expert with every token, choices
// out of range, in float64 and in the rounded bfloat16.
class WiderExperts : public ::testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
  Fixture fixture_{*backend_};
};

TEST_P(WiderExperts, AgreeWithMergedWeightsAndWithRoundedBranches) {
  const std::string kind = std::get<0>(GetParam());
  const bool after = std::get<1>(GetParam());
  const std::string at = "wider/" + kind + (after ? "/after/" : "/before/");
  GatedActivation activation;
  if (kind == "relu2") activation.kind = GatedActivation::Kind::kRelu2;
  if (kind == "geglu") activation.kind = GatedActivation::Kind::kGeluTanh;
  if (kind == "swiglu_limit") activation.limit = 0.6;
  if (kind == "swigluoai" || kind == "quick_geglu") {
    activation = {.slope = 1.702, .offset = 1, .limit = 0.6, .interleaved = kind == "quick_geglu"};
  }
  for (DType dtype : {DType::kF64, DType::kBF16}) {
    const bool bf16 = dtype == DType::kBF16;
    const auto get = [&](const char* name) { return fixture_.Get(at + name, dtype); };
    Tensor x = get("x"), weights = fixture_.Get(at + "weights", AccumulatorOf(dtype));
    std::vector<Tensor> factors;
    for (const char* name : kFactorNames) {
      factors.push_back(fixture_.Get(at + name, AccumulatorOf(dtype)));
    }
    for (Tensor* leaf : {&x, &weights, &factors[0], &factors[1], &factors[2], &factors[3]}) {
      SetRequiresGrad(*leaf, true);
    }
    const Tensor w1 = get("W1"), w2 = get("W2");
    const GroupedBranch gate_up = MakeGroupedBranch(
        {{.a = factors[0], .b = factors[1], .scale = 0.4}}, {{}}, w1.dim(1), dtype, !bf16);
    const GroupedBranch down = MakeGroupedBranch({{.a = factors[2], .b = factors[3], .scale = 0.4}},
                                                 {{}}, w2.dim(1), dtype, !bf16);
    ExpertsArgs args;
    args.gate_up = {Weight(w1, Tensor()), Weight(get("b1"), Tensor()), &gate_up};
    args.down = {Weight(w2, Tensor()), Weight(get("b2"), Tensor()), &down};
    args.activation = activation;
    args.placement = after ? RouterWeightPlacement::kAfterDown : RouterWeightPlacement::kBeforeDown;
    args.numerics = bf16 ? ExpertNumerics::kAutomodel : ExpertNumerics::kFast;
    std::vector<uint8_t> valid;
    for (int32_t v : fixture_.Integers(at + "mask")) valid.push_back(v != 0);
    args.plan = std::make_shared<const DispatchPlan>(MakeDispatchPlan(
        fixture_.Integers(at + "indices"), x.dim(0), weights.dim(1), w1.dim(0), valid));
    const Tensor y = Experts(x, weights, args);
    if (bf16) {
      EXPECT_EQ(y.ToDoubles(), get("bf16_grouped_1").ToDoubles());
      continue;
    }
    Backward(y, get("g"));
    const auto near = [&](const Tensor& got, const std::string& name) {
      EXPECT_TRUE(Near(got, fixture_.Get(at + name, DType::kF64), 2e-7)) << name;
    };
    near(y, "y");
    near(Grad(x), "dx");
    near(Grad(weights), "dweights");
    for (size_t i = 0; i < 4; ++i) near(Grad(factors[i]), std::string("d") + kFactorNames[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Activations, WiderExperts,
                         ::testing::Combine(::testing::Values("swiglu", "swiglu_limit", "swigluoai",
                                                              "quick_geglu", "geglu", "relu2"),
                                            ::testing::Bool()),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param)) +
                                  (std::get<1>(one.param) ? "_after" : "_before");
                         });

}  // namespace
}  // namespace lorica
