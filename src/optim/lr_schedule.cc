#include "lorica/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>

namespace lorica {

absl::string_view Name(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kConstant:
      return "constant";
    case ScheduleKind::kLinear:
      return "linear";
    case ScheduleKind::kCosine:
      return "cosine";
  }
  return "";
}

double LrSchedule::Factor(int64_t step) const {
  if (step < warmup_steps) return static_cast<double>(step) / static_cast<double>(warmup_steps);
  const double falling_steps =
      static_cast<double>(std::max<int64_t>(1, total_steps - warmup_steps));
  double factor = 1;
  switch (kind) {
    case ScheduleKind::kConstant:
      return 1;
    case ScheduleKind::kLinear:
      factor = std::max(0.0, static_cast<double>(total_steps - step) / falling_steps);
      break;
    case ScheduleKind::kCosine:
      factor =
          0.5 * (1 + std::cos(M_PI * (static_cast<double>(step - warmup_steps) / falling_steps)));
      break;
  }
  return std::max(0.0, factor * (1 - min_ratio) + min_ratio);
}

}  // namespace lorica
