// The table of bad inputs: what is wrong, the command line, and how the command must answer.
#ifndef LORICA_TESTS_CLI_BAD_INPUT_H_
#define LORICA_TESTS_CLI_BAD_INPUT_H_

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace lorica {

// One row runs in a folder of its own, which is also the working folder. In arguments and messages
// {M} stands for a small model that chats, {G} for tests/golden/models/llama_gqa, {D} for good data
// for {M}, {T} for good token data for {G}.
struct BadInput {
  std::string name;
  std::vector<std::string> arguments;
  int status = 0;
  std::string message;                                   // part of the last line of stderr
  std::function<void(const std::string& folder)> setup;  // may be empty
};

// For GoogleTest, which would print the bytes.
inline void PrintTo(const BadInput& row, std::ostream* out) { *out << row.name; }

// Options and configurations: status 2.
std::vector<BadInput> BadOptions();
// Models: status 3.
std::vector<BadInput> BadModels();
// Data, templates, tokenizers: status 3.
std::vector<BadInput> BadTexts();
// Adapters, checkpoints, output folders, devices and disks: all statuses.
std::vector<BadInput> BadPlaces();

// A setup that copies {M}, or {G}'s model, to `name` in the row's folder and then changes it.
using Change = std::function<void(const std::string& model)>;
std::function<void(const std::string&)> CopyOfSmallModel(const std::string& name, Change change);
std::function<void(const std::string&)> CopyOfGoldenModel(const std::string& name, Change change);

// A setup that writes one file.
std::function<void(const std::string&)> File(const std::string& name, const std::string& bytes);

// Replaces the first occurrence of `from` in a file; aborts where there is none.
void ReplaceInFile(const std::string& path, const std::string& from, const std::string& to);

}  // namespace lorica

#endif  // LORICA_TESTS_CLI_BAD_INPUT_H_
