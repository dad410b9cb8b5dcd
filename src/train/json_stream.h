// The JSON values in a file one by one: the lines of a JSONL file, or the elements of one big
// array.
#ifndef LORICA_TRAIN_JSON_STREAM_H_
#define LORICA_TRAIN_JSON_STREAM_H_

#include <cstdint>
#include <istream>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace lorica {

// Reads in pieces: memory grows with the longest value, which is limited, not with the file.
class JsonStream {
 public:
  // The longest value that is taken; anything longer is no record that a model could learn from.
  static constexpr size_t kMaxValueBytes = size_t{256} << 20;

  // One value, not parsed yet. `where` names file and line, or file and number of the element
  // from 1.
  struct Item {
    std::string text;
    std::string where;
  };

  static absl::StatusOr<JsonStream> Open(const std::string& path);
  // The same over a text in memory; `path` stands for it in messages and tells by its ending what
  // the text holds.
  static JsonStream OverText(const std::string& text, const std::string& path);

  // The next value; nothing at the end of the file. Blank lines are skipped.
  absl::StatusOr<std::optional<Item>> Next();

 private:
  // How values are set apart.
  enum class Layout : uint8_t {
    kLines,   // one a line
    kArray,   // elements of an array
    kValues,  // one after the other, over as many lines as they like: an object in a .json file
  };

  JsonStream(std::string path, std::unique_ptr<std::istream> input);
  void SkipMarkAndFindLayout();
  // The next byte without taking it; -1 at the end of the file.
  int Peek();
  void Skip() { ++position_; }
  void SkipSpace();
  absl::Status Error(const std::string& message) const;
  absl::StatusOr<std::optional<Item>> NextLine();
  absl::StatusOr<std::optional<Item>> NextElement();
  // The whole value that begins at the current byte.
  absl::StatusOr<std::string> TakeValue();

  std::string path_;
  std::unique_ptr<std::istream> input_;
  std::string buffer_;
  size_t position_ = 0;  // in buffer_
  Layout layout_ = Layout::kLines;
  int64_t line_ = 0;     // of the last line taken, from 1
  int64_t element_ = 0;  // of the last element taken, from 1
  bool opened_ = false;  // the array's bracket was taken
  bool closed_ = false;  // so was its end
};

}  // namespace lorica

#endif  // LORICA_TRAIN_JSON_STREAM_H_
