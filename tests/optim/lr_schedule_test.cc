#include "lorica/optim/lr_schedule.h"

#include "gtest/gtest.h"
#include "optim/golden.h"

namespace lorica {
namespace {

TEST(LrSchedule, EqualsHuggingFaceAtEveryStep) {
  ASSERT_FALSE(Golden()["schedules"].empty());
  for (const nlohmann::json& c : Golden()["schedules"]) {
    LrSchedule schedule;
    for (ScheduleKind kind :
         {ScheduleKind::kConstant, ScheduleKind::kLinear, ScheduleKind::kCosine}) {
      if (c["name"] == std::string(Name(kind))) schedule.kind = kind;
    }
    ASSERT_EQ(c["name"], std::string(Name(schedule.kind)));
    schedule.warmup_steps = c["warmup_steps"];
    schedule.total_steps = c["total_steps"];
    schedule.min_ratio = c["min_lr_ratio"];
    const double base = c["base_lr"];
    for (size_t step = 0; step < c["lrs"].size(); ++step) {
      EXPECT_NEAR(base * schedule.Factor(static_cast<int64_t>(step)), c["lrs"][step], base * 1e-15)
          << c["name"] << " warm-up " << schedule.warmup_steps << " step " << step;
    }
  }
}

TEST(LrSchedule, FirstStepOfAWarmUpHasRateZero) {
  EXPECT_EQ((LrSchedule{ScheduleKind::kCosine, 4, 10, 0.5}).Factor(0), 0);
  EXPECT_EQ((LrSchedule{ScheduleKind::kCosine, 0, 10, 0.5}).Factor(0), 1);
}

TEST(LrSchedule, LinearFallsToTheSmallestRatio) {
  const LrSchedule schedule{ScheduleKind::kLinear, 0, 10, 0.25};
  EXPECT_EQ(schedule.Factor(10), 0.25);
  EXPECT_DOUBLE_EQ(schedule.Factor(5), 0.625);
}

}  // namespace
}  // namespace lorica
