#include "lorica/text/string_finder.h"

namespace lorica {

int32_t StringFinder::Child(int32_t node, unsigned char byte) const {
  if (node == 0) return roots_[byte];
  for (int32_t child = nodes_[node].child; child >= 0; child = nodes_[child].sibling) {
    if (nodes_[child].byte == byte) return child;
  }
  return -1;
}

void StringFinder::Add(absl::string_view text, int32_t value) {
  int32_t node = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    int32_t child = Child(node, byte);
    if (child < 0) {
      child = static_cast<int32_t>(nodes_.size());
      nodes_.push_back({byte, -1, -1, nodes_[node].child});
      nodes_[node].child = child;
      if (node == 0) roots_[byte] = child;
    }
    node = child;
  }
  if (nodes_[node].value < 0) nodes_[node].value = value;
}

StringFinder::Match StringFinder::FindAt(absl::string_view text, uint32_t begin) const {
  Match match;
  int32_t node = 0;
  for (uint32_t end = begin; end < text.size();) {
    node = Child(node, static_cast<unsigned char>(text[end++]));
    if (node < 0) break;
    if (nodes_[node].value >= 0) match = {begin, end, nodes_[node].value};
  }
  return match;
}

StringFinder::Match StringFinder::Find(absl::string_view text, uint32_t from) const {
  for (uint32_t begin = from; begin < text.size(); ++begin) {
    if (roots_[static_cast<unsigned char>(text[begin])] < 0) continue;
    const Match match = FindAt(text, begin);
    if (match.value >= 0) return match;
  }
  return {};
}

}  // namespace lorica
