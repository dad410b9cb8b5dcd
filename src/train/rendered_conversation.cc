#include "lorica/train/rendered_conversation.h"

#include <algorithm>
#include <cmath>
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

// An assistant message that is trained.
struct Turn {
  size_t message = 0;
  float weight = 1;
};

bool IsAssistant(const Value& message) { return message.Get("role").as_string() == "assistant"; }

absl::StatusOr<float> WeightOf(const Value& message, size_t index) {
  const Value train = message.Get("train");
  if (train.is_bool() && !train.as_bool()) return 0.0f;
  double product = 1;
  for (const char* key : {"weight", "loss_weight"}) {
    const Value weight = message.Get(key);
    if (weight.is_undefined() || weight.is_none()) continue;
    const bool is_number = weight.is_number() && !weight.is_bool();
    const double value = is_number ? weight.as_double() : -1;
    if (!(value >= 0) || !std::isfinite(static_cast<float>(value))) {
      return absl::InvalidArgumentError(absl::StrCat(
          "expected the ", key, " of message ", index + 1, " to be a finite number from 0, found ",
          jinja::ToJson(weight).value_or("something else")));
    }
    product *= value;
  }
  return static_cast<float>(product);
}

absl::StatusOr<std::vector<Turn>> TrainedTurns(const List& messages, size_t prompt_messages,
                                               TrainOn train_on) {
  std::vector<Turn> turns;
  for (size_t i = prompt_messages; i < messages.size(); ++i) {
    if (!IsAssistant(messages[i])) continue;
    LORICA_ASSIGN_OR_RETURN(const float weight, WeightOf(messages[i], i));
    if (weight > 0) turns.push_back({i, weight});
  }
  if (train_on == TrainOn::kLast && turns.size() > 1) turns.erase(turns.begin(), turns.end() - 1);
  return turns;
}

// Renders the beginnings of one conversation.
class Prefixes {
 public:
  Prefixes(const ChatTemplate& chat_template, const List& messages, const Value& tools,
           const std::optional<std::tm>& now)
      : chat_template_(chat_template), messages_(messages), tools_(tools), now_(now) {}

  absl::StatusOr<std::string> Render(size_t count, bool add_generation_prompt) const {
    ChatRequest request;
    request.messages =
        Value(List(messages_.begin(), messages_.begin() + static_cast<ptrdiff_t>(count)));
    request.tools = tools_;
    request.now = now_;
    request.add_generation_prompt = add_generation_prompt;
    LORICA_ASSIGN_OR_RETURN(jinja::RenderResult rendered, chat_template_.Render(request));
    return std::move(rendered.text);
  }

  size_t size() const { return messages_.size(); }

 private:
  const ChatTemplate& chat_template_;
  const List& messages_;
  const Value& tools_;
  const std::optional<std::tm>& now_;
};

// Where each of `turns` stands in the whole conversation, one behind the other; false where the
// template rewrites it.
absl::StatusOr<bool> FindInWhole(const Prefixes& prefixes, const std::vector<Turn>& turns,
                                 RenderedConversation* whole) {
  size_t end = 0;
  for (const Turn& turn : turns) {
    LORICA_ASSIGN_OR_RETURN(const std::string before, prefixes.Render(turn.message, true));
    if (before.size() < end || !absl::StartsWith(whole->text, before)) return false;
    end = whole->text.size();
    if (turn.message + 1 < prefixes.size()) {
      LORICA_ASSIGN_OR_RETURN(const std::string through, prefixes.Render(turn.message + 1, false));
      if (through.size() < before.size() || !absl::StartsWith(whole->text, through)) return false;
      end = through.size();
    }
    whole->trained.push_back({before.size(), end, turn.weight});
  }
  return true;
}

