#include "cli/bad_input.h"
#include "cli/small_model.h"

namespace lorica {
namespace {

using Arguments = std::vector<std::string>;

// sft with everything right but what follows.
Arguments Sft(const Arguments& more) {
  Arguments arguments = {"sft", "--model", "{M}", "--data", "{D}", "--output", "out"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

Arguments Generate(const Arguments& more) {
  Arguments arguments = {"generate", "--model", "{M}", "--prompt", "a"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// Every value that a numeric option must refuse.
struct Refused {
  const char* option;
  std::vector<const char*> values;
};

const Refused kSftNumbers[] = {
    {"lora-rank", {"-1", "1.5", "abc", "99999999999999999999"}},
    {"lora-alpha", {"0", "-1", "nan", "abc"}},
    {"lora-dropout", {"1", "-0.1", "nan", "abc"}},
    {"max-length", {"0", "-5", "abc"}},
    {"data-memory", {"-1", "1.5", "99999999999"}},
    {"epochs", {"0", "-1", "1.5"}},
    {"max-steps", {"0", "-1", "abc"}},
    {"batch-size", {"0", "-1", "8x"}},
    {"micro-batch-size", {"0", "-1", "abc"}},
    {"lr", {"-1e-4", "nan", "inf", "1e-4x"}},
    {"warmup-steps", {"-1", "abc"}},
    {"warmup-ratio", {"-0.1", "1.5", "nan"}},
    {"min-lr-ratio", {"-0.1", "2", "nan"}},
    {"beta1", {"1", "-0.1", "nan"}},
    {"beta2", {"1", "-0.1", "nan"}},
    {"eps", {"-1", "nan", "abc"}},
    {"weight-decay", {"-1", "nan"}},
    {"max-grad-norm", {"-1", "nan"}},
    {"muon-lr", {"-1", "nan"}},
    {"muon-momentum", {"1", "-0.5", "nan"}},
    {"eval-every", {"0", "-1"}},
    {"early-stop", {"0", "abc"}},
    {"sample-tokens", {"0", "-1"}},
    {"save-every", {"0", "-1"}},
    {"keep", {"0", "-1"}},
    {"threads", {"-1", "abc", "1.5"}},
    {"seed", {"-1", "abc"}},
    {"device", {"-1", "abc"}},
};

const Refused kGenerateNumbers[] = {
    {"max-tokens", {"0", "-1", "abc"}},
    {"temperature", {"-1", "nan", "hot"}},
    {"top-p", {"0", "1.5", "nan"}},
    {"top-k", {"-1", "abc"}},
    {"seed", {"-1", "abc"}},
    {"threads", {"-1", "abc"}},
    {"device", {"1", "-1"}},
};

const Refused kSftChoices[] = {
    {"lora-scaling", {"cubic"}}, {"lora-init", {"kaming"}},   {"overlong", {"wrap"}},
    {"train-on", {"user"}},      {"optimizer", {"adam"}},     {"schedule", {"step"}},
    {"recompute", {"some"}},     {"numerics", {"exact"}},     {"dtype", {"f16"}},
    {"backend", {"tpu"}},        {"adapter-format", {"mlx"}},
};

std::string Readable(const std::string& value) {
  std::string name;
  for (const char c : value) name += c == '-' ? 'm' : c == '.' ? 'p' : c;
  return name;
}

template <typename Rows, typename Command>
void AddRefused(const std::string& prefix, const Rows& rows, const Command& command,
                std::vector<BadInput>& table) {
  for (const Refused& row : rows) {
    for (const std::string value : row.values) {
      std::string name = prefix + "_" + row.option + "_" + Readable(value);
      table.push_back({name, command({std::string("--") + row.option + "=" + value}), 2,
                       std::string("--") + row.option});
    }
  }
}

}  // namespace

std::vector<BadInput> BadOptions() {
  std::vector<BadInput> table = {
      {"no_command", {}, 2, "expected a command"},
      {"unknown_command", {"train"}, 2, "found \"train\""},
      {"misspelt_command", {"scroe"}, 2, "did you mean score?"},
      {"sweep_comes_later", {"sweep"}, 2, "found \"sweep\""},
      {"misspelt_option", Sft({"--lora-rnak", "8"}), 2, "did you mean --lora-rank?"},
      {"jobs_come_later", Sft({"--jobs", "jobs.toml"}), 2, "no option --jobs"},
      {"surplus_argument", Sft({}), 2, "expects no argument \"surplus\""},
      {"option_without_value", Sft({"--lr"}), 2, "--lr: expected a value"},
      {"option_twice", Sft({"--lr", "1", "--lr", "2"}), 2, "--lr: expected one value"},
      {"data_weight_zero",
       {"sft", "--model", "{M}", "--data", "{D}@0", "--output", "out"},
       2,
       "weight above 0"},
      {"data_weight_of_held_out_data", Sft({"--eval-data", "{D}@2"}), 2, "only training data"},
      {"sft_without_model", {"sft", "--data", "{D}", "--output", "out"}, 2, "--model"},
      {"sft_without_data", {"sft", "--model", "{M}", "--output", "out"}, 2, "--data"},
      {"sft_without_output", {"sft", "--model", "{M}", "--data", "{D}"}, 2, "--output"},
      {"backend_absent", Sft({"--backend", "cuda"}), 2, "--backend"},
      {"pattern_matches_nothing", Sft({"--target", "z_proj"}), 2, "z_proj"},
      {"pattern_matches_nothing_but_is_near", Sft({"--target", "q_porj"}), 2, "q_proj"},
      {"exclude_matches_nothing", Sft({"--exclude", "*.mlpp.*"}), 2, "mlpp"},
      {"everything_excluded", Sft({"--target", "q_proj", "--exclude", "q_proj"}), 2, ""},
      {"head_by_wildcard_only", Sft({"--target", "*lm_hea*"}), 2, "lm_hea"},
      {"rank_pattern_without_rank", Sft({"--rank-pattern", "q_proj"}), 2, "--rank-pattern"},
      {"rank_pattern_zero", Sft({"--rank-pattern", "q_proj=0"}), 2, "--rank-pattern"},
      {"rank_pattern_matches_nothing", Sft({"--rank-pattern", "z_proj=4"}), 2, "z_proj"},
      {"alpha_pattern_text", Sft({"--alpha-pattern", "q_proj=high"}), 2, "--alpha-pattern"},
      {"rank_zero_with_target", Sft({"--lora-rank", "0", "--target", "q_proj"}), 2, "--target"},
      {"rank_zero_with_alpha", Sft({"--lora-rank", "0", "--lora-alpha", "8"}), 2, "--lora-alpha"},
      {"rank_zero_with_dropout", Sft({"--lora-rank", "0", "--lora-dropout", "0.1"}), 2,
       "--lora-dropout"},
      {"rank_zero_with_adapter", Sft({"--lora-rank", "0", "--init-adapter", "a"}), 2,
       "--init-adapter"},
      {"expert_kind_without_experts", Sft({"--expert-lora", "split"}), 2, "--expert-lora"},
      {"expert_rank_without_experts", Sft({"--moe-rank-scaling"}), 2, "--moe-rank-scaling"},
      {"router_weight_without_experts", Sft({"--router-weight", "before-down"}), 2,
       "--router-weight"},
      {"aux_loss_without_experts", Sft({"--aux-loss", "0.1"}), 2, "--aux-loss"},
      {"numerics_without_experts", Sft({"--numerics", "automodel"}), 2, "--numerics"},
      {"train_router_without_experts", Sft({"--train-router"}), 2, "--train-router"},
      {"bias_update_without_experts", Sft({"--router-bias-update", "0.1"}), 2,
       "--router-bias-update"},
      {"early_stop_without_evaluation", Sft({"--early-stop", "2"}), 2, "--eval-data"},
      {"keep_best_without_evaluation", Sft({"--keep-best"}), 2, "--eval-data"},
      {"config_absent", Sft({"--config", "absent.toml"}), 2, "absent.toml"},
      {"config_unknown_key", Sft({"--config", "c.toml"}), 2, "lora-rank",
       File("c.toml", "lora-rnk = 8\n")},
      {"config_syntax", Sft({"--config", "c.toml"}), 2, "c.toml", File("c.toml", "lr = = 1\n")},
      {"config_wrong_type", Sft({"--config", "c.toml"}), 2, "epochs",
       File("c.toml", "epochs = \"three\"\n")},
      {"config_value_out_of_range", Sft({"--config", "c.toml"}), 2, "batch-size",
       File("c.toml", "batch-size = -3\n")},
      {"config_section", Sft({"--config", "c.toml"}), 2, "c.toml",
       File("c.toml", "[lora]\nrank = 8\n")},
      {"config_not_utf8", Sft({"--config", "c.toml"}), 2, "c.toml",
       File("c.toml", "system = \"\xff\"\n")},
      {"plan_without_model", {"plan"}, 2, "--model"},
      {"score_without_data", {"score", "--model", "{M}"}, 2, "data"},
      {"score_gradients_without_adapter",
       {"score", "--model", "{M}", "--data", "{D}", "--gradients", "g.safetensors"},
       2,
       "adapter"},
      {"generate_without_model", {"generate", "--prompt", "a"}, 2, "--model"},
      {"generate_without_prompt", {"generate", "--model", "{M}"}, 2, "--prompt"},
      {"generate_two_prompts", Generate({"--chat", "b"}), 2, "one of"},
      {"generate_backend_absent", Generate({"--backend", "cuda"}), 2, "--backend"},
      {"generate_dtype", Generate({"--dtype", "f16"}), 2, "--dtype"},
      {"generate_prompt_not_utf8", {"generate", "--model", "{M}", "--prompt", "\xff"}, 2, "UTF-8"},
      {"chat_without_model", {"chat"}, 2, "--model"},
      {"merge_without_adapter",
       {"merge", "--model", "{G}/model", "--output", "out"},
       2,
       "--adapter"},
      {"merge_without_output",
       {"merge", "--model", "{G}/model", "--adapter", "{G}/adapter"},
       2,
       "--output"},
      {"merge_into_gguf",
       {"merge", "--model", "{G}/model", "--adapter", "{G}/adapter", "--output", "out.gguf"},
       2,
       "out.gguf"},
      {"merge_dtype",
       {"merge", "--model", "{G}/model", "--adapter", "{G}/adapter", "--output", "out", "--dtype",
        "q4_0"},
       2,
       "--dtype"},
      {"inspect_without_path", {"inspect"}, 2, "path"},
      {"tokenize_without_model", {"tokenize", "text"}, 2, "--model"},
      {"tokenize_without_text", {"tokenize", "--model", "{M}"}, 2, "one of"},
      {"tokenize_decode_text", {"tokenize", "--model", "{M}", "--decode", "1 x"}, 2, "\"x\""},
      {"tokenize_decode_beyond_vocabulary",
       {"tokenize", "--model", "{M}", "--decode", "1 999"},
       2,
       "999"},
      {"tokenize_not_utf8", {"tokenize", "--model", "{M}", "a\xff"}, 2, "UTF-8"},
      {"template_without_file", {"template", "--chat", "c.json"}, 2, "--file"},
      {"template_wrong_time",
       {"template", "--file", "t.jinja", "--chat", "c.json", "--now", "yesterday"},
       2,
       "--now"},
      {"negated_text_option", Sft({"--no-lr"}), 2, "--no-lr"},
  };
  table[6].arguments.push_back("surplus");
  AddRefused("sft", kSftNumbers, Sft, table);
  AddRefused("sft", kSftChoices, Sft, table);
  AddRefused("generate", kGenerateNumbers, Generate, table);
  return table;
}

}  // namespace lorica
