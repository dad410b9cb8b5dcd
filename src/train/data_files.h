// What `--data` names: files, folders, patterns; each perhaps with a weight.
#ifndef LORICA_TRAIN_DATA_FILES_H_
#define LORICA_TRAIN_DATA_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lorica {

struct DataFile {
  std::string path;
  // How often each record is taken in an epoch, on average. Above 0.
  double weight = 1;
};

struct DataFiles {
  std::vector<DataFile> train;
  // Of folders, where they have them.
  std::vector<std::string> valid;
  std::vector<std::string> test;
};

// Each of `names`, in this order, is
// - a file, as it is;
// - a folder: its train file, and its valid (or validation) and test files where it has them, each
//   .jsonl or .json, plain or with .gz, .zst or .xz behind; two that could be meant are an error;
// - a pattern of files with *, ? and [...] (glob(7)), in the order of their names;
// and may end in "@WEIGHT", a number above 0, which holds for all that it names. A name that exists
// as it stands is never taken apart.
//
// NotFound for what doesn't exist, matches nothing, or is a folder without a train file;
// FailedPrecondition for a folder with two; InvalidArgument only for a weight that is none.
absl::StatusOr<DataFiles> FindDataFiles(const std::vector<std::string>& names);

// Data to measure on: of a folder its valid files, or else the test files, or else the train file.
// A weight is InvalidArgument.
absl::StatusOr<std::vector<std::string>> FindHeldOutFiles(const std::vector<std::string>& names);

// Files to score: FindDataFiles' train files. A weight is InvalidArgument.
absl::StatusOr<std::vector<std::string>> FindPlainFiles(const std::vector<std::string>& names);

}  // namespace lorica

#endif  // LORICA_TRAIN_DATA_FILES_H_
