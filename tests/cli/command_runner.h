// Runs the real command in a process of its own.
#ifndef LORICA_TESTS_CLI_COMMAND_RUNNER_H_
#define LORICA_TESTS_CLI_COMMAND_RUNNER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lorica {

struct RunOptions {
  std::string input;   // on stdin
  std::string folder;  // to start in; empty: this process's
  // Largest file that the process may write, as if the disk were full behind it.
  std::optional<uint64_t> file_limit;
  std::string stdout_path;  // where stdout goes; empty: into the result
  double timeout_seconds = 120;
  // Called again and again while the process runs; may send signals to it.
  std::function<void(pid_t)> meanwhile;
};

struct RunResult {
  int status = -1;  // exit status; 128 + signal where one ended it
  bool timed_out = false;
  std::string out;
  std::string err;

  // The last line of stderr that isn't empty.
  std::string LastError() const;
};

RunResult RunCommand(const std::vector<std::string>& arguments, const RunOptions& options = {});

// Every file below `folder`: relative path -> content; of a folder "<folder>".
std::map<std::string, std::string> Snapshot(const std::string& folder);

}  // namespace lorica

#endif  // LORICA_TESTS_CLI_COMMAND_RUNNER_H_
