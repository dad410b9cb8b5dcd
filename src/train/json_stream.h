// The JSON values in a file one by one: the lines of a JSONL file, or the elements of one big
// array.
#ifndef LORICA_TRAIN_JSON_STREAM_H_
#define LORICA_TRAIN_JSON_STREAM_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "lorica/train/byte_source.h"

namespace lorica {

// Reads in pieces: memory grows with the longest value, which is limited, not with the file.
class JsonStream {
 public:
  // The longest value that is taken; anything longer is no record that a model could learn from.
  static constexpr size_t kMaxValueBytes = size_t{64} << 20;

  // One value, not parsed yet.
  struct Item {
    std::string text;
    std::string where;   // file and line, or file and number of the element
    int64_t place = 0;   // that line or number, from 1
    int64_t offset = 0;  // of text's first byte in the (decompressed) file
  };

  static absl::StatusOr<JsonStream> Open(const std::string& path);
  // The same over a text in memory; `path` stands for it in messages and tells by its ending what
  // the text holds.
  static absl::StatusOr<JsonStream> OverText(const std::string& text, const std::string& path);

  // The next value; nothing at the end of the file. Blank lines are skipped.
  absl::StatusOr<std::optional<Item>> Next();

  // What `Item::where` says of a place.
  std::string Where(int64_t place) const;
  // "line" or "record": what places count.
  const char* place_name() const { return layout_ == Layout::kLines ? "line" : "record"; }
  const DataInput& input() const { return input_; }

 private:
  // How values are set apart.
  enum class Layout : uint8_t {
    kLines,   // one a line
    kArray,   // elements of an array
    kValues,  // one after the other, over as many lines as they like: an object in a .json file
  };

  JsonStream(std::string path, DataInput input);
  absl::Status SkipMarkAndFindLayout();
  // The next byte without taking it; -1 at the end of the file and where reading failed (status_).
  int Peek();
  void Skip() { ++position_; }
  int64_t offset() const { return buffer_offset_ + static_cast<int64_t>(position_); }
  void SkipSpace();
  absl::Status Error(const std::string& message) const;
  absl::StatusOr<std::optional<Item>> NextLine();
  absl::StatusOr<std::optional<Item>> NextElement();
  // The whole value that begins at the current byte.
  absl::StatusOr<std::string> TakeValue();

  std::string path_;
  DataInput input_;
  absl::Status status_;
  std::string buffer_;
  int64_t buffer_offset_ = 0;  // of the buffer in the text
  size_t position_ = 0;        // in buffer_
  Layout layout_ = Layout::kLines;
  int64_t line_ = 0;     // of the last line taken, from 1
  int64_t element_ = 0;  // of the last element taken, from 1
  bool opened_ = false;  // the array's bracket was taken
  bool closed_ = false;  // so was its end
};

}  // namespace lorica

#endif  // LORICA_TRAIN_JSON_STREAM_H_
