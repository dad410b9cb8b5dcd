// Training data files: JSONL, or JSON arrays of the same objects, in one of six formats.
//
//   messages                  {"messages": [{"role", "content", ...}], "tools"?}
//   conversations             {"conversations": [{"from", "value"}], "system"?, "tools"?}
//   prompt and completion     {"prompt", "completion"}: two strings, or two lists of messages
//   instruction               {"instruction", "input"?, "output", "system"?, "history"?}
//   text                      {"text"}
//   token ids                 {"input_ids", "labels"?, "attention_mask"?}
//
// "question" and "answer" are taken as "instruction" and "output". Any record may have a "weight",
// a number of at least 0 that its tokens count with in the loss (1 where absent).
//
// The first record decides the format; a record of another one is an error. Keys that a format
// doesn't know are ignored. Files are UTF-8, with or without a byte order mark, plain or compressed
// (gzip, zstd, xz).
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
  double weight = 1;  // of its tokens in the loss

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

// The JSON text of a record and where it stands.
struct RawRecord {
  std::string text;
  std::string where;      // as Record::where
  int64_t index = 0;      // over all files, from 0
  size_t file = 0;        // which of the files
  int64_t place = 0;      // its line in the file, or its number, from 1
  int64_t offset = 0;     // of the text's first byte in the (decompressed) file
  bool seekable = false;  // it can be read again there
};

// Parses the text: ParseRecord, with the record's number. Const data only: any thread.
absl::StatusOr<Record> ParseRecord(const RawRecord& raw, std::optional<RecordFormat> format);

// What is known of a data file when it has been read to its end.
struct ReadFile {
  std::string path;
  int64_t bytes = 0;                // of the file as it lies there
  uint32_t crc32c = 0;              // of these bytes
  bool seekable = false;            // a record can be read again at its offset
  const char* place_name = "line";  // what places count: "line" or "record"
};

// Reads records one by one; memory grows with the longest record, not with the files.
class RecordReader {
 public:
  // Of the files in this order.
  static absl::StatusOr<RecordReader> Open(std::vector<std::string> paths);
  // Of a text in memory; `name` stands for its path: a name that ends in .json may hold an object
  // over several lines. The text may be compressed, as files may.
  static absl::StatusOr<RecordReader> OverText(const std::string& text, const std::string& name);
  RecordReader(RecordReader&&) noexcept;
  RecordReader& operator=(RecordReader&&) noexcept;
  ~RecordReader();

  // The next record; nothing at the end. A file without any record is an error.
  absl::StatusOr<std::optional<Record>> Next();
  // The same, not parsed yet, and not compared with the format of the first.
  absl::StatusOr<std::optional<RawRecord>> NextRaw();

  // That of the first record; nothing before it was read by Next.
  std::optional<RecordFormat> format() const;

  // The files read to their ends so far.
  const std::vector<ReadFile>& files() const;
  // How far reading has come, over all files, in bytes as they lie there; `total_bytes` is 0 where
  // a file has no size (a pipe).
  int64_t bytes_read() const;
  int64_t total_bytes() const;

 private:
  class State;
  explicit RecordReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lorica

#endif  // LORICA_TRAIN_RECORDS_H_
