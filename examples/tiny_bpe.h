// A byte-level BPE vocabulary learned from a text. R. Sennrich, B. Haddow, A. Birch, "Neural
// machine translation of rare words with subword units", 2016.
#ifndef LORICA_EXAMPLES_TINY_BPE_H_
#define LORICA_EXAMPLES_TINY_BPE_H_

#include <string>
#include <vector>

namespace lorica::examples {

// The text of a tokenizer.json: 256 bytes, up to `merges` merges (the most frequent pair again and
// again, among words of letters with the space before them; ties go to the pair that sorts first),
// and behind them `special_tokens` in order.
std::string LearnTokenizerJson(const std::vector<std::string>& texts, int merges,
                               const std::vector<std::string>& special_tokens);

}  // namespace lorica::examples

#endif  // LORICA_EXAMPLES_TINY_BPE_H_
