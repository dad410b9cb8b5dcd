// lorica convert: from layout to layout and back, and what happens when it can't.
#include "cli/command_test.h"
#include "gmock/gmock.h"

namespace lorica {
namespace {

using testing::HasSubstr;

class ConvertTest : public CommandTest {
 protected:
  const std::string golden_ = GoldenModel("llama_gqa");
  // Nothing but what was there, temporary files included.
  int Entries() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
};

TEST_F(ConvertTest, ThereAndBackScoresTheSame) {
  const auto score = [&](const std::string& adapter) {
    return Json({"score", "--model", golden_ + "/model", "--data", golden_ + "/batches.jsonl",
                 "--adapter", adapter})["loss"]
        .get<double>();
  };
  const double want = score(golden_ + "/adapter");
  for (const std::string layout : {"peft-3d", "mlx", "sglang", "gguf"}) {
    const std::string middle = layout == "gguf" ? "a.gguf" : layout;
    const nlohmann::json there = Json({"convert", "--adapter", golden_ + "/adapter", "--to", layout,
                                       "--output", middle, "--model", golden_ + "/model"});
    EXPECT_EQ(there["from"], "peft-2d");
    const nlohmann::json back = Json({"convert", "--adapter", middle, "--to", "peft-2d", "--output",
                                      layout + "-back", "--model", golden_ + "/model"});
    EXPECT_EQ(back["modules"], there["modules"]);
    EXPECT_NEAR(score(layout + "-back"), want, 1e-6) << layout;
  }
}

TEST_F(ConvertTest, RefusalsLeaveNothing) {
  const int before = Entries();
  const std::string adapter = golden_ + "/adapter";
  const struct {
    std::vector<std::string> arguments;
    int status;
    const char* part;
  } cases[] = {
      {{"--adapter", adapter, "--to", "peft-2d"}, 2, "--output is needed"},
      {{"--adapter", adapter, "--output", "o"}, 2, "--to"},
      {{"--adapter", adapter, "--to", "peft2d", "--output", "o"}, 2, "did you mean peft-2d"},
      {{"--adapter", adapter, "--to", "mlx", "--output", "model"}, 2, "exists already"},
      {{"--adapter", "nothing", "--to", "mlx", "--output", "o"}, 3, "nothing"},
      {{"--adapter", adapter, "--to", "gguf", "--output", "o.gguf"}, 3, "give --model"},
      {{"--adapter", adapter, "--to", "mlx", "--output", "o", "--model", "nowhere"}, 3, "nowhere"},
      {{"--adapter", adapter, "--to", "mlx", "--output", "no/o"}, 1, "no"},
      {{"--adapter", adapter, "--to", "mlx", "--output", "o", "--expert-axis", "x"},
       2,
       "--expert-axis"},
  };
  for (const auto& test : cases) {
    std::vector<std::string> arguments = {"convert"};
    arguments.insert(arguments.end(), test.arguments.begin(), test.arguments.end());
    const RunResult result = Run(arguments);
    EXPECT_EQ(result.status, test.status) << test.part;
    EXPECT_THAT(result.LastError(), HasSubstr(test.part));
    EXPECT_EQ(Entries(), before) << test.part;
  }
}

}  // namespace
}  // namespace lorica
