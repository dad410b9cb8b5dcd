// lorica sft and what follows it: results, resuming, interrupts, kills, a full disk.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"
#include "cli/command_test.h"
#include "gmock/gmock.h"

namespace lorica {
namespace {

using testing::HasSubstr;
using Arguments = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

class TrainingTest : public CommandTest {
 protected:
  // Thirty steps with dropout and shuffling, a checkpoint after every third. What `more` gives
  // replaces that of the same name.
  Arguments Sft(const std::string& output, const Arguments& more = {}) const {
    Arguments arguments = {
        "sft",  "--model",      "model", "--data",         "data.jsonl", "--output",
        output, "--seed",       "3",     "--epochs",       "5",          "--batch-size",
        "4",    "--lora-rank",  "4",     "--lora-dropout", "0.1",        "--lr",
        "1e-3", "--save-every", "3",     "--threads",      "1"};
    for (const std::string& argument : more) {
      const auto given = std::find(arguments.begin(), arguments.end(), argument);
      if (argument.rfind("--", 0) == 0 && given != arguments.end()) {
        arguments.erase(given, given + 2);
      }
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  // More steps than anybody waits for.
  Arguments Long(const std::string& output) const {
    Arguments arguments = Sft(output);
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i] == "--epochs") arguments[i + 1] = "100000";
    }
    return arguments;
  }

  std::string Adapter(const std::string& run) const {
    return ReadFileOrDie(Path(run + "/adapter/adapter_model.safetensors"));
  }
  // Parameters and optimizer of the last checkpoint.
  std::string Shard(const std::string& run) const {
    return ReadFileOrDie(Path(run + "/checkpoints/step-00000030/shard-00000-of-00001.safetensors"));
  }
  // What two equal runs have in common of metrics.jsonl.
  std::vector<nlohmann::json> Metrics(const std::string& run) const {
    std::ifstream file(Path(run + "/metrics.jsonl"));
    std::vector<nlohmann::json> rows;
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json row = nlohmann::json::parse(line);
      nlohmann::json kept;
      for (const char* key : {"step", "epoch", "loss", "lr", "grad_norm", "tokens",
                              "trained_tokens", "eval_loss", "eval_tokens"}) {
        if (row.contains(key)) kept[key] = row[key];
      }
      rows.push_back(std::move(kept));
    }
    return rows;
  }
  void ExpectEqualRuns(const std::string& a, const std::string& b) const {
    EXPECT_EQ(Adapter(a), Adapter(b));
    EXPECT_EQ(Shard(a), Shard(b));
    EXPECT_EQ(Metrics(a), Metrics(b));
  }
  // A run into `output` that was ended by `signal` behind its first step. One that was over before
  // the signal came is removed and begun again.
  RunResult RunUntilSignal(const std::string& output, int signal) const {
    RunResult result;
    for (int attempt = 0; attempt < 50; ++attempt) {
      std::filesystem::remove_all(Path(output));
      bool sent = false;  // a second one would end it in another way
      result = Run(Sft(output), {.meanwhile = [&](pid_t child) {
                     if (sent || !HasStep(output)) return;
                     kill(child, signal);
                     sent = true;
                   }});
      if (result.status != 0) return result;
    }
    ADD_FAILURE() << "every run was over before a signal reached it";
    return result;
  }
  bool HasStep(const std::string& run) const {
    const auto metrics = Path(run + "/metrics.jsonl");
    return std::filesystem::exists(metrics) && std::filesystem::file_size(metrics) > 0;
  }
};

TEST_F(TrainingTest, WritesEverythingThatItPromises) {
  const RunResult result = Run(Sft("out", {"--eval-data", "data.jsonl", "--eval-every", "10",
                                           "--sample", "hello", "--sample-tokens", "4"}));
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* name :
       {"adapter/adapter_config.json", "adapter/adapter_model.safetensors", "config.toml",
        "metrics.jsonl", "report.html", "checkpoints/step-00000030/MANIFEST.json"}) {
    EXPECT_TRUE(std::filesystem::exists(Path(std::string("out/") + name))) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(Path("out/.lorica.lock")));
  EXPECT_EQ(Metrics("out").size(), 33u);  // thirty steps, three evaluations
  EXPECT_EQ(Metrics("out")[0]["lr"], 0);  // warm-up starts at 0
  EXPECT_THAT(result.out, HasSubstr("out/adapter"));
  // What it would do stands in front.
  for (const char* word : {"model", "adapters", "parameters", "memory", "records", "steps"}) {
    EXPECT_THAT(result.err, HasSubstr(word));
  }
}

