// Models small enough for a test: a random one that chats in bytes, and those of tests/golden.
#ifndef LORICA_TESTS_CLI_SMALL_MODEL_H_
#define LORICA_TESTS_CLI_SMALL_MODEL_H_

#include <string>

#include "absl/strings/string_view.h"

namespace lorica {

// tests/golden/models/`name`.
std::string GoldenModel(const std::string& name);

// Writes a folder with everything: a Llama-like model of 261 tokens (the bytes, and special tokens
// for turns), tokenizer, template. Aborts on error.
void WriteSmallModel(const std::string& folder);

// Its chat template.
extern const char kSmallTemplate[];

// Conversations for it, one a line.
std::string SmallData(int records);

void WriteFileOrDie(const std::string& path, absl::string_view bytes);
std::string ReadFileOrDie(const std::string& path);
void CopyFolderOrDie(const std::string& from, const std::string& to);

}  // namespace lorica

#endif  // LORICA_TESTS_CLI_SMALL_MODEL_H_
