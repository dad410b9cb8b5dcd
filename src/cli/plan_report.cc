#include "lorica/cli/plan_report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lorica/io/quoted.h"

namespace lorica::cli {
namespace {

std::string Plural(int64_t count, absl::string_view one, absl::string_view many) {
  return absl::StrCat(Grouped(count), " ", count == 1 ? one : many);
}

double Percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

// Files that are named one by one, at most.
constexpr size_t kMostFiles = 20;

std::string DataLine(absl::string_view title, const DataSummary& data) {
  std::string line =
      absl::StrCat(title, Plural(data.records, "record", "records"), " (", data.format, ")");
  if (data.split_records > 0) {
    absl::StrAppend(&line, ", ", Grouped(data.split_records), " of them gave ",
                    Grouped(data.split_examples),
                    " examples (the template rewrites earlier turns)");
  }
  if (data.dropped > 0) absl::StrAppend(&line, ", ", Grouped(data.dropped), " dropped");
  if (data.truncated > 0) absl::StrAppend(&line, ", ", Grouped(data.truncated), " truncated");
  if (data.deduplicated > 0) {
    absl::StrAppend(&line, ", ", Plural(data.deduplicated, "duplicate", "duplicates"), " left out");
  }
  if (data.untrained > 0) {
    absl::StrAppend(&line, ", ", Grouped(data.untrained), " without a trained token");
  }
  absl::StrAppend(&line, "; ", Plural(data.tokens, "token", "tokens"),
                  absl::StrFormat(", %.1f%% trained", Percent(data.trained_tokens, data.tokens)),
                  "; longest ", Grouped(data.longest), "\n");
  if (data.in_memory < data.kept()) {
    absl::StrAppend(&line, "          ", Grouped(data.kept() - data.in_memory),
                    " of them are read again when they are trained: they don't stay in memory\n");
  }
  return line;
}

std::string FileLines(const DataSummary& data) {
  const bool weighted = std::any_of(data.files.begin(), data.files.end(),
                                    [](const DataFileSummary& file) { return file.weight != 1; });
  std::string text;
  for (size_t i = 0; (weighted || data.files.size() > 1) && i < data.files.size(); ++i) {
    if (i == kMostFiles) {
      absl::StrAppend(&text, "          and ", data.files.size() - i, " more files\n");
      break;
    }
    const DataFileSummary& file = data.files[i];
    absl::StrAppend(&text, "          ", file.path, ": ",
                    Plural(file.records, "record", "records"));
    if (weighted) {
      absl::StrAppend(&text, " x ", file.weight, " = ", Grouped(file.taken), " an epoch");
    }
    text += "\n";
  }
  return text;
}

std::string DuplicateLines(const DataSummary& data) {
  if (data.duplicates == 0) return "";
  std::string text = absl::StrCat(
      "duplicate ", Plural(data.duplicates, "record equals", "records equal"), " an earlier one",
      data.deduplicated > 0 ? " and aren't trained" : "; --deduplicate leaves such records out",
      "\n");
  for (const DuplicateRecord& duplicate : data.first_duplicates) {
    absl::StrAppend(&text, "          ", duplicate.where, " is ", duplicate.same_as, "\n");
  }
  return text;
}

nlohmann::ordered_json DataJson(const DataSummary& data) {
  nlohmann::ordered_json json = {{"format", data.format},
                                 {"records", data.records},
                                 {"split_records", data.split_records},
                                 {"split_examples", data.split_examples},
                                 {"dropped", data.dropped},
                                 {"truncated", data.truncated},
                                 {"duplicates", data.duplicates},
                                 {"deduplicated", data.deduplicated},
                                 {"untrained", data.untrained},
                                 {"tokens", data.tokens},
                                 {"trained_tokens", data.trained_tokens},
                                 {"longest", data.longest},
                                 {"in_memory", data.in_memory}};
  json["first_duplicates"] = nlohmann::ordered_json::array();
  for (const DuplicateRecord& duplicate : data.first_duplicates) {
    json["first_duplicates"].push_back(
        {{"where", duplicate.where}, {"same_as", duplicate.same_as}});
  }
  nlohmann::ordered_json bars = nlohmann::ordered_json::array();
  for (const LengthBar& bar : data.lengths) {
    bars.push_back({{"from", bar.from}, {"to", bar.to}, {"records", bar.records}});
  }
  json["lengths"] = {{"median", data.median_length},
                     {"p95", data.p95_length},
                     {"max", data.max_length},
                     {"histogram", std::move(bars)}};
  json["files"] = nlohmann::ordered_json::array();
  for (const DataFileSummary& file : data.files) {
    json["files"].push_back({{"path", file.path},
                             {"records", file.records},
                             {"weight", file.weight},
                             {"taken", file.taken}});
  }
  return json;
}

// "4 q_proj, 2 o_proj" of pairs of a name and a count.
template <typename Counts>
std::string CountsText(const Counts& counts) {
  return absl::StrJoin(counts, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.second, " ", entry.first);
  });
}

