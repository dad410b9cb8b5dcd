#include "lorica/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "lorica/text/utf8.h"

namespace lorica::cli {
namespace {

// Often enough to see that a run lives, rare enough to keep its log short.
constexpr std::chrono::seconds kPlainInterval(5);
// A terminal needn't be redrawn faster than people read.
constexpr std::chrono::milliseconds kLiveInterval(100);

constexpr int kDefaultColumns = 80;

void PrintMessage(absl::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

int Columns() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultColumns;
  return size.ws_col;
}

// A line that wraps could not be redrawn in place.
absl::string_view FirstColumns(absl::string_view line, int columns) {
  size_t end = 0;
  for (int column = 0; column < columns && end < line.size(); ++column) {
    end += Utf8Length(line[end]);
  }
  return line.substr(0, end);
}

}  // namespace

void PrintResult(absl::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

absl::Status FlushResults() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    return absl::InternalError(
        absl::StrCat("the results could not be written to stdout: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

bool ColourOnStdout() {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* terminal = std::getenv("TERM");
  if (terminal == nullptr || std::strcmp(terminal, "dumb") == 0) return false;
  return isatty(STDOUT_FILENO) != 0;
}

Progress::Progress(bool quiet)
    : quiet_(quiet),
      live_(isatty(STDERR_FILENO) != 0),
      printed_(std::chrono::steady_clock::now()) {}

Progress::~Progress() { Finish(); }

void Progress::Clear() {
  if (shown_) PrintMessage("\r\033[K");
  shown_ = false;
}

void Progress::Say(absl::string_view line) {
  if (quiet_) return;
  Clear();
  PrintMessage(absl::StrCat(line, "\n"));
}

void Progress::Update(absl::string_view line) {
  if (quiet_) return;
  pending_ = std::string(line);
  const auto now = std::chrono::steady_clock::now();
  if (live_) {
    if (shown_ && now - printed_ < kLiveInterval) return;
    PrintMessage(absl::StrCat("\r\033[K", FirstColumns(line, Columns() - 1)));
    shown_ = true;
  } else {
    if (now - printed_ < kPlainInterval) return;
    PrintMessage(absl::StrCat(line, "\n"));
    pending_.clear();
  }
  printed_ = now;
}

void Progress::Finish() {
  if (quiet_ || pending_.empty()) return;
  Clear();
  PrintMessage(absl::StrCat(pending_, "\n"));
  pending_.clear();
}

}  // namespace lorica::cli
