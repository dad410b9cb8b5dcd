#include "lorica/train/text_model.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lorica/io/file_system.h"
#include "lorica/io/json_file.h"
#include "lorica/nn/model_loader.h"
#include "lorica/peft/peft_files.h"
#include "lorica/tensor/status.h"
#include "lorica/text/chat_messages.h"
#include "lorica/train/exit_status.h"

namespace lorica {
namespace {

// Prompts are written by people.
constexpr size_t kLargestFile = size_t{256} << 20;

jinja::Value Message(const char* role, const std::string& content) {
  return jinja::Dict({{"role", role}, {"content", content}});
}

absl::Status Wrong(const std::string& where, absl::string_view expected) {
  return absl::DataLossError(absl::StrCat(where, ": expected ", expected));
}

absl::StatusOr<std::vector<int32_t>> IdList(const jinja::Value& json, const std::string& where) {
  std::vector<int32_t> ids;
  for (const jinja::Value& id : json.as_list()) {
    if (!id.is_int() || id.as_int() < 0 || id.as_int() > INT32_MAX) {
      return Wrong(where, "whole numbers from 0 under \"input_ids\"");
    }
    ids.push_back(static_cast<int32_t>(id.as_int()));
  }
  return ids;
}

// "eos_token_id" of generation_config.json: a number or a list.
absl::Status AddGenerationStops(const std::string& path, std::set<int32_t>& stops) {
  LORICA_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(path));
  LORICA_ASSIGN_OR_RETURN(const JsonObject config, JsonObject::Of(json, path));
  const Json* eos = config.Find("eos_token_id");
  if (eos == nullptr) return absl::OkStatus();
  std::vector<int64_t> ids;
  if (eos->is_array()) {
    LORICA_ASSIGN_OR_RETURN(ids, config.Ints("eos_token_id"));
  } else {
    LORICA_ASSIGN_OR_RETURN(const int64_t id, config.Int("eos_token_id"));
    ids = {id};
  }
  for (const int64_t id : ids) {
    if (id >= 0 && id <= INT32_MAX) stops.insert(static_cast<int32_t>(id));
  }
  return absl::OkStatus();
}

}  // namespace

Prompt Prompt::OfText(std::string text) {
  Prompt prompt;
  prompt.text = std::move(text);
  return prompt;
}

Prompt Prompt::OfQuestion(const std::string& question, const std::string& system) {
  jinja::List messages;
  if (!system.empty()) messages.push_back(Message("system", system));
  messages.push_back(Message("user", question));
  Prompt prompt;
  prompt.messages = jinja::Value(std::move(messages));
  return prompt;
}

absl::StatusOr<Prompt> PromptFromJson(const jinja::Value& json, const std::string& where) {
  Prompt prompt;
  if (json.is_list()) {
    prompt.messages = json;
  } else if (json.Get("messages").is_list()) {
    prompt.messages = json.Get("messages");
  } else if (json.Get("prompt").is_list()) {
    prompt.messages = json.Get("prompt");
  } else if (json.Get("prompt").is_string()) {
    prompt.text = json.Get("prompt").as_string();
  } else if (json.Get("input_ids").is_list()) {
    LORICA_ASSIGN_OR_RETURN(prompt.ids, IdList(json.Get("input_ids"), where));
  } else {
    return Wrong(where, "an object with \"messages\", \"prompt\" or \"input_ids\"");
  }
  if (!prompt.messages.is_list()) return prompt;
  // What training data go through, too: a model is to be asked as it was trained.
  LORICA_ASSIGN_OR_RETURN(prompt.messages, AsInputError(NormalizeMessages(prompt.messages, where)));
  LORICA_ASSIGN_OR_RETURN(prompt.tools, AsInputError(NormalizeTools(json.Get("tools"), where)));
  return prompt;
}

absl::StatusOr<std::vector<Prompt>> ReadPrompts(const std::string& path) {
  LORICA_ASSIGN_OR_RETURN(const std::string text,
                          AsInputError(PosixFiles().Read(path, kLargestFile)));
  std::vector<Prompt> prompts;
  int line = 0;
  for (absl::string_view row : absl::StrSplit(text, '\n')) {
    ++line;
    row = absl::StripAsciiWhitespace(row);
    if (line == 1) absl::ConsumePrefix(&row, "\xEF\xBB\xBF");
    if (row.empty()) continue;
    const std::string where = absl::StrCat(path, ", line ", line);
    const absl::StatusOr<jinja::Value> json = jinja::ParseJson(row);
    if (!json.ok()) {
      return absl::DataLossError(absl::StrCat(where, ": ", json.status().message()));
    }
    LORICA_ASSIGN_OR_RETURN(Prompt prompt, PromptFromJson(*json, where));
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) return Wrong(path, "at least one prompt, found none");
  return prompts;
}

