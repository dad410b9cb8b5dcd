#include "lorica/train/trained_spans.h"

#include "gmock/gmock.h"
#include "train/text_fixture.h"

namespace lorica {
namespace {

using ::testing::HasSubstr;

Record RecordOf(const std::string& json) {
  const auto value = jinja::ParseJson(json);
  EXPECT_TRUE(value.ok()) << value.status();
  auto record = ParseRecord(*value, std::nullopt, "f, line 1");
  EXPECT_TRUE(record.ok()) << record.status();
  return *std::move(record);
}

// The text of a training example with what is trained in brackets; token boundaries don't show.
std::string Marked(const TokenizedRecord& tokenized, const Tokenizer& tokenizer) {
  std::string out;
  bool open = false;
  for (size_t i = 0; i < tokenized.ids.size(); ++i) {
    const bool trained = tokenized.labels[i] != kIgnoredLabel;
    if (trained) {
      EXPECT_EQ(tokenized.labels[i], tokenized.ids[i]);
    }
    if (trained != open) out += trained ? "[" : "]";
    open = trained;
    out += *tokenizer.Decode({&tokenized.ids[i], 1});
  }
  return out + (open ? "]" : "");
}

class TrainedSpansTest : public ::testing::Test {
 protected:
  std::string Mark(const std::string& json, const ChatTemplate& chat_template,
                   const TokenizeOptions& options = {}) {
    const auto examples =
        RecordTokenizer(&tokenizer_, &chat_template, options).Tokenize(RecordOf(json));
    if (!examples.ok()) return "error: " + std::string(examples.status().message());
    std::string marked;
    for (const TokenizedRecord& example : *examples) {
      EXPECT_EQ(example.ids.size(), example.labels.size());
      marked += (marked.empty() ? "" : "\n---\n") + Marked(example, tokenizer_);
    }
    return marked;
  }

  Tokenizer tokenizer_ = ByteTokenizer();
};

constexpr const char* kChat =
    R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}]})";

// Records that didn't fit in memory are tokenised again, perhaps on another day.
TEST_F(TrainedSpansTest, TemplatesSeeTheTimeOfTheTokenizer) {
  const auto chat_template = ChatTemplate::FromSource(
      "{{ strftime_now('%d %b %Y') }}{% for m in messages %}<{{ m.content }}>{% endfor %}", "t",
      {});
  ASSERT_TRUE(chat_template.ok()) << chat_template.status();
  TokenizeOptions options;
  options.now.emplace();
  options.now->tm_year = 124;
  options.now->tm_mon = 1;
  options.now->tm_mday = 29;
  EXPECT_EQ(Mark(kChat, *chat_template, options), "29 Feb 2024<S><q>[<a>]<r>[<b>]");
}

TEST_F(TrainedSpansTest, AssistantTurnsWithTheirEnd) {
  EXPECT_EQ(
      Mark(kChat, ChatMl()),
      "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
      "[a<|im_end|>\n]<|im_start|>user\nr<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>\n]");
}

TEST_F(TrainedSpansTest, LastAndAll) {
  EXPECT_EQ(
      Mark(kChat, ChatMl(), {.train_on = TrainOn::kLast}),
      "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
      "a<|im_end|>\n<|im_start|>user\nr<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>\n]");
  EXPECT_EQ(Mark(R"({"messages": [{"role": "user", "content": "q"}]})", ChatMl(),
                 {.train_on = TrainOn::kAll}),
            "[<|im_start|>user\nq<|im_end|>\n]");
}

TEST_F(TrainedSpansTest, ATokenAcrossTheEdgeIsTrained) {
  // "\n" of the header and "\n" of the answer are one token.
  const std::string json =
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "\na"}]})";
  EXPECT_EQ(Mark(json, ChatMl()),
            "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant[\n\na<|im_end|>\n]");
}

TEST_F(TrainedSpansTest, GenerationBlocks) {
  const ChatTemplate chat_template = TemplateOf(
      "{% for m in messages %}{% if m.role == 'assistant' %}A:{% generation %}{{ m.content }}</s>"
      "{% endgeneration %}\n\n{% else %}{{ m.role }}:{{ m.content }} {% endif %}{% endfor %}");
  EXPECT_EQ(Mark(kChat, chat_template), "system:S user:q A:[a</s>]\nuser:r A:[b</s>]\n");
  EXPECT_EQ(Mark(kChat, chat_template, {.train_on = TrainOn::kLast}),
            "system:S user:q A:a</s>\nuser:r A:[b</s>]\n");
}

