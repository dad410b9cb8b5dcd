// Bytes as a chat template: parse, and render one conversation.
#include <cstddef>
#include <cstdint>
#include <ctime>

#include "absl/strings/string_view.h"
#include "lorica/text/jinja/template.h"

using lorica::jinja::ParseJson;
using lorica::jinja::RenderOptions;
using lorica::jinja::Template;
using lorica::jinja::Value;

namespace {

Value Context() {
  const auto context = ParseJson(R"({"messages": [
      {"role": "system", "content": "Sé brief"}, {"role": "user", "content": "a\nb"},
      {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1.5}}}]},
      {"role": "tool", "content": "[]"}, {"role": "assistant", "content": "<think>t</think>z"}],
      "tools": [{"function": {"name": "f", "parameters": {"properties": {"x": {"type": ["a", "b"]}}}}}],
      "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"})");
  if (!context.ok()) __builtin_trap();
  return *context;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Value context = Context();
  const auto parsed = Template::Parse({reinterpret_cast<const char*>(data), size});
  if (!parsed.ok()) {
    if (parsed.status().message().empty()) __builtin_trap();
    return 0;
  }
  RenderOptions options;
  options.now = std::tm{};
  options.limits.steps = 200'000;
  options.limits.bytes = 16 << 20;
  const auto first = parsed->Render(context, options);
  const auto second = parsed->Render(context, options);
  // One render leaves nothing behind for the next.
  if (first.ok() != second.ok()) __builtin_trap();
  if (!first.ok()) return 0;
  if (first->text != second->text) __builtin_trap();
  for (const auto& span : first->generation_spans) {
    if (span.begin > span.end || span.end > first->text.size()) __builtin_trap();
  }
  return 0;
}