TEST_F(TrainingTest, JsonIsTheResultAlone) {
  const nlohmann::json result = Json(Sft("out"));
  EXPECT_EQ(result["steps"], 30);
  EXPECT_EQ(result["result"], "out/adapter");
  EXPECT_LT(result["loss"], 6);
}

TEST_F(TrainingTest, QuietPrintsNothingOnStderr) {
  const RunResult result = Run(Sft("out", {"--quiet"}));
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
}

TEST_F(TrainingTest, ThreadsPackingAndPassesLeaveTheAdapterAlone) {
  Output(Sft("one"));
  Output(Sft("two", {"--no-packing", "--micro-batch-size", "1"}));
  Output({"sft", "--config", "one/config.toml", "--output", "three", "--threads", "2",
          "--recompute", "full"});
  EXPECT_EQ(Adapter("one"), Adapter("two"));
  EXPECT_EQ(Adapter("one"), Adapter("three"));
}

TEST_F(TrainingTest, ItsConfigurationRunsItAgain) {
  const std::string system = "first line\nsecond \"line\" \\ with ünïcode 東京 and 'quotes'\n\ttab";
  Output(Sft("one", {"--system", system, "--target", "q_proj", "*.mlp.*", "--rank-pattern",
                     "q_proj=2", "--max-steps", "4"}));
  Output({"sft", "--config", "one/config.toml", "--output", "two"});
  EXPECT_EQ(Adapter("one"), Adapter("two"));
  EXPECT_EQ(Metrics("one"), Metrics("two"));
  // And the command line wins over it.
  Output({"sft", "--config", "one/config.toml", "--output", "three", "--system", "other"});
  EXPECT_NE(Metrics("one"), Metrics("three"));
}

TEST_F(TrainingTest, ContinuesWhereAnEarlierRunStopped) {
  Output(Sft("whole"));
  // A limit shortens the schedule, so the first part is cut by an interrupt, not by a limit.
  const RunResult first = RunUntilSignal("parts", SIGTERM);
  EXPECT_EQ(first.status, 130) << first.err;
  EXPECT_THAT(first.LastError(), HasSubstr("resume"));
  EXPECT_LT(Metrics("parts").size(), 30u);
  Output(Sft("parts"));
  ExpectEqualRuns("whole", "parts");
}

TEST_F(TrainingTest, ASecondSignalEndsAtOnce) {
  int sent = 0;
  const RunResult result = Run(Long("out"), {.meanwhile = [&](pid_t child) {
                                 if (HasStep("out") && sent++ < 50) kill(child, SIGINT);
                               }});
  EXPECT_EQ(result.status, 130) << result.err;
  EXPECT_FALSE(result.timed_out);
}

TEST_F(TrainingTest, AFinishedRunIsLeftAlone) {
  Output(Sft("out"));
  const auto before = Snapshot(Path("out"));
  const nlohmann::json again = Json(Sft("out"));
  EXPECT_EQ(again["was_finished"], true);
  EXPECT_EQ(Snapshot(Path("out")), before);
}

TEST_F(TrainingTest, RefusesToContinueAsAnotherRun) {
  Output(Sft("out"));
  const auto before = Snapshot(Path("out"));
  const RunResult other_rate = Run(Sft("out", {"--weight-decay", "0.5"}));
  EXPECT_EQ(other_rate.status, 2);
  EXPECT_THAT(other_rate.LastError(), HasSubstr("weight-decay"));
  WriteFileOrDie(Path("data.jsonl"), SmallData(21));
  const RunResult other_data = Run(Sft("out"));
  EXPECT_EQ(other_data.status, 3) << other_data.err;
  EXPECT_THAT(other_data.LastError(), HasSubstr("data"));
  EXPECT_EQ(Snapshot(Path("out")), before);
}

