// What this executable is.
#ifndef LORICA_CLI_VERSION_H_
#define LORICA_CLI_VERSION_H_

#include <string>

namespace lorica::cli {

// "0.1.0".
extern const char* const kVersion;
// The commit of the checkout it was built from, with "+" where that was changed; "unknown" outside
// of a repository.
extern const char* const kCommit;

// Several lines: version, commit, compiler, instruction sets found and used, optional parts.
std::string VersionText();

}  // namespace lorica::cli

#endif  // LORICA_CLI_VERSION_H_
