// adapter_config.json: PEFT's description of an adapter, read and written.
//
// Read: r, lora_alpha, lora_dropout, use_rslora, target_modules, exclude_modules, rank_pattern,
// alpha_pattern, base_model_name_or_path. Every other key that would change the maths must be at
// its neutral value, else the adapter is refused by that key's name (docs/lora.md has the table).
// Keys without meaning for the maths are ignored.
#ifndef LORICA_PEFT_PEFT_CONFIG_H_
#define LORICA_PEFT_PEFT_CONFIG_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/peft/lora_config.h"

namespace lorica {

// A pattern over module paths in the syntax of Python's `re`, as PEFT uses it, run by PCRE2 with
// bounded work.
class PathRegex {
 public:
  // InvalidArgument naming `where` when the pattern can't be compiled.
  static absl::StatusOr<PathRegex> Compile(absl::string_view pattern, absl::string_view where);
  // The whole path matches.
  bool FullMatch(absl::string_view path) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

// PEFT's selection of modules: a list of names (a path or its last names), or one regular
// expression.
class PeftModuleNames {
 public:
  static absl::StatusOr<PeftModuleNames> OfList(std::vector<std::string> names);
  static absl::StatusOr<PeftModuleNames> OfRegex(absl::string_view pattern,
                                                 absl::string_view where);
  bool Matches(absl::string_view path) const;
  bool empty() const { return names_.empty() && !regex_.has_value(); }
  // "all-linear" was given.
  bool all_linear() const { return all_linear_; }

 private:
  std::vector<std::string> names_;
  std::optional<PathRegex> regex_;
  bool all_linear_ = false;
};

struct PeftConfig {
  int64_t rank = 8;
  double alpha = 8;
  LoraScaling scaling = LoraScaling::kStandard;
  double dropout = 0;
  std::string base_model;
  PeftModuleNames targets;
  PeftModuleNames excludes;
  // Keys are regular expressions for the end of a path; the first match in file order counts.
  std::vector<std::pair<PathRegex, int64_t>> rank_pattern;
  std::vector<std::pair<PathRegex, double>> alpha_pattern;

  int64_t RankOf(absl::string_view path) const;
  double AlphaOf(absl::string_view path) const;
};

// `text` is the file's content, `where` its path.
absl::StatusOr<PeftConfig> ParsePeftConfig(absl::string_view text, absl::string_view where);

// One module of an adapter that is written.
struct PeftModuleEntry {
  std::string path;
  int64_t rank = 0;
  double alpha = 0;
};

struct PeftConfigFields {
  int64_t rank = 0;
  double alpha = 0;
  LoraScaling scaling = LoraScaling::kStandard;
  double dropout = 0;
  LoraInit init = LoraInit::kKaiming;
  std::string base_model;
  std::vector<PeftModuleEntry> modules;
};

// The text of adapter_config.json. Modules that differ from `rank` and `alpha` get patterns that
// are full paths.
absl::StatusOr<std::string> FormatPeftConfig(const PeftConfigFields& fields);

}  // namespace lorica

#endif  // LORICA_PEFT_PEFT_CONFIG_H_
