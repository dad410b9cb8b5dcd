// Search for the leftmost, of those the longest, of a set of strings.
#ifndef LORICA_TEXT_STRING_FINDER_H_
#define LORICA_TEXT_STRING_FINDER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace lorica {

// A search takes time in proportion to the text times the longest string.
class StringFinder {
 public:
  StringFinder() { roots_.fill(-1); }

  // An earlier equal string wins. `value` isn't negative, `text` isn't empty.
  void Add(absl::string_view text, int32_t value);
  bool empty() const { return nodes_.size() == 1; }

  struct Match {
    uint32_t begin = 0;
    uint32_t end = 0;
    int32_t value = -1;  // none found
  };
  // The first match that begins at `from` or behind.
  Match Find(absl::string_view text, uint32_t from) const;
  // The match that begins at `begin`.
  Match FindAt(absl::string_view text, uint32_t begin) const;

 private:
  struct Node {
    unsigned char byte = 0;
    int32_t value = -1;
    int32_t child = -1;
    int32_t sibling = -1;
  };
  int32_t Child(int32_t node, unsigned char byte) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<int32_t, 256> roots_;  // children of the root, by byte
};

}  // namespace lorica

#endif  // LORICA_TEXT_STRING_FINDER_H_
