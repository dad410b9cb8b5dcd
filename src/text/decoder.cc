#include "lorica/text/decoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "lorica/tensor/status.h"
#include "lorica/text/byte_alphabet.h"
#include "lorica/text/utf8.h"

namespace lorica {
namespace {

struct Text {
  std::string bytes;
  bool added = false;
};

// The byte of "<0x0A>", -1 of anything else.
int FallbackByte(absl::string_view piece) {
  if (piece.size() != 6 || !absl::StartsWith(piece, "<0x") || piece[5] != '>') return -1;
  int value = 0;
  for (const char c : piece.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9', upper = c >= 'A' && c <= 'F';
    const bool lower = c >= 'a' && c <= 'f';
    if (!digit && !upper && !lower) return -1;
    value = value * 16 + (digit ? c - '0' : upper ? c - 'A' + 10 : c - 'a' + 10);
  }
  return value;
}

absl::Status ReplaceMatches(const TextPattern& pattern, absl::string_view content,
                            std::string* text) {
  // After byte fallback a text may be broken UTF-8, in which no pattern can be looked for.
  if (FirstInvalidUtf8(*text) != text->size()) return absl::OkStatus();
  Regex::Scratch scratch;
  std::vector<ByteRange> matches;
  LORICA_RETURN_IF_ERROR(pattern.FindAll(*text, &scratch, &matches));
  if (matches.empty()) return absl::OkStatus();
  std::string result;
  size_t kept = 0;
  for (const ByteRange& match : matches) {
    result.append(*text, kept, match.begin - kept);
    result.append(content.data(), content.size());
    kept = match.end;
  }
  result.append(*text, kept, std::string::npos);
  *text = std::move(result);
  return absl::OkStatus();
}

// How many times `mark` stands at the beginning of `text`, at most `limit`.
size_t CountLeading(absl::string_view text, absl::string_view mark, size_t limit) {
  size_t count = 0;
  while (count < limit && absl::StartsWith(text.substr(count * mark.size()), mark)) ++count;
  return count;
}

void Strip(const DecodeStep& step, std::string* text) {
  text->erase(0, CountLeading(*text, step.mark, step.start) * step.mark.size());
  for (size_t i = 0; i < step.stop && absl::EndsWith(*text, step.mark); ++i) {
    text->resize(text->size() - step.mark.size());
  }
}

void ByteFallback(std::vector<Text>* texts) {
  std::vector<Text> result;
  bool run = false;  // the last of result is a run of bytes
  for (Text& text : *texts) {
    const int byte = FallbackByte(text.bytes);
    if (byte < 0) {
      result.push_back(std::move(text));
    } else if (run) {
      result.back().bytes.push_back(static_cast<char>(byte));
    } else {
      result.push_back({std::string(1, static_cast<char>(byte)), false});
    }
    run = byte >= 0;
  }
  *texts = std::move(result);
}

void Fuse(std::vector<Text>* texts) {
  std::string all;
  for (const Text& text : *texts) all += text.bytes;
  texts->clear();
  texts->push_back({std::move(all), false});
}

// A step that treats each text by itself; `first` and `last` tell where it stands.
absl::Status Apply(const DecodeStep& step, bool first, bool last, Text* text) {
  switch (step.kind) {
    case DecodeStep::kByteLevel: {
      std::string bytes;
      if (!text->added && AppendAlphabetBytes(text->bytes, &bytes)) text->bytes = std::move(bytes);
      return absl::OkStatus();
    }
    case DecodeStep::kByteFallback:
      if (const int byte = FallbackByte(text->bytes); byte >= 0) {
        text->bytes.assign(1, static_cast<char>(byte));
      }
      return absl::OkStatus();
    case DecodeStep::kMetaspace: {
      const char* space = first && step.drop_first ? "" : " ";
      text->bytes = absl::StrReplaceAll(text->bytes, {{step.mark, space}});
      return absl::OkStatus();
    }
    case DecodeStep::kReplace:
      return ReplaceMatches(step.pattern[0], step.content, &text->bytes);
    case DecodeStep::kStrip:
      Strip(step, &text->bytes);
      return absl::OkStatus();
    case DecodeStep::kSuffix:
      text->bytes = absl::StrReplaceAll(text->bytes, {{step.mark, last ? "" : " "}});
      return absl::OkStatus();
    case DecodeStep::kFuse:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

// Whether the steps can be taken token by token: what runs of bytes or fused texts become may only
// be stripped on the left, and only once.
bool CanStream(const std::vector<DecodeStep>& steps) {
  bool joined = false, fused = false, stripped = false;
  for (const DecodeStep& step : steps) {
    if (step.kind == DecodeStep::kSuffix) return false;
    if (step.kind == DecodeStep::kFuse) {
      fused = true;
    } else if (fused) {
      if (step.kind != DecodeStep::kStrip || step.stop > 0 || stripped) return false;
      stripped = true;
    } else if (joined) {
      return false;
    }
    if (step.kind == DecodeStep::kByteFallback || step.kind == DecodeStep::kByteLevel) {
      joined = true;
    }
  }
  return true;
}

}  // namespace

PieceDecoder::PieceDecoder(std::vector<DecodeStep> steps)
    : steps_(std::move(steps)), streams_(CanStream(steps_)) {}

absl::StatusOr<std::string> PieceDecoder::Decode(const std::vector<Piece>& pieces) const {
  if (streams_) {
    std::string result;
    DecodePosition position;
    for (const Piece& piece : pieces) {
      LORICA_ASSIGN_OR_RETURN(const std::string bytes, DecodeNext(piece, &position));
      result += bytes;
    }
    return result;
  }
  std::vector<Text> texts;
  texts.reserve(pieces.size());
  for (const Piece& piece : pieces) texts.push_back({std::string(piece.text), piece.added});
  for (const DecodeStep& step : steps_) {
    if (step.kind == DecodeStep::kFuse) {
      Fuse(&texts);
    } else if (step.kind == DecodeStep::kByteFallback) {
      ByteFallback(&texts);
    } else {
      for (size_t i = 0; i < texts.size(); ++i) {
        LORICA_RETURN_IF_ERROR(Apply(step, i == 0, i + 1 == texts.size(), &texts[i]));
      }
      if (step.kind == DecodeStep::kByteLevel) Fuse(&texts);
    }
  }
  Fuse(&texts);
  return std::move(texts[0].bytes);
}

absl::StatusOr<std::string> PieceDecoder::DecodeNext(const Piece& piece,
                                                     DecodePosition* position) const {
  Text text{std::string(piece.text), piece.added};
  if (steps_.empty() && !position->first) text.bytes = absl::StrCat(" ", text.bytes);
  bool fused = false;
  for (const DecodeStep& step : steps_) {
    if (step.kind == DecodeStep::kFuse) {
      fused = true;
    } else if (!fused) {
      LORICA_RETURN_IF_ERROR(Apply(step, position->first, false, &text));
    } else if (position->stripping) {
      const size_t count = CountLeading(text.bytes, step.mark, step.start - position->stripped);
      text.bytes.erase(0, count * step.mark.size());
      position->stripped += count;
      position->stripping = text.bytes.empty() && position->stripped < step.start;
    }
  }
  position->first = false;
  return std::move(text.bytes);
}

}  // namespace lorica
