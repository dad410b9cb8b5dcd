// lorica template: a chat template without a model.
#include <ctime>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lorica/cli/command.h"
#include "lorica/cli/json_result.h"
#include "lorica/cli/terminal.h"
#include "lorica/io/file_system.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"
#include "lorica/text/chat_template.h"
#include "lorica/train/exit_status.h"

namespace lorica::cli {
namespace {

// A long conversation has a few megabytes.
constexpr size_t kLargestFile = size_t{256} << 20;

// "2024-05-31T23:59:00".
absl::StatusOr<std::tm> ParseTime(const std::string& text) {
  std::tm time = {};
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  if (end == nullptr || *end != '\0') {
    return absl::InvalidArgumentError(
        absl::StrCat("--now: expected a time such as 2024-05-31T23:59:00, found ", Quoted(text)));
  }
  return time;
}

// What the file's variables are for a template; the ones without a place of their own go along.
absl::StatusOr<ChatRequest> RequestOf(const jinja::Value& variables, const std::string& path) {
  if (!variables.is_dict() || !variables.Get("messages").is_list()) {
    return absl::DataLossError(
        absl::StrCat(path, ": expected an object with a list of messages under \"messages\""));
  }
  ChatRequest request;
  jinja::Dict extra;
  for (const auto& [key, value] : variables.as_dict().entries()) {
    const std::string& name = key.as_string();
    if (name == "messages") {
      request.messages = value;
    } else if (name == "tools") {
      request.tools = value;
    } else if (name == "add_generation_prompt" && value.is_bool()) {
      request.add_generation_prompt = value.as_bool();
    } else {
      extra.Set(key, value);
    }
  }
  if (!extra.empty()) request.extra = jinja::Value(std::move(extra));
  return request;
}

class TemplateCommand final : public Command {
 public:
  const char* name() const override { return "template"; }
  const char* summary() const override { return "render a chat template file"; }

  void Visit(OptionVisitor& visitor) override {
    visitor.On({.name = "file", .group = "Input", .help = "template in the Jinja language"}, file_);
    visitor.On({.name = "chat",
                .group = "Input",
                .help = "JSON object with messages and any other variables of the template"},
               chat_);
    visitor.On({.name = "bos", .group = "Input", .help = "text of bos_token"}, bos_);
    visitor.On({.name = "eos", .group = "Input", .help = "text of eos_token"}, eos_);
    visitor.On({.name = "now",
                .group = "Input",
                .help = "what strftime_now shows, as 2024-05-31T23:59:00; else the local time"},
               now_);
    VisitOutputOptions(output_, visitor);
  }

  absl::Status Run(const std::function<bool(absl::string_view)>& given) override {
    if (file_.empty() || chat_.empty()) {
      return absl::InvalidArgumentError("template needs --file and --chat");
    }
    std::optional<std::tm> now;
    if (!now_.empty()) {
      LORICA_ASSIGN_OR_RETURN(now, ParseTime(now_));
    }
    ChatTemplate::SpecialTokens special_tokens;
    if (given("bos")) special_tokens.emplace_back("bos_token", bos_);
    if (given("eos")) special_tokens.emplace_back("eos_token", eos_);
    LORICA_ASSIGN_OR_RETURN(const std::string source,
                            AsInputError(PosixFiles().Read(file_, kLargestFile)));
    LORICA_ASSIGN_OR_RETURN(const ChatTemplate chat_template,
                            AsInputError(ChatTemplate::FromSource(source, file_, special_tokens)));
    LORICA_ASSIGN_OR_RETURN(const std::string text,
                            AsInputError(PosixFiles().Read(chat_, kLargestFile)));
    const absl::StatusOr<jinja::Value> variables = jinja::ParseJson(text);
    if (!variables.ok()) {
      return absl::DataLossError(absl::StrCat(chat_, ": ", variables.status().message()));
    }
    LORICA_ASSIGN_OR_RETURN(ChatRequest request, RequestOf(*variables, chat_));
    request.now = now;
    LORICA_ASSIGN_OR_RETURN(const jinja::RenderResult result,
                            AsInputError(chat_template.Render(request)));
    if (output_.json) {
      PrintJson({{"text", result.text}});
    } else {
      PrintResult(result.text);
    }
    return absl::OkStatus();
  }

 private:
  std::string file_;
  std::string chat_;
  std::string bos_;
  std::string eos_;
  std::string now_;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Command> MakeTemplateCommand() { return std::make_unique<TemplateCommand>(); }

}  // namespace lorica::cli