// The conversation up to and with `turn`, which alone is trained.
absl::StatusOr<RenderedConversation> RenderTurn(const Prefixes& prefixes, const Turn& turn) {
  RenderedConversation conversation;
  LORICA_ASSIGN_OR_RETURN(const std::string before, prefixes.Render(turn.message, true));
  LORICA_ASSIGN_OR_RETURN(conversation.text, prefixes.Render(turn.message + 1, false));
  if (!absl::StartsWith(conversation.text, before)) {
    size_t common = 0;
    while (common < conversation.text.size() && before[common] == conversation.text[common]) {
      ++common;
    }
    constexpr size_t kShown = 40;
    return absl::FailedPreconditionError(absl::StrCat(
        "the chat template's prompt for an answer goes on with ",
        Quoted(absl::string_view(before).substr(common, kShown)), " where message ",
        turn.message + 1, " has ",
        Quoted(absl::string_view(conversation.text).substr(common, kShown)),
        ", so what to train can't be told; give messages with what the prompt opens (reasoning, "
        "often), or a template with {% generation %} blocks"));
  }
  conversation.trained.push_back({before.size(), conversation.text.size(), turn.weight});
  return conversation;
}

// The spans of a template's {% generation %} blocks that belong to `turns`; false where blocks and
// messages can't be matched.
bool TakeBlocks(const List& messages, const std::vector<Turn>& turns,
                const std::vector<ByteSpan>& blocks, std::vector<TrainedSpan>* trained) {
  const auto assistants =
      static_cast<size_t>(std::count_if(messages.begin(), messages.end(), IsAssistant));
  // With a block for every assistant turn, each belongs to its message.
  if (blocks.size() == assistants) {
    size_t block = 0;
    auto turn = turns.begin();
    for (size_t i = 0; i < messages.size(); ++i) {
      if (!IsAssistant(messages[i])) continue;
      if (turn != turns.end() && turn->message == i) {
        trained->push_back({blocks[block].begin, blocks[block].end, turn->weight});
        ++turn;
      }
      ++block;
    }
    return true;
  }
  // Else all are taken as they are, if all turns count the same.
  if (turns.size() != assistants) return false;
  const float weight = turns.empty() ? 1 : turns.front().weight;
  for (const Turn& turn : turns) {
    if (turn.weight != weight) return false;
  }
  for (const ByteSpan& block : blocks) trained->push_back({block.begin, block.end, weight});
  return true;
}

}  // namespace

absl::StatusOr<std::vector<RenderedConversation>> RenderConversation(
    const ChatTemplate& chat_template, const Value& messages, const Value& tools,
    size_t prompt_messages, TrainOn train_on, const std::optional<std::tm>& now) {
  const List& list = messages.as_list();
  ChatRequest request;
  request.messages = messages;
  request.tools = tools;
  request.now = now;
  LORICA_ASSIGN_OR_RETURN(jinja::RenderResult rendered, chat_template.Render(request));
  RenderedConversation whole;
  whole.text = std::move(rendered.text);
  if (train_on == TrainOn::kAll) {
    whole.trained.push_back({0, whole.text.size()});
    return std::vector<RenderedConversation>{std::move(whole)};
  }
  LORICA_ASSIGN_OR_RETURN(const std::vector<Turn> turns,
                          TrainedTurns(list, prompt_messages, train_on));
  if (!rendered.generation_spans.empty() && !rendered.generation_captured &&
      TakeBlocks(list, turns, rendered.generation_spans, &whole.trained)) {
    return std::vector<RenderedConversation>{std::move(whole)};
  }
  const Prefixes prefixes(chat_template, list, tools, now);
  LORICA_ASSIGN_OR_RETURN(const bool found, FindInWhole(prefixes, turns, &whole));
  if (found) return std::vector<RenderedConversation>{std::move(whole)};
  std::vector<RenderedConversation> conversations;
  for (const Turn& turn : turns) {
    LORICA_ASSIGN_OR_RETURN(RenderedConversation conversation, RenderTurn(prefixes, turn));
    conversations.push_back(std::move(conversation));
  }
  return conversations;
}

}  // namespace lorica
