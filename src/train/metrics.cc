#include "lorica/train/metrics.h"

#include <sys/resource.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lorica/io/json_file.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

// Longer than any run of ours writes; a line is about 250 bytes.
constexpr size_t kLongestFile = size_t{4} << 30;

std::string Number(double value) {
  // JSON has no infinities; a run that meets one stops before it gets here.
  return std::isfinite(value) ? absl::StrFormat("%.17g", value) : "null";
}

// Calls `body` for each complete line (newline excluded) with the offset behind it, until false.
template <typename Body>
absl::Status ForEachLine(const std::string& text, const std::string& path, const Body& body) {
  size_t begin = 0;
  for (int64_t number = 1; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    const std::string where = absl::StrCat(path, ":", number);
    const absl::string_view line(text.data() + begin, end - begin);
    LORICA_ASSIGN_OR_RETURN(const Json json, ParseJson(line, where));
    LORICA_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::Of(json, where));
    bool go_on = true;
    LORICA_ASSIGN_OR_RETURN(go_on, body(object, end + 1));
    if (!go_on) break;
    begin = end + 1;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadIfThere(FileSystem& files, const std::string& path) {
  absl::StatusOr<std::string> text = files.Read(path, kLongestFile);
  if (absl::IsNotFound(text.status())) return std::string();
  return text;
}

absl::StatusOr<ExpertLoads> ReadLoads(const JsonObject& line) {
  ExpertLoads loads;
  if (!line.Has("expert_load")) return loads;
  const Json& layers = *line.Find("expert_load");
  if (!layers.is_array()) return line.WrongType("expert_load", "an array");
  for (const Json& json : layers) {
    LORICA_ASSIGN_OR_RETURN(const JsonObject layer,
                            JsonObject::Of(json, absl::StrCat(line.where(), ": expert_load")));
    LayerLoad load;
    LORICA_ASSIGN_OR_RETURN(load.path, layer.String("layer"));
    LORICA_ASSIGN_OR_RETURN(load.load, layer.Ints("tokens"));
    loads.push_back(std::move(load));
  }
  return loads;
}

}  // namespace

double EvalMetrics::perplexity() const { return std::exp(eval_loss); }

std::string FormatMetrics(const StepMetrics& m) {
  std::string line =
      absl::StrCat("{\"step\": ", m.step, ", \"epoch\": ", Number(m.epoch),
                   ", \"loss\": ", Number(m.loss), ", \"lr\": ", Number(m.lr),
                   ", \"grad_norm\": ", Number(m.grad_norm), ", \"tokens\": ", m.tokens,
                   ", \"trained_tokens\": ", m.trained_tokens, ", \"seconds\": ", Number(m.seconds),
                   ", \"tokens_per_second\": ", Number(m.tokens_per_second),
                   ", \"peak_rss_bytes\": ", m.peak_rss_bytes);
  if (m.aux_loss != 0) absl::StrAppend(&line, ", \"aux_loss\": ", Number(m.aux_loss));
  if (!m.loads.empty()) {
    absl::StrAppend(&line, ", \"expert_load\": [");
    for (const LayerLoad& layer : m.loads) {
      absl::StrAppend(&line, &layer == &m.loads[0] ? "" : ", ", "{\"layer\": \"", layer.path,
                      "\", \"tokens\": [", absl::StrJoin(layer.load, ","), "]}");
    }
    line += "]";
  }
  return line + "}";
}

std::string FormatMetrics(const EvalMetrics& m) {
  return absl::StrCat("{\"step\": ", m.step, ", \"eval_loss\": ", Number(m.eval_loss),
                      ", \"eval_tokens\": ", m.eval_tokens,
                      ", \"eval_perplexity\": ", Number(m.perplexity()), "}");
}

absl::StatusOr<MetricsWriter> MetricsWriter::Open(FileSystem& files, const std::string& path) {
  LORICA_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files.Open(path, OpenMode::kAppend));
  return MetricsWriter(std::move(file));
}

absl::Status MetricsWriter::Append(std::string line) {
  line += '\n';
  return file_->Append(absl::string_view(line));
}
absl::Status MetricsWriter::Write(const StepMetrics& metrics) {
  return Append(FormatMetrics(metrics));
}
absl::Status MetricsWriter::Write(const EvalMetrics& metrics) {
  return Append(FormatMetrics(metrics));
}
absl::Status MetricsWriter::Sync() { return file_->Sync(); }

absl::StatusOr<MetricsLog> ReadMetrics(FileSystem& files, const std::string& path) {
  LORICA_ASSIGN_OR_RETURN(const std::string text, ReadIfThere(files, path));
  MetricsLog log;
  LORICA_RETURN_IF_ERROR(
      ForEachLine(text, path, [&](const JsonObject& line, size_t) -> absl::StatusOr<bool> {
        if (line.Has("eval_loss")) {
          EvalMetrics m;
          LORICA_ASSIGN_OR_RETURN(m.step, line.Int("step"));
          LORICA_ASSIGN_OR_RETURN(m.eval_loss, line.Double("eval_loss"));
          LORICA_ASSIGN_OR_RETURN(m.eval_tokens, line.Int("eval_tokens"));
          log.evaluations.push_back(m);
          return true;
        }
        StepMetrics m;
        LORICA_ASSIGN_OR_RETURN(m.step, line.Int("step"));
        LORICA_ASSIGN_OR_RETURN(m.epoch, line.Double("epoch"));
        LORICA_ASSIGN_OR_RETURN(m.loss, line.Double("loss"));
        LORICA_ASSIGN_OR_RETURN(m.lr, line.Double("lr"));
        LORICA_ASSIGN_OR_RETURN(m.grad_norm, line.Double("grad_norm"));
        LORICA_ASSIGN_OR_RETURN(m.tokens, line.Int("tokens"));
        LORICA_ASSIGN_OR_RETURN(m.trained_tokens, line.Int("trained_tokens"));
        LORICA_ASSIGN_OR_RETURN(m.seconds, line.Double("seconds"));
        LORICA_ASSIGN_OR_RETURN(m.tokens_per_second, line.Double("tokens_per_second"));
        LORICA_ASSIGN_OR_RETURN(m.peak_rss_bytes, line.Int("peak_rss_bytes"));
        LORICA_ASSIGN_OR_RETURN(m.aux_loss, line.DoubleOr("aux_loss", 0));
        LORICA_ASSIGN_OR_RETURN(m.loads, ReadLoads(line));
        log.steps.push_back(std::move(m));
        return true;
      }));
  return log;
}

absl::Status CutMetrics(FileSystem& files, const std::string& path, int64_t step,
                        bool keep_evaluation) {
  LORICA_ASSIGN_OR_RETURN(const std::string text, ReadIfThere(files, path));
  size_t keep = 0;
  LORICA_RETURN_IF_ERROR(
      ForEachLine(text, path, [&](const JsonObject& line, size_t end) -> absl::StatusOr<bool> {
        int64_t of_line = 0;
        LORICA_ASSIGN_OR_RETURN(of_line, line.Int("step"));
        if (of_line > step) return false;
        if (of_line == step && !keep_evaluation && line.Has("eval_loss")) return false;
        keep = end;
        return true;
      }));
  if (keep == text.size()) return absl::OkStatus();
  return files.Truncate(path, keep);
}

int64_t PeakRssBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace lorica
