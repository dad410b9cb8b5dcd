#include "lorica/cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "lorica/train/exit_status.h"

namespace lorica::cli {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes it");

void OnSignal(int) {
  if (interrupted.exchange(true)) _exit(kExitInterrupted);
}

}  // namespace

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool Interrupted() { return interrupted.load(); }

void ClearInterrupt() { interrupted.store(false); }

}  // namespace lorica::cli
