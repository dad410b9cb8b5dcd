// Where a model keeps its chat templates.
#ifndef LORICA_TEXT_CHAT_TEMPLATE_FILES_H_
#define LORICA_TEXT_CHAT_TEMPLATE_FILES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/text/jinja/value.h"

namespace lorica {

// Templates have some KB.
inline constexpr size_t kMaxTemplateBytes = size_t{4} << 20;

struct NamedTemplate {
  std::string name;    // "default" for the one that has none
  std::string text;    // its source
  std::string origin;  // for errors
};

// Null where none has that name.
const NamedTemplate* FindTemplate(const std::vector<NamedTemplate>& templates,
                                  absl::string_view name);

// The templates of the model at `model_path`. In a GGUF file: tokenizer.chat_template and
// tokenizer.chat_template.NAME. In a Hugging Face folder: chat_template.jinja and
// additional_chat_templates/NAME.jinja; where `name` isn't among those, also "chat_template" of
// tokenizer_config.json (as transformers: files of their own win over the configuration).
absl::StatusOr<std::vector<NamedTemplate>> TemplatesOfModel(const std::string& model_path,
                                                            absl::string_view name);

bool IsGgufModel(const std::string& path);

// The folder of a model's tokenizer files: the path itself, or the folder of the file it names.
std::string TokenizerFolder(const std::string& model_path);

// A JSON object; undefined where the file doesn't exist.
absl::StatusOr<jinja::Value> ReadTokenizerConfig(const std::string& path);

}  // namespace lorica

#endif  // LORICA_TEXT_CHAT_TEMPLATE_FILES_H_
