// metrics.jsonl: one JSON object a step, and one an evaluation, in the order in which they
// happened.
#ifndef LORICA_TRAIN_METRICS_H_
#define LORICA_TRAIN_METRICS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/io/file_system.h"
#include "lorica/train/expert_load.h"

namespace lorica {

struct StepMetrics {
  int64_t step = 0;      // from 1
  double epoch = 0;      // data sets' worth of records seen
  double loss = 0;       // mean over the step's trained tokens
  double lr = 0;         // the rate that the step used
  double grad_norm = 0;  // before clipping
  int64_t tokens = 0;    // all of the step
  int64_t trained_tokens = 0;
  double seconds = 0;  // of the step; evaluation and saving not included
  double tokens_per_second = 0;
  int64_t peak_rss_bytes = 0;
  // Of models with experts. The balancing loss (autograd/router.h) before its coefficient, mean
  // over the layers and the step's tokens; 0 where none is trained.
  double aux_loss = 0;
  // Of the tokens that went through the model. In a file: of all steps since the last line that
  // has them.
  ExpertLoads loads;
};

struct EvalMetrics {
  int64_t step = 0;         // after this many steps
  double eval_loss = 0;     // mean over trained tokens
  int64_t eval_tokens = 0;  // trained ones
  double perplexity() const;
};

// A run's curves.
struct MetricsLog {
  std::vector<StepMetrics> steps;
  std::vector<EvalMetrics> evaluations;
};

// One line, without newline. Numbers keep every bit.
std::string FormatMetrics(const StepMetrics& metrics);
std::string FormatMetrics(const EvalMetrics& metrics);

// Appends lines; each is with the operating system when Write returns. One thread at a time.
class MetricsWriter {
 public:
  static absl::StatusOr<MetricsWriter> Open(FileSystem& files, const std::string& path);
  absl::Status Write(const StepMetrics& metrics);
  absl::Status Write(const EvalMetrics& metrics);
  // On the disk.
  absl::Status Sync();

 private:
  explicit MetricsWriter(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}
  absl::Status Append(std::string line);

  std::unique_ptr<WritableFile> file_;
};

// Reads all complete lines. An absent file is an empty log. DataLoss naming the line where one
// isn't as above.
absl::StatusOr<MetricsLog> ReadMetrics(FileSystem& files, const std::string& path);

// Cuts the file behind the last complete line of a step of at most `step`, and, when the evaluation
// after it isn't to be kept, behind the line of that step itself; what a crash left of a line goes
// too. An absent file is fine.
absl::Status CutMetrics(FileSystem& files, const std::string& path, int64_t step,
                        bool keep_evaluation = true);

// The most memory that this process has had, in bytes.
int64_t PeakRssBytes();

}  // namespace lorica

#endif  // LORICA_TRAIN_METRICS_H_
