// Conversations for a very small model: short questions with plain answers, made by the program.
#ifndef LORICA_EXAMPLES_TINY_CORPUS_H_
#define LORICA_EXAMPLES_TINY_CORPUS_H_

#include <string>
#include <vector>

namespace lorica::examples {

struct Exchange {
  std::string question;
  std::string answer;
  bool held_out = false;  // another wording of a question that is trained
};

// Always the same ones, in the same order.
std::vector<Exchange> TinyCorpus();

}  // namespace lorica::examples

#endif  // LORICA_EXAMPLES_TINY_CORPUS_H_
