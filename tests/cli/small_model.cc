#include "cli/small_model.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "lorica/io/atomic_commit.h"
#include "lorica/nn/init.h"
#include "lorica/nn/model_loader.h"
#include "lorica/tensor/cpu_backend.h"

namespace lorica {
namespace {

// A byte in GPT-2's alphabet, as JSON text.
std::string ByteInAlphabet(int byte, int* next) {
  const bool printable =
      (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
  const int code = printable ? byte : (*next)++;
  char text[16];
  std::snprintf(text, sizeof(text), "\\u%04x", code);
  return text;
}

std::string TokenizerJson() {
  std::string vocabulary;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    absl::StrAppend(&vocabulary, byte == 0 ? "" : ",", "\"", ByteInAlphabet(byte, &next),
                    "\":", byte);
  }
  std::string added;
  int id = 256;
  for (const char* token : {"<s>", "<turn>", "<end>", "<tool>", "<pad>"}) {
    absl::StrAppend(&added, id == 256 ? "" : ",", "{\"id\":", id, ",\"content\":\"", token,
                    "\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                    "\"normalized\":false,\"special\":true}");
    absl::StrAppend(&vocabulary, ",\"", token, "\":", id++);
  }
  const std::string bytes =
      "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"
      "\"use_regex\":true}";
  return absl::StrCat("{\"version\":\"1.0\",\"added_tokens\":[", added,
                      "],\"normalizer\":null,\"pre_tokenizer\":", bytes,
                      ",\"post_processor\":null,\"decoder\":", bytes,
                      ",\"model\":{\"type\":\"BPE\",\"vocab\":{", vocabulary, "},\"merges\":[]}}");
}

}  // namespace

const char kSmallTemplate[] =
    "{% for m in messages %}<turn>{{ m.role }}\n{{ m.content }}<end>\n{% endfor %}"
    "{% if add_generation_prompt %}<turn>assistant\n{% endif %}";

std::string GoldenModel(const std::string& name) {
  return absl::StrCat(LORICA_SOURCE_ROOT, "/tests/golden/models/", name);
}

void WriteSmallModel(const std::string& folder) {
  ModelConfig config;
  config.family = "llama";
  config.vocab_size = 261;
  config.hidden_size = 24;
  config.intermediate_size = 40;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 6;
  config.rope.channels = config.head_dim;
  config.tied = true;
  config.max_positions = 512;
  config.eos_token_ids = {258};
  ThreadPool pool(1);
  const std::unique_ptr<Backend> backend = MakeCpuBackend(pool);
  CausalLm model(config, DType::kF32);
  InitializeRandom(model, *backend, {.seed = 5, .standard_deviation = 0.1});
  if (!SaveModel(model, folder).ok()) std::abort();
  WriteFileOrDie(folder + "/tokenizer.json", TokenizerJson());
  WriteFileOrDie(folder + "/tokenizer_config.json",
                 "{\"bos_token\": \"<s>\", \"eos_token\": \"<end>\", \"pad_token\": \"<pad>\"}");
  WriteFileOrDie(folder + "/chat_template.jinja", kSmallTemplate);
}

std::string SmallData(int records) {
  std::string text;
  for (int i = 0; i < records; ++i) {
    absl::StrAppend(&text, R"({"messages": [{"role": "user", "content": "count )", i,
                    R"("}, {"role": "assistant", "content": "one, two, )", i % 7, "\"}]}\n");
  }
  return text;
}

void WriteFileOrDie(const std::string& path, absl::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) {
    std::perror(path.c_str());
    std::abort();
  }
}

std::string ReadFileOrDie(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::perror(path.c_str());
    std::abort();
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void CopyFolderOrDie(const std::string& from, const std::string& to) {
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
}

}  // namespace lorica