TEST_F(TrainedSpansTest, CapturedGenerationBlocksFallBackToPrefixes) {
  const ChatTemplate chat_template = TemplateOf(
      "{% macro turn(m) %}{% generation %}{{ m.content }};{% endgeneration %}{% endmacro %}"
      "{% for m in messages %}{{ m.role[0] }}:{% if m.role == 'assistant' %}{{ turn(m) }}{% else %}"
      "{{ m.content }};{% endif %}{% endfor %}{% if add_generation_prompt %}a:{% endif %}");
  EXPECT_EQ(Mark(kChat, chat_template), "s:S;u:q;a:[a;]u:r;a:[b;]");
}

// Earlier answers lose their first letter: the beginning of a longer conversation is no prefix.
ChatTemplate Rewriting() {
  return TemplateOf(
      "{% for m in messages %}{{ m.role[0] }}:{{ m.content if loop.last or m.role != 'assistant' "
      "else m.content[1:] }};{% endfor %}{% if add_generation_prompt %}a:{% endif %}");
}

TEST_F(TrainedSpansTest, RewrittenTurnsBecomeAnExampleEach) {
  EXPECT_EQ(Mark(kChat, Rewriting()), "s:S;u:q;a:[a;]\n---\ns:S;u:q;a:;u:r;a:[b;]");
  // What can be told from one rendering stays one example.
  EXPECT_EQ(Mark(kChat, Rewriting(), {.train_on = TrainOn::kLast}), "s:S;u:q;a:;u:r;a:[b;]");
  EXPECT_EQ(
      Mark(
          R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})",
          Rewriting()),
      "u:q;a:[a;]");
}

// Found by fuzzing: each turn alone would be the whole text, so that spans overlapped.
TEST_F(TrainedSpansTest, TurnsThatATemplateWritesOneOverTheOtherBecomeAnExampleEach) {
  const ChatTemplate chat_template = TemplateOf("{% if not add_generation_prompt %}abc{% endif %}");
  EXPECT_EQ(Mark(kChat, chat_template), "[abc]\n---\n[abc]");
}

TEST_F(TrainedSpansTest, OnlyTrainedTurnsBecomeExamples) {
  EXPECT_EQ(
      Mark(
          R"({"messages": [{"role": "assistant", "content": "a", "train": false}, {"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "r"}, {"role": "assistant", "content": "c"}, {"role": "user", "content": "s"}]})",
          Rewriting()),
      "a:;u:q;a:[b;]\n---\na:;u:q;a:;u:r;a:[c;]");
}

TEST_F(TrainedSpansTest, APromptThatTheAnswerDoesntContinueIsRefused) {
  const ChatTemplate chat_template = TemplateOf(
      "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}"
      "{% if add_generation_prompt %}a:<think>{% endif %}");
  const std::string marked = Mark(kChat, chat_template);
  EXPECT_THAT(marked, HasSubstr("error: f, line 1: "));
  EXPECT_THAT(marked, HasSubstr("message 3"));
}

TEST_F(TrainedSpansTest, PromptMessagesAreGiven) {
  EXPECT_EQ(
      Mark(
          R"({"prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"}], "completion": [{"role": "assistant", "content": "b"}]})",
          ChatMl()),
      "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n<|im_start|>user\nr<|im_"
      "end|>"
      "\n<|im_start|>assistant\n[b<|im_end|>\n]");
}

TEST_F(TrainedSpansTest, SystemTextWhereThereIsNone) {
  const std::string with_system = Mark(kChat, ChatMl(), {.system = "X"});
  EXPECT_THAT(with_system, HasSubstr("system\nS<"));
  EXPECT_EQ(
      Mark(
          R"({"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "b"}]})",
          ChatMl(), {.system = "X"}),
      "<|im_start|>system\nX<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
      "[b<|im_end|>\n]");
  EXPECT_THAT(Mark(R"({"text": "a"})", ChatMl(), {.system = "X"}), HasSubstr("error: f, line 1"));
}

TEST_F(TrainedSpansTest, MessagesMayOptOut) {
  EXPECT_EQ(
      Mark(
          R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "train": false}, {"role": "assistant", "content": "b", "weight": 0}, {"role": "assistant", "content": "c", "weight": 1}]})",
          ChatMl()),
      "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n<|im_start|>assistant\n"
      "b<|im_end|>\n<|im_start|>assistant\n[c<|im_end|>\n]");
  for (const char* weight : {"-1", "\"1\"", "true", "1e39", "[1]"}) {
    EXPECT_THAT(
        Mark(std::string(R"({"messages": [{"role": "assistant", "content": "a", "weight": )") +
                 weight + "}]}",
             ChatMl()),
        HasSubstr("expected the weight of message 1 to be a finite number from 0, found"))
        << weight;
  }
}

