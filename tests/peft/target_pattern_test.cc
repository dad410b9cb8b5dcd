#include "lorica/peft/target_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "lorica/io/file_system.h"
#include "lorica/nn/decoder.h"
#include "lorica/tensor/cpu_backend.h"
#include "toy_model.h"

namespace lorica {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TargetPatternTest : public ::testing::Test {
 protected:
  int Count(const std::vector<std::string>& targets,
            const std::vector<std::string>& excludes = {}) {
    auto selection = SelectTargets(model_, targets, excludes);
    return selection.ok() ? static_cast<int>(selection->selected.size()) : -1;
  }
  std::string ErrorOf(const std::vector<std::string>& targets,
                      const std::vector<std::string>& excludes = {}) {
    return std::string(SelectTargets(model_, targets, excludes).status().message());
  }

  ThreadPool pool_{1};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
  testing::ToyModel model_{*backend_, DType::kF32};
};

TEST_F(TargetPatternTest, CountsPerPattern) {
  const struct {
    std::vector<std::string> targets;
    int count;
  } rows[] = {
      {{}, 12 * 5},  // q, up, down, shared up; kv_a_proj_with_mqa
      {{"*_proj"}, 12 * 4},
      {{"q_proj"}, 12},
      {{"self_attn.q_proj"}, 12},
      {{"layers.1.self_attn.q_proj"}, 1},
      {{"layers.1.*"}, 6},  // never layers 10 and 11; neither gate nor experts
      {{"*.layers.1.*"}, -1},
      {{"*.mlp.up_proj"}, 12},
      {{"*.mlp.gate"}, 12},
      {{"gate"}, 12},
      {{"*.experts.*"}, 12},
      {{"*.experts.up_proj"}, 12},
      {{"*.shared_experts.up_proj"}, 12},
      {{"*.experts"}, 12},  // all projections of the stack; shared_experts isn't meant
      {{"lm_head"}, 1},
      {{"embed_tokens"}, 1},
      {{"*"}, 12 * 6},
      {{"all-linear"}, 12 * 6},
      {{"all"}, 12 * 7},
      {{"*proj"}, 12 * 4},
      {{"q_proj", "q_proj", "*.q_proj"}, 12},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(Count(row.targets), row.count) << (row.targets.empty() ? "" : row.targets[0]);
  }
}

TEST_F(TargetPatternTest, ExcludesWin) {
  EXPECT_EQ(Count({"*_proj"}, {"layers.3.*"}), 11 * 4);
  EXPECT_EQ(Count({"*_proj"}, {"up_proj", "down_proj"}), 12);
  EXPECT_EQ(Count({"q_proj"}, {"q_proj"}), -1);
}

TEST_F(TargetPatternTest, DotsAreDots) {
  EXPECT_FALSE(MatchesTarget("layers.1.*", "layersX1Xq_proj", AdapterHost::Kind::kLinear));
  EXPECT_TRUE(MatchesTarget("*.q_proj", "a.b.q_proj", AdapterHost::Kind::kLinear));
  EXPECT_FALSE(MatchesTarget("q_proj", "a.fused_q_proj", AdapterHost::Kind::kLinear));
  EXPECT_FALSE(MatchesTarget("*_proj", "a.proj_drop", AdapterHost::Kind::kLinear));
  EXPECT_TRUE(MatchesTarget("*a*b*", "xaxbx", AdapterHost::Kind::kLinear));
  EXPECT_FALSE(MatchesTarget("*a*b*c", "xaxbx", AdapterHost::Kind::kLinear));
}

TEST_F(TargetPatternTest, NoMatchNamesTheNearest) {
  EXPECT_THAT(ErrorOf({"q_projj"}), HasSubstr("nearest path is \"layers.0.self_attn.q_proj\""));
  EXPECT_THAT(ErrorOf({"*.layers.3.mlp.upp_proj"}),
              HasSubstr("nearest path is \"layers.3.mlp.up_proj\""));
  EXPECT_THAT(ErrorOf({"*.expert"}), HasSubstr("nearest path is \"layers.0.mlp.experts\""));
  EXPECT_THAT(ErrorOf({"layers.1"}), HasSubstr("nearest path is \"layers.1."));
  EXPECT_THAT(
      ErrorOf({"*.expert*.up_proj"}),
      HasSubstr("\"layers.0.mlp.experts.up_proj\", which no wildcard reaches: name experts"));
  EXPECT_THAT(ErrorOf({"lm_h*"}),
              HasSubstr("\"lm_head\", which no wildcard reaches: name lm_head"));
  EXPECT_THAT(ErrorOf({std::string(100000, '*')}), Not(HasSubstr("matches no")));
  EXPECT_THAT(ErrorOf({std::string(100000, 'x')}), HasSubstr("nearest path"));
  EXPECT_THAT(ErrorOf({"q_proj", "zzzzzz"}), HasSubstr("target pattern \"zzzzzz\""));
  EXPECT_THAT(ErrorOf({"q_proj"}, {"nope"}), HasSubstr("exclude pattern \"nope\""));
  EXPECT_THAT(ErrorOf({"q_proj"}, {"*.q_proj"}), HasSubstr("leave nothing to train"));
}

TEST_F(TargetPatternTest, ReportsMatchesPerPattern) {
  const auto selection = SelectTargets(model_, {}, {});
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->matches[0].pattern, "*_proj");
  EXPECT_EQ(selection->matches[0].paths.size(), 48u);
  EXPECT_EQ(selection->matches[1].pattern, "kv_a_proj_with_mqa");
  EXPECT_EQ(selection->matches[1].paths.size(), 12u);
  EXPECT_EQ(selection->matches[1].paths[1], "layers.1.self_attn.kv_a_proj_with_mqa");
}

