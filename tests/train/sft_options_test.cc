#include "lorica/train/sft_options.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lorica/train/toml_options.h"

namespace lorica {
namespace {

using ::testing::HasSubstr;

SftOptions Minimal() {
  SftOptions options;
  options.model = "m";
  options.data = {"d.jsonl"};
  options.output = "out";
  return options;
}

// Fills every option with something unlike its default.
class Scramble final : public OptionVisitor {
 public:
  void On(const OptionInfo& info, std::string& value) override {
    value = info.choices.empty() ? "zwei\nZeilen \"und\" ein \\ ü 🦀 \x01"
                                 : std::string(info.choices.back());
  }
  void On(const OptionInfo&, std::vector<std::string>& value) override {
    value = {"*.a=3", "b\tc", "d"};
  }
  void On(const OptionInfo&, bool& value) override { value = !value; }
  void On(const OptionInfo&, int64_t& value) override { value = value * 3 + ++count_; }
  void On(const OptionInfo&, double& value) override { value = value / 3 + 1e-9 * ++count_; }
  void On(const OptionInfo&, std::optional<int64_t>& value) override { value = ++count_; }
  void On(const OptionInfo&, std::optional<double>& value) override { value = 0.1 * ++count_; }

 private:
  int count_ = 0;
};

TEST(SftOptions, SurviveTomlInEveryField) {
  SftOptions options;
  Scramble scramble;
  VisitSftOptions(options, scramble);
  const std::string text = SftOptionsToToml(options);
  const absl::StatusOr<SftOptions> read = SftOptionsFromToml(text, "config.toml");
  ASSERT_TRUE(read.ok()) << read.status() << "\n" << text;
  // The text has every field, so texts compare all of them.
  EXPECT_EQ(SftOptionsToToml(*read), text);
  EXPECT_EQ(read->system, options.system);
  EXPECT_EQ(read->lr, options.lr);
}

TEST(SftOptions, DefaultsSurviveToml) {
  const absl::StatusOr<SftOptions> read =
      SftOptionsFromToml(SftOptionsToToml(SftOptions()), "config.toml");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(SftOptionsToToml(*read), SftOptionsToToml(SftOptions()));
  EXPECT_FALSE(read->max_steps.has_value());
}

TEST(SftOptions, TomlMayUseTheWholeLanguage) {
  const absl::StatusOr<SftOptions> read = SftOptionsFromToml(
      "lr = 1e-3\nweight-decay = 1\ntarget = '*_proj'\nsystem = \"\"\"\nline one\nline two\"\"\"\n"
      "max-steps = 1_000\ndata = ['a', \"b\"]\n",
      "c.toml");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->lr, 1e-3);
  EXPECT_EQ(read->weight_decay, 1);
  EXPECT_EQ(read->target, std::vector<std::string>{"*_proj"});
  EXPECT_EQ(read->system, "line one\nline two");
  EXPECT_EQ(read->max_steps, 1000);
  EXPECT_EQ(read->data, (std::vector<std::string>{"a", "b"}));
}

TEST(SftOptions, TomlErrorsNameLineKeyAndTheNearestOption) {
  const auto error = [](const std::string& text) {
    const absl::Status status = SftOptionsFromToml(text, "c.toml").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(status.message());
  };
  EXPECT_EQ(error("lr = 1\nlora-rnak = 4\n"),
            "c.toml:2: \"lora-rnak\" is no option; did you mean lora-rank");
  EXPECT_EQ(error("lora-rank = \"4\"\n"),
            "c.toml:1: lora-rank: expected a whole number, found a text");
  EXPECT_EQ(error("\nlora-rank = 4.5\n"),
            "c.toml:2: lora-rank: expected a whole number, found a number");
  EXPECT_EQ(error("packing = 1\n"),
            "c.toml:1: packing: expected true or false, found a whole number");
  EXPECT_EQ(error("target = [1]\n"),
            "c.toml:1: target: expected an array of texts, found a whole number");
  EXPECT_EQ(error("lr = {}\n"), "c.toml:1: lr: expected a number, found a table");
  EXPECT_THAT(error("[lora]\nrank = 4\n"), HasSubstr("\"lora\" is no option"));
  EXPECT_THAT(error("lr = = 4\n"), HasSubstr("c.toml:1: expected TOML"));
  EXPECT_THAT(error("system = \"\xFF\"\n"), HasSubstr("c.toml:1"));
  EXPECT_THAT(error(std::string(100000, '[')), HasSubstr("c.toml:1"));
}

TEST(SftOptions, ValidateNamesTheOption) {
  EXPECT_TRUE(Validate(Minimal()).ok());
  const auto error = [](void (*change)(SftOptions&)) {
    SftOptions options = Minimal();
    change(options);
    const absl::Status status = Validate(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error([](SftOptions& o) { o.model = ""; }), HasSubstr("--model"));
  EXPECT_THAT(error([](SftOptions& o) { o.data.clear(); }), HasSubstr("--data"));
  EXPECT_THAT(error([](SftOptions& o) { o.output = ""; }), HasSubstr("--output"));
  EXPECT_THAT(error([](SftOptions& o) { o.lora_rank = -1; }), HasSubstr("--lora-rank"));
  EXPECT_THAT(error([](SftOptions& o) { o.lora_alpha = 0; }), HasSubstr("--lora-alpha"));
  EXPECT_THAT(error([](SftOptions& o) { o.lora_dropout = 1; }), HasSubstr("--lora-dropout"));
  EXPECT_THAT(error([](SftOptions& o) { o.lora_init = "kaimin"; }),
              HasSubstr("did you mean kaiming"));
  EXPECT_THAT(error([](SftOptions& o) { o.lora_scaling = "x"; }),
              HasSubstr("--lora-scaling: expected one of standard, rslora"));
  EXPECT_THAT(error([](SftOptions& o) { o.rank_pattern = {"q_proj"}; }),
              HasSubstr("PATTERN=NUMBER"));
  EXPECT_THAT(error([](SftOptions& o) { o.rank_pattern = {"q_proj=0"}; }),
              HasSubstr("--rank-pattern"));
  EXPECT_THAT(error([](SftOptions& o) { o.alpha_pattern = {"=3"}; }), HasSubstr("--alpha-pattern"));
  EXPECT_THAT(error([](SftOptions& o) { o.epochs = 0; }), HasSubstr("--epochs"));
  EXPECT_THAT(error([](SftOptions& o) { o.max_steps = 0; }), HasSubstr("--max-steps"));
  EXPECT_THAT(error([](SftOptions& o) { o.batch_size = 0; }), HasSubstr("--batch-size"));
  EXPECT_THAT(error([](SftOptions& o) { o.micro_batch_size = 0; }),
              HasSubstr("--micro-batch-size"));
  EXPECT_THAT(error([](SftOptions& o) { o.max_length = 1; }), HasSubstr("--max-length"));
  EXPECT_THAT(error([](SftOptions& o) { o.lr = -1; }), HasSubstr("--lr"));
  EXPECT_THAT(error([](SftOptions& o) { o.lr = 1.0 / 0.0; }), HasSubstr("--lr"));
  EXPECT_THAT(error([](SftOptions& o) { o.beta1 = 1; }), HasSubstr("--beta1"));
  EXPECT_THAT(error([](SftOptions& o) { o.min_lr_ratio = 2; }), HasSubstr("--min-lr-ratio"));
  EXPECT_THAT(error([](SftOptions& o) { o.max_grad_norm = -1; }), HasSubstr("--max-grad-norm"));
  EXPECT_THAT(error([](SftOptions& o) { o.schedule = "cosin"; }), HasSubstr("did you mean cosine"));
  EXPECT_THAT(error([](SftOptions& o) { o.keep = 0; }), HasSubstr("--keep"));
  EXPECT_THAT(error([](SftOptions& o) { o.seed = -1; }), HasSubstr("--seed"));
  EXPECT_THAT(error([](SftOptions& o) { o.dtype = "f16"; }), HasSubstr("--dtype"));
  EXPECT_THAT(error([](SftOptions& o) { o.backend = "cuda"; }), HasSubstr("--backend cuda"));
  EXPECT_THAT(error([](SftOptions& o) { o.numerics = "other"; }), HasSubstr("--numerics"));
  EXPECT_THAT(error([](SftOptions& o) { o.expert_lora = "each"; }), HasSubstr("--expert-lora"));
  EXPECT_THAT(error([](SftOptions& o) { o.router_weight = "up"; }), HasSubstr("--router-weight"));
  EXPECT_THAT(error([](SftOptions& o) { o.aux_loss = -1; }), HasSubstr("--aux-loss"));
  EXPECT_THAT(error([](SftOptions& o) { o.system = "a\xFF"; }), HasSubstr("valid UTF-8"));
  EXPECT_THAT(error([](SftOptions& o) { o.sample = {""}; }), HasSubstr("--sample"));
  // Contradictions of full training.
  EXPECT_THAT(error([](SftOptions& o) { o.lora_rank = 0, o.init_adapter = "a"; }),
              HasSubstr("--init-adapter has no meaning with --lora-rank 0"));
  EXPECT_THAT(error([](SftOptions& o) { o.lora_rank = 0, o.target = {"q_proj"}; }),
              HasSubstr("--target"));
  EXPECT_THAT(error([](SftOptions& o) { o.lora_rank = 0, o.lora_dropout = 0.1; }),
              HasSubstr("--lora-dropout"));
}

TEST(SftOptions, APlanNeedsTheModelOnly) {
  SftOptions options;
  options.model = "m";
  EXPECT_TRUE(Validate(options, false).ok());
  EXPECT_FALSE(Validate(options).ok());
}

TEST(SftOptions, BecomeTheTermsOfTheFloorsBelow) {
  SftOptions options = Minimal();
  EXPECT_EQ(LoraConfigOf(options).rank, 16);
  EXPECT_EQ(LoraConfigOf(options).alpha, 32);
  options.lora_rank = 4;
  options.lora_scaling = "rslora";
  options.rank_pattern = {"a=b=7"};
  options.alpha_pattern = {"q_proj=0.5"};
  options.optimizer = "muon";
  options.weight_decay = 0.25;
  const LoraConfig config = LoraConfigOf(options);
  EXPECT_EQ(config.rank, 4);
  EXPECT_EQ(config.scaling, LoraScaling::kRsLora);
  EXPECT_EQ(config.rank_pattern, (std::vector<std::pair<std::string, int64_t>>{{"a=b", 7}}));
  EXPECT_EQ(config.alpha_pattern, (std::vector<std::pair<std::string, double>>{{"q_proj", 0.5}}));
  EXPECT_EQ(OptimizerOptionsOf(options).kind, OptimizerKind::kMuon);
  EXPECT_EQ(OptimizerOptionsOf(options).muon.weight_decay, 0.25);
  EXPECT_EQ(ScheduleOf(options, 101).warmup_steps, 4);  // 3 % rounded up
  options.warmup_steps = 0;
  EXPECT_EQ(ScheduleOf(options, 101).warmup_steps, 0);
  EXPECT_EQ(ScheduleOf(options, 101).kind, ScheduleKind::kCosine);
}

TEST(SftOptions, WhatAResumedRunMayChangeIsNotCompared) {
  SftOptions a = Minimal(), b = Minimal();
  b.epochs = 5;
  b.max_steps = 3;
  b.save_every = 2;
  b.keep = 1;
  b.eval_every = 4;
  b.threads = 2;
  b.micro_batch_size = 3;
  b.resume = "never";
  b.output = "elsewhere";
  const auto fixed = [](SftOptions& o) {
    return FixedOptions([&](OptionVisitor& visitor) { VisitSftOptions(o, visitor); });
  };
  EXPECT_EQ(fixed(a), fixed(b));
  b.lr = 1;
  EXPECT_NE(fixed(a), fixed(b));
  for (void (*change)(SftOptions&) :
       {+[](SftOptions& o) { o.lora_rank = 3; }, +[](SftOptions& o) { o.seed = 1; },
        +[](SftOptions& o) { o.packing = false; }, +[](SftOptions& o) { o.dtype = "bf16"; },
        +[](SftOptions& o) { o.batch_size = 2; }, +[](SftOptions& o) { o.system = "x"; },
        +[](SftOptions& o) { o.warmup_steps = 0; }, +[](SftOptions& o) { o.target = {"x"}; }}) {
    SftOptions changed = Minimal();
    change(changed);
    EXPECT_NE(fixed(a), fixed(changed));
  }
}

}  // namespace
}  // namespace lorica
