// What the tests of the command share: a folder of their own with a small model and data in it.
#ifndef LORICA_TESTS_CLI_COMMAND_TEST_H_
#define LORICA_TESTS_CLI_COMMAND_TEST_H_

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command_runner.h"
#include "cli/small_model.h"
#include "gtest/gtest.h"
#include "lorica/io/atomic_commit.h"

namespace lorica {

class CommandTest : public testing::Test {
 protected:
  CommandTest()
      : folder_(std::filesystem::temp_directory_path() / ("lorica_command_" + MakeNonce())) {
    std::filesystem::create_directory(folder_);
    WriteSmallModel(Path("model"));
    WriteFileOrDie(Path("data.jsonl"), SmallData(22));
  }
  ~CommandTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ / name; }

  // Runs the command in the folder.
  RunResult Run(const std::vector<std::string>& arguments, RunOptions options = {}) const {
    options.folder = folder_;
    return RunCommand(arguments, options);
  }
  // Its stdout; a failure of the test where its status isn't 0.
  std::string Output(const std::vector<std::string>& arguments, RunOptions options = {}) const {
    const RunResult result = Run(arguments, std::move(options));
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  }
  // The one JSON document on stdout.
  nlohmann::json Json(std::vector<std::string> arguments, RunOptions options = {}) const {
    arguments.push_back("--json");
    const std::string text = Output(arguments, std::move(options));
    EXPECT_TRUE(nlohmann::json::accept(text)) << text;
    return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  }

  const std::filesystem::path folder_;
};

}  // namespace lorica

#endif  // LORICA_TESTS_CLI_COMMAND_TEST_H_
