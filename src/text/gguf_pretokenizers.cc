#include "lorica/text/gguf_pretokenizers.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"

namespace lorica {
namespace {

// Each is the expression of the tokenizer.json that the name was made for.
constexpr absl::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr absl::string_view kDigit = R"(\p{N})";
constexpr absl::string_view kThreeDigits = R"(\p{N}{1,3})";
constexpr absl::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr absl::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr absl::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr absl::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr absl::string_view kDeepseekCjk = "[一-龥぀-ゟ゠-ヿ]+";
constexpr absl::string_view kDeepseek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr absl::string_view kGpt2Names[] = {"gpt-2", "default", "mpt", "olmo"};
constexpr absl::string_view kSmollmNames[] = {"smollm", "starcoder", "refact", "command-r",
                                              "codeshell"};
constexpr absl::string_view kLlama3Names[] = {"llama-bpe", "llama3",  "llama-v3",
                                              "falcon3",   "pixtral", "lfm2"};
constexpr absl::string_view kDbrxNames[] = {"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"};
constexpr absl::string_view kQwen2Names[] = {"qwen2", "deepseek-r1-qwen", "megrez"};
constexpr absl::string_view kStablelmNames[] = {"stablelm2"};
constexpr absl::string_view kGpt4oNames[] = {"gpt-4o", "llama4"};
constexpr absl::string_view kTekkenNames[] = {"tekken"};
constexpr absl::string_view kDeepseek3Names[] = {"deepseek-v3"};

constexpr absl::string_view kGpt2Steps[] = {kGpt2};
constexpr absl::string_view kSmollmSteps[] = {kDigit, kGpt2};
constexpr absl::string_view kLlama3Steps[] = {kLlama3};
constexpr absl::string_view kQwen2Steps[] = {kQwen2};
constexpr absl::string_view kGpt4oSteps[] = {kGpt4o};
constexpr absl::string_view kTekkenSteps[] = {kTekken};
constexpr absl::string_view kDeepseek3Steps[] = {kThreeDigits, kDeepseekCjk, kDeepseek3};

const GgufPreTokenizer kAll[] = {
    {kGpt2Names, kGpt2Steps, false, false, false},
    {kSmollmNames, kSmollmSteps, false, false, false},
    {kLlama3Names, kLlama3Steps, false, true, true},
    {kDbrxNames, kLlama3Steps, false, false, false},
    {kQwen2Names, kQwen2Steps, true, false, false},
    {kStablelmNames, kQwen2Steps, false, false, false},
    {kGpt4oNames, kGpt4oSteps, false, false, false},
    {kTekkenNames, kTekkenSteps, false, true, true},
    {kDeepseek3Names, kDeepseek3Steps, false, false, false},
};

}  // namespace

const GgufPreTokenizer* FindGgufPreTokenizer(absl::string_view name) {
  for (const GgufPreTokenizer& row : kAll) {
    if (std::find(row.names.begin(), row.names.end(), name) != row.names.end()) return &row;
  }
  return nullptr;
}

std::string GgufPreTokenizerNames() {
  std::vector<absl::string_view> names;
  for (const GgufPreTokenizer& row : kAll) {
    names.insert(names.end(), row.names.begin(), row.names.end());
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace lorica
