// plan and sft on data sets that people publish, where a copy of them lies beside the project.
#include <cstdlib>
#include <filesystem>

#include "cli/command_test.h"
#include "gmock/gmock.h"

namespace lorica {
namespace {

using testing::HasSubstr;

std::string Shared(const std::string& name) {
  const char* folder = std::getenv("LORICA_SHARED_DIR");
  const std::string path =
      (folder != nullptr ? std::string(folder) : LORICA_SOURCE_ROOT "/../shared") + "/data/" + name;
  return std::filesystem::exists(path) ? path : "";
}

struct RealData {
  const char* path;
  const char* format;
  int64_t records;
};

// A name for the test; gtest would print a struct as bytes.
void PrintTo(const RealData& data, std::ostream* out) { *out << data.path; }

class RealDataTest : public CommandTest, public testing::WithParamInterface<RealData> {};

TEST_P(RealDataTest, IsPlannedAndTrained) {
  const RealData& real = GetParam();
  const std::string data = Shared(real.path), model = Shared("stories260k/hf");
  const std::string tokenizer = Shared("stories260k/tok512.model");
  if (data.empty() || model.empty() || tokenizer.empty()) GTEST_SKIP() << "no shared folder";
  std::filesystem::copy(model, Path("stories"), std::filesystem::copy_options::recursive);
  std::filesystem::copy(tokenizer, Path("stories/tokenizer.model"));
  // A template for models without one; tool calls become text.
  WriteFileOrDie(Path("chat.jinja"),
                 "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}"
                 "{{ m.tool_calls | tojson if m.tool_calls else '' }}<|end|>{% endfor %}"
                 "{% if add_generation_prompt %}<|assistant|>{% endif %}");
  const std::vector<std::string> options = {
      "--model", "stories", "--data", data, "--max-length", "512", "--chat-template", "chat.jinja"};
  std::vector<std::string> arguments = {"plan"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const nlohmann::json plan = Json(arguments);
  EXPECT_EQ(plan["data"]["format"], real.format);
  EXPECT_EQ(plan["data"]["records"], real.records);
  EXPECT_GT(plan["data"]["trained_tokens"], 0);
  EXPECT_LE(plan["data"]["trained_tokens"], plan["data"]["tokens"]);
  EXPECT_EQ(plan["first_records"].size(), 3u);
  int64_t counted = 0;
  for (const nlohmann::json& bar : plan["data"]["lengths"]["histogram"]) {
    counted += bar["records"].get<int64_t>();
  }
  EXPECT_GE(counted, real.records);

  arguments = {"sft", "--output", "out", "--max-steps", "2", "--quiet"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const nlohmann::json result = Json(arguments);
  EXPECT_EQ(result["steps"], 2);
  EXPECT_GT(result["loss"], 0);
  EXPECT_TRUE(std::filesystem::exists(Path("out/adapter/adapter_model.safetensors")));
}

INSTANTIATE_TEST_SUITE_P(
    Published, RealDataTest,
    testing::Values(RealData{"grade-school-math/train.jsonl", "instruction and output", 7473},
                    RealData{"grade-school-math/test.jsonl", "instruction and output", 1319},
                    RealData{"llama-factory/identity.json", "instruction and output", 91},
                    RealData{"llama-factory/glaive_toolcall_en_demo.json", "conversations", 300},
                    RealData{"llama-factory/v1_sft_demo.jsonl", "messages", 500},
                    RealData{"mlx-examples-wikisql", "text", 1000},
                    RealData{"mlx-examples-wikisql/test.jsonl", "text", 100},
                    RealData{"mlx-examples-wwdc25", "prompt and completion", 1800},
                    RealData{"tinker-cookbook/conversations.jsonl", "messages", 128}));

class DataOptionTest : public CommandTest {};

TEST_F(DataOptionTest, PatternsWeightsAndFilesAreListed) {
  std::filesystem::create_directory(Path("parts"));
  WriteFileOrDie(Path("parts/a.jsonl"), SmallData(10));
  WriteFileOrDie(Path("parts/b.jsonl"), SmallData(4));
  const std::string text =
      Output({"plan", "--model", "model", "--data", "parts/*.jsonl@0.5", "data.jsonl"});
  EXPECT_THAT(text, HasSubstr("parts/a.jsonl: 10 records x 0.5 = 5 an epoch"));
  EXPECT_THAT(text, HasSubstr("parts/b.jsonl: 4 records x 0.5 = 2 an epoch"));
  EXPECT_THAT(text, HasSubstr("data.jsonl: 22 records x 1 = 22 an epoch"));
  EXPECT_THAT(text, HasSubstr("(4 an epoch of 29 records"));
  // The same records again: all of a but for the first of all, and b.
  EXPECT_THAT(text, HasSubstr("duplicate 14 records equal an earlier one"));
  EXPECT_THAT(text, HasSubstr("parts/b.jsonl, line 1 is parts/a.jsonl, line 1"));
  EXPECT_THAT(text, HasSubstr("lengths   median"));
  EXPECT_THAT(text, HasSubstr("##"));
}

TEST_F(DataOptionTest, TrainedTokensStandInBracketsAndDataCannotSteerTheTerminal) {
  WriteFileOrDie(Path("d.jsonl"), R"({"messages": [{"role": "user", "content": "\u001b[31mred"}, )"
                                  R"({"role": "assistant", "content": "no"}]})");
  const std::string text = Output({"plan", "--model", "model", "--data", "d.jsonl"});
  EXPECT_THAT(text, HasSubstr("record 0 (d.jsonl, line 1), trained tokens in [[ ]]"));
  EXPECT_THAT(text, HasSubstr("\\x1b[31mred"));
  EXPECT_THAT(text, HasSubstr("[[no<end>\n]]"));
  EXPECT_EQ(text.find('\033'), std::string::npos);
}

}  // namespace
}  // namespace lorica
