// SIGINT and SIGTERM as a flag.
#ifndef LORICA_CLI_INTERRUPT_H_
#define LORICA_CLI_INTERRUPT_H_

namespace lorica::cli {

// From now on the first signal sets the flag, and the second one ends the process at once with
// status 130.
void CatchInterrupts();

// A signal came.
bool Interrupted();

// Forgets a signal that was answered (chat: one interrupts the answer, not the conversation).
void ClearInterrupt();

}  // namespace lorica::cli

#endif  // LORICA_CLI_INTERRUPT_H_
