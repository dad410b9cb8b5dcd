// Data sets that don't stay in memory: they give what those in memory give.
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "gmock/gmock.h"
#include "lorica/train/dataset.h"
#include "train/compressed_text.h"
#include "train/text_fixture.h"

namespace lorica {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StreamingTest : public TextFixture {
 protected:
  StreamingTest() { options_.memory_bytes = 0; }

  absl::StatusOr<Dataset> Load(const std::vector<std::string>& paths) {
    options_.spool_folder = folder_;
    return Dataset::Load(paths, &tokenizer_, &chat_template_, options_);
  }
  absl::StatusOr<Dataset> LoadText(const std::string& name, const std::string& text) {
    return Load({Write(name, text)});
  }

  static std::string Lines(int count, int distinct = 1000) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&text, R"({"messages": [{"role": "user", "content": "q)", i % distinct,
                      R"("}, {"role": "assistant", "content": ")", std::string(i % 40, 'a'),
                      "\"}]}\n");
    }
    return text;
  }
  static std::string Array(const std::string& lines) {
    std::string text = "[\n";
    for (const char c : lines.substr(0, lines.size() - 1))
      text += c == '\n' ? ",\n" : std::string(1, c);
    return text + "]";
  }

  static void ExpectEqual(const Dataset& a, const Dataset& b) {
    ASSERT_EQ(a.size(), b.size());
    EXPECT_EQ(a.fingerprint(), b.fingerprint());
    for (int64_t i = 0; i < a.size(); ++i) {
      const auto x = a.Read(i), y = b.Read(i);
      ASSERT_TRUE(x.ok() && y.ok()) << x.status() << y.status();
      EXPECT_EQ(x->ids, y->ids) << i;
      EXPECT_EQ(x->targets, y->targets) << i;
      EXPECT_EQ(x->weights, y->weights) << i;
      EXPECT_EQ(a.tokens(i), x->tokens());
      EXPECT_EQ(a.trained_tokens(i), x->trained_tokens());
      EXPECT_EQ(a.record_index(i), b.record_index(i));
    }
  }

  Tokenizer tokenizer_ = ByteTokenizer();
  ChatTemplate chat_template_ = ChatMl();
  DatasetOptions options_;
};

TEST_F(StreamingTest, GivesTheSameAsMemoryWhateverTheFileIs) {
  const std::string lines = Lines(700);
  options_.memory_bytes = int64_t{1} << 30;
  const auto memory = LoadText("a.jsonl", lines);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->statistics().in_memory, 700);
  ThreadPool pool(3);
  options_.pool = &pool;
  for (const int64_t bytes : {0, 20000}) {
    options_.memory_bytes = bytes;
    for (const auto& [name, text] :
         std::vector<std::pair<std::string, std::string>>{{"b.jsonl", "\xEF\xBB\xBF\n" + lines},
                                                          {"c.json", Array(lines)},
                                                          {"d.jsonl.gz", Gzip(lines)},
                                                          {"e.json.zst", Zstd(Array(lines))},
                                                          {"f", Xz(lines)}}) {
      SCOPED_TRACE(name);
      const auto streamed = LoadText(name, text);
      ASSERT_TRUE(streamed.ok()) << streamed.status();
      EXPECT_EQ(streamed->statistics().in_memory > 0, bytes > 0);
      EXPECT_LT(streamed->statistics().in_memory, 700);
      ExpectEqual(*memory, *streamed);
    }
  }
}

TEST_F(StreamingTest, OfSeveralFilesWithDroppedAndCutRecords) {
  const std::vector<std::string> paths = {Write("a.jsonl", Lines(50)),
                                          Write("b.json.gz", Gzip(Array(Lines(30)))),
                                          Write("c.jsonl", Lines(20))};
  for (const Overlong overlong : {Overlong::kTruncate, Overlong::kDrop}) {
    options_.overlong = overlong;
    options_.max_length = 50;
    options_.memory_bytes = int64_t{1} << 30;
    const auto memory = Load(paths);
    ASSERT_TRUE(memory.ok()) << memory.status();
    options_.memory_bytes = 5000;
    const auto streamed = Load(paths);
    ASSERT_TRUE(streamed.ok()) << streamed.status();
    ExpectEqual(*memory, *streamed);
    const auto& files = streamed->files();
    ASSERT_EQ(files.size(), 3u);
    EXPECT_EQ(files[0].begin, 0);
    EXPECT_EQ(files[0].end, files[1].begin);
    EXPECT_EQ(files[2].end, streamed->size());
    if (overlong == Overlong::kTruncate) {
      EXPECT_GT(streamed->statistics().truncated, 0);
      EXPECT_EQ(files[1].end, 80);
      EXPECT_THAT(streamed->Where(79), HasSubstr("b.json.gz, record 30"));
    } else {
      EXPECT_GT(streamed->statistics().dropped, 0);
    }
    // Lengths are those before anything was cut or dropped.
    EXPECT_EQ(streamed->statistics().lengths.records(), 100);
    EXPECT_GT(streamed->statistics().lengths.longest(), 50);
  }
}

