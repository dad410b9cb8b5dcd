// adapter_config.json as the PEFT layouts of experts need it: what PeftConfig has, and what names
// parameters, versions and Lorica's own record.
#ifndef LORICA_PEFT_LAYOUTS_PEFT_LAYOUT_CONFIG_H_
#define LORICA_PEFT_LAYOUTS_PEFT_LAYOUT_CONFIG_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/io/file_system.h"
#include "lorica/peft/peft_config.h"
#include "lorica/peft/stored_adapter.h"

namespace lorica::layouts {

struct PeftLayoutConfig {
  PeftConfig peft;
  std::vector<std::string> target_parameters;
  std::string task_type = "CAUSAL_LM";
  // Of PEFT, major and minor, where the file names it.
  std::optional<std::pair<int, int>> version;
  // What Lorica noted when it wrote the file; empty where another program did.
  bool by_lorica = false;
  std::string expert_kind;
  std::optional<bool> interleaved;  // rows of gate_up_proj
  std::string orientation;
  std::optional<double> trained_dropout;
  std::string init;

  // target_parameters names the parameter at `path`.
  bool NamesParameter(absl::string_view path) const;
  // The module at `path` is named, as a module or by its weight.
  bool Names(absl::string_view path) const;
  int64_t RankOf(absl::string_view path) const;
  double AlphaOf(absl::string_view path) const;

  static absl::StatusOr<PeftLayoutConfig> Read(const std::string& path, FileSystem& files);

 private:
  // What rank and alpha patterns are matched with.
  std::string PatternPath(absl::string_view path) const;
};

// What is written.
struct PeftConfigText {
  int64_t rank = 0;
  double alpha = 0;
  bool rslora = false;
  std::vector<std::string> target_modules;
  std::vector<std::string> target_parameters;
  std::vector<std::string> modules_to_save;
  std::map<std::string, int64_t> rank_pattern;
  std::map<std::string, double> alpha_pattern;
  std::string peft_version;  // empty: left out
  absl::string_view layout;
  std::string orientation;  // empty: left out

  // Sets rank and alpha of `pattern`, where they aren't the adapter's.
  void SetPattern(const std::string& pattern, int64_t own_rank, double own_alpha);
  std::string Format(const StoredAdapter& adapter) const;
};

}  // namespace lorica::layouts

#endif  // LORICA_PEFT_LAYOUTS_PEFT_LAYOUT_CONFIG_H_
