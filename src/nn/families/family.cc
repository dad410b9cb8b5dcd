#include "lorica/nn/families/family.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace lorica::internal {
namespace {

// Tables of pointers, because a registrar object in a static library is dropped by the linker.
constexpr const Family& (*kFamilies[])() = {LlamaFamily, Qwen2Family};

}  // namespace

const Family* FindFamily(absl::string_view name) {
  for (auto family : kFamilies) {
    if (family().name == name) return &family();
  }
  return nullptr;
}

std::string FamilyNames() {
  std::string names;
  for (auto family : kFamilies) absl::StrAppend(&names, names.empty() ? "" : ", ", family().name);
  return names;
}

}  // namespace lorica::internal
