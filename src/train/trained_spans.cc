#include "lorica/train/trained_spans.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lorica/tensor/status.h"

namespace lorica {

using jinja::List;
using jinja::Value;

namespace {

absl::Status Named(const std::string& where, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

// Fills in the labels and weights of tokens that share a byte with a trained span.
void Label(const Encoding& encoding, const std::vector<TrainedSpan>& trained,
           TokenizedRecord* tokenized) {
  tokenized->labels.assign(encoding.ids.size(), kIgnoredLabel);
  const bool weighted = std::any_of(trained.begin(), trained.end(),
                                    [](const TrainedSpan& span) { return span.weight != 1; });
  if (weighted) tokenized->weights.assign(encoding.ids.size(), 1);
  size_t span = 0;
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    const TokenSpan& token = encoding.spans[i];
    while (span < trained.size() && trained[span].end <= token.begin) ++span;
    if (span < trained.size() && token.end > trained[span].begin && token.end > token.begin) {
      tokenized->labels[i] = encoding.ids[i];
      if (weighted) tokenized->weights[i] = trained[span].weight;
    }
  }
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

bool MayHoldCalls(const Record& record) {
  const List& messages = record.messages.as_list();
  return record.tools.is_list() ||
         std::any_of(messages.begin(), messages.end(),
                     [](const Value& message) { return message.Get("tool_calls").is_list(); });
}

}  // namespace

RecordTokenizer::RecordTokenizer(const Tokenizer* tokenizer, const ChatTemplate* chat_template,
                                 TokenizeOptions options)
    : tokenizer_(tokenizer), chat_template_(chat_template), options_(std::move(options)) {
  if (options_.now.has_value()) return;
  const std::time_t seconds = std::time(nullptr);
  localtime_r(&seconds, &options_.now.emplace());
}

absl::StatusOr<std::vector<TokenizedRecord>> RecordTokenizer::TokenizeMessages(
    const Record& record) const {
  if (chat_template_ == nullptr) {
    return absl::FailedPreconditionError(
        "the record holds messages, but the model has no chat template; give one");
  }
  const Value messages = Rendered(record);
  const bool added = messages.as_list().size() != record.messages.as_list().size();
  LORICA_ASSIGN_OR_RETURN(std::vector<RenderedConversation> conversations,
                          RenderConversation(*chat_template_, messages, record.tools,
                                             record.prompt_messages + (added ? 1 : 0),
                                             options_.train_on, options_.now));
  std::vector<TokenizedRecord> examples(conversations.size());
  for (size_t i = 0; i < examples.size(); ++i) {
    // The template has written what special tokens there are, BOS included.
    LORICA_ASSIGN_OR_RETURN(
        Encoding encoding,
        tokenizer_->EncodeWithSpans(conversations[i].text, {.add_special_tokens = false}));
    Label(encoding, conversations[i].trained, &examples[i]);
    examples[i].ids = std::move(encoding.ids);
    examples[i].text = std::move(conversations[i].text);
  }
  return examples;
}

Value RecordTokenizer::Rendered(const Record& record) const {
  return WithSystem(chat_template_->Readable(record.messages, record.tools), options_.system);
}

UnwrittenCalls RecordTokenizer::FindUnwritten(const Record& record) const {
  if (!record.has_messages || !MayHoldCalls(record)) return {};
  return FindUnwrittenCalls(*chat_template_, Rendered(record), record.tools, options_.now);
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
  Label(encoding, {{begin, tokenized.text.size()}}, &tokenized);
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

absl::StatusOr<std::vector<TokenizedRecord>> RecordTokenizer::Tokenize(const Record& record) const {
  std::vector<TokenizedRecord> examples;
  if (record.format == RecordFormat::kTokens) {
    TokenizedRecord& tokenized = examples.emplace_back();
    tokenized.ids = record.ids;
    tokenized.labels = options_.train_on == TrainOn::kAll ? record.ids : record.labels;
    return examples;
  }
  if (tokenizer_ == nullptr) {
    return Named(record.where,
                 absl::FailedPreconditionError(
                     "the record holds text, but the model has no tokenizer; it takes input_ids"));
  }
  if (record.has_messages) {
    absl::StatusOr<std::vector<TokenizedRecord>> turns = TokenizeMessages(record);
    if (!turns.ok()) return Named(record.where, turns.status());
    examples = *std::move(turns);
  } else {
    absl::StatusOr<TokenizedRecord> text = record.format == RecordFormat::kText
                                               ? TokenizeText("", record.text)
                                               : TokenizeText(record.prompt, record.completion);
    if (!text.ok()) return Named(record.where, text.status());
    examples.push_back(*std::move(text));
  }
  for (const TokenizedRecord& example : examples) {
    if (example.ids.empty()) {
      return Named(record.where, absl::InvalidArgumentError("the record has no tokens"));
    }
  }
  return examples;
}

}  // namespace lorica