TEST_F(TrainedSpansTest, WeightsOfMessagesAreWeightsOfTokens) {
  const ChatTemplate chat_ml = ChatMl();
  const auto examples =
      RecordTokenizer(&tokenizer_, &chat_ml, {})
          .Tokenize(RecordOf(
              R"({"messages": [{"role": "assistant", "content": "a", "weight": 0.5}, {"role": "user", "content": "q", "weight": 7}, {"role": "assistant", "content": "b", "loss_weight": 3}]})"));
  ASSERT_TRUE(examples.ok()) << examples.status();
  ASSERT_EQ(examples->size(), 1u);
  const TokenizedRecord& example = examples->front();
  ASSERT_EQ(example.weights.size(), example.ids.size());
  double half = 0, triple = 0;
  for (size_t i = 0; i < example.ids.size(); ++i) {
    if (example.labels[i] == kIgnoredLabel) {
      EXPECT_EQ(example.weights[i], 1);
      continue;
    }
    half += example.weights[i] == 0.5f;
    triple += example.weights[i] == 3;
  }
  EXPECT_EQ(half, 3);  // "a", "<|im_end|>", "\n"
  EXPECT_EQ(triple, 3);

  const auto plain = RecordTokenizer(&tokenizer_, &chat_ml, {}).Tokenize(RecordOf(kChat));
  ASSERT_TRUE(plain.ok());
  EXPECT_TRUE(plain->front().weights.empty());
}

TEST_F(TrainedSpansTest, TextEndsWithTheEndToken) {
  EXPECT_EQ(Mark(R"({"text": "ab"})", ChatMl()), "[ab<|im_end|>]");
  EXPECT_EQ(Mark(R"({"text": "ab<|im_end|>"})", ChatMl()), "[ab<|im_end|>]");
  EXPECT_EQ(Mark(R"({"prompt": "p ", "completion": "c"})", ChatMl()), "p [c<|im_end|>]");
  EXPECT_EQ(Mark(R"({"prompt": "p ", "completion": "c"})", ChatMl(), {.train_on = TrainOn::kAll}),
            "[p c<|im_end|>]");
  EXPECT_EQ(Mark(R"({"text": ""})", ChatMl()), "[<|im_end|>]");
}

TEST_F(TrainedSpansTest, BosIsAddedToTextButNotToTemplates) {
  const auto ends = jinja::ParseJson(R"({
      "type": "TemplateProcessing", "pair": [],
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                 {"SpecialToken": {"id": "</s>", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [257], "tokens": ["<s>"]},
                         "</s>": {"id": "</s>", "ids": [258], "tokens": ["</s>"]}}})");
  ASSERT_TRUE(ends.ok()) << ends.status();
  tokenizer_ = ByteTokenizer(R"({"bos_token": "<s>", "eos_token": "</s>"})", *ends);
  EXPECT_EQ(Mark(R"({"text": "ab"})", ChatMl()), "<s>[ab</s>]");
  EXPECT_EQ(Mark(R"({"prompt": "p", "completion": "c"})", ChatMl()), "<s>p[c</s>]");
  EXPECT_EQ(
      Mark(
          R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})",
          TemplateOf("<s>{% for m in messages %}{{ m.content }}</s>{% endfor %}")),
      "<s>q</s>[a</s>]");
}

TEST_F(TrainedSpansTest, TokenIdsComeThrough) {
  const auto tokenized =
      RecordTokenizer(nullptr, nullptr, {})
          .Tokenize(RecordOf(R"({"input_ids": [1, 2, 3], "labels": [-100, 2, 9]})"));
  ASSERT_TRUE(tokenized.ok());
  ASSERT_EQ(tokenized->size(), 1u);
  EXPECT_EQ(tokenized->front().ids, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(tokenized->front().labels, (std::vector<int32_t>{kIgnoredLabel, 2, 9}));
}

TEST_F(TrainedSpansTest, WhatTheModelLacksIsNamed) {
  const auto without_tokenizer =
      RecordTokenizer(nullptr, nullptr, {}).Tokenize(RecordOf(R"({"text": "a"})"));
  EXPECT_TRUE(absl::IsFailedPrecondition(without_tokenizer.status()));
  EXPECT_THAT(std::string(without_tokenizer.status().message()), HasSubstr("tokenizer"));
  const auto without_template = RecordTokenizer(&tokenizer_, nullptr, {}).Tokenize(RecordOf(kChat));
  EXPECT_TRUE(absl::IsFailedPrecondition(without_template.status()));
  EXPECT_THAT(std::string(without_template.status().message()), HasSubstr("chat template"));
}

TEST_F(TrainedSpansTest, TemplateErrorsNameTheRecord) {
  EXPECT_EQ(Mark(kChat, TemplateOf("\n{{ raise_exception('no system') }}")),
            "error: f, line 1: test.jinja: line 2: no system");
}

TEST_F(TrainedSpansTest, ModesByName) {
  EXPECT_EQ(*ParseTrainOn("last"), TrainOn::kLast);
  EXPECT_FALSE(ParseTrainOn("first").ok());
}

}  // namespace
}  // namespace lorica
