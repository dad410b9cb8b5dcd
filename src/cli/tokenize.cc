// lorica tokenize: text to ids and back, with nothing of a model but its tokenizer.
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "lorica/cli/command.h"
#include "lorica/cli/json_result.h"
#include "lorica/cli/plan_report.h"
#include "lorica/cli/terminal.h"
#include "lorica/io/file_system.h"
#include "lorica/io/json_file.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"
#include "lorica/text/chat_template.h"
#include "lorica/text/tokenizer.h"
#include "lorica/train/exit_status.h"
#include "lorica/train/records.h"
#include "lorica/train/trained_spans.h"

namespace lorica::cli {
namespace {

constexpr size_t kLargestFile = size_t{1} << 30;

// "[1, 2, 3]", "1 2 3", "1,2,3".
absl::StatusOr<std::vector<int32_t>> ParseIds(absl::string_view text) {
  std::vector<int32_t> ids;
  for (const absl::string_view part :
       absl::StrSplit(text, absl::ByAnyChar(" ,[]\t\n"), absl::SkipEmpty())) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), id);
    if (error != std::errc() || end != part.data() + part.size() || id < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--decode: expected token ids such as 1 2 3, found ", Quoted(part)));
    }
    ids.push_back(id);
  }
  return ids;
}

std::string PieceOf(const Tokenizer& tokenizer, int32_t id) {
  const absl::string_view piece = tokenizer.IdToPiece(id);
  return std::string(piece.data(), piece.size());
}

class TokenizeCommand final : public Command {
 public:
  const char* name() const override { return "tokenize"; }
  const char* summary() const override { return "text to token ids, and back"; }
  const char* positional() const override { return "text"; }

  void Visit(OptionVisitor& visitor) override {
    visitor.On({.name = "model",
                .group = "Input",
                .help = "folder, GGUF file, tokenizer.json or .model file"},
               model_);
    visitor.On({.name = "text", .group = "Input", .help = "the text to cut"}, text_);
    visitor.On({.name = "file", .group = "Input", .help = "a file with the text"}, file_);
    visitor.On({.name = "lines",
                .group = "Input",
                .help = "a JSON array of strings; gives an array of id lists"},
               lines_);
    visitor.On({.name = "chat",
                .group = "Input",
                .help = "JSON with messages: rendered by the chat template, with the trained mask"},
               chat_);
    visitor.On({.name = "decode", .group = "Input", .help = "ids to turn into text"}, decode_);
    visitor.On({.name = "decode-lines",
                .group = "Input",
                .help = "a JSON array of id lists; gives an array of strings"},
               decode_lines_);
    visitor.On({.name = "special",
                .group = "Tokens",
                .help = "what the tokenizer adds around a text, such as BOS"},
               special_);
    visitor.On({.name = "train-on",
                .group = "Tokens",
                .help = "what of a chat is trained",
                .choices = {"assistant", "last", "all"}},
               train_on_);
    visitor.On({.name = "chat-template",
                .group = "Tokens",
                .help = "one of the model's templates by name, or a file"},
               chat_template_);
    VisitOutputOptions(output_, visitor);
  }

  absl::Status Run(const std::function<bool(absl::string_view)>& given) override {
    int sources = 0;
    for (const char* name : {"text", "file", "lines", "chat", "decode", "decode-lines"}) {
      if (given(name)) ++sources;
    }
    if (model_.empty()) return absl::InvalidArgumentError("tokenize needs --model");
    if (sources != 1) {
      return absl::InvalidArgumentError(
          "tokenize takes one of TEXT, --file, --lines, --chat, --decode and --decode-lines");
    }
    LORICA_ASSIGN_OR_RETURN(const Tokenizer tokenizer, AsInputError(LoadTokenizer(model_)));
    if (given("decode")) return Decode(tokenizer);
    if (given("decode-lines")) return DecodeLines(tokenizer);
    if (given("lines")) return Lines(tokenizer);
    if (given("chat")) return Chat(tokenizer);
    std::string text = text_;
    if (given("file")) {
      LORICA_ASSIGN_OR_RETURN(text, AsInputError(PosixFiles().Read(file_, kLargestFile)));
    }
    absl::StatusOr<std::vector<int32_t>> ids =
        tokenizer.Encode(text, {.add_special_tokens = special_});
    if (!ids.ok() && given("file")) {
      return absl::DataLossError(absl::StrCat(file_, ": ", ids.status().message()));
    }
    LORICA_RETURN_IF_ERROR(AsOptionError(ids.status()));
    return PrintIds(tokenizer, *ids, text);
  }

 private:
  absl::Status PrintIds(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                        const std::string& text) {
    if (!output_.json) {
      for (const int32_t id : ids) {
        PrintResult(absl::StrCat(id, "\t", Quoted(tokenizer.IdToPiece(id)), "\n"));
      }
      return absl::OkStatus();
    }
    nlohmann::ordered_json pieces = nlohmann::ordered_json::array();
    for (const int32_t id : ids) pieces.push_back(PieceOf(tokenizer, id));
    PrintJson({{"ids", ids}, {"pieces", std::move(pieces)}, {"text", text}});
    return absl::OkStatus();
  }