// Counts by the last two names of the paths: the module alone wouldn't say what it belongs to.
std::string LeftOutLine(const std::vector<std::string>& paths) {
  std::map<std::string, int64_t> counts;
  for (const std::string& path : paths) {
    ++counts[path.substr(path.rfind('.', path.rfind('.') - 1) + 1)];
  }
  return absl::StrCat("left out  ", Plural(static_cast<int64_t>(paths.size()), "module", "modules"),
                      " that no gradient reaches: ", CountsText(counts), "\n");
}

// Text for a terminal: nothing in it moves the cursor or changes colours.
std::string Printable(absl::string_view text) {
  std::string printable;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F) {
      absl::StrAppendFormat(&printable, "\\x%02x", byte);
    } else {
      printable += c;
    }
  }
  return printable;
}

}  // namespace

std::string Grouped(int64_t number) {
  const std::string digits = absl::StrCat(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && digits[i - 1] != '-' && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string Size(int64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (bytes < 1'000'000) return absl::StrFormat("%.1f kB", value / 1e3);
  if (bytes < 1'000'000'000) return absl::StrFormat("%.1f MB", value / 1e6);
  return absl::StrFormat("%.2f GB", value / 1e9);
}

std::string PlanSummary(const SftPlan& plan) {
  std::string text =
      absl::StrCat("model     ", plan.model, " (", plan.family, ", ",
                   Grouped(plan.model_parameters), " parameters)\ncompute   ", plan.dtype, " on ",
                   plan.instruction_set, ", ", Plural(plan.threads, "thread", "threads"), "\n");
  if (plan.modules.empty()) {
    absl::StrAppend(&text, "training  the whole model");
  } else {
    absl::StrAppend(&text, "adapters  ",
                    Plural(static_cast<int64_t>(plan.modules.size()), "module", "modules"), ": ",
                    CountsText(plan.by_name), "\ntraining  the adapters",
                    plan.router_parameters > 0 ? " and the routers" : "");
  }
  absl::StrAppend(
      &text, ", ", Grouped(plan.trainable_parameters), " parameters",
      absl::StrFormat(" (%.2f%%)\n", Percent(plan.trainable_parameters, plan.model_parameters)));
  if (!plan.matches.empty()) {
    absl::StrAppend(&text, "patterns  ",
                    absl::StrJoin(plan.matches, ", ",
                                  [](std::string* out, const PatternMatches& matches) {
                                    absl::StrAppend(
                                        out, Printable(matches.pattern), ": ",
                                        Plural(static_cast<int64_t>(matches.paths.size()), "module",
                                               "modules"));
                                  }),
                    "\n");
  }
  if (!plan.left_out.empty()) text += LeftOutLine(plan.left_out);
  if (plan.data.has_value()) {
    absl::StrAppend(&text, DataLine("data      ", *plan.data), FileLines(*plan.data),
                    DuplicateLines(*plan.data));
    absl::StrAppend(&text, "lengths   median ", Grouped(plan.data->median_length), ", 95% up to ",
                    Grouped(plan.data->p95_length), ", longest ", Grouped(plan.data->max_length),
                    " tokens");
    if (plan.data->truncated > 0) {
      absl::StrAppend(&text, "; ", Plural(plan.data->truncated, "record is", "records are"),
                      " cut by --max-length");
    }
    text += "\n";
  }
  if (plan.eval_data.has_value()) text += DataLine("held out  ", *plan.eval_data);
  if (plan.total_steps > 0) {
    absl::StrAppend(&text, "steps     ", Grouped(plan.total_steps), " (",
                    Grouped(plan.steps_per_epoch), " an epoch of ",
                    Plural(plan.epoch_records, "record", "records"), ", ",
                    Grouped(plan.warmup_steps), " of warm-up)");
    if (plan.resumed_step > 0) {
      absl::StrAppend(&text, ", continuing after step ", Grouped(plan.resumed_step));
    }
    text += "\n";
  }
  const MemoryPlan& memory = plan.memory;
  absl::StrAppend(&text, "memory    about ", Size(memory.total()), ": weights ",
                  Size(memory.weights), ", trained parameters ", Size(memory.trained),
                  ", optimizer ", Size(memory.optimizer), ", activations ",
                  Size(memory.activations), ", logits ", Size(memory.logits), "\n");
  for (const std::string& note : plan.notes) absl::StrAppend(&text, "note      ", note, "\n");
  return text;
}

std::string PlanModules(const SftPlan& plan) {
  size_t width = 0;
  for (const PlannedModule& module : plan.modules) width = std::max(width, module.path.size());
  std::string text;
  for (const PlannedModule& module : plan.modules) {
    absl::StrAppend(&text, module.path, std::string(width - module.path.size() + 2, ' '),
                    ShapeText(module.shape), "  rank ", module.rank, ", alpha ", module.alpha,
                    "\n");
  }
  return text;
}

std::string PlanLengths(const SftPlan& plan) {
  if (!plan.data.has_value() || plan.data->lengths.empty()) return "";
  constexpr int64_t kWidth = 50;
  int64_t most = 1;
  size_t label = 0;
  std::vector<std::string> labels;
  for (const LengthBar& bar : plan.data->lengths) {
    most = std::max(most, bar.records);
    labels.push_back(bar.from == bar.to ? Grouped(bar.from)
                                        : absl::StrCat(Grouped(bar.from), " to ", Grouped(bar.to)));
    label = std::max(label, labels.back().size());
  }
  std::string text = "--- tokens of a record\n";
  for (size_t i = 0; i < labels.size(); ++i) {
    const int64_t records = plan.data->lengths[i].records;
    // What isn't empty shows.
    const int64_t width = (records * kWidth + most - 1) / most;
    absl::StrAppend(&text, std::string(label - labels[i].size(), ' '), labels[i], "  ",
                    std::string(static_cast<size_t>(width), '#'), width > 0 ? " " : "",
                    Grouped(records), "\n");
  }
  return text;
}

std::string MarkedText(const std::vector<MarkedPiece>& pieces, bool colour) {
  std::string text;
  for (const MarkedPiece& piece : pieces) {
    const std::string printable = Printable(piece.text);
    if (!piece.trained) {
      text += printable;
    } else if (colour) {
      absl::StrAppend(&text, "\033[7m", printable, "\033[27m");
    } else {
      absl::StrAppend(&text, "[[", printable, "]]");
    }
  }
  return text;
}

std::string PlanRecords(const SftPlan& plan, bool colour) {
  std::string text;
  for (size_t i = 0; i < plan.first_records.size(); ++i) {
    absl::StrAppend(&text, "--- record ", i, " (", plan.first_places[i],
                    colour ? "), trained tokens in reverse\n" : "), trained tokens in [[ ]]\n",
                    MarkedText(plan.first_records[i], colour), "\n");
  }
  return text;
}

nlohmann::ordered_json PlanJson(const SftPlan& plan) {
  using Json = nlohmann::ordered_json;
  Json json = {{"model", plan.model},
               {"family", plan.family},
               {"dtype", plan.dtype},
               {"instruction_set", plan.instruction_set},
               {"threads", plan.threads},
               {"model_parameters", plan.model_parameters},
               {"trainable_parameters", plan.trainable_parameters},
               {"router_parameters", plan.router_parameters}};
  if (!plan.fingerprint.empty()) json["fingerprint"] = plan.fingerprint;
  json["modules"] = Json::array();
  for (const PlannedModule& module : plan.modules) {
    json["modules"].push_back({{"path", module.path},
                               {"shape", module.shape},
                               {"rank", module.rank},
                               {"alpha", module.alpha}});
  }
  json["left_out"] = plan.left_out;
  json["patterns"] = Json::array();
  for (const PatternMatches& matches : plan.matches) {
    json["patterns"].push_back({{"pattern", matches.pattern}, {"paths", matches.paths}});
  }
  json["data"] = plan.data.has_value() ? DataJson(*plan.data) : Json();
  json["eval_data"] = plan.eval_data.has_value() ? DataJson(*plan.eval_data) : Json();
  json["epoch_records"] = plan.epoch_records;
  json["steps_per_epoch"] = plan.steps_per_epoch;
  json["total_steps"] = plan.total_steps;
  json["warmup_steps"] = plan.warmup_steps;
  json["resumed_step"] = plan.resumed_step;
  json["memory_bytes"] = {
      {"weights", plan.memory.weights},     {"trained", plan.memory.trained},
      {"optimizer", plan.memory.optimizer}, {"activations", plan.memory.activations},
      {"logits", plan.memory.logits},       {"total", plan.memory.total()}};
  json["first_records"] = Json::array();
  for (const std::vector<MarkedPiece>& record : plan.first_records) {
    Json pieces = Json::array();
    for (const MarkedPiece& piece : record) {
      pieces.push_back({{"text", piece.text}, {"trained", piece.trained}});
    }
    json["first_records"].push_back(std::move(pieces));
  }
  json["first_places"] = plan.first_places;
  json["notes"] = plan.notes;
  return json;
}

}  // namespace lorica::cli
