#include "tiny_bpe.h"

#include <array>
#include <cstdint>
#include <map>
#include <utility>

namespace lorica::examples {
namespace {

using Pieces = std::vector<std::string>;
using Pair = std::pair<std::string, std::string>;

// GPT-2's alphabet: printable bytes stand for themselves, the others for code points from 256 on,
// so that a vocabulary file holds no control characters.
std::array<std::string, 256> ByteAlphabet() {
  std::array<std::string, 256> alphabet;
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const uint32_t code = printable ? byte : next++;
    if (code < 0x80) {
      alphabet[byte] = static_cast<char>(code);
    } else {
      alphabet[byte] = {static_cast<char>(0xC0 | code >> 6),
                        static_cast<char>(0x80 | (code & 0x3F))};
    }
  }
  return alphabet;
}

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// How often each word occurs: letters, with one space before them where there is one.
std::map<std::string, int> CountWords(const std::vector<std::string>& texts) {
  std::map<std::string, int> counts;
  for (const std::string& text : texts) {
    for (size_t begin = 0; begin < text.size();) {
      size_t end = begin + (text[begin] == ' ' ? 1 : 0);
      while (end < text.size() && IsLetter(text[end])) ++end;
      if (end == begin) end = begin + 1;
      ++counts[text.substr(begin, end - begin)];
      begin = end;
    }
  }
  return counts;
}

void Join(Pieces& word, const Pair& pair) {
  Pieces joined;
  for (size_t i = 0; i < word.size(); ++i) {
    if (i + 1 < word.size() && word[i] == pair.first && word[i + 1] == pair.second) {
      joined.push_back(word[i] + word[i + 1]);
      ++i;
    } else {
      joined.push_back(word[i]);
    }
  }
  word = std::move(joined);
}

std::vector<Pair> LearnMerges(const std::vector<std::string>& texts, int merges) {
  const std::array<std::string, 256> alphabet = ByteAlphabet();
  std::vector<std::pair<Pieces, int>> words;
  for (const auto& [word, count] : CountWords(texts)) {
    Pieces pieces;
    for (const char c : word) pieces.push_back(alphabet[static_cast<uint8_t>(c)]);
    words.emplace_back(std::move(pieces), count);
  }
  std::vector<Pair> learned;
  while (static_cast<int>(learned.size()) < merges) {
    std::map<Pair, int> pairs;
    for (const auto& [word, count] : words) {
      for (size_t i = 0; i + 1 < word.size(); ++i) pairs[{word[i], word[i + 1]}] += count;
    }
    const std::pair<const Pair, int>* best = nullptr;
    for (const auto& pair : pairs) {
      if (best == nullptr || pair.second > best->second) best = &pair;
    }
    if (best == nullptr || best->second < 2) break;
    learned.push_back(best->first);
    for (auto& [word, count] : words) Join(word, learned.back());
  }
  return learned;
}

// Of the alphabet's pieces, which hold no control characters.
std::string Quote(const std::string& piece) {
  std::string quoted = "\"";
  for (const char c : piece) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

std::string LearnTokenizerJson(const std::vector<std::string>& texts, int merges,
                               const std::vector<std::string>& special_tokens) {
  const std::vector<Pair> learned = LearnMerges(texts, merges);
  int id = 0;
  std::string vocabulary;
  const auto add = [&](const std::string& piece) {
    vocabulary += (id == 0 ? "" : ",") + Quote(piece) + ":" + std::to_string(id);
    ++id;
  };
  for (const std::string& piece : ByteAlphabet()) add(piece);
  std::string merge_list;
  for (const auto& [left, right] : learned) {
    add(left + right);
    merge_list += (merge_list.empty() ? "" : ",") + Quote(left + " " + right);
  }
  std::string added;
  for (const std::string& token : special_tokens) {
    added += (added.empty() ? "" : ",") + std::string("{\"id\":") + std::to_string(id) +
             ",\"content\":" + Quote(token) +
             ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
             "\"special\":true}";
    add(token);
  }
  const std::string byte_level =
      "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"
      "\"use_regex\":true}";
  return "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[" + added +
         "],\"normalizer\":null,\"pre_tokenizer\":" + byte_level +
         ",\"post_processor\":null,\"decoder\":" + byte_level +
         ",\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
         "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
         "\"byte_fallback\":false,\"ignore_merges\":false,\"vocab\":{" +
         vocabulary + "},\"merges\":[" + merge_list + "]}}\n";
}

}  // namespace lorica::examples
