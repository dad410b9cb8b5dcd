// Training data files: JSONL, or JSON arrays of the same objects, in one of six formats.
//
//   messages                  {"messages": [{"role", "content", ...}], "tools"?}
//   conversations             {"conversations": [{"from", "value"}], "system"?, "tools"?}
//   prompt and completion     {"prompt", "completion"}: two strings, or two lists of messages
//   instruction               {"instruction", "input"?, "output", "system"?, "history"?}
//   text                      {"text"}
//   token ids                 {"input_ids", "labels"?, "attention_mask"?}
//
// The first record decides the format; a record of another one is an error. Keys that a format
// doesn't know are ignored. Files are UTF-8, with or without a byte order mark.
#ifndef LORICA_TRAIN_RECORDS_H_
#define LORICA_TRAIN_RECORDS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/text/jinja/value.h"

namespace lorica {

enum class RecordFormat : uint8_t {
  kMessages,
  kConversations,
  kPromptCompletion,
  kInstruction,
  kText,
  kTokens,
};
// "messages", "prompt and completion", ...
absl::string_view Name(RecordFormat format);

// A label that counts nowhere, as Hugging Face has it.
inline constexpr int32_t kIgnoredLabel = -100;

struct Record {
  RecordFormat format = RecordFormat::kText;
  int64_t index = 0;  // over all files, from 0
  std::string where;  // "train.jsonl, line 3" or "train.json, record 3" (from 1), for errors

  // kMessages, kConversations, kInstruction, and kPromptCompletion where it holds messages: a list
  // of dicts in the form that chat templates read (text/chat_messages.h), and the tools (a list, or
  // none).
  bool has_messages = false;
  jinja::Value messages = nullptr;
  jinja::Value tools = nullptr;
  // The messages that are given and never trained: those of `prompt`.
  size_t prompt_messages = 0;

  // kPromptCompletion of strings.
  std::string prompt;
  std::string completion;

  // kText.
  std::string text;

  // kTokens: of one length. Labels belong to the ids at the same place (not shifted); kIgnoredLabel
  // where not trained.
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;
};

// Reads one record from its JSON object; `where` starts error messages. `format` is that of the
// first record, or nothing for the first.
absl::StatusOr<Record> ParseRecord(const jinja::Value& object, std::optional<RecordFormat> format,
                                   const std::string& where);

// Reads records one by one; memory grows with the longest record, not with the files.
class RecordReader {
 public:
  // Of the files in this order.
  static absl::StatusOr<RecordReader> Open(std::vector<std::string> paths);
  // Of a text in memory; `name` stands for its path: a name that ends in .json may hold an object
  // over several lines.
  static RecordReader OverText(const std::string& text, const std::string& name);
  RecordReader(RecordReader&&) noexcept;
  RecordReader& operator=(RecordReader&&) noexcept;
  ~RecordReader();

  // The next record; nothing at the end. A file without any record is an error.
  absl::StatusOr<std::optional<Record>> Next();

  // That of the first record; nothing before it was read.
  std::optional<RecordFormat> format() const;

 private:
  class State;
  explicit RecordReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// What `--data` names: files as they are, and for folders their train and valid files (train.jsonl
// or train.json, valid.jsonl or valid.json or validation.*). NotFound for a path that doesn't exist
// or a folder without a train file.
struct DataFiles {
  std::vector<std::string> train;
  std::vector<std::string> valid;
};
absl::StatusOr<DataFiles> FindDataFiles(const std::vector<std::string>& paths);

}  // namespace lorica

#endif  // LORICA_TRAIN_RECORDS_H_
