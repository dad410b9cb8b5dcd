// Records that occur more than once.
#ifndef LORICA_TRAIN_DUPLICATES_H_
#define LORICA_TRAIN_DUPLICATES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lorica {

class RecordIndex;

// A record that is equal to an earlier one.
struct DuplicateRecord {
  std::string where;    // "b.jsonl, line 7"
  std::string same_as;  // "a.jsonl, line 3"
};

struct Duplicates {
  int64_t count = 0;  // records that are equal to an earlier one
  // The first of them in the order of records, each with the first that it is equal to.
  std::vector<std::pair<int64_t, int64_t>> first;
  // Whether each record of the index is one; empty unless asked for.
  std::vector<bool> marks;
};

// By the hashes. Takes 16 MB at most besides `marks`, and for it looks through a large index
// several times.
Duplicates FindDuplicates(const RecordIndex& index, size_t most_named, bool with_marks);

}  // namespace lorica

#endif  // LORICA_TRAIN_DUPLICATES_H_
