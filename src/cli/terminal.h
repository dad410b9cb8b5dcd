// What a person sees while a command runs: results on stdout, messages and progress on stderr.
#ifndef LORICA_CLI_TERMINAL_H_
#define LORICA_CLI_TERMINAL_H_

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lorica::cli {

// Appends to stdout, buffered. Trouble shows in FlushResults.
void PrintResult(absl::string_view text);
// Everything printed has left the process; Internal where it could not (a full disk).
absl::Status FlushResults();

// stdout is a terminal that may show colours: NO_COLOR (no-color.org) and TERM=dumb say no.
bool ColourOnStdout();

// Messages and a progress line on stderr. Where that is a terminal, the progress line is redrawn in
// place; elsewhere the newest one is printed as a line every few seconds. One thread at a time.
class Progress {
 public:
  // Quiet: nothing is printed at all.
  explicit Progress(bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A line of its own, at once.
  void Say(absl::string_view line);
  // The state of things: replaces what Update said before.
  void Update(absl::string_view line);
  // Leaves the last state on the screen and starts anew.
  void Finish();

 private:
  void Clear();

  const bool quiet_;
  const bool live_;
  bool shown_ = false;   // a live line stands on the screen
  std::string pending_;  // the newest state, not printed yet
  std::chrono::steady_clock::time_point printed_;
};

}  // namespace lorica::cli

#endif  // LORICA_CLI_TERMINAL_H_
