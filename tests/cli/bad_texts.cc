#include "absl/strings/str_cat.h"
#include "cli/bad_input.h"
#include "cli/small_model.h"

namespace lorica {
namespace {

using Arguments = std::vector<std::string>;

// Training of the good model on the file "d.jsonl" of the row's folder.
Arguments Sft(const Arguments& more = {}) {
  Arguments arguments = {"sft", "--model", "{M}", "--data", "d.jsonl", "--output", "out"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

BadInput Data(const std::string& name, const std::string& message, const std::string& bytes) {
  return {name, Sft(), 3, message, File("d.jsonl", bytes)};
}

BadInput Tokens(const std::string& name, const std::string& message, const std::string& bytes) {
  return {name,
          {"sft", "--model", "{G}/model", "--data", "d.jsonl", "--output", "out"},
          3,
          message,
          File("d.jsonl", bytes)};
}

// Training with the template file "t.jinja" of the row's folder.
BadInput Template(const std::string& name, const std::string& message, const std::string& text) {
  return {
      name,
      {"sft", "--model", "{M}", "--data", "{D}", "--output", "out", "--chat-template", "t.jinja"},
      3,
      message,
      File("t.jinja", text)};
}

BadInput Tokenizer(const std::string& name, const std::string& message, const std::string& from,
                   const std::string& to) {
  return {name,
          {"tokenize", "--model", "m", "text"},
          3,
          message,
          CopyOfSmallModel("m", [from, to](const std::string& model) {
            ReplaceInFile(model + "/tokenizer.json", from, to);
          })};
}

// Rendering of the template "t.jinja" alone.
BadInput Render(const std::string& name, const std::string& message, const std::string& text) {
  return {name,
          {"template", "--file", "t.jinja", "--chat", "c.json"},
          3,
          message,
          [text](const std::string& folder) {
            WriteFileOrDie(folder + "/t.jinja", text);
            WriteFileOrDie(folder + "/c.json",
                           R"({"messages": [{"role": "user", "content": "hi"}]})");
          }};
}

}  // namespace

std::vector<BadInput> BadTexts() {
  const std::string endless =
      "{% for a in range(99999) %}{% for b in range(99999) %}{{ a * b }}{% endfor %}{% endfor %}";
  const std::string good =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";
  return {
      {"data_absent", Sft(), 3, "d.jsonl"},
      {"data_folder_without_train_file",
       {"sft", "--model", "{M}", "--data", ".", "--output", "out"},
       3,
       "train.jsonl"},
      Data("data_empty", "no records", ""),
      Data("data_blank", "no records", "\n\n  \n"),
      Data("data_not_json", "line 2", good + "\nhello\n"),
      Data("data_truncated_json", "line 1", good.substr(0, 40)),
      Data("data_not_utf8", "UTF-8",
           "{\"messages\": [{\"role\": \"user\", \"content\": \"\xff\xfe\"}]}\n"),
      Data("data_mixed_formats", "line 2", good + "\n{\"text\": \"a\"}\n"),
      Data("data_unknown_format", "expected messages", "{\"question\": \"a\"}\n"),
      Data("data_number", "line 1", "17\n"),
      Data("data_deeply_nested", "d.jsonl", std::string(100000, '[')),
      Data("data_message_without_role", "role", R"({"messages": [{"content": "a"}]})"),
      Data("data_messages_no_list", "messages", R"({"messages": "hello"})"),
      Data("data_duplicate_everything", "line 1", R"({"text": 5})"),
      Data("data_all_masked", "trained", R"({"messages": [{"role": "user", "content": "a"}]})"),
      Data("data_conversation_of_strangers", "line 1",
           R"({"conversations": [{"from": "martian", "value": "a"}]})"),
      Tokens("tokens_all_masked", "trained",
             R"({"input_ids": [1, 2, 3], "labels": [-100, -100, -100]})"),
      Tokens("tokens_beyond_vocabulary", "line 1", R"({"input_ids": [1, 2, 99999]})"),
      Tokens("tokens_negative", "line 1", R"({"input_ids": [1, -2]})"),
      Tokens("tokens_labels_too_few", "labels", R"({"input_ids": [1, 2, 3], "labels": [1]})"),
      Tokens("tokens_label_beyond_vocabulary", "line 1",
             R"({"input_ids": [1, 2, 3], "labels": [1, 2, 99999]})"),
      Tokens("text_for_a_model_without_tokenizer", "tokenizer", R"({"text": "hello"})"),
      Data("data_gzip_truncated", "end missing",
           std::string("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", 10)),
      // A frame of 8 bytes whose block is of the reserved type.
      Data("data_zstd_damaged", "zstd stream is damaged",
           std::string("\x28\xb5\x2f\xfd\x20\x08\x07\x00\x00", 9)),
      Data("data_xz_damaged", "xz stream is damaged",
           std::string("\xfd\x37zXZ\x00\x00\x04\x00\x00\x00\x00\x00\x00", 14)),
      Data("data_parquet", "found a Parquet file", "PAR1\x15\x04\x15\x10"),
      Data("data_weight_negative", "line 1: expected \"weight\"", R"({"text": "a", "weight": -1})"),
      {"data_pattern_matches_nothing",
       {"sft", "--model", "{M}", "--data", "*.nothing", "--output", "out"},
       3,
       "*.nothing"},
      {"data_folder_with_two_train_files",
       {"sft", "--model", "{M}", "--data", ".", "--output", "out"},
       3,
       "train.jsonl and train.jsonl.gz",
       [good](const std::string& folder) {
         WriteFileOrDie(folder + "/train.jsonl", good);
         WriteFileOrDie(folder + "/train.jsonl.gz", good);
       }},
      {"data_overlong", Sft({"--overlong", "error", "--max-length", "8"}), 3, "line 1",
       File("d.jsonl", good)},
      {"data_all_dropped", Sft({"--overlong", "drop", "--max-length", "8"}), 3, "longer",
       File("d.jsonl", good)},
      {"evaluation_data_absent", Sft({"--eval-data", "e.jsonl"}), 3, "e.jsonl",
       File("d.jsonl", good)},
      {"sample_without_tokenizer",
       {"sft", "--model", "{G}/model", "--data", "{T}", "--output", "out", "--sample", "hi"},
       3,
       "tokenizer"},
      Template("template_never_ends", "t.jinja", endless),
      Template("template_recursive_macro", "t.jinja",
               "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}"),
      Template("template_grows_without_end", "t.jinja",
               "{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(60) %}"
               "{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}"),
      Template("template_syntax", "t.jinja", "{% for m in messages %}"),
      Template("template_raises", "roles must alternate",
               "{{ raise_exception('roles must alternate') }}"),
      Template("template_undefined", "t.jinja", "{{ nothing.at.all }}"),
      Template("template_ignores_turns", "", "hello"),
      {"template_absent",
       {"sft", "--model", "{M}", "--data", "{D}", "--output", "out", "--chat-template", "t.jinja"},
       3,
       "t.jinja"},
      {"chat_without_template",
       {"generate", "--model", "m", "--chat", "hi"},
       3,
       "chat template",
       CopyOfSmallModel("m",
                        [](const std::string& model) {
                          std::remove((model + "/chat_template.jinja").c_str());
                        })},
      Tokenizer("tokenizer_not_json", "tokenizer.json", "{", "{{"),
      Tokenizer("tokenizer_unknown_model", "WordLevels", "\"type\":\"BPE\"",
                "\"type\":\"WordLevels\""),
      Tokenizer("tokenizer_unknown_pretokenizer", "Sideways",
                "\"pre_tokenizer\":{\"type\":\"ByteLevel\"",
                "\"pre_tokenizer\":{\"type\":\"Sideways\""),
      Tokenizer("tokenizer_merge_of_unknown_pieces", "tokenizer.json", "\"merges\":[]",
                "\"merges\":[\"zz yy\"]"),
      Tokenizer("tokenizer_negative_id", "tokenizer.json", ":255", ":-255"),
      {"tokenizer_absent", {"tokenize", "--model", "{G}/model", "text"}, 3, "tokenizer"},
      {"tokenize_file_absent", {"tokenize", "--model", "{M}", "--file", "t.txt"}, 3, "t.txt"},
      {"tokenize_file_not_utf8",
       {"tokenize", "--model", "{M}", "--file", "t.txt"},
       3,
       "t.txt",
       File("t.txt", "a\xff")},
      {"tokenize_lines_not_an_array",
       {"tokenize", "--model", "{M}", "--lines", "l.json"},
       3,
       "l.json",
       File("l.json", "{}")},
      {"tokenize_lines_of_numbers",
       {"tokenize", "--model", "{M}", "--lines", "l.json"},
       3,
       "index 1",
       File("l.json", "[\"a\", 2]")},
      {"tokenize_chat_not_json",
       {"tokenize", "--model", "{M}", "--chat", "c.json"},
       3,
       "c.json",
       File("c.json", "{")},
      {"prompts_empty",
       {"generate", "--model", "{M}", "--prompts", "p.jsonl"},
       3,
       "p.jsonl",
       File("p.jsonl", "\n")},
      {"prompts_not_json",
       {"generate", "--model", "{M}", "--prompts", "p.jsonl"},
       3,
       "line 2",
       File("p.jsonl", "{\"prompt\": \"a\"}\nx\n")},
      {"prompts_beyond_vocabulary",
       {"generate", "--model", "{M}", "--prompts", "p.jsonl"},
       3,
       "p.jsonl",
       File("p.jsonl", "{\"input_ids\": [99999]}\n")},
      Render("render_never_ends", "t.jinja", endless),
      Render("render_raises", "no tools", "{{ raise_exception('no tools') }}"),
      Render("render_syntax", "line 2", "\n{% if %}"),
      Render("render_deeply_nested", "t.jinja",
             "{{ " + std::string(20000, '(') + "1" + std::string(20000, ')') + " }}"),
      {"render_chat_without_messages",
       {"template", "--file", "t.jinja", "--chat", "c.json"},
       3,
       "messages",
       [](const std::string& folder) {
         WriteFileOrDie(folder + "/t.jinja", "a");
         WriteFileOrDie(folder + "/c.json", "{}");
       }},
      {"render_file_absent", {"template", "--file", "t.jinja", "--chat", "c.json"}, 3, "t.jinja"},
  };
}

}  // namespace lorica