absl::StatusOr<Prompt> ReadPrompt(const std::string& path) {
  LORICA_ASSIGN_OR_RETURN(const std::string text,
                          AsInputError(PosixFiles().Read(path, kLargestFile)));
  const absl::StatusOr<jinja::Value> json = jinja::ParseJson(text);
  if (!json.ok()) return absl::DataLossError(absl::StrCat(path, ": ", json.status().message()));
  return PromptFromJson(*json, path);
}

absl::StatusOr<TextModel> TextModel::Load(const TextModelOptions& options, Backend& backend,
                                          DType compute) {
  TextModel result;
  // The cheap parts first: what is wrong with them shows before gigabytes are read.
  LORICA_ASSIGN_OR_RETURN(result.text, LoadModelText(options.model, options.chat_template));
  LORICA_ASSIGN_OR_RETURN(LoadedModel loaded,
                          AsInputError(LoadModel(options.model, backend, compute)));
  result.model = std::move(loaded.model);
  if (!options.adapter.empty()) {
    LORICA_ASSIGN_OR_RETURN(
        result.adapters,
        AsInputError(LoadPeftAdapter(options.adapter, *result.model, backend, compute)));
  }
  LORICA_ASSIGN_OR_RETURN(
      result.stop_ids,
      AsInputError(StopIds(options.model, result.model->config(),
                           result.text.tokenizer.has_value() ? &*result.text.tokenizer : nullptr)));
  return result;
}

absl::StatusOr<std::vector<int32_t>> TextModel::Encode(const Prompt& prompt) const {
  std::vector<int32_t> ids = prompt.ids;
  std::string plain = prompt.text.value_or("");
  EncodeOptions encode;
  if (prompt.messages.is_list()) {
    if (!text.chat_template.has_value()) {
      return absl::FailedPreconditionError(
          "the model has no chat template; give one, or a plain prompt");
    }
    ChatRequest request;
    request.messages = text.chat_template->Readable(prompt.messages, prompt.tools);
    request.tools = prompt.tools;
    request.add_generation_prompt = true;
    LORICA_ASSIGN_OR_RETURN(const jinja::RenderResult rendered,
                            AsInputError(text.chat_template->Render(request)));
    plain = rendered.text;
    // Templates spell BOS out where it belongs.
    encode.add_special_tokens = false;
  }
  if (ids.empty()) {
    if (!text.tokenizer.has_value()) {
      return absl::FailedPreconditionError(
          "the model has no tokenizer; prompts have to be token ids");
    }
    LORICA_ASSIGN_OR_RETURN(ids, text.tokenizer->Encode(plain, encode));
    // A model that knows a first token can start from nothing.
    if (ids.empty() && text.tokenizer->bos_id().has_value()) ids = {*text.tokenizer->bos_id()};
  }
  if (ids.empty()) {
    return absl::InvalidArgumentError("expected a prompt of at least one token, found none");
  }
  for (const int32_t id : ids) {
    if (id < 0 || id >= model->config().vocab_size) {
      return absl::InvalidArgumentError(absl::StrCat("the prompt has token id ", id,
                                                     ", but the model's vocabulary has ",
                                                     model->config().vocab_size, " tokens"));
    }
  }
  return ids;
}

absl::StatusOr<std::vector<int32_t>> StopIds(const std::string& model_path,
                                             const ModelConfig& config,
                                             const Tokenizer* tokenizer) {
  std::set<int32_t> stops(config.eos_token_ids.begin(), config.eos_token_ids.end());
  if (!IsGgufPath(model_path)) {
    const std::string path = JoinPath(model_path, "generation_config.json");
    if (PosixFiles().Stat(path).ok()) LORICA_RETURN_IF_ERROR(AddGenerationStops(path, stops));
  }
  if (tokenizer != nullptr && tokenizer->eos_id().has_value()) stops.insert(*tokenizer->eos_id());
  return std::vector<int32_t>(stops.begin(), stops.end());
}

}  // namespace lorica
