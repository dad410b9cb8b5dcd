#include "lorica/train/training_checkpoint.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lorica/autograd/autograd.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/train/exit_status.h"
#include "train/temp_folder.h"

namespace lorica {
namespace {

using ::testing::HasSubstr;

class TrainingCheckpointTest : public ::testing::Test {
 protected:
  NamedParameter Leaf(const std::string& path, const Shape& shape, double value,
                      DType dtype = DType::kF32) {
    Tensor master = Tensor::Full(*backend_, shape, dtype, value);
    SetRequiresGrad(master, true);
    return {path, master, ParameterRole::kLoraA};
  }
  std::unique_ptr<Optimizer> MakeOne(double value, OptimizerOptions options = {},
                                     std::vector<std::string> paths = {"x.lora_A", "y.lora_A"},
                                     Shape shape = {2, 3}, DType dtype = DType::kF32) {
    ParameterGroup group;
    for (const std::string& path : paths) group.push_back(Leaf(path, shape, value, dtype));
    return MakeOptimizer(options, std::move(group));
  }
  static void Step(Optimizer& optimizer) {
    for (const NamedParameter& parameter : optimizer.parameters()) {
      Tensor& grad = GradAccumulator(parameter.master);
      grad.backend().Fill(grad.mutable_view(), 0.5);
    }
    optimizer.Step({});
  }
  static std::vector<std::vector<double>> All(Optimizer& optimizer) {
    std::vector<std::vector<double>> all;
    for (const NamedParameter& p : optimizer.parameters()) all.push_back(p.master.ToDoubles());
    optimizer.VisitState([&](const NamedParameter&, absl::string_view, Tensor& state) {
      all.push_back(state.ToDoubles());
    });
    return all;
  }
  TrainingState State(Optimizer& optimizer) {
    TrainingState state;
    state.step = state.clock = optimizer.clock();
    state.position = 11;
    state.run.options = {{"lr", "0.1"}, {"seed", "3"}};
    state.run.data = {{"a.jsonl", 100, 0xDEADBEEF}};
    state.run.tokens = "t";
    state.run.chat_template = "c";
    state.run.base_model = "b";
    state.run_id = "id";
    state.evaluations = {0.25, 4, 1};
    state.loads = {{"model.layers.1.mlp", {3, 0, 5}}, {"model.layers.2.mlp", {4, 4, 0}}};
    return state;
  }
  // Saves an optimizer after two steps.
  std::string Save(const ParameterCopies& best = {}) {
    const auto optimizer = MakeOne(1);
    Step(*optimizer);
    Step(*optimizer);
    saved_ = All(*optimizer);
    const absl::StatusOr<std::string> path = SaveTraining(PosixFiles(), folder_ / "checkpoints",
                                                          State(*optimizer), *optimizer, {}, best);
    EXPECT_TRUE(path.ok()) << path.status();
    return *path;
  }
  absl::Status Load(const std::string& path, Optimizer& optimizer, bool fresh = false) {
    const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open(path);
    if (!reader.ok()) return reader.status();
    const absl::StatusOr<TrainingState> state = ReadTrainingState(*reader);
    if (!state.ok()) return state.status();
    return LoadTraining(*reader, *state, fresh, optimizer, {}, &best_);
  }

