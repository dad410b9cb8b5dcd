// lorica inspect.
#include "lorica/train/inspect.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lorica/cli/command.h"
#include "lorica/cli/json_result.h"
#include "lorica/cli/option_values.h"
#include "lorica/cli/plan_report.h"
#include "lorica/cli/terminal.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica::cli {
namespace {

struct FactText {
  std::string operator()(int64_t value) const { return absl::StrCat(value); }
  std::string operator()(double value) const { return RealText(value); }
  std::string operator()(const std::string& value) const { return value; }
};

// Two or three columns, the first as wide as its widest entry.
template <typename Rows, typename First, typename Rest>
void PrintRows(const Rows& rows, const First& first, const Rest& rest) {
  size_t width = 0;
  for (const auto& row : rows) width = std::max(width, first(row).size());
  for (const auto& row : rows) {
    const std::string head = first(row);
    PrintResult(
        absl::StrCat("  ", head, std::string(width - head.size() + 2, ' '), rest(row), "\n"));
  }
}

void PrintText(const std::string& path, const Inspection& result, bool verified) {
  PrintResult(absl::StrCat(path, ": ", result.kind, verified ? ", verified\n" : "\n"));
  PrintRows(
      result.facts, [](const InspectedFact& fact) { return fact.first; },
      [](const InspectedFact& fact) { return std::visit(FactText(), fact.second); });
  if (!result.modules.empty()) {
    PrintResult("modules that LoRA can target (* by default)\n");
    PrintRows(
        result.modules,
        [](const InspectedModule& module) {
          return absl::StrCat(module.default_target ? "* " : "  ", module.path);
        },
        [](const InspectedModule& module) {
          return absl::StrCat(module.kind, " ", ShapeText(module.shape));
        });
  }
  if (result.tensors.empty()) return;
  PrintResult("tensors\n");
  int64_t bytes = 0;
  for (const InspectedTensor& tensor : result.tensors) bytes += tensor.bytes;
  PrintRows(
      result.tensors, [](const InspectedTensor& tensor) { return tensor.name; },
      [](const InspectedTensor& tensor) {
        return absl::StrCat(tensor.type, " ", ShapeText(tensor.shape), " ", Grouped(tensor.bytes),
                            " bytes");
      });
  PrintResult(absl::StrCat(result.tensors.size(), " tensors, ", Grouped(result.parameters),
                           " values, ", Size(bytes), "\n"));
}

nlohmann::ordered_json ToJson(const std::string& path, const Inspection& result, bool verified) {
  using Json = nlohmann::ordered_json;
  Json json = {{"path", path}, {"kind", result.kind}, {"verified", verified}};
  Json facts = Json::object();
  for (const auto& [name, value] : result.facts) {
    Json item = std::visit([](const auto& plain) { return Json(plain); }, value);
    if (!facts.contains(name)) {
      facts[name] = std::move(item);
      continue;
    }
    // What occurs several times (checkpoints, notes) becomes a list.
    if (!facts[name].is_array()) facts[name] = Json::array({facts[name]});
    facts[name].push_back(std::move(item));
  }
  json["facts"] = std::move(facts);
  json["parameters"] = result.parameters;
  json["modules"] = Json::array();
  for (const InspectedModule& module : result.modules) {
    json["modules"].push_back({{"path", module.path},
                               {"kind", module.kind},
                               {"shape", module.shape},
                               {"default_target", module.default_target}});
  }
  json["tensors"] = Json::array();
  for (const InspectedTensor& tensor : result.tensors) {
    json["tensors"].push_back({{"name", tensor.name},
                               {"dtype", tensor.type},
                               {"shape", tensor.shape},
                               {"bytes", tensor.bytes}});
  }
  return json;
}

class InspectCommand final : public Command {
 public:
  const char* name() const override { return "inspect"; }
  const char* summary() const override {
    return "what a model, adapter, checkpoint, run or tokenizer holds";
  }
  const char* positional() const override { return "path"; }

  void Visit(OptionVisitor& visitor) override {
    visitor.On({.name = "path",
                .group = "Input",
                .help = "model, adapter, checkpoint or run folder, or a file of weights"},
               path_);
    visitor.On({.name = "verify",
                .group = "Input",
                .help = "read everything: checksums, names, shapes, values"},
               verify_);
    VisitOutputOptions(output_, visitor);
  }

  absl::Status Run(const std::function<bool(absl::string_view)>&) override {
    if (path_.empty()) return absl::InvalidArgumentError("inspect needs a path");
    LORICA_ASSIGN_OR_RETURN(const Inspection result, Inspect(path_, {.verify = verify_}));
    if (output_.json) {
      PrintJson(ToJson(path_, result, verify_));
    } else {
      PrintText(path_, result, verify_);
    }
    return absl::OkStatus();
  }

 private:
  std::string path_;
  bool verify_ = false;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Command> MakeInspectCommand() { return std::make_unique<InspectCommand>(); }

}  // namespace lorica::cli
