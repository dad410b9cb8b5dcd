// lorica generate.
#include "lorica/nn/generate.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lorica/cli/command.h"
#include "lorica/cli/engine.h"
#include "lorica/cli/interrupt.h"
#include "lorica/cli/json_result.h"
#include "lorica/cli/sampling.h"
#include "lorica/cli/terminal.h"
#include "lorica/io/file_system.h"
#include "lorica/tensor/status.h"
#include "lorica/train/exit_status.h"
#include "lorica/train/text_model.h"

namespace lorica::cli {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

const char* Word(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStopId:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCallback:
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "";
}

struct Timings {
  Clock::time_point start, loaded, first_token, end;
  int64_t prompt_tokens = 0;
  int64_t new_tokens = 0;

  double decode_seconds() const { return Seconds(first_token, end); }
  nlohmann::ordered_json Json() const {
    const double seconds = decode_seconds();
    return {{"load_seconds", Seconds(start, loaded)},
            {"prompt_seconds", Seconds(loaded, first_token)},
            {"decode_seconds", seconds},
            {"prompt_tokens", prompt_tokens},
            {"new_tokens", new_tokens},
            {"tokens_per_second", seconds > 0 ? static_cast<double>(new_tokens) / seconds : 0}};
  }
};

class GenerateCommand final : public Command {
 public:
  const char* name() const override { return "generate"; }
  const char* summary() const override { return "continue a prompt, or answer a chat"; }

  void Visit(OptionVisitor& visitor) override {
    visitor.On({.name = "model", .group = "Input", .help = "Hugging Face folder or GGUF file"},
               model_.model);
    visitor.On({.name = "adapter", .group = "Input", .help = "adapter folder or GGUF file"},
               model_.adapter);
    visitor.On({.name = "prompt", .group = "Input", .help = "text to continue as it is"}, prompt_);
    visitor.On({.name = "chat",
                .group = "Input",
                .help = "a question for the chat template, or a JSON file with messages"},
               chat_);
    visitor.On({.name = "prompts",
                .group = "Input",
                .help = "JSONL of objects with prompt, messages or input_ids, run as one batch"},
               prompts_);
    visitor.On({.name = "system", .group = "Input", .help = "system message before --chat TEXT"},
               system_);
    visitor.On({.name = "chat-template",
                .group = "Input",
                .help = "one of the model's templates by name, or a file"},
               model_.chat_template);
    VisitSamplingOptions(sampling_, visitor);
    VisitEngineOptions(engine_, visitor);
    VisitOutputOptions(output_, visitor);
  }

