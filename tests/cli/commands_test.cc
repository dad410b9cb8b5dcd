// The commands that don't train.
#include <cmath>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "cli/command_test.h"
#include "gmock/gmock.h"
#include "lorica/text/utf8.h"

namespace lorica {
namespace {

using testing::HasSubstr;
using testing::Not;
using Arguments = std::vector<std::string>;

class CommandsTest : public CommandTest {
 protected:
  const std::string golden_ = GoldenModel("llama_gqa");
};

TEST_F(CommandsTest, HelpAndVersion) {
  EXPECT_THAT(Output({"--help"}), HasSubstr("sft"));
  for (const char* command : {"sft", "plan", "score", "generate", "chat", "merge", "convert",
                              "inspect", "tokenize", "template"}) {
    EXPECT_THAT(Output({command, "--help"}), HasSubstr("--config")) << command;
  }
  const std::string version = Output({"--version"});
  for (const char* part : {"lorica ", "commit", "compiler", "used", "CUDA absent"}) {
    EXPECT_THAT(version, HasSubstr(part));
  }
}

TEST_F(CommandsTest, AFullStdoutIsAnError) {
  const RunResult result = Run({"--help"}, {.stdout_path = "/dev/full"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.LastError(), HasSubstr("stdout"));
}

TEST_F(CommandsTest, ScoreMatchesTheReference) {
  for (const bool with_adapter : {false, true}) {
    Arguments arguments = {
        "score",   "--model", golden_ + "/model", "--data", golden_ + "/batches.jsonl",
        "--dtype", "f64"};
    if (with_adapter) arguments.insert(arguments.end(), {"--adapter", golden_ + "/adapter"});
    const nlohmann::json result = Json(arguments);
    const auto want = nlohmann::json::parse(
        ReadFileOrDie(golden_ + (with_adapter ? "/adapter_loss.json" : "/loss.json")));
    ASSERT_EQ(result["records"].size(), 6u);
    double sum = 0;
    for (int i = 0; i < 6; ++i) {
      const nlohmann::json& record = result["records"][i];
      const nlohmann::json& reference = want[static_cast<size_t>(i)];
      EXPECT_EQ(record["trained_tokens"], reference["num_targets"]);
      EXPECT_NEAR(record["loss"].get<double>(), reference["mean_loss"].get<double>(), 1e-9);
      sum += record["loss"].get<double>() * record["trained_tokens"].get<double>();
    }
    EXPECT_NEAR(result["loss"].get<double>(), sum / result["trained_tokens"].get<double>(), 1e-12);
    EXPECT_NEAR(result["perplexity"].get<double>(), std::exp(result["loss"].get<double>()), 1e-9);
  }
}

TEST_F(CommandsTest, ScoreWritesItsFiles) {
  Output({"score", "--model", golden_ + "/model", "--adapter", golden_ + "/adapter", "--data",
          golden_ + "/batches.jsonl", "--output", "s.jsonl", "--logits", "l.safetensors",
          "--gradients", "g.safetensors"});
  std::ifstream lines(Path("s.jsonl"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto record = nlohmann::json::parse(line);
    EXPECT_EQ(record["index"], count);
    EXPECT_EQ(record["logprobs"].size(), record["tokens"].get<size_t>());
    EXPECT_TRUE(record["logprobs"][0].is_null());
  }
  EXPECT_EQ(count, 6);
  const nlohmann::json logits = Json({"inspect", "l.safetensors", "--verify"});
  EXPECT_EQ(logits["tensors"].size(), 6u);
  const nlohmann::json gradients = Json({"inspect", "g.safetensors"});
  const nlohmann::json adapter = Json({"inspect", golden_ + "/adapter"});
  EXPECT_EQ(gradients["tensors"].size(), adapter["tensors"].size());
}

TEST_F(CommandsTest, GenerateGivesIdsTextAndLogprobs) {
  const nlohmann::json result =
      Json({"generate", "--model", "model", "--chat", "hello", "--max-tokens", "9"});
  EXPECT_LE(result["ids"].size(), 9u);
  EXPECT_EQ(result["ids"].size(), result["logprobs"].size());
  EXPECT_TRUE(result["text"].is_string());
  EXPECT_EQ(result["timings"]["new_tokens"], result["ids"].size());
  for (const auto& logprob : result["logprobs"]) EXPECT_LE(logprob.get<double>(), 0);
  // The template was applied: <turn> comes first.
  EXPECT_EQ(result["prompt_ids"][0], 257);
}

TEST_F(CommandsTest, StreamedTextIsTheText) {
  const Arguments arguments = {"generate", "--model",      "model", "--prompt",
                               "abc",      "--max-tokens", "12",    "--temperature",
                               "1.5",      "--seed",       "4"};
  const nlohmann::json result = Json(arguments);
  const std::string streamed = Output(arguments);
  // Bytes that are no UTF-8 are U+FFFD in JSON and themselves on the terminal.
  EXPECT_EQ(nlohmann::json::parse(nlohmann::json(streamed).dump(
                -1, ' ', false, nlohmann::json::error_handler_t::replace)),
            result["text"].get<std::string>() + "\n");
  EXPECT_EQ(Json(arguments)["ids"], result["ids"]);
}

TEST_F(CommandsTest, ABatchIsItsPromptsOneByOne) {
  WriteFileOrDie(Path("p.jsonl"),
                 "{\"input_ids\": [5, 6, 7]}\n{\"input_ids\": [1]}\n\n{\"input_ids\": "
                 "[9, 8, 7, 6, 5, 4, 3]}\n");
  const Arguments head = {
      "generate",     "--model", golden_ + "/model", "--adapter", golden_ + "/adapter",
      "--max-tokens", "8",       "--prompts"};
  Arguments all = head;
  all.push_back("p.jsonl");
  const nlohmann::json batch = Json(all)["results"];
  ASSERT_EQ(batch.size(), 3u);
  std::ifstream lines(Path("p.jsonl"));
  size_t index = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    WriteFileOrDie(Path("one.jsonl"), line);
    Arguments one = head;
    one.push_back("one.jsonl");
    const nlohmann::json alone = Json(one)["results"][0];
    EXPECT_EQ(alone["ids"], batch[index]["ids"]);
    EXPECT_EQ(alone["logprobs"], batch[index]["logprobs"]);
    ++index;
  }
}

TEST_F(CommandsTest, ChatObeysAndAnswers) {
  const RunResult result =
      Run({"chat", "--model", "model", "--max-tokens", "5", "--temperature", "0.3"},
          {.input = "/adapter on\n/system be brief\nhello\n/reset\n/what\n"
                    "again\n/quit\nnever read\n"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("there is no adapter"));
  EXPECT_THAT(result.err, HasSubstr("a new system message"));
  EXPECT_THAT(result.err, HasSubstr("no such command"));
  // Each answer is that of a conversation of its own.
  const auto answer = [&](const std::string& question) {
    return Output({"chat", "--model", "model", "--max-tokens", "5", "--temperature", "0.3",
                   "--system", "be brief"},
                  {.input = question + "\n"});
  };
  const std::string hello = answer("hello"), again = answer("again");
  EXPECT_NE(hello, again);
  EXPECT_GT(again.size(), 1u);
  EXPECT_EQ(result.out, hello + again);
}

TEST_F(CommandsTest, ChatRemembersWhatWasSaid) {
  const Arguments chat = {"chat", "--model", "model", "--max-tokens", "5", "--temperature", "0.3"};
  const std::string both = Output(chat, {.input = "hello\nagain\n"});
  const std::string first = Output(chat, {.input = "hello\n"});
  ASSERT_THAT(both, testing::StartsWith(first));
  EXPECT_GT(both.size(), first.size() + 1);
  EXPECT_NE(both.substr(first.size()), Output(chat, {.input = "again\n"}));
}

TEST_F(CommandsTest, ChatGoesOnAfterAnAnswerThatBreaksACharacter) {
  const Arguments chat = {"chat", "--model", "model", "--max-tokens", "40", "--temperature", "3"};
  const std::string first = Output(chat, {.input = "hello\n"});
  EXPECT_NE(ValidUtf8(first), first);  // random bytes: some are of no character
  const RunResult result = Run(chat, {.input = "hello\nand then\n/quit\n"});
  EXPECT_EQ(result.status, 0) << result.err;
  ASSERT_THAT(result.out, testing::StartsWith(first));
  EXPECT_GT(result.out.size(), first.size() + 1);  // the second answer
  EXPECT_THAT(result.err, Not(HasSubstr("UTF-8")));
}

TEST_F(CommandsTest, MergedModelScoresLikeTheAdapter) {
  const nlohmann::json summary = Json(
      {"merge", "--model", golden_ + "/model", "--adapter", golden_ + "/adapter", "--output", "m"});
  EXPECT_LT(summary["difference"].get<double>(), 1e-5);
  EXPECT_EQ(ReadFileOrDie(Path("m/config.json")), ReadFileOrDie(golden_ + "/model/config.json"));
  const std::string data = golden_ + "/batches.jsonl";
  const double merged = Json({"score", "--model", "m", "--data", data})["loss"];
  const double adapted = Json({"score", "--model", golden_ + "/model", "--adapter",
                               golden_ + "/adapter", "--data", data})["loss"];
  const double base = Json({"score", "--model", golden_ + "/model", "--data", data})["loss"];
  EXPECT_NEAR(merged, adapted, 1e-5);
  EXPECT_GT(std::abs(merged - base), 1e-3);
}

TEST_F(CommandsTest, MergeKeepsShardsAndOtherFiles) {
  const std::string golden = GoldenModel("llama_mqa_bias_tied");
  CopyFolderOrDie(golden + "/model", Path("base"));
  WriteFileOrDie(Path("base/generation_config.json"), "{\"eos_token_id\": 3}");
  WriteFileOrDie(Path("base/pytorch_model.bin"), "stale");
  const nlohmann::json summary =
      Json({"merge", "--model", "base", "--adapter", golden + "/adapter", "--output", "m"});
  EXPECT_EQ(summary["left_behind"], nlohmann::json({"pytorch_model.bin"}));
  const auto merged = Snapshot(Path("m"));
  EXPECT_EQ(merged.at("generation_config.json"), "{\"eos_token_id\": 3}");
  EXPECT_EQ(merged.count("model-00002-of-00002.safetensors"), 1u);
  EXPECT_EQ(merged.count("pytorch_model.bin"), 0u);
  EXPECT_EQ(Json({"inspect", "m", "--verify"})["verified"], true);
}

TEST_F(CommandsTest, MergeUntiesAHeadThatChanges) {
  Output({"sft", "--model", "model", "--data", "data.jsonl", "--output", "run", "--target",
          "lm_head", "--max-steps", "4", "--lr", "0.1", "--warmup-steps", "0"});
  Output({"merge", "--model", "model", "--adapter", "run/adapter", "--output", "m"});
  const auto config = nlohmann::json::parse(ReadFileOrDie(Path("m/config.json")));
  EXPECT_EQ(config["tie_word_embeddings"], false);
  const Arguments data = {"--data", "data.jsonl"};
  const double merged = Json({"score", "--model", "m", "--data", "data.jsonl"})["loss"];
  const double adapted = Json(
      {"score", "--model", "model", "--adapter", "run/adapter", "--data", "data.jsonl"})["loss"];
  EXPECT_NEAR(merged, adapted, 1e-4);
}

TEST_F(CommandsTest, MergeRoundsToTheTypeAskedFor) {
  for (const char* type : {"bf16", "f16"}) {
    const std::string output = std::string("m_") + type;
    const nlohmann::json summary =
        Json({"merge", "--model", golden_ + "/model", "--adapter", golden_ + "/adapter", "--output",
              output, "--dtype", type});
    EXPECT_GT(summary["difference"].get<double>(), 0);
    const nlohmann::json inside = Json({"inspect", output, "--verify"});
    for (const auto& tensor : inside["tensors"]) {
      EXPECT_EQ(tensor["dtype"], std::string(type) == "bf16" ? "BF16" : "F16");
    }
  }
  EXPECT_THAT(ReadFileOrDie(Path("m_bf16/config.json")), HasSubstr("bfloat16"));
}

TEST_F(CommandsTest, InspectKnowsEveryKind) {
  Output(
      {"sft", "--model", "model", "--data", "data.jsonl", "--output", "run", "--max-steps", "2"});
  const std::pair<std::string, std::string> kinds[] = {
      {"model", "model folder"},
      {"model/model.safetensors", "safetensors file"},
      {"model/tokenizer.json", "tokenizer"},
      {"run", "run folder"},
      {"run/adapter", "adapter folder"},
      {"run/checkpoints/step-00000002", "checkpoint"},
      {GoldenModel("llama_mqa_bias_tied/model"), "model folder"},
  };
  for (const auto& [path, kind] : kinds) {
    for (const char* verify : {"--verify", "--no-verify"}) {
      EXPECT_EQ(Json({"inspect", path, verify})["kind"], kind) << path;
      EXPECT_THAT(Output({"inspect", path, verify}), HasSubstr(kind));
    }
  }
  const nlohmann::json model = Json({"inspect", "model"});
  EXPECT_EQ(model["facts"]["layers"], 2);
  EXPECT_EQ(model["modules"].size(), 16u);  // fourteen linears, embedding, head
}

TEST_F(CommandsTest, InspectFindsADamagedCheckpoint) {
  Output(
      {"sft", "--model", "model", "--data", "data.jsonl", "--output", "run", "--max-steps", "2"});
  const std::string shard = Path("run/checkpoints/step-00000002/shard-00000-of-00001.safetensors");
  std::string bytes = ReadFileOrDie(shard);
  bytes[bytes.size() - 5] ^= 1;
  WriteFileOrDie(shard, bytes);
  EXPECT_EQ(Run({"inspect", "run/checkpoints/step-00000002"}).status, 0);
  EXPECT_EQ(Run({"inspect", "run/checkpoints/step-00000002", "--verify"}).status, 3);
  EXPECT_EQ(Run({"inspect", "run", "--verify"}).status, 3);
}

TEST_F(CommandsTest, TokenizeBothWays) {
  const nlohmann::json ids = Json({"tokenize", "--model", "model", "ab<end>"});
  EXPECT_EQ(ids["ids"], nlohmann::json({97, 98, 258}));
  EXPECT_EQ(ids["pieces"], nlohmann::json({"a", "b", "<end>"}));
  EXPECT_EQ(ids["text"], "ab<end>");
  EXPECT_EQ(
      Json({"tokenize", "--model", "model/tokenizer.json", "--decode", "[97, 258, 99]"})["text"],
      "a<end>c");
  EXPECT_EQ(Output({"tokenize", "--model", "model", "--decode", "104 105", "--no-special"}),
            "hi\n");
  WriteFileOrDie(Path("lines.json"), "[\"a\", \"\", \"é\"]");
  EXPECT_EQ(
      nlohmann::json::parse(Output({"tokenize", "--model", "model", "--lines", "lines.json"})),
      nlohmann::json::parse("[[97], [], [195, 169]]"));
  WriteFileOrDie(Path("text.txt"), "xy");
  EXPECT_EQ(Json({"tokenize", "--model", "model", "--file", "text.txt"})["ids"],
            nlohmann::json({120, 121}));
}

TEST_F(CommandsTest, TokenizeShowsWhatOfAChatIsTrained) {
  WriteFileOrDie(Path("chat.json"), R"([{"role": "user", "content": "hi"},
                                        {"role": "assistant", "content": "yo"}])");
  const nlohmann::json chat = Json({"tokenize", "--model", "model", "--chat", "chat.json"});
  EXPECT_EQ(chat["text"], "<turn>user\nhi<end>\n<turn>assistant\nyo<end>\n");
  std::string trained;
  for (size_t i = 0; i < chat["ids"].size(); ++i) {
    if (chat["trained"][i]) trained += chat["pieces"][i].get<std::string>();
  }
  EXPECT_THAT(trained, testing::StartsWith("yo<end>"));
  EXPECT_THAT(Output({"tokenize", "--model", "model", "--chat", "chat.json"}),
              HasSubstr("assistant\n[[yo<end>"));
}

TEST_F(CommandsTest, TemplateRendersWithoutAModel) {
  WriteFileOrDie(Path("t.jinja"),
                 "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}"
                 "{% endfor %}{{ mood }}{{ strftime_now('%Y-%m-%d') }}"
                 "{% if add_generation_prompt %}>{% endif %}");
  WriteFileOrDie(Path("c.json"), R"({"messages": [{"role": "user", "content": "hé"}],
                                     "add_generation_prompt": true, "mood": "glad"})");
  EXPECT_EQ(Output({"template", "--file", "t.jinja", "--chat", "c.json", "--bos", "<s>", "--now",
                    "2024-05-31T23:59:00"}),
            "<s>[user]héglad2024-05-31>");
}

// From the configuration alone.
TEST_F(CommandsTest, PlanNamesWhatNoGradientReaches) {
  std::filesystem::create_directory(Path("sparse"));
  WriteFileOrDie(Path("sparse/config.json"),
                 ReadFileOrDie(GoldenModel("glm_moe_dsa") + "/model/config.json"));
  const std::string text = Output({"plan", "--model", "sparse", "--target", "*_proj"});
  EXPECT_THAT(text,
              HasSubstr("left out  2 modules that no gradient reaches: 2 indexer.weights_proj\n"));
  EXPECT_THAT(text, HasSubstr("training  the adapters, "));
  const nlohmann::json plan = Json({"plan", "--model", "sparse", "--target", "*_proj"});
  EXPECT_EQ(plan["left_out"], nlohmann::json({"model.layers.0.self_attn.indexer.weights_proj",
                                              "model.layers.2.self_attn.indexer.weights_proj"}));
  ASSERT_EQ(plan["patterns"].size(), 1u);
  EXPECT_EQ(plan["patterns"][0]["pattern"], "*_proj");
  EXPECT_EQ(plan["patterns"][0]["paths"].size(), plan["modules"].size() + 2);
  EXPECT_THAT(text, HasSubstr(absl::StrCat("patterns  *_proj: ", plan["modules"].size() + 2,
                                           " modules\n")));
  EXPECT_EQ(plan["router_parameters"], 0);
}

TEST_F(CommandsTest, PlanNamesPatternsAndRouters) {
  std::filesystem::create_directory(Path("sparse"));
  const std::string config = ReadFileOrDie(GoldenModel("glm_moe_dsa") + "/model/config.json");
  WriteFileOrDie(Path("sparse/config.json"), config);
  const Arguments arguments = {"plan",   "--model",  "sparse",          "--target",
                               "o_proj", "--target", "*.0.*.q_a_proj*", "--train-router"};
  const std::string text = Output(arguments);
  EXPECT_THAT(text, HasSubstr("training  the adapters and the routers, "));
  EXPECT_THAT(text, HasSubstr("patterns  o_proj: 3 modules, *.0.*.q_a_proj*: 1 module\n"));
  const nlohmann::json plan = Json(arguments);
  EXPECT_EQ(plan["patterns"],
            nlohmann::json({{{"pattern", "o_proj"},
                             {"paths",
                              {"model.layers.0.self_attn.o_proj", "model.layers.1.self_attn.o_proj",
                               "model.layers.2.self_attn.o_proj"}}},
                            {{"pattern", "*.0.*.q_a_proj*"},
                             {"paths", {"model.layers.0.self_attn.q_a_proj"}}}}));
  EXPECT_EQ(plan["router_parameters"], 2 * 6 * 21);  // two layers of 6 experts
  const nlohmann::json without =
      Json({"plan", "--model", "sparse", "--target", "o_proj", "--target", "*.0.*.q_a_proj*"});
  EXPECT_EQ(without["router_parameters"], 0);
  EXPECT_EQ(plan["trainable_parameters"],
            without["trainable_parameters"].get<int64_t>() + 2 * 6 * 21);
}

TEST_F(CommandsTest, ColoursOnlyWhereATerminalIs) {
  const std::string plan = Output({"plan", "--model", "model", "--data", "data.jsonl"});
  EXPECT_THAT(plan, testing::Not(HasSubstr("\033")));
}

}  // namespace
}  // namespace lorica
