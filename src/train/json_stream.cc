#include "lorica/train/json_stream.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lorica/tensor/status.h"

namespace lorica {

namespace {

constexpr size_t kChunkBytes = size_t{1} << 18;

bool IsJsonSpace(int c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool IsBlank(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return IsJsonSpace(c); });
}

}  // namespace

JsonStream::JsonStream(std::string path, DataInput input)
    : path_(std::move(path)), input_(std::move(input)) {}

absl::StatusOr<JsonStream> JsonStream::Open(const std::string& path) {
  LORICA_ASSIGN_OR_RETURN(DataInput input, DataInput::Open(path));
  JsonStream stream(path, std::move(input));
  LORICA_RETURN_IF_ERROR(stream.SkipMarkAndFindLayout());
  return stream;
}

absl::StatusOr<JsonStream> JsonStream::OverText(const std::string& text, const std::string& path) {
  LORICA_ASSIGN_OR_RETURN(DataInput input, DataInput::OverText(text, path));
  JsonStream stream(path, std::move(input));
  LORICA_RETURN_IF_ERROR(stream.SkipMarkAndFindLayout());
  return stream;
}

absl::Status JsonStream::SkipMarkAndFindLayout() {
  for (const int byte : {0xEF, 0xBB, 0xBF}) {
    if (Peek() != byte) break;
    Skip();
  }
  // The name without the ending that says how it is compressed.
  absl::string_view name = path_;
  for (const char* ending : {".gz", ".zst", ".xz"}) {
    if (absl::ConsumeSuffix(&name, ending)) break;
  }
  if (Peek() == '[') {
    layout_ = Layout::kArray;
  } else if (absl::EndsWith(name, ".json")) {
    SkipSpace();
    layout_ = Peek() == '[' ? Layout::kArray : Layout::kValues;
  }
  return status_;
}

int JsonStream::Peek() {
  if (position_ == buffer_.size()) {
    if (!status_.ok()) return -1;
    buffer_offset_ += static_cast<int64_t>(buffer_.size());
    buffer_.resize(kChunkBytes);
    position_ = 0;
    const absl::StatusOr<size_t> count = input_.Read({buffer_.data(), buffer_.size()});
    if (!count.ok()) status_ = count.status();
    buffer_.resize(count.ok() ? *count : 0);
    if (buffer_.empty()) return -1;
  }
  return static_cast<unsigned char>(buffer_[position_]);
}

void JsonStream::SkipSpace() {
  while (IsJsonSpace(Peek())) Skip();
}

absl::Status JsonStream::Error(const std::string& message) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ": ", message));
}

absl::StatusOr<std::optional<JsonStream::Item>> JsonStream::Next() {
  auto item = layout_ == Layout::kLines ? NextLine() : NextElement();
  // What came out of a file whose reading failed looks like its end.
  if (!status_.ok()) return status_;
  return item;
}

std::string JsonStream::Where(int64_t place) const {
  return absl::StrCat(path_, ", ", place_name(), " ", place);
}

absl::StatusOr<std::optional<JsonStream::Item>> JsonStream::NextLine() {
  while (Peek() >= 0) {
    Item item;
    item.offset = offset();
    item.place = ++line_;
    while (Peek() >= 0) {
      const size_t end = buffer_.find('\n', position_);
      const size_t stop = end == std::string::npos ? buffer_.size() : end;
      item.text.append(buffer_, position_, stop - position_);
      position_ = stop;
      if (item.text.size() > kMaxValueBytes) {
        return Error(absl::StrCat("line ", line_, " is longer than ", kMaxValueBytes, " bytes"));
      }
      if (end != std::string::npos) {
        Skip();
        break;
      }
    }
    if (IsBlank(item.text)) continue;
    item.where = Where(line_);
    return item;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<JsonStream::Item>> JsonStream::NextElement() {
  SkipSpace();
  if (layout_ == Layout::kArray) {
    if (!opened_) {
      Skip();  // Open saw the bracket
      opened_ = true;
      SkipSpace();
      closed_ = Peek() == ']';
      if (closed_) Skip();
    } else if (!closed_) {
      const int c = Peek();
      if (c < 0) return Error(absl::StrCat("the array isn't closed behind record ", element_));
      if (c != ',' && c != ']') {
        return Error(absl::StrCat("expected ',' or ']' behind record ", element_));
      }
      Skip();
      closed_ = c == ']';
    }
    SkipSpace();
    if (closed_) {
      if (Peek() >= 0) return Error("expected the end of the file behind the array");
      return std::nullopt;
    }
  }
  if (Peek() < 0) {
    if (layout_ == Layout::kValues) return std::nullopt;
    return Error(absl::StrCat("the array isn't closed behind record ", element_));
  }
  ++element_;
  Item item;
  item.offset = offset();
  item.place = element_;
  item.where = Where(element_);
  LORICA_ASSIGN_OR_RETURN(item.text, TakeValue());
  return item;
}

absl::StatusOr<std::string> JsonStream::TakeValue() {
  std::string text;
  int64_t depth = 0;
  bool in_string = false;
  bool escaped = false;
  for (int c = Peek(); c >= 0; c = Peek()) {
    if (text.size() > kMaxValueBytes) {
      return Error(absl::StrCat("record ", element_, " is longer than ", kMaxValueBytes, " bytes"));
    }
    if (in_string) {
      in_string = escaped || c != '"';
      escaped = !escaped && c == '\\';
      text += static_cast<char>(c);
      Skip();
      if (!in_string && depth == 0) return text;
      continue;
    }
    const bool closes = c == '}' || c == ']';
    // A number or a word ends where something else begins.
    if (depth == 0 && !text.empty() && (IsJsonSpace(c) || c == ',' || closes)) return text;
    text += static_cast<char>(c);
    Skip();
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') ++depth;
    if (closes && --depth <= 0) return text;
  }
  if (depth > 0 || in_string) {
    return Error(absl::StrCat("the file ends inside record ", element_));
  }
  return text;
}

}  // namespace lorica
