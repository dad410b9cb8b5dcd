#include "lorica/train/trained_spans.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica {

using jinja::ByteSpan;
using jinja::List;
using jinja::Value;

absl::StatusOr<TrainOn> ParseTrainOn(absl::string_view name) {
  if (name == "assistant") return TrainOn::kAssistant;
  if (name == "last") return TrainOn::kLast;
  if (name == "all") return TrainOn::kAll;
  return absl::InvalidArgumentError(
      absl::StrCat("expected assistant, last or all, found ", Quoted(name)));
}

namespace {

// The numbers of the messages that are trained: assistant turns behind the prompt that don't opt
// out with "train": false or a weight of 0.
absl::StatusOr<std::vector<size_t>> TrainedTurns(const List& messages, size_t prompt_messages,
                                                 TrainOn train_on) {
  std::vector<size_t> turns;
  for (size_t i = prompt_messages; i < messages.size(); ++i) {
    if (messages[i].Get("role").as_string() != "assistant") continue;
    bool trained = true;
    const Value train = messages[i].Get("train");
    if (train.is_bool()) trained = train.as_bool();
    for (const char* key : {"weight", "loss_weight"}) {
      const Value weight = messages[i].Get(key);
      if (!weight.is_number()) continue;
      if (weight.as_double() != 0 && weight.as_double() != 1) {
        return absl::InvalidArgumentError(absl::StrCat("message ", i + 1, " has the ", key, " ",
                                                       weight.as_double(), ", expected 0 or 1"));
      }
      trained = trained && weight.as_double() != 0;
    }
    if (trained) turns.push_back(i);
  }
  if (train_on == TrainOn::kLast && turns.size() > 1) turns.erase(turns.begin(), turns.end() - 1);
  return turns;
}

size_t CountAssistants(const List& messages) {
  return static_cast<size_t>(std::count_if(
      messages.begin(), messages.end(),
      [](const Value& message) { return message.Get("role").as_string() == "assistant"; }));
}

absl::StatusOr<std::string> RenderPrefix(const ChatTemplate& chat_template, const List& messages,
                                         size_t count, const Value& tools,
                                         bool add_generation_prompt) {
  ChatRequest request;
  request.messages =
      Value(List(messages.begin(), messages.begin() + static_cast<ptrdiff_t>(count)));
  request.tools = tools;
  request.add_generation_prompt = add_generation_prompt;
  LORICA_ASSIGN_OR_RETURN(jinja::RenderResult rendered, chat_template.Render(request));
  return std::move(rendered.text);
}

absl::Status NotAPrefix(size_t turn, const char* what) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the chat template gives ", what, " message ", turn + 1,
      " another text than the whole conversation has there (it rewrites earlier turns), so what to "
      "train can't be told; give a template with {% generation %} blocks, or train on the last "
      "turn only"));
}

