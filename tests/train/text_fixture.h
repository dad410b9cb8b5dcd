// A small real tokenizer and temporary files, for tests of data.
#ifndef LORICA_TESTS_TRAIN_TEXT_FIXTURE_H_
#define LORICA_TESTS_TRAIN_TEXT_FIXTURE_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lorica/text/chat_template.h"
#include "lorica/text/jinja/value.h"
#include "lorica/text/tokenizer.h"

namespace lorica {

// The letter under which byte-level BPE writes a byte.
inline std::string ByteLetter(int byte) {
  const auto is_plain = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
  };
  int code_point = byte;
  if (!is_plain(byte)) {
    code_point = 256;
    for (int b = 0; b < byte; ++b) code_point += is_plain(b) ? 0 : 1;
  }
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | (code_point >> 6)),
          static_cast<char>(0x80 | (code_point & 0x3F))};
}

// Every byte is a token (its value the id), "\n\n" is 256, and "<s>" 257, "</s>" 258,
// "<|im_start|>" 259,
// "<|im_end|>" 260 are special. `config` as tokenizer_config.json.
inline Tokenizer ByteTokenizer(
    const std::string& config = R"({"bos_token": "<s>", "eos_token": "<|im_end|>"})",
    const jinja::Value& post_processor = nullptr) {
  jinja::Dict vocab;
  for (int byte = 0; byte < 256; ++byte) vocab.Set(ByteLetter(byte), byte);
  const std::string newline = ByteLetter('\n');
  vocab.Set(newline + newline, 256);
  jinja::List added;
  int id = 257;
  for (const char* content : {"<s>", "</s>", "<|im_start|>", "<|im_end|>"}) {
    added.push_back(jinja::Dict({{"id", id++},
                                 {"content", content},
                                 {"single_word", false},
                                 {"lstrip", false},
                                 {"rstrip", false},
                                 {"normalized", false},
                                 {"special", true}}));
  }
  const jinja::Value model =
      jinja::Dict({{"type", "BPE"},
                   {"vocab", vocab},
                   {"merges", jinja::List({jinja::Value(absl::StrCat(newline, " ", newline))})}});
  const jinja::Value pre_tokenizer = jinja::Dict({{"type", "ByteLevel"},
                                                  {"add_prefix_space", false},
                                                  {"trim_offsets", false},
                                                  {"use_regex", false}});
  const jinja::Value json = jinja::Dict({{"version", "1.0"},
                                         {"added_tokens", added},
                                         {"normalizer", nullptr},
                                         {"pre_tokenizer", pre_tokenizer},
                                         {"post_processor", post_processor},
                                         {"decoder", pre_tokenizer},
                                         {"model", model}});
  auto tokenizer = ParseTokenizerJson(*jinja::ToJson(json), "test", config);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

inline ChatTemplate TemplateOf(const std::string& source) {
  auto chat_template = ChatTemplate::FromSource(source, "test.jinja", {});
  EXPECT_TRUE(chat_template.ok()) << chat_template.status();
  return *std::move(chat_template);
}

inline ChatTemplate ChatMl() {
  return TemplateOf(
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
}

class TextFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/lorica_data_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  std::string folder_;
};

}  // namespace lorica

#endif  // LORICA_TESTS_TRAIN_TEXT_FIXTURE_H_
