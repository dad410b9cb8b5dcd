// The files of tests/golden/gguf_models.json, which another program wrote: their metadata.
#ifndef LORICA_TESTS_SUPPORT_DESCRIBED_GGUF_H_
#define LORICA_TESTS_SUPPORT_DESCRIBED_GGUF_H_

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "lorica/io/gguf.h"
#include "lorica/io/json_file.h"

namespace lorica {

// By name of the model: "metadata", rows of key, type and value; "tensors", rows of name, shape and
// a hash of the bytes.
inline const Json& DescribedGgufs() {
  static const Json* files =
      new Json(*ReadJsonFile(LORICA_SOURCE_ROOT "/tests/golden/gguf_models.json"));
  return *files;
}

inline void SetMetadata(GgufMetadata& metadata, const std::string& key, const std::string& type,
                        const Json& value) {
  if (type == "string") {
    metadata.SetString(key, value.get<std::string>());
  } else if (type == "uint32") {
    metadata.SetU32(key, value.get<uint32_t>());
  } else if (type == "bool") {
    metadata.SetBool(key, value.get<bool>());
  } else {
    metadata.SetF32(key, value.get<float>());
  }
}

// With other values for some keys; null: without the key.
inline GgufMetadata DescribedMetadata(const std::string& name,
                                      std::map<std::string, Json> changes = {}) {
  GgufMetadata metadata;
  for (const Json& row : DescribedGgufs().at(name).at("metadata")) {
    const std::string key = row[0];
    const auto change = changes.find(key);
    const Json value = change == changes.end() ? row[2] : change->second;
    if (!value.is_null()) SetMetadata(metadata, key, row[1], value);
    if (change != changes.end()) changes.erase(change);
  }
  for (const auto& [key, value] : changes) {
    if (value.is_null()) continue;
    SetMetadata(metadata, key,
                value.is_boolean()        ? "bool"
                : value.is_number_float() ? "float32"
                                          : "uint32",
                value);
  }
  return metadata;
}

}  // namespace lorica

#endif  // LORICA_TESTS_SUPPORT_DESCRIBED_GGUF_H_
