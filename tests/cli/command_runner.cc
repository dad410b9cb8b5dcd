#include "cli/command_runner.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "lorica/io/atomic_commit.h"

namespace lorica {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// In the child: wires its files and limits, then becomes the command. Never returns.
[[noreturn]] void Become(const std::vector<std::string>& arguments, const RunOptions& options,
                         const std::string& in, const std::string& out, const std::string& err) {
  dup2(open(in.c_str(), O_RDONLY), STDIN_FILENO);
  dup2(open(out.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
  dup2(open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
  if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) _exit(127);
  if (options.file_limit.has_value()) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {*options.file_limit, *options.file_limit};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  std::vector<char*> argv;
  // Another build of the command can be put to the same tests.
  const char* other = std::getenv("LORICA_COMMAND");
  std::string program = other != nullptr ? other : LORICA_COMMAND;
  argv.push_back(program.data());
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  _exit(127);
}

}  // namespace

std::string RunResult::LastError() const {
  size_t end = err.find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const size_t begin = err.rfind('\n', end);
  return err.substr(begin == std::string::npos ? 0 : begin + 1,
                    end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

RunResult RunCommand(const std::vector<std::string>& arguments, const RunOptions& options) {
  namespace fs = std::filesystem;
  const fs::path scratch = fs::temp_directory_path() / ("lorica_run_" + MakeNonce());
  fs::create_directory(scratch);
  const std::string in = scratch / "in";
  std::ofstream(in, std::ios::binary) << options.input;
  const std::string out =
      options.stdout_path.empty() ? std::string(scratch / "out") : options.stdout_path;
  const std::string err = scratch / "err";

  const pid_t child = fork();
  if (child < 0) std::abort();
  if (child == 0) Become(arguments, options, in, out, err);
  RunResult result;
  const auto start = std::chrono::steady_clock::now();
  for (int wait_status = 0;;) {
    if (waitpid(child, &wait_status, WNOHANG) == child) {
      result.status =
          WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
      break;
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    if (passed.count() > options.timeout_seconds && !result.timed_out) {
      result.timed_out = true;
      kill(child, SIGKILL);
    }
    if (options.meanwhile) options.meanwhile(child);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (options.stdout_path.empty()) result.out = ReadFile(out);
  result.err = ReadFile(err);
  fs::remove_all(scratch);
  return result;
}

std::map<std::string, std::string> Snapshot(const std::string& folder) {
  namespace fs = std::filesystem;
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(entry.path(), folder);
    files[name] = entry.is_regular_file() ? ReadFile(entry.path()) : "<folder>";
  }
  return files;
}

}  // namespace lorica
