#include "lorica/nn/module.h"

#include "lorica/autograd/autograd.h"
#include "lorica/nn/grouped_linear.h"
#include "nn/nn_fixture.h"

namespace lorica {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

std::vector<std::string> ParameterPaths(Module& root) {
  std::vector<std::string> paths;
  ForEachParameter(root, [&](const std::string& path, Parameter&) { paths.push_back(path); });
  return paths;
}

std::vector<std::string> HostPaths(Module& root) {
  std::vector<std::string> paths;
  ForEachModule(root, [&](const std::string& path, Module& module) {
    if (dynamic_cast<AdapterHost*>(&module) != nullptr) paths.push_back(path);
  });
  return paths;
}

template <typename Function>
std::string ErrorOf(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ModuleTest, PathsAreThoseOfHuggingFace) {
  ModelConfig config = TinyConfig();
  config.layers = 1;
  CausalLm model(config, DType::kF32);
  EXPECT_THAT(ParameterPaths(model),
              ElementsAre("model.embed_tokens.weight",                       //
                          "model.layers.0.self_attn.q_proj.weight",          //
                          "model.layers.0.self_attn.q_proj.bias",            //
                          "model.layers.0.self_attn.k_proj.weight",          //
                          "model.layers.0.self_attn.k_proj.bias",            //
                          "model.layers.0.self_attn.v_proj.weight",          //
                          "model.layers.0.self_attn.v_proj.bias",            //
                          "model.layers.0.self_attn.o_proj.weight",          //
                          "model.layers.0.self_attn.o_proj.bias",            //
                          "model.layers.0.mlp.gate_proj.weight",             //
                          "model.layers.0.mlp.gate_proj.bias",               //
                          "model.layers.0.mlp.up_proj.weight",               //
                          "model.layers.0.mlp.up_proj.bias",                 //
                          "model.layers.0.mlp.down_proj.weight",             //
                          "model.layers.0.mlp.down_proj.bias",               //
                          "model.layers.0.input_layernorm.weight",           //
                          "model.layers.0.post_attention_layernorm.weight",  //
                          "model.norm.weight", "lm_head.weight"));
  EXPECT_THAT(HostPaths(model),
              ElementsAre("model.embed_tokens", "model.layers.0.self_attn.q_proj",
                          "model.layers.0.self_attn.k_proj", "model.layers.0.self_attn.v_proj",
                          "model.layers.0.self_attn.o_proj", "model.layers.0.mlp.gate_proj",
                          "model.layers.0.mlp.up_proj", "model.layers.0.mlp.down_proj", "lm_head"));
}

TEST(ModuleTest, TiedHeadIsAModuleThatListsNoParameter) {
  CausalLm model(TinyConfig(/*tied=*/true), DType::kF32);
  EXPECT_THAT(ParameterPaths(model), Not(Contains("lm_head.weight")));
  EXPECT_THAT(HostPaths(model), Contains("lm_head"));
  EXPECT_EQ(&model.lm_head().weight(), &model.model().embed_tokens().weight());
  EXPECT_EQ(model.lm_head().weight_shape(), Shape({53, 28}));
}

TEST(ModuleTest, SizeIsKnownWithoutValues) {
  for (bool tied : {false, true}) {
    const ModelConfig config = TinyConfig(tied);
    CausalLm model(config, DType::kBF16);
    EXPECT_EQ(CountParameters(model), CountParameters(config));
    ForEachParameter(model, [](const std::string& path, Parameter& parameter) {
      EXPECT_TRUE(parameter.defined()) << path;
      EXPECT_FALSE(parameter.has_values()) << path;
    });
  }
}

TEST(ModuleTest, FindModuleTakesAPath) {
  CausalLm model(TinyConfig(), DType::kF32);
  EXPECT_EQ(FindModule(model, "lm_head"), &model.lm_head());
  EXPECT_EQ(FindModule(model, ""), &model);
  EXPECT_EQ(FindModule(model, "model.layers.7"), nullptr);
}

TEST(ModuleTest, StackedWeightHasItsModulesPath) {
  struct Experts : Module {
    nn::GroupedLinear down = nn::GroupedLinear::Declare(3, 4, 5, DType::kF32);
    void Visit(ModuleVisitor& visitor) override { visitor.OnChild("experts.down_proj", down); }
  } experts;
  EXPECT_THAT(ParameterPaths(experts), ElementsAre("experts.down_proj"));
}

TEST(ModuleTest, ImpossibleConfigurationThrows) {
  ModelConfig config = TinyConfig();
  config.kv_heads = 4;
  EXPECT_THAT(ErrorOf([&] { CausalLm model(config, DType::kF32); }),
              HasSubstr("multiple of num_key_value_heads 4"));
}

using ParameterTest = NnTest;

TEST_F(ParameterTest, DeclaredHasNoValues) {
  Parameter parameter = Parameter::Declare({2, 3}, DType::kF32);
  EXPECT_EQ(parameter.numel(), 6);
  EXPECT_THAT(ErrorOf([&] { parameter.value(); }), HasSubstr("no values yet"));
  EXPECT_THAT(ErrorOf([&] { parameter.MakeTrainable(); }), HasSubstr("no values to train"));
  parameter.Assign(Tensor::Full(backend_, {2, 3}, DType::kF32, 4));
  EXPECT_EQ(parameter.value().ToDoubles()[5], 4);
}

TEST_F(ParameterTest, AssignChecksShapeAndType) {
  Parameter parameter = Parameter::Declare({2, 3}, DType::kF32);
  EXPECT_THAT(ErrorOf([&] {
                parameter.Assign(Tensor::Zeros(backend_, {3, 2}, DType::kF32));
              }),
              HasSubstr("expected f32 values of shape [2, 3], found f32 [3, 2]"));
  EXPECT_THAT(ErrorOf([&] {
                parameter.Assign(Tensor::Zeros(backend_, {2, 3}, DType::kF64));
              }),
              HasSubstr("found f64 [2, 3]"));
  Parameter absent;
  EXPECT_THAT(ErrorOf([&] { absent.Assign(Tensor::Zeros(backend_, {1}, DType::kF32)); }),
              HasSubstr("absent"));
}

TEST_F(ParameterTest, TrainableBf16HasAnF32MasterAndFollowsIt) {
  Parameter parameter(Tensor::Full(backend_, {4}, DType::kBF16, 1));
  parameter.MakeTrainable();
  EXPECT_EQ(parameter.master().dtype(), DType::kF32);
  EXPECT_TRUE(RequiresGrad(parameter.master()));
  EXPECT_EQ(parameter.value().dtype(), DType::kBF16);
  backend_.Fill(parameter.mutable_master().mutable_view(), 1.00390625);  // between two bf16
  EXPECT_EQ(parameter.value().ToDoubles()[0], 1.0);                      // ties to even
  backend_.Fill(parameter.mutable_master().mutable_view(), 1.0625);
  EXPECT_EQ(parameter.value().ToDoubles()[3], 1.0625);
  parameter.Freeze();
  EXPECT_FALSE(parameter.trainable());
  EXPECT_EQ(parameter.value().ToDoubles()[0], 1.0625);
}

TEST_F(ParameterTest, RefreshLeavesOldHandlesAlone) {
  Parameter parameter(Tensor::Full(backend_, {4}, DType::kBF16, 1));
  parameter.MakeTrainable();
  const Tensor before = parameter.value();
  backend_.Fill(parameter.mutable_master().mutable_view(), 2);
  EXPECT_EQ(parameter.value().ToDoubles()[0], 2);
  EXPECT_EQ(before.ToDoubles()[0], 1);
}

TEST_F(ParameterTest, F32MasterIsTheValue) {
  Parameter parameter(Tensor::Full(backend_, {4}, DType::kF32, 1));
  const uint64_t storage = parameter.value().storage()->id();
  parameter.MakeTrainable();
  EXPECT_EQ(parameter.master().storage()->id(), storage);  // no copy for a sole owner
  EXPECT_EQ(parameter.value().storage(), parameter.master().storage());
  EXPECT_FALSE(RequiresGrad(parameter.value()));
  backend_.Fill(parameter.mutable_master().mutable_view(), 3);
  EXPECT_EQ(parameter.value().ToDoubles()[0], 3);
}

TEST_F(ParameterTest, BorrowedOrSharedValuesAreCopiedForTraining) {
  const auto bytes = std::make_shared<std::vector<float>>(4, 1.0f);
  Tensor borrowed(Storage::Borrow(backend_, bytes->data(), 16, bytes), {4}, {1}, 0, DType::kF32);
  Parameter parameter(std::move(borrowed));  // which is then the sole owner
  parameter.MakeTrainable();
  backend_.Fill(parameter.mutable_master().mutable_view(), 3);
  EXPECT_EQ((*bytes)[0], 1.0f);
  const Tensor shared = Tensor::Full(backend_, {4}, DType::kF32, 1);
  Parameter other(shared);
  other.MakeTrainable();
  backend_.Fill(other.mutable_master().mutable_view(), 3);
  EXPECT_EQ(shared.ToDoubles()[0], 1);
}

TEST_F(ParameterTest, AssignToATrainableOneKeepsTheLeaf) {
  Parameter parameter(Tensor::Full(backend_, {4}, DType::kBF16, 1));
  parameter.MakeTrainable();
  parameter.Assign(Tensor::Full(backend_, {4}, DType::kBF16, 2));
  EXPECT_TRUE(RequiresGrad(parameter.master()));
  EXPECT_EQ(parameter.master().ToDoubles()[0], 2);
  EXPECT_EQ(parameter.value().ToDoubles()[0], 2);
}

TEST_F(ParameterTest, WholeModelsTrainAndFreeze) {
  auto model = TinyModel(backend_, DType::kBF16, TinyConfig(/*tied=*/true));
  MakeTrainable(*model);
  ForEachParameter(*model, [](const std::string& path, Parameter& parameter) {
    EXPECT_TRUE(parameter.trainable()) << path;
  });
  Freeze(*model);
  ForEachParameter(*model, [](const std::string& path, Parameter& parameter) {
    EXPECT_FALSE(parameter.trainable()) << path;
  });
}

}  // namespace
}  // namespace lorica
