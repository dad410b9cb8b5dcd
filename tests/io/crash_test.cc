// Saving goes wrong at every operation in turn. Afterwards loading gives the old step or the new
// one, bit for bit.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "io_fixture.h"
#include "lorica/io/checkpoint.h"
#include "support/fault_file_system.h"

namespace lorica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> ValuesOf(int64_t step) {
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(step) + static_cast<float>(i) / 1024;
  }
  return values;
}

// Memory where there is some: these tests sync thousands of times, and what they look at doesn't
// depend on the disk.
std::string FastFolder() { return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : testing::TempDir(); }

// What a trainer does at a save: write the step, then drop older ones.
absl::Status Save(FileSystem& files, const std::string& folder, int64_t step) {
  const std::vector<float> values = ValuesOf(step);
  CheckpointContents contents;
  contents.step = step;
  contents.scalars["step"] = step;
  contents.tensors = {{"a", StoredType::kF32, {10, 100}, "lora_a", {}, AsBytes(values)}};
  LORICA_RETURN_IF_ERROR(WriteCheckpoint(files, folder, contents).status());
  return KeepNewest(files, folder, 1);
}

// The newest complete step, checked to the last bit; 0 where that fails.
int64_t LoadNewest(const std::string& folder) {
  const auto list = ListCheckpoints(folder);
  if (!list.ok() || list->complete.empty()) return 0;
  EXPECT_TRUE(list->damaged.empty()) << list->damaged[0];
  const CheckpointPlace& newest = list->complete[0];
  const auto reader = CheckpointReader::Open(newest.path);
  if (!reader.ok() || !reader->VerifyAll().ok()) return 0;
  std::vector<float> values(1000);
  const absl::Status loaded = reader->Load("a", StoredType::kF32, {10, 100},
                                           {reinterpret_cast<uint8_t*>(values.data()), 4000});
  if (!loaded.ok() || values != ValuesOf(newest.step)) return 0;
  return reader->GetInt("step").value_or(-1) == newest.step ? newest.step : 0;
}

class FailureTest : public testing::TestWithParam<FaultPlan::Action> {};

TEST_P(FailureTest, EveryFailedOperationLeavesALoadableStep) {
  for (int error : {ENOSPC, EROFS, EIO}) {
    for (int at = 0;; ++at) {
      ASSERT_LT(at, 100);
      const TempFolder folder(FastFolder());
      ASSERT_OK(Save(PosixFiles(), folder.path(), 1));
      FaultFileSystem files({.at = at, .action = GetParam(), .error = error});
      const absl::Status saved = Save(files, folder.path(), 2);
      const int64_t newest = LoadNewest(folder.path());
      if (saved.ok()) {
        EXPECT_EQ(newest, 2);
        EXPECT_LE(files.operations(), at) << "the failed operation went unnoticed";
        break;
      }
      EXPECT_TRUE(newest == 1 || newest == 2) << at;
      EXPECT_THAT(saved.ToString(), HasSubstr(strerror(error)));
      // The run goes on once there is room again.
      ASSERT_OK(RemoveLeftovers(PosixFiles(), folder.path()));
      ASSERT_OK(Save(PosixFiles(), folder.path(), 3));
      EXPECT_EQ(LoadNewest(folder.path()), 3);
      EXPECT_THAT(folder.List(), ElementsAre("LATEST", "step-00000003"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Actions, FailureTest,
                         testing::Values(FaultPlan::Action::kFail, FaultPlan::Action::kFailForever),
                         [](const auto& test) {
                           return test.param == FaultPlan::Action::kFail ? "Once" : "FromThenOn";
                         });

class CrashTest : public testing::TestWithParam<FaultPlan::Action> {};

TEST_P(CrashTest, EveryMomentLeavesALoadableStep) {
  bool old_seen = false;
  for (int at = 0;; ++at) {
    ASSERT_LT(at, 100);
    const TempFolder folder(FastFolder());
    ASSERT_OK(Save(PosixFiles(), folder.path(), 1));
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      FaultFileSystem files({.at = at, .action = GetParam()});
      _exit(Save(files, folder.path(), 2).ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    const int64_t newest = LoadNewest(folder.path());
    if (WEXITSTATUS(status) == 0) {
      EXPECT_EQ(newest, 2);
      break;
    }
    ASSERT_EQ(WEXITSTATUS(status), kFaultExitStatus);
    EXPECT_TRUE(newest == 1 || newest == 2) << "operation " << at;
    old_seen |= newest == 1;
    ASSERT_OK(RemoveLeftovers(PosixFiles(), folder.path()));
    ASSERT_OK(Save(PosixFiles(), folder.path(), 3));
    EXPECT_EQ(LoadNewest(folder.path()), 3);
    EXPECT_THAT(folder.List(), ElementsAre("LATEST", "step-00000003"));
  }
  EXPECT_TRUE(old_seen);
}

INSTANTIATE_TEST_SUITE_P(Actions, CrashTest,
                         testing::Values(FaultPlan::Action::kExit, FaultPlan::Action::kPowerLoss),
                         [](const auto& test) {
                           return test.param == FaultPlan::Action::kExit ? "Exit" : "PowerLoss";
                         });

}  // namespace
}  // namespace lorica