  absl::Status Run(const std::function<bool(absl::string_view)>& given) override {
    CatchInterrupts();
    int sources = 0;
    for (const char* name : {"prompt", "chat", "prompts"}) {
      if (given(name)) ++sources;
    }
    if (model_.model.empty()) return absl::InvalidArgumentError("generate needs --model");
    if (sources != 1) {
      return absl::InvalidArgumentError("generate takes one of --prompt, --chat and --prompts");
    }
    LORICA_ASSIGN_OR_RETURN(GenerateOptions options, GenerateOptionsOf(sampling_));
    LORICA_ASSIGN_OR_RETURN(const Engine engine, MakeEngine(engine_, kPackedCacheBytes));
    LORICA_ASSIGN_OR_RETURN(const std::vector<Prompt> prompts, Prompts(given));

    Progress progress(output_.quiet);
    Timings timings;
    timings.start = Clock::now();
    LORICA_ASSIGN_OR_RETURN(const TextModel model,
                            TextModel::Load(model_, *engine.backend, engine.compute));
    timings.loaded = Clock::now();
    timings.first_token = timings.loaded;
    std::vector<std::vector<int32_t>> ids;
    for (size_t i = 0; i < prompts.size(); ++i) {
      absl::StatusOr<std::vector<int32_t>> encoded = model.Encode(prompts[i]);
      if (!encoded.ok()) return PromptError(encoded.status(), i, given("prompts"));
      timings.prompt_tokens += static_cast<int64_t>(encoded->size());
      ids.push_back(*std::move(encoded));
    }

    const bool streams = prompts.size() == 1 && !given("prompts") && !output_.json;
    if (streams && !model.text.tokenizer.has_value()) {
      return absl::FailedPreconditionError(
          "the model has no tokenizer; --json shows the token ids");
    }
    options.stop_ids = model.stop_ids;
    options.cancelled = Interrupted;
    std::optional<StreamingDecoder> decoder;
    if (streams) decoder.emplace(*model.text.tokenizer, DecodeOptions{.skip_special_tokens = true});
    absl::Status stream_status;
    options.on_token = [&](int, const Choice& choice) {
      if (timings.new_tokens++ == 0) timings.first_token = Clock::now();
      if (!decoder.has_value()) {
        progress.Update(absl::StrCat("generated ", timings.new_tokens, " tokens"));
        return true;
      }
      absl::StatusOr<std::string> text = decoder->Push(choice.id);
      if (text.ok() && !text->empty()) {
        PrintResult(*text);
        text = FlushResults().ok() ? text : absl::InternalError("stdout");
      }
      stream_status = text.status();
      return text.ok();
    };
    LORICA_ASSIGN_OR_RETURN(const std::vector<GeneratedSequence> sequences,
                            AsRunError(lorica::Generate(*model.model, ids, options)));
    timings.end = Clock::now();
    progress.Finish();
    LORICA_RETURN_IF_ERROR(FlushResults());
    LORICA_RETURN_IF_ERROR(stream_status);
    if (streams) {
      LORICA_ASSIGN_OR_RETURN(const std::string rest, decoder->Finish());
      PrintResult(rest + "\n");
      LORICA_RETURN_IF_ERROR(FlushResults());
      progress.Say(absl::StrFormat(
          "%d tokens, %.1f a second", timings.new_tokens,
          static_cast<double>(timings.new_tokens) / std::max(1e-9, timings.decode_seconds())));
    } else {
      LORICA_RETURN_IF_ERROR(PrintAll(model, ids, sequences, timings, given("prompts")));
    }
    if (Interrupted()) return absl::CancelledError("interrupted: the text ends early");
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::vector<Prompt>> Prompts(
      const std::function<bool(absl::string_view)>& given) const {
    if (given("prompts")) return ReadPrompts(prompts_);
    if (given("prompt")) return std::vector<Prompt>{Prompt::OfText(prompt_)};
    const absl::StatusOr<FileInfo> info = PosixFiles().Stat(chat_);
    if (info.ok() && info->is_regular) {
      LORICA_ASSIGN_OR_RETURN(Prompt prompt, ReadPrompt(chat_));
      return std::vector<Prompt>{std::move(prompt)};
    }
    return std::vector<Prompt>{Prompt::OfQuestion(chat_, system_)};
  }

  absl::Status PromptError(const absl::Status& status, size_t index, bool from_file) const {
    if (!from_file) return status;
    return AsInputError(absl::Status(
        status.code(), absl::StrCat(prompts_, ", prompt ", index + 1, ": ", status.message())));
  }

  absl::Status PrintAll(const TextModel& model, const std::vector<std::vector<int32_t>>& prompts,
                        const std::vector<GeneratedSequence>& sequences, const Timings& timings,
                        bool batch) const {
    nlohmann::ordered_json results = nlohmann::ordered_json::array();
    for (size_t i = 0; i < sequences.size(); ++i) {
      const GeneratedSequence& sequence = sequences[i];
      std::string text;
      if (model.text.tokenizer.has_value()) {
        LORICA_ASSIGN_OR_RETURN(
            text, model.text.tokenizer->Decode(sequence.ids, {.skip_special_tokens = true}));
      }
      if (!output_.json) {
        PrintResult(absl::StrCat("--- prompt ", i + 1, "\n", text, "\n"));
        continue;
      }
      nlohmann::ordered_json result = {{"prompt_ids", prompts[i]},
                                       {"ids", sequence.ids},
                                       {"text", text},
                                       {"logprobs", sequence.logprobs},
                                       {"finish_reason", Word(sequence.reason)}};
      if (!model.text.tokenizer.has_value()) result["text"] = nullptr;
      if (sequence.stop_id >= 0) result["stop_id"] = sequence.stop_id;
      results.push_back(std::move(result));
    }
    if (!output_.json) return absl::OkStatus();
    nlohmann::ordered_json document;
    if (batch) {
      document["results"] = std::move(results);
    } else {
      document = std::move(results[0]);
    }
    document["timings"] = timings.Json();
    PrintJson(document);
    return absl::OkStatus();
  }

  TextModelOptions model_;
  std::string prompt_;
  std::string chat_;
  std::string prompts_;
  std::string system_;
  SamplingOptions sampling_;
  EngineOptions engine_;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Command> MakeGenerateCommand() { return std::make_unique<GenerateCommand>(); }

}  // namespace lorica::cli
