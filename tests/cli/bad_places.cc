#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "cli/bad_input.h"
#include "cli/small_model.h"

namespace lorica {
namespace {

using Arguments = std::vector<std::string>;

// Scoring with a changed copy of the golden adapter.
BadInput Adapter(const std::string& name, const std::string& message, Change change) {
  return {name,
          {"score", "--model", "{G}/model", "--adapter", "a", "--data", "{T}"},
          3,
          message,
          [change](const std::string& folder) {
            CopyFolderOrDie(GoldenModel("llama_gqa/adapter"), folder + "/a");
            change(folder + "/a");
          }};
}

BadInput AdapterConfig(const std::string& name, const std::string& message, const std::string& from,
                       const std::string& to) {
  return Adapter(name, message, [from, to](const std::string& adapter) {
    ReplaceInFile(adapter + "/adapter_config.json", from, to);
  });
}

// Training into `output`.
BadInput Output(const std::string& name, int status, const std::string& message,
                const std::string& output, std::function<void(const std::string&)> setup = {}) {
  return {name,
          {"sft", "--model", "{M}", "--data", "{D}", "--output", output, "--max-steps", "2"},
          status,
          message,
          std::move(setup)};
}

void AppendToWeights(const std::string& adapter, const std::string& tail) {
  const std::string path = adapter + "/adapter_model.safetensors";
  std::string file = ReadFileOrDie(path);
  file.replace(file.size() - tail.size(), tail.size(), tail);
  WriteFileOrDie(path, file);
}

}  // namespace

std::vector<BadInput> BadPlaces() {
  const std::string nan("\x00\x00\xc0\x7f", 4);
  std::vector<BadInput> table = {
      {"adapter_absent",
       {"score", "--model", "{G}/model", "--adapter", "a", "--data", "{T}"},
       3,
       "a"},
      {"adapter_of_another_model",
       {"score", "--model", "{G}/model", "--adapter", "a", "--data", "{T}"},
       3,
       "a",
       [](const std::string& folder) {
         CopyFolderOrDie(GoldenModel("qwen2_patterns/adapter"), folder + "/a");
       }},
      {"merge_adapter_of_another_model",
       {"merge", "--model", "{G}/model", "--adapter", "a", "--output", "out"},
       3,
       "a",
       [](const std::string& folder) {
         CopyFolderOrDie(GoldenModel("qwen2_patterns/adapter"), folder + "/a");
       }},
      {"init_adapter_contradicted",
       {"sft", "--model", "{G}/model", "--data", "{T}", "--output", "out", "--init-adapter", "a",
        "--lora-rank", "7"},
       2,
       "--lora-rank",
       [](const std::string& folder) {
         CopyFolderOrDie(GoldenModel("llama_gqa/adapter"), folder + "/a");
       }},
      Adapter("adapter_weights_absent", "adapter_model.safetensors",
              [](const std::string& adapter) {
                std::remove((adapter + "/adapter_model.safetensors").c_str());
              }),
      Adapter("adapter_config_absent", "adapter_config.json",
              [](const std::string& adapter) {
                std::remove((adapter + "/adapter_config.json").c_str());
              }),
      Adapter("adapter_truncated", "adapter_model.safetensors",
              [](const std::string& adapter) {
                const std::string path = adapter + "/adapter_model.safetensors";
                WriteFileOrDie(path, ReadFileOrDie(path).substr(0, 4000));
              }),
      Adapter("adapter_nan", "finite",
              [nan](const std::string& adapter) { AppendToWeights(adapter, nan); }),
      Adapter("adapter_unknown_key", "lora_C",
              [](const std::string& adapter) {
                ReplaceInFile(adapter + "/adapter_model.safetensors", "lora_A.weight",
                              "lora_C.weight");
              }),
      AdapterConfig("adapter_dora", "use_dora", "\"use_dora\": false", "\"use_dora\": true"),
      AdapterConfig("adapter_bias", "bias", "\"bias\": \"none\"", "\"bias\": \"all\""),
      AdapterConfig("adapter_other_rank", "shape", "\"r\": 5", "\"r\": 6"),
      AdapterConfig("adapter_rank_zero", "r", "\"r\": 5", "\"r\": 0"),
      AdapterConfig("adapter_not_lora", "peft_type", "\"peft_type\": \"LORA\"",
                    "\"peft_type\": \"PREFIX_TUNING\""),
      AdapterConfig("adapter_config_not_json", "adapter_config.json", "{", "{{"),
      Output("output_is_a_file", 2, "folder", "out", File("out", "mine")),
      Output("output_has_foreign_files", 2, "notes.txt", "out",
             [](const std::string& folder) {
               mkdir((folder + "/out").c_str(), 0777);
               WriteFileOrDie(folder + "/out/notes.txt", "mine");
             }),
      Output("output_holds_another_run", 2, "", "out",
             [](const std::string& folder) {
               mkdir((folder + "/out").c_str(), 0777);
               WriteFileOrDie(folder + "/out/config.toml", "lr = 0.5\n");
             }),
      Output("output_below_a_file", 1, "file", "file/out", File("file", "mine")),
      Output("output_in_proc", 1, "/proc", "/proc/lorica"),
      {"merge_output_exists",
       {"merge", "--model", "{G}/model", "--adapter", "{G}/adapter", "--output", "."},
       2,
       "exists"},
      {"merge_output_below_a_file",
       {"merge", "--model", "{G}/model", "--adapter", "{G}/adapter", "--output", "file/out"},
       1,
       "file",
       File("file", "mine")},
      {"score_output_below_a_file",
       {"score", "--model", "{M}", "--data", "{D}", "--output", "file/scores.jsonl"},
       1,
       "file",
       File("file", "mine")},
      {"resume_from_nothing",
       {"sft", "--model", "{M}", "--data", "{D}", "--output", "out", "--resume", "c"},
       3,
       "c"},
      {"checkpoint_without_manifest",
       {"inspect", "step-00000001"},
       3,
       "step-00000001",
       [](const std::string& folder) { mkdir((folder + "/step-00000001").c_str(), 0777); }},
      {"checkpoint_manifest_damaged",
       {"inspect", "c"},
       3,
       "MANIFEST.json",
       [](const std::string& folder) {
         mkdir((folder + "/c").c_str(), 0777);
         WriteFileOrDie(folder + "/c/MANIFEST.json", "{\n\"crc32c\": 1,\n}");
       }},
      {"loss_not_finite",
       {"sft", "--model", "{M}", "--data", "{D}", "--output", "out", "--lr", "1e30",
        "--max-grad-norm", "0", "--schedule", "constant", "--warmup-steps", "0", "--max-steps",
        "4"},
       1,
       "finite"},
  };
  // The superuser may write anywhere, so only others see this error.
  if (geteuid() != 0) {
    table.push_back(
        Output("output_in_a_read_only_folder", 1, "locked", "locked/out",
               [](const std::string& folder) { mkdir((folder + "/locked").c_str(), 0555); }));
  }
  return table;
}

}  // namespace lorica