TEST_F(StreamingTest, AFileThatChangedIsAnError) {
  const std::string lines = Lines(20);
  const std::string path = Write("a.jsonl", lines);
  const auto dataset = Load({path});
  ASSERT_TRUE(dataset.ok());
  ASSERT_TRUE(dataset->Read(3).ok());
  const auto expect_changed = [&](int64_t record) {
    const absl::Status status = dataset->Read(record).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("a.jsonl"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("has changed since the run began"));
  };
  Write("a.jsonl", lines + "\n");  // another size
  expect_changed(3);
  std::string other = lines;  // the same size
  other.replace(other.find("q3"), 2, "Q3");
  Write("a.jsonl", other);
  expect_changed(3);
  EXPECT_TRUE(dataset->Read(4).ok());
  Write("a.jsonl", std::string(lines.size(), '{'));
  expect_changed(4);
  std::filesystem::remove(path);
  expect_changed(4);
}

TEST_F(StreamingTest, APipeIsReadOnce) {
  const std::string path = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << Lines(30); });
  const auto dataset = Load({path});
  writer.join();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->size(), 30);
  EXPECT_EQ(dataset->Read(29)->tokens(), dataset->tokens(29));
}

TEST_F(StreamingTest, DuplicatesAreNamedAndLeftOutOnRequest) {
  const std::string a = Write("a.jsonl", Lines(40)), b = Write("b.json", Array(Lines(42)));
  for (const int64_t bytes : {0, 5000, 1 << 30}) {
    options_.memory_bytes = bytes;
    options_.deduplicate = false;
    auto dataset = Load({a, b});
    ASSERT_TRUE(dataset.ok());
    EXPECT_EQ(dataset->size(), 82);
    EXPECT_EQ(dataset->statistics().duplicates, 40);
    EXPECT_EQ(dataset->statistics().deduplicated, 0);
    ASSERT_EQ(dataset->statistics().first_duplicates.size(), 5u);
    EXPECT_EQ(dataset->statistics().first_duplicates[1].where, b + ", record 2");
    EXPECT_EQ(dataset->statistics().first_duplicates[1].same_as, a + ", line 2");

    options_.deduplicate = true;
    dataset = Load({a, b});
    ASSERT_TRUE(dataset.ok());
    EXPECT_EQ(dataset->size(), 42);
    EXPECT_EQ(dataset->statistics().deduplicated, 40);
    EXPECT_EQ(dataset->files()[0].end, 40);
    EXPECT_EQ(dataset->files()[1].end, 42);
    EXPECT_EQ(dataset->record_index(41), 81);
    EXPECT_EQ(dataset->Where(41), b + ", record 42");
    EXPECT_EQ(dataset->Read(41)->tokens(), dataset->tokens(41));
    int64_t tokens = 0;
    for (int64_t i = 0; i < 42; ++i) tokens += dataset->Read(i)->tokens();
    EXPECT_EQ(dataset->statistics().tokens, tokens);
  }
}

TEST_F(StreamingTest, WeightsOfRecordsReachTheirTokens) {
  const auto dataset =
      LoadText("a.jsonl",
               "{\"text\": \"ab\"}\n{\"text\": \"ab\", \"weight\": 0.5}\n"
               "{\"text\": \"ab\", \"weight\": 0}\n{\"text\": \"ab\", \"weight\": 1}\n");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_TRUE(dataset->Read(0)->weights.empty());
  EXPECT_THAT(dataset->Read(1)->weights, ElementsAre(0.5f, 0.5f, 0));
  EXPECT_EQ(dataset->Read(1)->trained_weight(), 1);
  EXPECT_EQ(dataset->trained_tokens(2), 0);
  EXPECT_EQ(dataset->statistics().untrained, 1);
  EXPECT_TRUE(dataset->Read(3)->weights.empty());
  // Equal but for their weights: not the same.
  EXPECT_EQ(dataset->statistics().duplicates, 1);
  for (const char* weight : {"-1", "\"2\"", "true", "1e300"}) {
    const auto wrong =
        LoadText("b.jsonl", absl::StrCat("{\"text\": \"a\", \"weight\": ", weight, "}"));
    EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("line 1: expected \"weight\""));
  }
}

