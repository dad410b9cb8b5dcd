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
constexpr absl::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr absl::string_view kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr absl::string_view kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|)"
    R"(\s*[\r\n]|\s+(?!\S)|\s+)";
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
constexpr absl::string_view kKimi =
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr absl::string_view kBloom = R"( ?[^(\s|[.,!?…。，、।۔،])]+)";
constexpr absl::string_view kLineEnd = R"([\r\n])";
// The letters that have a case, as JavaScript knew them.
// clang-format off
constexpr absl::string_view kDeepseekLetters =
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯ"
    "Ա-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\\x{1F7D}"
    "ᾀ-ᾴᾶ-ᾼ\\x{1FBE}ῂ-ῄῆ-ῌῐ-\\x{1FD3}ῖ-\\x{1FDB}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕ"
    "ℙ-ℝℤ\\x{2126}ℨ\\x{212A}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯ"
    "ꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
// clang-format on
constexpr absl::string_view kDeepseekMarks = "\\s?[!-/:-~！-／：-～‘-‟　-。]+";
constexpr absl::string_view kSpaceAtEnd = R"(\s+$)";
constexpr absl::string_view kDeepseekAsian = "[一-龥ࠀ-一가-퟿]+";
constexpr absl::string_view kDigits = R"(\p{N}+)";
constexpr absl::string_view kSpaceLetters = R"(\s?\p{L}+)";
constexpr absl::string_view kSpaceMarks = R"(\s?\p{P}+)";
constexpr absl::string_view kDeepseekCjk = "[一-龥぀-ゟ゠-ヿ]+";
constexpr absl::string_view kDeepseek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr absl::string_view kGpt2Names[] = {"gpt-2",   "default",  "phi-2",          "gigachat",
                                            "a.x-4.0", "mellum",   "modern-bert",    "exaone4",
                                            "jais",    "trillion", "granite-docling"};
constexpr absl::string_view kNeoxNames[] = {"mpt", "olmo"};
constexpr absl::string_view kSmollmNames[] = {"smollm", "starcoder",  "refact", "codeshell",
                                              "exaone", "minerva-7b", "mellum2"};
constexpr absl::string_view kCommandNames[] = {"command-r"};
constexpr absl::string_view kLlama3Names[] = {"llama-bpe", "llama3",   "llama-v3",
                                              "falcon3",   "pixtral",  "lfm2",
                                              "falcon-h1", "midm-2.0", "jina-v5-nano"};
constexpr absl::string_view kDbrxNames[] = {"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"};
constexpr absl::string_view kQwen2Names[] = {"qwen2", "deepseek-r1-qwen", "megrez", "kormo",
                                             "f2llmv2"};
constexpr absl::string_view kStablelmNames[] = {"stablelm2", "hunyuan", "solar-open", "grok-2"};
constexpr absl::string_view kQwen35Names[] = {"qwen35"};
constexpr absl::string_view kSeedCoderNames[] = {"seed-coder"};
constexpr absl::string_view kBailingNames[] = {"bailingmoe", "bailingmoe2", "llada-moe"};
constexpr absl::string_view kGpt4oNames[] = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"};
constexpr absl::string_view kTekkenNames[] = {"tekken"};
constexpr absl::string_view kKimiNames[] = {"kimi-k2"};
constexpr absl::string_view kBloomNames[] = {"bloom", "gpt3-finnish", "poro-chat"};
constexpr absl::string_view kVikingNames[] = {"viking"};
constexpr absl::string_view kDeepseekLlmNames[] = {"deepseek-llm"};
constexpr absl::string_view kDeepseekCoderNames[] = {"deepseek-coder"};
constexpr absl::string_view kDeepseek3Names[] = {"deepseek-v3", "hunyuan-dense", "joyai-llm"};

constexpr absl::string_view kGpt2Steps[] = {kGpt2};
constexpr absl::string_view kSmollmSteps[] = {kDigit, kGpt2};
constexpr absl::string_view kLlama3Steps[] = {kLlama3};
constexpr absl::string_view kQwen2Steps[] = {kQwen2};
constexpr absl::string_view kQwen35Steps[] = {kQwen35};
constexpr absl::string_view kSeedCoderSteps[] = {kSeedCoder};
constexpr absl::string_view kBailingSteps[] = {kBailing};
constexpr absl::string_view kGpt4oSteps[] = {kGpt4o};
constexpr absl::string_view kTekkenSteps[] = {kTekken};
constexpr absl::string_view kKimiSteps[] = {kKimi};
constexpr absl::string_view kBloomSteps[] = {kBloom};
constexpr absl::string_view kVikingSteps[] = {kBloom, kDigit};
constexpr absl::string_view kDeepseekLlmSteps[] = {kLineEnd,    kDeepseekLetters, kDeepseekMarks,
                                                   kSpaceAtEnd, kDeepseekAsian,   kDigits};
constexpr absl::string_view kDeepseekCoderSteps[] = {kLineEnd, kSpaceLetters, kSpaceMarks,
                                                     kDeepseekAsian, kDigit};
constexpr absl::string_view kDeepseek3Steps[] = {kThreeDigits, kDeepseekCjk, kDeepseek3};

const GgufPreTokenizer kAll[] = {
    {kGpt2Names, kGpt2Steps},
    {.names = kNeoxNames, .expressions = kGpt2Steps, .nfc = true},
    {kSmollmNames, kSmollmSteps},
    {.names = kCommandNames, .expressions = kSmollmSteps, .nfc = true},
    {.names = kLlama3Names, .expressions = kLlama3Steps, .ignore_merges = true, .add_bos = true},
    {kDbrxNames, kLlama3Steps},
    {.names = kQwen2Names, .expressions = kQwen2Steps, .nfc = true},
    {kStablelmNames, kQwen2Steps},
    {.names = kQwen35Names, .expressions = kQwen35Steps, .nfc = true},
    {kSeedCoderNames, kSeedCoderSteps},
    {kBailingNames, kBailingSteps},
    {kGpt4oNames, kGpt4oSteps},
    {.names = kTekkenNames, .expressions = kTekkenSteps, .ignore_merges = true, .add_bos = true},
    {kKimiNames, kKimiSteps},
    {kBloomNames, kBloomSteps},
    {kVikingNames, kVikingSteps},
    {kDeepseekLlmNames, kDeepseekLlmSteps},
    {kDeepseekCoderNames, kDeepseekCoderSteps},
    {kDeepseek3Names, kDeepseek3Steps},
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