// A model from its configuration alone: no weights are needed to select among modules.
std::unique_ptr<CausalLm> Declared(const std::string& config_path) {
  const auto config = ReadModelConfigFile(config_path);
  if (!config.ok()) throw Error(std::string(config.status().message()));
  return std::make_unique<CausalLm>(*config, DType::kF32);
}

TEST(IndexerTargetTest, ModulesWithoutGradientAreLeftOutAndNamed) {
  const auto model =
      Declared(LORICA_SOURCE_ROOT "/tests/golden/models/glm_moe_dsa/model/config.json");
  const auto selection = SelectTargets(*model, {"*_proj"}, {});
  ASSERT_TRUE(selection.ok()) << selection.status();
  EXPECT_THAT(selection->left_out,
              ::testing::ElementsAre("model.layers.0.self_attn.indexer.weights_proj",
                                     "model.layers.2.self_attn.indexer.weights_proj"));
  for (const TargetCandidate& module : selection->selected) {
    EXPECT_THAT(module.path, ::testing::Not(HasSubstr("indexer")));
  }
  EXPECT_EQ(SelectTargets(*model, {}, {})->left_out.size(), 2u);
  EXPECT_EQ(SelectTargets(*model, {"all-linear"}, {})->left_out.size(), 6u);
  for (const char* pattern : {"weights_proj", "*.indexer.*", "indexer.wk"}) {
    EXPECT_THAT(std::string(SelectTargets(*model, {"*_proj", pattern}, {}).status().message()),
                HasSubstr("means only modules that no gradient reaches, such as \"model.layers.0"))
        << pattern;
  }
}

// The published model, of which 78 of the linears that `*_proj` names belong to indexers.
TEST(IndexerTargetTest, PublishedModelHasItsModulesAndParameters) {
  const char* folder = std::getenv("LORICA_SHARED_DIR");
  const std::string path = JoinPath(folder != nullptr ? folder : LORICA_SOURCE_ROOT "/../shared",
                                    "data/configs/glm-5.2.json");
  if (!PosixFiles().Stat(path).ok()) GTEST_SKIP() << "no shared folder";
  const auto model = Declared(path);
  const auto selection = SelectTargets(*model, {"*_proj"}, {});
  ASSERT_TRUE(selection.ok()) << selection.status();
  int64_t parameters = 0;
  for (const TargetCandidate& module : selection->selected) {
    const Shape shape = module.host->weight_shape();
    parameters += 16 * (shape[0] + shape[1]);
  }
  EXPECT_EQ(selection->selected.size(), 546u);
  EXPECT_EQ(selection->left_out.size(), 78u);
  EXPECT_EQ(parameters, 129'908'736);
}

}  // namespace
}  // namespace lorica