  ThreadPool pool_{1};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(pool_);
  TempFolder folder_;
  std::vector<std::vector<double>> saved_;
  ParameterCopies best_;
};

TEST_F(TrainingCheckpointTest, EverythingComesBack) {
  const std::string path = Save();
  EXPECT_THAT(path, HasSubstr("step-00000002"));
  const auto optimizer = MakeOne(-7);
  ASSERT_TRUE(Load(path, *optimizer).ok());
  EXPECT_EQ(All(*optimizer), saved_);
  EXPECT_EQ(optimizer->clock(), 2);
  EXPECT_TRUE(best_.empty());
  const absl::StatusOr<TrainingState> state = ReadTrainingState(*CheckpointReader::Open(path));
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->position, 11);
  EXPECT_EQ(state->run_id, "id");
  EXPECT_EQ(state->loads, State(*optimizer).loads);
  EXPECT_EQ(state->evaluations.best_loss, 0.25);
  EXPECT_EQ(state->evaluations.best_step, 4);
  EXPECT_EQ(state->evaluations.without_improvement, 1);
  EXPECT_TRUE(CheckSameRun(path, state->run, State(*optimizer).run).ok());
}

TEST_F(TrainingCheckpointTest, TheBestParametersComeBack) {
  const auto other = MakeOne(9);
  const std::string path = Save(CopyParameters(other->parameters()));
  const auto optimizer = MakeOne(0);
  ASSERT_TRUE(Load(path, *optimizer).ok());
  ASSERT_EQ(best_.size(), 2u);
  EXPECT_EQ(best_[1].ToDoubles(), std::vector<double>(6, 9.0));
}

TEST_F(TrainingCheckpointTest, BuffersComeBackWithTheirBest) {
  Tensor bias = Tensor::FromHost<float>(*backend_, {3}, std::vector<float>{1, 2, 3});
  const ParameterGroup buffers = {{"gate.e_score_correction_bias", bias, ParameterRole::kVector}};
  const auto optimizer = MakeOne(1);
  Step(*optimizer);
  ParameterCopies best = CopyParameters(optimizer->parameters());
  best.push_back(Tensor::Full(*backend_, {3}, DType::kF32, 7));
  const absl::StatusOr<std::string> path = SaveTraining(
      PosixFiles(), folder_ / "checkpoints", State(*optimizer), *optimizer, buffers, best);
  ASSERT_TRUE(path.ok()) << path.status();
  bias.mutable_data<float>()[1] = 0;
  const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open(*path);
  const absl::StatusOr<TrainingState> state = ReadTrainingState(*reader);
  ASSERT_TRUE(LoadTraining(*reader, *state, false, *optimizer, buffers, &best_).ok());
  EXPECT_EQ(bias.ToDoubles(), (std::vector<double>{1, 2, 3}));
  ASSERT_EQ(best_.size(), 3u);
  EXPECT_EQ(best_[2].ToDoubles(), std::vector<double>(3, 7.0));
  // A run that doesn't move biases is another one.
  EXPECT_FALSE(LoadTraining(*reader, *state, false, *optimizer, {}, &best_).ok());
}

TEST_F(TrainingCheckpointTest, AFreshOptimizerKeepsItsZeros) {
  const std::string path = Save();
  const auto optimizer = MakeOne(-7);
  ASSERT_TRUE(Load(path, *optimizer, /*fresh=*/true).ok());
  EXPECT_EQ(optimizer->clock(), 0);
  EXPECT_EQ(All(*optimizer)[0], saved_[0]);
  EXPECT_EQ(All(*optimizer)[2], std::vector<double>(6, 0.0));
}

TEST_F(TrainingCheckpointTest, LoadingIsStrictBothWays) {
  const std::string path = Save();
  const auto error = [&](std::unique_ptr<Optimizer> optimizer) {
    const absl::Status status = Load(path, *optimizer);
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  };
  EXPECT_THAT(error(MakeOne(0, {}, {"x.lora_A"})), HasSubstr("y.lora_A"));
  EXPECT_THAT(error(MakeOne(0, {}, {"x.lora_A", "y.lora_A", "z.lora_A"})), HasSubstr("z.lora_A"));
  EXPECT_THAT(error(MakeOne(0, {}, {"x.lora_A", "y.lora_A"}, {3, 2})), HasSubstr("[2, 3]"));
  EXPECT_THAT(error(MakeOne(0, {}, {"x.lora_A", "y.lora_A"}, {2, 3}, DType::kF64)),
              HasSubstr("F64"));
}

TEST_F(TrainingCheckpointTest, StateThatWasLostIsAnError) {
  const auto optimizer = MakeOne(1);
  TrainingState state = State(*optimizer);
  state.step = state.clock = 3;  // claims steps that never were
  const absl::StatusOr<std::string> path =
      SaveTraining(PosixFiles(), folder_ / "checkpoints", state, *optimizer, {}, {});
  ASSERT_TRUE(path.ok());
  const absl::Status status = Load(*path, *optimizer);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("found only zeros"));
  EXPECT_TRUE(Load(*path, *optimizer, true).ok());
}

TEST_F(TrainingCheckpointTest, DifferencesAreNamedOneByOne) {
  const auto optimizer = MakeOne(1);
  const RunIdentity saved = State(*optimizer).run;
  RunIdentity now = saved;
  now.options = {{"lr", "0.2"}, {"seed", "4"}};
  absl::Status status = CheckSameRun("there", saved, now);
  EXPECT_EQ(ExitStatus(status), kExitUsage);
  EXPECT_EQ(status.message(),
            "there: the checkpoint can't be continued by a run that differs in lr (0.1 there, 0.2 "
            "here), seed (3 there, 4 here)");
  now = saved;
  now.data[0].crc32c = 1;
  now.data.push_back({"more.jsonl", 5, 6});
  now.base_model = "other";
  now.chat_template = "d";
  status = CheckSameRun("there", saved, now);
  EXPECT_EQ(ExitStatus(status), kExitInput);
  for (const char* part : {"the model's content (b there, other here)", "the chat template",
                           "data file 1 (\"a.jsonl\" of 100 bytes, crc32c deadbeef there",
                           "data file 2 (absent there"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
  now = saved;
  now.data[0].name = "renamed.jsonl";
  EXPECT_TRUE(CheckSameRun("there", saved, now).ok());
  now.tokens = "u";
  EXPECT_THAT(std::string(CheckSameRun("there", saved, now).message()),
              HasSubstr("the tokens that the data becomes"));
}

TEST(ExitStatus, FollowsTheTable) {
  EXPECT_EQ(ExitStatus(absl::OkStatus()), 0);
  EXPECT_EQ(ExitStatus(absl::InvalidArgumentError("")), 2);
  EXPECT_EQ(ExitStatus(absl::NotFoundError("")), 3);
  EXPECT_EQ(ExitStatus(absl::DataLossError("")), 3);
  EXPECT_EQ(ExitStatus(absl::FailedPreconditionError("")), 3);
  EXPECT_EQ(ExitStatus(absl::UnimplementedError("")), 3);
  EXPECT_EQ(ExitStatus(absl::CancelledError("")), 130);
  EXPECT_EQ(ExitStatus(absl::AbortedError("")), 1);
  EXPECT_EQ(ExitStatus(absl::ResourceExhaustedError("")), 1);
  EXPECT_EQ(ExitStatus(absl::InternalError("")), 1);
  // Whatever a reader or writer calls its trouble.
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "m");
    const bool cancelled = absl::IsCancelled(status);
    EXPECT_EQ(ExitStatus(AsInputError(status)), cancelled ? 130 : 3);
    EXPECT_EQ(ExitStatus(AsRunError(status)), cancelled ? 130 : 1);
    EXPECT_EQ(ExitStatus(AsOptionError(status)), cancelled                       ? 130
                                                 : absl::IsUnimplemented(status) ? 3
                                                                                 : 2);
    EXPECT_EQ(AsInputError(status).message(), "m");
  }
}

}  // namespace
}  // namespace lorica