  absl::Status Decode(const Tokenizer& tokenizer) {
    LORICA_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, ParseIds(decode_));
    LORICA_ASSIGN_OR_RETURN(const std::string text, AsOptionError(tokenizer.Decode(
                                                        ids, {.skip_special_tokens = !special_})));
    if (output_.json) return PrintIds(tokenizer, ids, text);
    PrintResult(text + "\n");
    return absl::OkStatus();
  }

  absl::Status DecodeLines(const Tokenizer& tokenizer) {
    LORICA_ASSIGN_OR_RETURN(const Json lines, AsInputError(ReadJsonFile(decode_lines_)));
    if (!lines.is_array()) {
      return absl::DataLossError(absl::StrCat(decode_lines_, ": expected an array of id lists"));
    }
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    std::vector<int32_t> ids;
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string where = absl::StrCat(decode_lines_, ", index ", i);
      if (!lines[i].is_array()) return absl::DataLossError(where + ": expected a list of ids");
      ids.clear();
      for (const Json& id : lines[i]) {
        if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) {
          return absl::DataLossError(where + ": expected a list of ids");
        }
        ids.push_back(id.get<int32_t>());
      }
      absl::StatusOr<std::string> text = tokenizer.Decode(ids, {.skip_special_tokens = !special_});
      if (!text.ok()) {
        return absl::DataLossError(absl::StrCat(where, ": ", text.status().message()));
      }
      all.push_back(*std::move(text));
    }
    PrintJson(all);
    return absl::OkStatus();
  }

  absl::Status Lines(const Tokenizer& tokenizer) {
    LORICA_ASSIGN_OR_RETURN(const Json lines, AsInputError(ReadJsonFile(lines_)));
    if (!lines.is_array()) {
      return absl::DataLossError(absl::StrCat(lines_, ": expected an array of strings"));
    }
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!lines[i].is_string()) {
        return absl::DataLossError(absl::StrCat(lines_, ": expected a string at index ", i,
                                                ", found ", lines[i].type_name()));
      }
      absl::StatusOr<std::vector<int32_t>> ids = tokenizer.Encode(
          lines[i].get_ref<const std::string&>(), {.add_special_tokens = special_});
      LORICA_RETURN_IF_ERROR(AsInputError(ids.status()));
      all.push_back(*std::move(ids));
    }
    PrintJson(all);
    return absl::OkStatus();
  }

  absl::Status Chat(const Tokenizer& tokenizer) {
    TokenizeOptions options;
    LORICA_ASSIGN_OR_RETURN(options.train_on, ParseTrainOn(train_on_));
    LORICA_ASSIGN_OR_RETURN(const ChatTemplate chat_template,
                            AsInputError(ChatTemplate::FromChoice(chat_template_, model_)));
    LORICA_ASSIGN_OR_RETURN(const std::string text,
                            AsInputError(PosixFiles().Read(chat_, kLargestFile)));
    absl::StatusOr<jinja::Value> json = jinja::ParseJson(text);
    if (!json.ok()) return absl::DataLossError(absl::StrCat(chat_, ": ", json.status().message()));
    if (json->is_list()) {
      jinja::Value messages = *std::move(json);
      json = jinja::Value(jinja::Dict({{"messages", std::move(messages)}}));
    }
    LORICA_ASSIGN_OR_RETURN(const Record record,
                            AsInputError(ParseRecord(*json, std::nullopt, chat_)));
    LORICA_ASSIGN_OR_RETURN(
        const std::vector<TokenizedRecord> examples,
        AsInputError(RecordTokenizer(&tokenizer, &chat_template, options).Tokenize(record)));
    if (!output_.json) {
      for (const TokenizedRecord& example : examples) {
        LORICA_RETURN_IF_ERROR(PrintExample(tokenizer, example));
      }
      return absl::OkStatus();
    }
    if (examples.size() == 1) {
      PrintJson(ExampleJson(tokenizer, examples[0]));
      return absl::OkStatus();
    }
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const TokenizedRecord& example : examples) all.push_back(ExampleJson(tokenizer, example));
    PrintJson({{"examples", std::move(all)}});
    return absl::OkStatus();
  }

  static nlohmann::ordered_json ExampleJson(const Tokenizer& tokenizer,
                                            const TokenizedRecord& example) {
    nlohmann::ordered_json pieces = nlohmann::ordered_json::array();
    std::vector<bool> trained;
    for (size_t i = 0; i < example.ids.size(); ++i) {
      pieces.push_back(PieceOf(tokenizer, example.ids[i]));
      trained.push_back(example.labels[i] != kIgnoredLabel);
    }
    nlohmann::ordered_json json = {{"text", example.text},
                                   {"ids", example.ids},
                                   {"pieces", std::move(pieces)},
                                   {"trained", trained}};
    if (!example.weights.empty()) json["weights"] = example.weights;
    return json;
  }

  static absl::Status PrintExample(const Tokenizer& tokenizer, const TokenizedRecord& example) {
    std::vector<MarkedPiece> marked;
    StreamingDecoder decoder(tokenizer);
    for (size_t i = 0; i < example.ids.size(); ++i) {
      LORICA_ASSIGN_OR_RETURN(const std::string piece, decoder.Push(example.ids[i]));
      const bool trained = example.labels[i] != kIgnoredLabel;
      if (marked.empty() || marked.back().trained != trained) marked.push_back({"", trained});
      marked.back().text += piece;
    }
    LORICA_ASSIGN_OR_RETURN(const std::string rest, decoder.Finish());
    if (!marked.empty()) marked.back().text += rest;
    PrintResult(absl::StrCat(MarkedText(marked, ColourOnStdout()), "\n",
                             absl::StrJoin(example.ids, " "), "\n"));
    return absl::OkStatus();
  }

  std::string model_;
  std::string text_;
  std::string file_;
  std::string lines_;
  std::string chat_;
  std::string decode_;
  std::string decode_lines_;
  bool special_ = true;
  std::string train_on_ = "assistant";
  std::string chat_template_;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Command> MakeTokenizeCommand() { return std::make_unique<TokenizeCommand>(); }

}  // namespace lorica::cli
