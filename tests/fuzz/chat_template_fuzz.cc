// Bytes as a chat template over a conversation: whatever it renders, the trained spans lie within
// the text, in order.
#include <cstddef>
#include <cstdint>
#include <string>

#include "lorica/text/chat_template.h"
#include "lorica/train/rendered_conversation.h"

using lorica::jinja::ParseJson;
using lorica::jinja::Value;

namespace {

Value Conversation() {
  const auto messages = ParseJson(R"([
      {"role": "system", "content": "S\u00e9"}, {"role": "user", "content": "q"},
      {"role": "assistant", "content": "<think>t</think>a", "weight": 0.5},
      {"role": "user", "content": "r"}, {"role": "assistant", "content": "b", "train": false},
      {"role": "user", "content": "s"}, {"role": "assistant", "content": "c"}])");
  if (!messages.ok()) __builtin_trap();
  return *messages;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Value messages = Conversation();
  const std::string source(reinterpret_cast<const char*>(data), size);
  const auto chat_template = lorica::ChatTemplate::FromSource(source, "fuzz", {});
  if (!chat_template.ok()) return 0;
  for (const lorica::TrainOn train_on : {lorica::TrainOn::kAssistant, lorica::TrainOn::kLast}) {
    const auto rendered =
        lorica::RenderConversation(*chat_template, messages, nullptr, 0, train_on);
    if (!rendered.ok()) {
      if (rendered.status().message().empty()) __builtin_trap();
      continue;
    }
    if (rendered->empty()) __builtin_trap();
    for (const lorica::RenderedConversation& conversation : *rendered) {
      size_t end = 0;
      for (const lorica::TrainedSpan& span : conversation.trained) {
        if (span.begin < end || span.end < span.begin || !(span.weight > 0)) __builtin_trap();
        end = span.end;
      }
      if (end > conversation.text.size()) __builtin_trap();
    }
  }
  return 0;
}
