#include "lorica/train/duplicates.h"

#include <algorithm>

#include "lorica/train/record_index.h"

namespace lorica {
namespace {

// Records looked at together: 16 bytes each.
constexpr size_t kTogether = size_t{1} << 20;

using HashAndRecord = std::pair<uint64_t, int64_t>;

void NameFirst(Duplicates& found, size_t most_named) {
  std::sort(found.first.begin(), found.first.end());
  if (found.first.size() > most_named) found.first.resize(most_named);
}

// Takes every record out of `records` that has the hash of an earlier one, and notes it.
void TakeOut(std::vector<HashAndRecord>& records, size_t most_named, Duplicates& found) {
  std::sort(records.begin(), records.end());
  size_t kept = 0;
  for (const HashAndRecord& record : records) {
    if (kept == 0 || record.first != records[kept - 1].first) {
      records[kept++] = record;
      continue;
    }
    ++found.count;
    found.first.emplace_back(record.second, records[kept - 1].second);
    if (!found.marks.empty()) found.marks[static_cast<size_t>(record.second)] = true;
    if (found.first.size() >= 2 * most_named + 64) NameFirst(found, most_named);
  }
  records.resize(kept);
}

}  // namespace

Duplicates FindDuplicates(const RecordIndex& index, size_t most_named, bool with_marks) {
  Duplicates found;
  if (with_marks) found.marks.assign(static_cast<size_t>(index.size()), false);
  // Equal hashes fall into the same part.
  const uint64_t parts = static_cast<uint64_t>(index.size()) / (kTogether / 2) + 1;
  std::vector<HashAndRecord> records;
  records.reserve(std::min(static_cast<size_t>(index.size()), kTogether));
  for (uint64_t part = 0; part < parts; ++part) {
    records.clear();
    for (int64_t i = 0; i < index.size(); ++i) {
      const uint64_t hash = index.At(i).hash;
      if (hash % parts != part) continue;
      records.emplace_back(hash, i);
      // A million times the same record needn't be remembered.
      if (records.size() == records.capacity()) TakeOut(records, most_named, found);
    }
    TakeOut(records, most_named, found);
  }
  NameFirst(found, most_named);
  return found;
}

}  // namespace lorica