TEST_F(StreamingTest, WeightsOfMessagesAndOfTheirRecordMultiply) {
  const auto dataset = LoadText(
      "a.jsonl",
      R"({"weight": 3, "messages": [{"role": "user", "content": "q"}, )"
      R"({"role": "assistant", "content": "a", "weight": 0.5}, {"role": "user", "content": "r"}, )"
      R"({"role": "assistant", "content": "b", "train": false}, {"role": "user", "content": "s"}, )"
      R"({"role": "assistant", "content": "c"}]})");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const auto sequence = dataset->Read(0);
  ASSERT_TRUE(sequence.ok());
  // Each turn is its letter, <|im_end|> and a newline.
  EXPECT_EQ(sequence->trained_tokens(), 6);
  EXPECT_EQ(sequence->trained_weight(), 3 * 1.5 + 3 * 3);
  for (size_t t = 0; t + 1 < sequence->ids.size(); ++t) {
    if (sequence->ids[t + 1] == 'a' && sequence->targets[t] >= 0) {
      EXPECT_EQ(sequence->weights[t], 1.5f);
    }
    if (sequence->ids[t + 1] == 'b') {
      EXPECT_LT(sequence->targets[t], 0);
    }
  }
}

TEST_F(StreamingTest, ExamplesOfOneRecordAreReadOneByOne) {
  // Earlier answers lose their first letter, so each turn is an example of its own.
  chat_template_ = TemplateOf(
      "{% for m in messages %}{{ m.role[0] }}:{{ m.content if loop.last or m.role != 'assistant' "
      "else m.content[1:] }};{% endfor %}{% if add_generation_prompt %}a:{% endif %}");
  std::string lines;
  for (int i = 0; i < 5; ++i) {
    absl::StrAppend(&lines, R"({"messages": [{"role": "user", "content": "q)", i,
                    R"("}, {"role": "assistant", "content": "xa"}, {"role": "user", )",
                    R"("content": "r"}, {"role": "assistant", "content": "yb"}]})", "\n");
  }
  options_.memory_bytes = 1 << 20;
  const auto memory = LoadText("a.jsonl", lines);
  ASSERT_TRUE(memory.ok()) << memory.status();
  for (const int64_t bytes : {0, 500}) {
    options_.memory_bytes = bytes;
    for (const std::string& text : {lines, Zstd(lines)}) {
      const auto streamed = LoadText("b.jsonl", text);
      ASSERT_TRUE(streamed.ok()) << streamed.status();
      EXPECT_EQ(streamed->statistics().records, 5);
      EXPECT_EQ(streamed->statistics().split_records, 5);
      EXPECT_EQ(streamed->statistics().split_examples, 10);
      EXPECT_EQ(streamed->example_index(3), std::optional<int64_t>(1));
      EXPECT_EQ(streamed->record_index(3), 1);
      ExpectEqual(*memory, *streamed);
    }
  }
}

TEST_F(StreamingTest, TheFirstErrorInTheFilesCounts) {
  ThreadPool pool(3);
  options_.pool = &pool;
  std::string lines = Lines(30);
  lines += "{\"messages\": 1}\n" + Lines(3) + "{\"messages\": 2\n";
  EXPECT_THAT(std::string(LoadText("a.jsonl", lines).status().message()), HasSubstr("line 31"));
  // An error of the compressed stream stands behind those of what came before it.
  std::string bytes = Gzip(lines);
  bytes.resize(bytes.size() - 4);
  EXPECT_THAT(std::string(LoadText("b", bytes).status().message()), HasSubstr("line 31"));
  bytes = Gzip(Lines(30));
  bytes.resize(bytes.size() - 4);
  EXPECT_THAT(std::string(LoadText("c", bytes).status().message()), HasSubstr("end missing"));
}

TEST_F(StreamingTest, SaysHowFarItIsAndStopsWhenAsked) {
  int64_t last = 0, total = 0;
  options_.progress = [&](int64_t bytes, int64_t total_bytes, int64_t) {
    EXPECT_GE(bytes, last);
    last = bytes;
    total = total_bytes;
  };
  const std::string lines = Lines(2000);
  ASSERT_TRUE(LoadText("a.jsonl", lines).ok());
  EXPECT_EQ(last, static_cast<int64_t>(lines.size()));
  EXPECT_EQ(total, last);
  options_.cancelled = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(LoadText("a.jsonl", lines).status()));
}

}  // namespace
}  // namespace lorica