// The spans of the `turns` in `text`, found by rendering what precedes each and what ends with it.
absl::Status FindByPrefixes(const ChatTemplate& chat_template, const List& messages,
                            const Value& tools, const std::vector<size_t>& turns,
                            RenderedConversation* conversation) {
  for (const size_t turn : turns) {
    LORICA_ASSIGN_OR_RETURN(const std::string before,
                            RenderPrefix(chat_template, messages, turn, tools, true));
    LORICA_ASSIGN_OR_RETURN(const std::string through,
                            turn + 1 == messages.size()
                                ? absl::StatusOr<std::string>(conversation->text)
                                : RenderPrefix(chat_template, messages, turn + 1, tools, false));
    if (!absl::StartsWith(through, before)) {
      return NotAPrefix(turn, "the messages before");
    }
    if (!absl::StartsWith(conversation->text, through)) {
      return NotAPrefix(turn, "the messages up to");
    }
    conversation->trained.push_back({before.size(), through.size()});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RenderedConversation> RenderConversation(const ChatTemplate& chat_template,
                                                        const Value& messages, const Value& tools,
                                                        size_t prompt_messages, TrainOn train_on) {
  const List& list = messages.as_list();
  ChatRequest request;
  request.messages = messages;
  request.tools = tools;
  LORICA_ASSIGN_OR_RETURN(jinja::RenderResult rendered, chat_template.Render(request));
  RenderedConversation conversation;
  conversation.text = std::move(rendered.text);
  if (train_on == TrainOn::kAll) {
    conversation.trained.push_back({0, conversation.text.size()});
    return conversation;
  }
  LORICA_ASSIGN_OR_RETURN(const std::vector<size_t> turns,
                          TrainedTurns(list, prompt_messages, train_on));
  if (!rendered.generation_spans.empty() && !rendered.generation_captured) {
    // With a block for every assistant turn, each belongs to its message; else all are taken as
    // they are.
    if (rendered.generation_spans.size() == CountAssistants(list)) {
      size_t number = 0;
      for (size_t i = 0; i < list.size(); ++i) {
        if (list[i].Get("role").as_string() != "assistant") continue;
        if (std::find(turns.begin(), turns.end(), i) != turns.end()) {
          conversation.trained.push_back(rendered.generation_spans[number]);
        }
        ++number;
      }
      return conversation;
    }
    if (turns.size() == CountAssistants(list)) {
      conversation.trained = std::move(rendered.generation_spans);
      return conversation;
    }
  }
  LORICA_RETURN_IF_ERROR(FindByPrefixes(chat_template, list, tools, turns, &conversation));
  return conversation;
}

namespace {

absl::Status Named(const std::string& where, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

// Labels of tokens that share a byte with a trained span.
std::vector<int32_t> LabelsOf(const Encoding& encoding, const std::vector<ByteSpan>& trained) {
  std::vector<int32_t> labels(encoding.ids.size(), kIgnoredLabel);
  size_t span = 0;
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    const TokenSpan& token = encoding.spans[i];
    while (span < trained.size() && trained[span].end <= token.begin) ++span;
    if (span < trained.size() && token.end > trained[span].begin && token.end > token.begin) {
      labels[i] = encoding.ids[i];
    }
  }
  return labels;
}

Value WithSystem(const Value& messages, const std::string& system) {
  const List& list = messages.as_list();
  const std::string& first = list[0].Get("role").as_string();
  if (system.empty() || first == "system" || first == "developer") return messages;
  jinja::Dict message;
  message.Set("role", "system");
  message.Set("content", system);
  List all{Value(std::move(message))};
  all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace

absl::StatusOr<TokenizedRecord> RecordTokenizer::TokenizeMessages(const Record& record) const {
  if (chat_template_ == nullptr) {
    return absl::FailedPreconditionError(
        "the record holds messages, but the model has no chat template; give one");
  }
  const Value messages = WithSystem(record.messages, options_.system);
  const bool added = messages.as_list().size() != record.messages.as_list().size();
  LORICA_ASSIGN_OR_RETURN(
      RenderedConversation conversation,
      RenderConversation(*chat_template_, messages, record.tools,
                         record.prompt_messages + (added ? 1 : 0), options_.train_on));
  // The template has written what special tokens there are, BOS included.
  LORICA_ASSIGN_OR_RETURN(Encoding encoding, tokenizer_->EncodeWithSpans(
                                                 conversation.text, {.add_special_tokens = false}));
  TokenizedRecord tokenized;
  tokenized.labels = LabelsOf(encoding, conversation.trained);
  tokenized.ids = std::move(encoding.ids);
  tokenized.text = std::move(conversation.text);
  return tokenized;
}

absl::StatusOr<TokenizedRecord> RecordTokenizer::TokenizeText(const std::string& prompt,
                                                              const std::string& trained) const {
  if (!options_.system.empty()) {
    return absl::FailedPreconditionError(
        "a system text was given, but the record is plain text without messages");
  }
  TokenizedRecord tokenized;
  tokenized.text = prompt + trained;
  LORICA_ASSIGN_OR_RETURN(Encoding encoding, tokenizer_->EncodeWithSpans(tokenized.text));
  const size_t begin = options_.train_on == TrainOn::kAll ? 0 : prompt.size();
  tokenized.labels = LabelsOf(encoding, {{begin, tokenized.text.size()}});
  tokenized.ids = std::move(encoding.ids);
  // The end is learned, too; some tokenizers have put it there already.
  if (const auto eos = tokenizer_->eos_id(); eos.has_value()) {
    if (tokenized.ids.empty() || tokenized.ids.back() != *eos) {
      tokenized.ids.push_back(*eos);
      tokenized.labels.push_back(*eos);
    } else {
      tokenized.labels.back() = *eos;
    }
  }
  return tokenized;
}

absl::StatusOr<TokenizedRecord> RecordTokenizer::Tokenize(const Record& record) const {
  if (record.format == RecordFormat::kTokens) {
    TokenizedRecord tokenized;
    tokenized.ids = record.ids;
    tokenized.labels = options_.train_on == TrainOn::kAll ? record.ids : record.labels;
    return tokenized;
  }
  if (tokenizer_ == nullptr) {
    return Named(record.where,
                 absl::FailedPreconditionError(
                     "the record holds text, but the model has no tokenizer; it takes input_ids"));
  }
  absl::StatusOr<TokenizedRecord> tokenized = record.has_messages ? TokenizeMessages(record)
                                              : record.format == RecordFormat::kText
                                                  ? TokenizeText("", record.text)
                                                  : TokenizeText(record.prompt, record.completion);
  if (!tokenized.ok()) return Named(record.where, tokenized.status());
  if (tokenized->ids.empty()) {
    return Named(record.where, absl::InvalidArgumentError("the record has no tokens"));
  }
  return tokenized;
}

}  // namespace lorica
