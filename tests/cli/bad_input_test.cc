#include "cli/bad_input.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "cli/command_runner.h"
#include "cli/small_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lorica/io/atomic_commit.h"

namespace lorica {
namespace {

namespace fs = std::filesystem;

// What all rows share, made once: a good model and good data.
class Good {
 public:
  static const Good& Get() {
    static const Good good;
    return good;
  }
  std::string Fill(const std::string& text) const {
    return absl::StrReplaceAll(text, {{"{M}", model_},
                                      {"{G}", GoldenModel("llama_gqa")},
                                      {"{D}", data_},
                                      {"{T}", GoldenModel("llama_gqa/batches.jsonl")}});
  }
  const std::string& model() const { return model_; }

 private:
  Good() : folder_(fs::temp_directory_path() / ("lorica_good_" + MakeNonce())) {
    fs::create_directory(folder_);
    model_ = folder_ / "model";
    data_ = folder_ / "data.jsonl";
    WriteSmallModel(model_);
    WriteFileOrDie(data_, SmallData(12));
    std::atexit([] { fs::remove_all(Get().folder_); });
  }

  fs::path folder_;
  std::string model_;
  std::string data_;
};

std::vector<BadInput> AllRows() {
  std::vector<BadInput> rows;
  for (const auto& part : {BadOptions(), BadModels(), BadTexts(), BadPlaces()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

class BadInputTest : public testing::TestWithParam<BadInput> {
 protected:
  BadInputTest() : folder_(fs::temp_directory_path() / ("lorica_bad_" + MakeNonce())) {
    fs::create_directory(folder_);
  }
  ~BadInputTest() override { fs::remove_all(folder_); }

  const fs::path folder_;
};

// One sentence on the last line, no more than the status says, nothing left behind or changed.
TEST_P(BadInputTest, IsRefused) {
  const BadInput& row = GetParam();
  std::vector<std::string> arguments;
  for (const std::string& argument : row.arguments) {
    arguments.push_back(Good::Get().Fill(argument));
  }
  if (row.setup) row.setup(folder_);
  const auto before = Snapshot(folder_);
  const RunResult result = RunCommand(arguments, {.folder = folder_});

  const std::string error = result.LastError();
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.status, row.status) << result.err;
  EXPECT_TRUE(absl::StartsWith(error, "lorica: ")) << result.err;
  EXPECT_THAT(error, testing::HasSubstr(Good::Get().Fill(row.message)));
  EXPECT_LT(error.size(), 700u);
  EXPECT_FALSE(absl::EndsWith(error, ".")) << error;
  for (const char* trace : {"Sanitizer", "runtime error", "terminate called", "    #0 "}) {
    EXPECT_THAT(result.err, testing::Not(testing::HasSubstr(trace)));
  }
  // A run that had begun to train keeps what it wrote, for a look at it and to go on.
  if (row.name != "loss_not_finite") {
    EXPECT_EQ(Snapshot(folder_), before);
  }
}

std::string NameOfRow(const testing::TestParamInfo<BadInput>& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, BadInputTest, testing::ValuesIn(AllRows()), NameOfRow);

TEST(BadInputTableTest, HasRowsOfEveryStatus) {
  std::set<int> statuses;
  for (const BadInput& row : AllRows()) statuses.insert(row.status);
  EXPECT_EQ(statuses, (std::set<int>{1, 2, 3}));
  EXPECT_GE(AllRows().size(), 90u);
}

}  // namespace

std::function<void(const std::string&)> CopyOfSmallModel(const std::string& name, Change change) {
  return [name, change](const std::string& folder) {
    CopyFolderOrDie(Good::Get().model(), folder + "/" + name);
    change(folder + "/" + name);
  };
}

std::function<void(const std::string&)> CopyOfGoldenModel(const std::string& name, Change change) {
  return [name, change](const std::string& folder) {
    CopyFolderOrDie(GoldenModel("llama_gqa/model"), folder + "/" + name);
    change(folder + "/" + name);
  };
}

std::function<void(const std::string&)> File(const std::string& name, const std::string& bytes) {
  return [name, bytes](const std::string& folder) { WriteFileOrDie(folder + "/" + name, bytes); };
}

void ReplaceInFile(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = ReadFileOrDie(path);
  const size_t at = text.find(from);
  if (at == std::string::npos) {
    std::fprintf(stderr, "%s holds no %s\n", path.c_str(), from.c_str());
    std::abort();
  }
  WriteFileOrDie(path, text.replace(at, from.size(), to));
}

}  // namespace lorica
