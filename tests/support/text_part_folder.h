// The golden text model of tests/golden/models/gemma3_text inside a model that takes pictures too.
#ifndef LORICA_TESTS_SUPPORT_TEXT_PART_FOLDER_H_
#define LORICA_TESTS_SUPPORT_TEXT_PART_FOLDER_H_

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lorica/io/safetensors.h"
#include "lorica/io/tensor_source.h"

namespace lorica {

inline const char* TextModelFolder() {
  return LORICA_SOURCE_ROOT "/tests/golden/models/gemma3_text/model";
}

struct TextPartOptions {
  std::string prefix = "language_model.";  // before the names of its tensors
  std::string second_name;                 // under which the final norm stands again; "": once
  bool untied = false;                     // with a head of its own, zeros
};

// Into a folder that is there.
inline void WriteTextPartFolder(const std::string& folder, const TextPartOptions& options = {}) {
  std::ifstream in(std::string(TextModelFolder()) + "/config.json");
  nlohmann::json text = nlohmann::json::parse(in);
  text.erase("architectures");
  text.erase("tie_word_embeddings");
  const nlohmann::json whole = {{"architectures", {"Gemma3ForConditionalGeneration"}},
                                {"model_type", "gemma3"},
                                {"eos_token_id", {1, 7}},
                                {"tie_word_embeddings", !options.untied},
                                {"text_config", text},
                                {"vision_config", {{"hidden_size", 16}}}};
  std::ofstream(folder + "/config.json") << whole;
  const auto source = OpenFolderSource(TextModelFolder());
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<SafetensorsTensor> tensors;
  std::vector<uint8_t> head;
  for (const std::string& name : (*source)->names()) {
    const StoredTensorInfo& info = *(*source)->Find(name);
    const absl::Span<const uint8_t> bytes = *(*source)->Bytes(name);
    tensors.push_back({options.prefix + name, info.type, info.shape, bytes});
    if (name == "model.norm.weight" && !options.second_name.empty()) {
      tensors.push_back({options.second_name, info.type, info.shape, bytes});
    }
    if (name == "model.embed_tokens.weight" && options.untied) {
      head.resize(bytes.size());
      tensors.push_back({options.prefix + "lm_head.weight", info.type, info.shape, head});
    }
  }
  const float pixel = 1;
  tensors.push_back({"vision_tower.probe",
                     StoredType::kF32,
                     {1},
                     {reinterpret_cast<const uint8_t*>(&pixel), sizeof pixel}});
  ASSERT_TRUE(WriteSafetensors(PosixFiles(), folder + "/model.safetensors", tensors, {}).ok());
}

}  // namespace lorica

#endif  // LORICA_TESTS_SUPPORT_TEXT_PART_FOLDER_H_