TEST_F(TrainingTest, RefusesAFolderThatIsInUse) {
  bool tried = false;
  RunResult second;
  Run(Long("out"), {.meanwhile = [&](pid_t child) {
        if (tried || !HasStep("out")) return;
        tried = true;
        second = Run(Long("out"));
        kill(child, SIGINT);
      }});
  ASSERT_TRUE(tried);
  EXPECT_EQ(second.status, 2) << second.err;
  EXPECT_THAT(second.LastError(), HasSubstr("in use"));
}

TEST_F(TrainingTest, SurvivesBeingKilledAtAnyMoment) {
  const auto start = Clock::now();
  Output(Sft("whole"));
  const double whole = std::chrono::duration<double>(Clock::now() - start).count();
  ASSERT_EQ(RunUntilSignal("killed", SIGKILL).status, 128 + SIGKILL);
  std::mt19937 random(11);
  std::uniform_real_distribution<double> moment(0.0, whole);
  for (int attempt = 0; attempt < 12; ++attempt) {
    const double after = moment(random);
    const auto began = Clock::now();
    const RunResult result =
        Run(Sft("killed"), {.meanwhile = [&](pid_t child) {
              if (std::chrono::duration<double>(Clock::now() - began).count() > after)
                kill(child, SIGKILL);
            }});
    ASSERT_TRUE(result.status == 0 || result.status == 128 + SIGKILL) << result.err;
    if (result.status == 0) break;
  }
  Output(Sft("killed"));
  ExpectEqualRuns("whole", "killed");
  // Nothing temporary is left.
  for (const auto& [name, content] : Snapshot(Path("killed"))) {
    EXPECT_THAT(name, testing::Not(HasSubstr(".tmp"))) << name;
  }
}

TEST_F(TrainingTest, SurvivesAFullDisk) {
  Output(Sft("whole"));
  int failed = 0;
  for (const uint64_t limit : {uint64_t{1}, uint64_t{500}, uint64_t{3000}, uint64_t{9000},
                               uint64_t{20000}, uint64_t{40000}}) {
    RunOptions options;
    options.file_limit = limit;
    // stdout and stderr are files here, too.
    const RunResult result = Run(Sft("full", {"--quiet"}), options);
    if (result.status != 0) {
      EXPECT_EQ(result.status, 1) << limit << ": " << result.err;
      ++failed;
    }
  }
  EXPECT_GT(failed, 2);
  Output(Sft("full"));
  ExpectEqualRuns("whole", "full");
}

TEST_F(TrainingTest, FullTrainingWritesAModel) {
  Output({"sft", "--model", "model", "--data", "data.jsonl", "--output", "out", "--lora-rank", "0",
          "--max-steps", "3"});
  EXPECT_EQ(Json({"inspect", "out/model", "--verify"})["kind"], "model folder");
  EXPECT_NE(ReadFileOrDie(Path("out/model/model.safetensors")),
            ReadFileOrDie(Path("model/model.safetensors")));
}

TEST_F(TrainingTest, PlanWritesNothing) {
  const auto before = Snapshot(folder_);
  Arguments arguments = Sft("out");
  arguments[0] = "plan";
  const nlohmann::json plan = Json(arguments);
  EXPECT_EQ(plan["total_steps"], 30);
  EXPECT_EQ(plan["modules"].size(), 14u);
  EXPECT_EQ(plan["data"]["records"], 22);
  EXPECT_GT(plan["memory_bytes"]["total"], 0);
  const std::string text = Output(arguments);
  EXPECT_THAT(text, HasSubstr("model.layers.1.self_attn.q_proj"));
  EXPECT_THAT(text, HasSubstr("[[one, two, 0<end>"));
  EXPECT_EQ(Output({"plan", "--model", "model"}).empty(), false);
  EXPECT_EQ(Snapshot(folder_), before);
}

}  // namespace
}  // namespace lorica
