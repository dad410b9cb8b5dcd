// Bytes as a data file, which may be compressed: read its records, as JSONL and as JSON, and find
// what is trained in conversations.
#include <cstddef>
#include <cstdint>
#include <string>

#include "lorica/text/chat_template.h"
#include "lorica/train/records.h"
#include "lorica/train/rendered_conversation.h"

namespace {

lorica::ChatTemplate ChatMl() {
  auto chat_template = lorica::ChatTemplate::FromSource(
      "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' ~ m.content ~ '<|im_end|>\n' }}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
      "fuzz", {});
  if (!chat_template.ok()) __builtin_trap();
  return *std::move(chat_template);
}

void Check(const lorica::Record& record) {
  static const lorica::ChatTemplate chat_template = ChatMl();
  if (record.ids.size() != record.labels.size()) __builtin_trap();
  if (!(record.weight >= 0 && record.weight <= 1e9)) __builtin_trap();
  if (!record.has_messages) return;
  const auto rendered =
      lorica::RenderConversation(chat_template, record.messages, record.tools,
                                 record.prompt_messages, lorica::TrainOn::kAssistant);
  if (!rendered.ok()) return;
  if (rendered->empty()) __builtin_trap();
  for (const lorica::RenderedConversation& conversation : *rendered) {
    size_t end = 0;
    for (const lorica::TrainedSpan& span : conversation.trained) {
      if (span.begin < end || span.end < span.begin) __builtin_trap();
      end = span.end;
    }
    if (end > conversation.text.size()) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"fuzz.jsonl", "fuzz.json"}) {
    auto reader = lorica::RecordReader::OverText(text, name);
    if (!reader.ok()) {
      if (reader.status().message().empty()) __builtin_trap();
      continue;
    }
    while (true) {
      const auto record = reader->Next();
      if (!record.ok()) {
        if (record.status().message().empty()) __builtin_trap();
        break;
      }
      if (!record->has_value()) break;
      Check(**record);
    }
  }
  return 0;
}
