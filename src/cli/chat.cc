// lorica chat: a conversation in the terminal.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lorica/cli/command.h"
#include "lorica/cli/engine.h"
#include "lorica/cli/interrupt.h"
#include "lorica/cli/sampling.h"
#include "lorica/cli/terminal.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/generate.h"
#include "lorica/tensor/status.h"
#include "lorica/text/utf8.h"
#include "lorica/train/exit_status.h"
#include "lorica/train/text_model.h"

namespace lorica::cli {
namespace {

constexpr char kHelp[] =
    "/reset forgets the conversation, /system TEXT sets the system message, /adapter on|off "
    "switches the adapter, /quit ends";

jinja::Value Message(const char* role, const std::string& content) {
  return jinja::Dict({{"role", role}, {"content", content}});
}

class ChatCommand final : public Command {
 public:
  const char* name() const override { return "chat"; }
  const char* summary() const override { return "talk with a model in the terminal"; }

  void Visit(OptionVisitor& visitor) override {
    visitor.On({.name = "model", .group = "Input", .help = "Hugging Face folder or GGUF file"},
               options_.model);
    visitor.On({.name = "adapter", .group = "Input", .help = "adapter folder or GGUF file"},
               options_.adapter);
    visitor.On({.name = "system", .group = "Input", .help = "system message"}, system_);
    visitor.On({.name = "chat-template",
                .group = "Input",
                .help = "one of the model's templates by name, or a file"},
               options_.chat_template);
    VisitSamplingOptions(sampling_, visitor);
    VisitEngineOptions(engine_, visitor);
    visitor.On({.name = "quiet", .group = "Output", .help = "no messages on stderr"}, quiet_);
  }

  absl::Status Run(const std::function<bool(absl::string_view)>&) override {
    if (options_.model.empty()) return absl::InvalidArgumentError("chat needs --model");
    LORICA_ASSIGN_OR_RETURN(GenerateOptions options, GenerateOptionsOf(sampling_));
    LORICA_ASSIGN_OR_RETURN(const Engine engine, MakeEngine(engine_, kPackedCacheBytes));
    LORICA_ASSIGN_OR_RETURN(const TextModel model,
                            TextModel::Load(options_, *engine.backend, engine.compute));
    if (!model.text.tokenizer.has_value() || !model.text.chat_template.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat(options_.model, ": a chat needs a tokenizer and a chat template"));
    }
    options.stop_ids = model.stop_ids;
    adapter_on_ = !model.adapters.empty();
    Progress progress(quiet_);
    progress.Say(kHelp);
    CatchInterrupts();
    const bool terminal = isatty(STDIN_FILENO) != 0;
    for (std::string line;;) {
      if (terminal) {
        PrintResult("> ");
        LORICA_RETURN_IF_ERROR(FlushResults());
      }
      if (!std::getline(std::cin, line)) break;
      absl::string_view text = absl::StripAsciiWhitespace(line);
      if (text.empty()) continue;
      if (text == "/quit") return absl::OkStatus();
      if (absl::StartsWith(text, "/")) {
        progress.Say(Obey(text, model.adapters));
        continue;
      }
      LORICA_RETURN_IF_ERROR(Answer(model, options, text, progress));
    }
    return Interrupted() ? absl::CancelledError("interrupted") : absl::OkStatus();
  }

 private:
  // Carries out a line that starts with a slash, and says what it did.
  std::string Obey(absl::string_view line, const AdapterSet& adapters) {
    if (line == "/reset") {
      messages_.clear();
      return "the conversation starts anew";
    }
    if (line == "/system" || absl::ConsumePrefix(&line, "/system ")) {
      system_ = line == "/system" ? "" : std::string(line);
      messages_.clear();
      return system_.empty() ? "no system message; the conversation starts anew"
                             : "a new system message; the conversation starts anew";
    }
    if (line == "/adapter on" || line == "/adapter off") {
      if (adapters.empty()) return "there is no adapter; --adapter gives one";
      adapter_on_ = line == "/adapter on";
      // Its low-rank branches could stay unused, but not weights that it brings in full.
      adapter_on_ ? adapters.Attach() : adapters.Detach();
      return adapter_on_ ? "with the adapter" : "without the adapter";
    }
    return absl::StrCat("no such command: ", Quoted(line), "; ", kHelp);
  }

  absl::Status Answer(const TextModel& model, GenerateOptions options, absl::string_view question,
                      Progress& progress) {
    messages_.push_back(Message("user", std::string(question)));
    Prompt prompt;
    jinja::List messages = messages_;
    if (!system_.empty()) messages.insert(messages.begin(), Message("system", system_));
    prompt.messages = jinja::Value(std::move(messages));
    const absl::StatusOr<std::vector<int32_t>> ids = model.Encode(prompt);
    if (!ids.ok()) {  // the template refused it, or it isn't UTF-8: the conversation goes on
      messages_.pop_back();
      progress.Say(ids.status().message());
      return absl::OkStatus();
    }
    std::string answer;
    StreamingDecoder decoder(*model.text.tokenizer, {.skip_special_tokens = true});
    options.slots = {adapter_on_ ? 0 : -1};
    options.cancelled = Interrupted;
    options.on_token = [&](int, const Choice& choice) {
      const absl::StatusOr<std::string> text = decoder.Push(choice.id);
      if (!text.ok()) return false;
      answer += *text;
      PrintResult(*text);
      return FlushResults().ok();
    };
    LORICA_RETURN_IF_ERROR(AsRunError(Generate(*model.model, {*ids}, options).status()));
    LORICA_ASSIGN_OR_RETURN(const std::string rest, decoder.Finish());
    answer += rest;
    PrintResult(rest + "\n");
    LORICA_RETURN_IF_ERROR(FlushResults());
    ClearInterrupt();
    messages_.push_back(Message("assistant", ValidUtf8(answer)));
    return absl::OkStatus();
  }

  TextModelOptions options_;
  std::string system_;
  SamplingOptions sampling_;
  EngineOptions engine_;
  bool quiet_ = false;
  bool adapter_on_ = false;
  jinja::List messages_;
};

}  // namespace

std::unique_ptr<Command> MakeChatCommand() { return std::make_unique<ChatCommand>(); }

}  // namespace lorica::cli
