// Text to token ids and back, for the tokenizers of language models.
//
// A Tokenizer is the pipeline that Hugging Face's `tokenizer.json` describes: added tokens are cut
// out of the text, the rest passes a normalizer, pre-tokenizers that cut it into words, a model
// (BPE or Unigram) that cuts words into pieces of the vocabulary, and a post-processor that adds
// BOS and EOS; a decoder undoes it. The same pipeline is built from a GGUF file's metadata and from
// a sentencepiece `.model` file. A component or option that isn't known is an error that names it,
// never ignored.
//
// Ids equal those of Hugging Face `tokenizers` (for GGUF: of the tokenizer that the file's
// pre-tokenizer name stands for). Text is UTF-8; offsets are in bytes.
#ifndef LORICA_TEXT_TOKENIZER_H_
#define LORICA_TEXT_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace lorica {

struct EncodeOptions {
  // Whether the post-processor runs: BOS, EOS or whatever else the tokenizer adds around a text.
  bool add_special_tokens = true;
  // Whether the text of a special token ("<|im_start|>") becomes that token; otherwise it is
  // spelled out in ordinary pieces. Added tokens that aren't special are always recognised.
  bool parse_special = true;
};

struct DecodeOptions {
  // Leaves special tokens out of the text.
  bool skip_special_tokens = false;
};

// Bytes [begin, end) of the text that was encoded.
struct TokenSpan {
  size_t begin = 0;
  size_t end = 0;

  bool operator==(const TokenSpan&) const = default;
};

struct Encoding {
  std::vector<int32_t> ids;
  // One per id. A token that the post-processor added has an empty span at 0 or at the end of the
  // text. Tokens that spell parts of one character may share that character's bytes where a
  // normalizer changed it.
  std::vector<TokenSpan> spans;
};

// Immutable and safe to use from many threads; a copy shares everything with its original.
class Tokenizer {
 public:
  // Text that isn't valid UTF-8 is an InvalidArgument error that names the byte offset.
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text,
                                              const EncodeOptions& options = {}) const;
  absl::StatusOr<Encoding> EncodeWithSpans(absl::string_view text,
                                           const EncodeOptions& options = {}) const;

  // The exact bytes that `ids` stand for: where they cut a UTF-8 sequence, that sequence is cut in
  // the result too. An id outside the vocabulary is an InvalidArgument error that names its
  // position.
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> ids,
                                     const DecodeOptions& options = {}) const;

  // The id of a piece as the vocabulary spells it ("Ġthe", "<0x0A>", "<|im_end|>").
  std::optional<int32_t> TokenToId(absl::string_view piece) const;

  // The vocabulary's spelling of `id`; empty for an id that no piece has. Valid as long as the
  // tokenizer or a copy.
  absl::string_view IdToPiece(int32_t id) const;

  // One more than the largest id.
  int32_t vocab_size() const;

  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::optional<int32_t> unk_id() const;
  std::optional<int32_t> pad_id() const;

  // Whether Encode with add_special_tokens puts BOS first or EOS last.
  bool add_bos() const;
  bool add_eos() const;

  // Whether `id` is an added token marked special (control tokens of a GGUF file among them).
  bool IsSpecial(int32_t id) const;

  // Of the code that builds tokenizers (tokenizer_parts.h).
  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  const Parts& parts() const { return *parts_; }

 private:
  std::shared_ptr<const Parts> parts_;
};

// Where in a text a decoder is that takes it piece by piece.
struct DecodePosition {
  bool first = true;      // at the first piece
  bool stripping = true;  // nothing has come yet but what is stripped off the beginning,
  size_t stripped = 0;    // which was this many characters
};

// Turns ids that arrive one by one into text for a terminal: bytes that don't yet make a whole
// UTF-8 sequence are held back until the sequence is complete or known to be broken. All that was
// returned, joined, is what Decode gives.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(Tokenizer tokenizer, const DecodeOptions& options = {});

  // The text that `id` completed, possibly empty.
  absl::StatusOr<std::string> Push(int32_t id);

  // What is still held back, at the end of a text; the decoder then starts anew. With the rare
  // decoders that look ahead (a suffix that marks the end of a word) this is the whole text.
  absl::StatusOr<std::string> Finish();

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  DecodePosition position_;
  std::string held_;
  std::vector<int32_t> ids_;  // all of them, with a decoder that looks ahead
};

// Reads a tokenizer from a model: a folder of the Hugging Face layout (`tokenizer.json`, else
// `tokenizer.model`; with `tokenizer_config.json` and `special_tokens_map.json` for BOS, EOS and
// padding), a `.gguf` file, a `.json` file in the form of `tokenizer.json` (its folder's
// `tokenizer_config.json` is read too), or a sentencepiece `.model` file.
absl::StatusOr<Tokenizer> LoadTokenizer(const std::string& model_path);

// Whether LoadTokenizer would find files to read at `model_path`, a folder or file (it may still
// fail on them); of a GGUF file, whether it holds a tokenizer.
bool HasTokenizer(const std::string& model_path);

// Reads one `tokenizer.json`, without the configuration beside it: no BOS, EOS or padding id is
// known.
absl::StatusOr<Tokenizer> LoadTokenizerJson(const std::string& path);

// The same of bytes in memory; `name` stands for the path in error messages. `config_json` is the
// text of `tokenizer_config.json`, or empty.
absl::StatusOr<Tokenizer> ParseTokenizerJson(absl::string_view json, absl::string_view name,
                                             absl::string_view config_json = "");

}  // namespace lorica

#endif  // LORICA_TEXT_TOKENIZER_H_
