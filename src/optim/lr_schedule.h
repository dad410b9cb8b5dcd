// Learning-rate schedules: what a base rate is multiplied by at each step.
#ifndef LORICA_OPTIM_LR_SCHEDULE_H_
#define LORICA_OPTIM_LR_SCHEDULE_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace lorica {

enum class ScheduleKind { kConstant, kLinear, kCosine };

absl::string_view Name(ScheduleKind kind);  // "constant", "linear", "cosine"

// Linear warm-up from 0, then constant, or falling to `min_ratio` at `total_steps`. Factors equal
// those of Hugging Face's constant_with_warmup, linear and cosine (with min_lr_rate).
struct LrSchedule {
  ScheduleKind kind = ScheduleKind::kCosine;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
  double min_ratio = 0;  // in [0, 1]; the constant schedule never falls

  // At step `step`, from 0: step / warmup_steps during warm-up, so 0 at step 0.
  double Factor(int64_t step) const;
};

}  // namespace lorica

#endif  // LORICA_OPTIM_LR_SCHEDULE_H_
