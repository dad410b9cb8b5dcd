// A training plan for people and for programs.
#ifndef LORICA_CLI_PLAN_REPORT_H_
#define LORICA_CLI_PLAN_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lorica/train/sft.h"

namespace lorica::cli {

// What will be trained, on what, for how long, in how much memory: a few lines.
std::string PlanSummary(const SftPlan& plan);

// Every matched path with its shape and rank.
std::string PlanModules(const SftPlan& plan);

// How long records are, as bars of text; nothing without data.
std::string PlanLengths(const SftPlan& plan);

// The first records, what is trained in reverse video, or between brackets without colour.
std::string PlanRecords(const SftPlan& plan, bool colour);

nlohmann::ordered_json PlanJson(const SftPlan& plan);

// Pieces of one text as above. Control characters other than tab and newline are spelled out, so
// that data can't steer the terminal.
std::string MarkedText(const std::vector<MarkedPiece>& pieces, bool colour);

// "1,234,567".
std::string Grouped(int64_t number);
// "1.5 GB".
std::string Size(int64_t bytes);

}  // namespace lorica::cli

#endif  // LORICA_CLI_PLAN_REPORT_H_
