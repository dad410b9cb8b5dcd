#include "lorica/nn/families/family.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace lorica::internal {
namespace {

// Tables of pointers, because a registrar object in a static library is dropped by the linker. Of
// two families with one GGUF architecture the first reads it.
constexpr const Family& (*kFamilies[])() = {
    LlamaFamily,      Qwen2Family,      Qwen3Family,       MistralFamily,   SmolLm3Family,
    GraniteFamily,    Olmo2Family,      Gemma2Family,      Gemma3Family,    Phi3Family,
    MixtralFamily,    Qwen2MoeFamily,   Qwen3MoeFamily,    Qwen35MoeFamily, OlmoeFamily,
    DeepseekV2Family, DeepseekV3Family, DeepseekV32Family, Glm4MoeFamily,   Glm4MoeLiteFamily,
    GlmMoeDsaFamily,  MiniMaxM2Family,  GptOssFamily};

}  // namespace

const Family* FindFamily(absl::string_view name) {
  for (auto family : kFamilies) {
    if (family().name == name) return &family();
  }
  return nullptr;
}

const Family* FindGgufFamily(absl::string_view architecture) {
  for (auto family : kFamilies) {
    if (!architecture.empty() && family().gguf == architecture) return &family();
  }
  return nullptr;
}

std::string FamilyNames() {
  std::string names;
  for (auto family : kFamilies) absl::StrAppend(&names, names.empty() ? "" : ", ", family().name);
  return names;
}

std::string GgufFamilyNames() {
  std::string names;
  for (auto family : kFamilies) {
    if (FindGgufFamily(family().gguf) != &family()) continue;
    absl::StrAppend(&names, names.empty() ? "" : ", ", family().gguf);
  }
  return names;
}

}  // namespace lorica::internal
