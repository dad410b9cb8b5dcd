#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "cli/bad_input.h"
#include "cli/small_model.h"

namespace lorica {
namespace {

using Arguments = std::vector<std::string>;

template <typename T>
std::string Raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::string Safetensors(const std::string& header, const std::string& data) {
  return absl::StrCat(Raw<uint64_t>(header.size()), header, data);
}

// Tokens through the model "m" of the row's folder.
Arguments Score() { return {"score", "--model", "m", "--data", "{T}"}; }

BadInput Weights(const std::string& name, const std::string& message, Change change) {
  return {name, Score(), 3, message, CopyOfGoldenModel("m", std::move(change))};
}

BadInput Config(const std::string& name, const std::string& message, const std::string& from,
                const std::string& to) {
  return Weights(name, message, [from, to](const std::string& model) {
    ReplaceInFile(model + "/config.json", from, to);
  });
}

// A file in place of the weights.
BadInput WeightBytes(const std::string& name, const std::string& message,
                     const std::string& bytes) {
  return Weights(name, message, [bytes](const std::string& model) {
    WriteFileOrDie(model + "/model.safetensors", bytes);
  });
}

BadInput Gguf(const std::string& name, const std::string& message, const std::string& bytes) {
  return {name, {"inspect", "m.gguf"}, 3, message, File("m.gguf", bytes)};
}

std::string GgufHeader(uint32_t version, uint64_t tensors, uint64_t keys) {
  return absl::StrCat("GGUF", Raw(version), Raw(tensors), Raw(keys));
}

std::string GgufText(const std::string& text) { return Raw<uint64_t>(text.size()) + text; }

void OverwriteWeights(const std::string& model, size_t bytes_from_end, const std::string& bytes) {
  const std::string path = model + "/model.safetensors";
  std::string file = ReadFileOrDie(path);
  file.replace(file.size() - bytes_from_end, bytes.size(), bytes);
  WriteFileOrDie(path, file);
}

}  // namespace

std::vector<BadInput> BadModels() {
  const std::string one = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::string architecture =
      absl::StrCat(GgufText("general.architecture"), Raw<uint32_t>(8), GgufText("llama"));
  return {
      {"model_absent", Score(), 3, "m"},
      {"model_is_a_text_file", Score(), 3, "m", File("m", "hello")},
      {"model_folder_empty", Score(), 3, "config.json",
       [](const std::string& folder) {
         CopyFolderOrDie(GoldenModel("llama_gqa/adapter"), folder + "/m");
       }},
      Config("config_not_json", "config.json", "{", "[{"),
      Config("config_unknown_model_type", "mamba", "\"model_type\": \"llama\"",
             "\"model_type\": \"mamba\""),
      Config("config_unsupported_activation", "hidden_act", "\"hidden_act\": \"silu\"",
             "\"hidden_act\": \"swish_squared\""),
      Config("config_unsupported_field", "parallel_residual", "{", "{\"parallel_residual\": true,"),
      Config("config_negative_layers", "num_hidden_layers",
             "\"num_hidden_layers\": ", "\"num_hidden_layers\": -"),
      Config("config_gigantic", "vocab_size", "\"vocab_size\": ", "\"vocab_size\": 9999999999"),
      Config("config_text_for_number", "hidden_size", "\"hidden_size\": 3",
             "\"hidden_size\": \"thirty\", \"was\": 3"),
      Config("config_other_shape", "shape", "\"intermediate_size\": ", "\"intermediate_size\": 1"),
      Weights("model_config_absent", "config.json",
              [](const std::string& model) { std::remove((model + "/config.json").c_str()); }),
      Weights(
          "weights_absent", "safetensors",
          [](const std::string& model) { std::remove((model + "/model.safetensors").c_str()); }),
      {"shard_missing", Score(), 3, "model-00002-of-00002.safetensors",
       [](const std::string& folder) {
         CopyFolderOrDie(GoldenModel("llama_mqa_bias_tied/model"), folder + "/m");
         std::remove((folder + "/m/model-00002-of-00002.safetensors").c_str());
       }},
      {"index_names_another_shard", Score(), 3, "model.safetensors.index.json",
       [](const std::string& folder) {
         CopyFolderOrDie(GoldenModel("llama_mqa_bias_tied/model"), folder + "/m");
         ReplaceInFile(folder + "/m/model.safetensors.index.json", "model-00001-of-00002",
                       "model-00002-of-00002");
       }},
      {"index_leaves_the_folder", Score(), 3, "model.safetensors.index.json",
       [](const std::string& folder) {
         CopyFolderOrDie(GoldenModel("llama_mqa_bias_tied/model"), folder + "/m");
         ReplaceInFile(folder + "/m/model.safetensors.index.json", "model-00001-of-00002",
                       "../m/model-00001-of-00002");
       }},
      WeightBytes("safetensors_empty", "model.safetensors", ""),
      WeightBytes("safetensors_header_beyond_file", "model.safetensors",
                  Raw<uint64_t>(1 << 20) + "{}"),
      WeightBytes("safetensors_header_length_lies", "model.safetensors",
                  Raw<uint64_t>(uint64_t{1} << 62) + "{}"),
      WeightBytes("safetensors_header_not_json", "model.safetensors", Safetensors("{\"a\"", "")),
      WeightBytes("safetensors_data_truncated", "model.safetensors", Safetensors(one, "ab")),
      WeightBytes("safetensors_data_surplus", "model.safetensors", Safetensors(one, "abcdefgh")),
      WeightBytes(
          "safetensors_shape_lies", "model.safetensors",
          Safetensors(R"({"a":{"dtype":"F32","shape":[99],"data_offsets":[0,4]}})", "abcd")),
      WeightBytes("safetensors_shape_overflows", "model.safetensors",
                  Safetensors(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],)"
                              R"("data_offsets":[0,4]}})",
                              "abcd")),
      WeightBytes("safetensors_overlap", "model.safetensors",
                  Safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                              R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                              "abcd")),
      WeightBytes("safetensors_deeply_nested", "model.safetensors",
                  Safetensors(std::string(100000, '['), "")),
      WeightBytes("safetensors_unknown_type", "model.safetensors",
                  Safetensors(R"({"a":{"dtype":"F7","shape":[1],"data_offsets":[0,4]}})", "abcd")),
      WeightBytes("tensor_missing", "model.", Safetensors(one, "abcd")),
      Weights("tensor_of_integers", "I32",
              [](const std::string& model) {
                ReplaceInFile(model + "/model.safetensors", "\"F32\"", "\"I32\"");
              }),
      Config("tensor_surplus", "no place", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1"),
      Config("head_differs_though_tied", "tie_word_embeddings", "\"tie_word_embeddings\": false",
             "\"tie_word_embeddings\": true"),
      Weights("weights_nan", "finite",
              [](const std::string& model) { OverwriteWeights(model, 8, Raw(0x7FC00000)); }),
      Weights("weights_infinite", "finite",
              [](const std::string& model) { OverwriteWeights(model, 8, Raw(0x7F800000)); }),
      Weights("weights_truncated", "model.safetensors",
              [](const std::string& model) {
                const std::string path = model + "/model.safetensors";
                WriteFileOrDie(path, ReadFileOrDie(path).substr(0, 5000));
              }),
      Gguf("gguf_empty", "m.gguf", ""),
      Gguf("gguf_magic_only", "m.gguf", "GGUF"),
      Gguf("gguf_wrong_magic", "m.gguf", "GGML" + std::string(100, 'x')),
      Gguf("gguf_unknown_version", "m.gguf", GgufHeader(77, 0, 0)),
      Gguf("gguf_tensor_count_lies", "m.gguf", GgufHeader(3, uint64_t{1} << 60, 0)),
      Gguf("gguf_key_count_lies", "m.gguf", GgufHeader(3, 0, uint64_t{1} << 60)),
      Gguf("gguf_string_length_lies", "m.gguf",
           GgufHeader(3, 0, 1) + Raw<uint64_t>(uint64_t{1} << 61) + "general"),
      Gguf("gguf_unknown_value_type", "m.gguf",
           absl::StrCat(GgufHeader(3, 0, 1), GgufText("a"), Raw<uint32_t>(99))),
      Gguf(
          "gguf_second_part_of_three", "expected the first part of 3",
          absl::StrCat(GgufHeader(3, 0, 2), GgufText("split.count"), Raw<uint32_t>(4),
                       Raw<uint32_t>(3), GgufText("split.no"), Raw<uint32_t>(4), Raw<uint32_t>(1))),
      Gguf("gguf_nested_arrays", "m.gguf",
           absl::StrCat(GgufHeader(3, 0, 1), GgufText("a"), Raw<uint32_t>(9), Raw<uint32_t>(9),
                        Raw<uint64_t>(1))),
      Gguf("gguf_tensor_beyond_file", "m.gguf",
           absl::StrCat(GgufHeader(3, 1, 1), architecture, GgufText("t"), Raw<uint32_t>(1),
                        Raw<uint64_t>(1 << 20), Raw<uint32_t>(0), Raw<uint64_t>(0))),
      Gguf("gguf_too_many_dimensions", "m.gguf",
           absl::StrCat(GgufHeader(3, 1, 0), GgufText("t"), Raw<uint32_t>(40))),
      Gguf("gguf_unknown_tensor_type", "m.gguf",
           absl::StrCat(GgufHeader(3, 1, 0), GgufText("t"), Raw<uint32_t>(1), Raw<uint64_t>(4),
                        Raw<uint32_t>(12345), Raw<uint64_t>(0))),
      {"gguf_other_architecture",
       {"generate", "--model", "m.gguf", "--prompt", "a"},
       3,
       "m.gguf",
       File("m.gguf", absl::StrCat(GgufHeader(3, 0, 1), GgufText("general.architecture"),
                                   Raw<uint32_t>(8), GgufText("clip")))},
      {"inspect_absent", {"inspect", "nothing"}, 3, "nothing"},
      {"inspect_unknown_kind", {"inspect", "a.txt"}, 3, "a.txt", File("a.txt", "hello")},
      {"inspect_empty_folder", {"inspect", "."}, 3, "config.json"},
      {"inspect_verify_finds_nan",
       {"inspect", "m", "--verify"},
       3,
       "finite",
       CopyOfGoldenModel(
           "m", [](const std::string& model) { OverwriteWeights(model, 8, Raw(0x7FC00000)); })},
      {"inspect_verify_unsupported_model",
       {"inspect", "m", "--verify"},
       3,
       "mamba",
       CopyOfGoldenModel("m",
                         [](const std::string& model) {
                           ReplaceInFile(model + "/config.json", "\"model_type\": \"llama\"",
                                         "\"model_type\": \"mamba\"");
                         })},
  };
}

}  // namespace lorica
