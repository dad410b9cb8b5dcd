// adapter_config.json: PEFT's description of an adapter, read and written.
//
// docs/peft.md has the table of all keys: those that are used, those that must be neutral because
// what they ask for would change the maths and isn't supported (an adapter is refused by that key's
// name), and those without meaning for the maths, which are ignored.
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
#include "lorica/peft/stored_adapter.h"

namespace lorica {

// Before the path of every module in the keys of PEFT's files.
inline constexpr absl::string_view kPeftPrefix = "base_model.model.";

// A pattern over module paths in the syntax of Python's `re`, as PEFT uses it, run by PCRE2 with
// bounded work.
class PathRegex {
 public:
  // InvalidArgument naming `where` when the pattern can't be compiled.
  static absl::StatusOr<PathRegex> Compile(absl::string_view pattern, absl::string_view where);
  // The whole path matches.
  bool FullMatch(absl::string_view path) const;
  // The number that the group named `idx` captures in a match of the whole path; -1 without one.
  int64_t MatchedIndex(absl::string_view path) const;

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
  // From here on names that aren't whole paths mean modules of these layers only. The layer is the
  // first number in a path that stands behind one of `patterns` (which have a group `idx` for it),
  // or without patterns behind any two names.
  void RestrictLayers(std::vector<int64_t> layers, std::vector<PathRegex> patterns);
  bool Matches(absl::string_view path) const;
  bool empty() const { return names_.empty() && !regex_.has_value(); }
  bool is_regex() const { return regex_.has_value(); }
  // "all-linear" was given.
  bool all_linear() const { return all_linear_; }

 private:
  std::vector<std::string> names_;
  std::optional<PathRegex> regex_;
  bool all_linear_ = false;
  std::vector<int64_t> layers_;  // empty: all
  std::vector<PathRegex> layer_patterns_;
};

struct PeftConfig {
  int64_t rank = 8;
  double alpha = 8;
  LoraScaling scaling = LoraScaling::kStandard;
  double dropout = 0;
  std::string base_model;
  PeftModuleNames targets;
  PeftModuleNames excludes;
  // Modules whose weights the adapter brings in full, by path or last names. Never adapted.
  std::vector<std::string> saved_modules;
  // A head that shares the embedding's weight follows it when that is saved.
  bool ties_saved = false;
  // Keys are regular expressions for the end of a path; the first match in file order counts.
  std::vector<std::pair<PathRegex, int64_t>> rank_pattern;
  std::vector<std::pair<PathRegex, double>> alpha_pattern;

  // The module is one that gets an adapter. With targets.all_linear(): that may get one.
  bool Adapts(absl::string_view path) const;
  // The adapter brings the weights of this module.
  bool Saves(absl::string_view path) const;
  // The module and the name in a key without prefix ("a.gate.weight") whose module is saved; null
  // for any other key. Values are left undefined.
  std::optional<SavedTensor> ParseSavedKey(absl::string_view key) const;
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
  std::vector<std::string> saved_modules;  // paths
  bool ties_saved = false;                 // as in PeftConfig
};

// The text of adapter_config.json. Modules that differ from `rank` and `alpha` get patterns that
// are full paths.
absl::StatusOr<std::string> FormatPeftConfig(const PeftConfigFields& fields);

}  // namespace lorica

#endif  // LORICA_PEFT_PEFT_CONFIG_H_
