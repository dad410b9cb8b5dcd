#include "lorica/tensor/sequences.h"

namespace lorica {

void RowOffsets::Check(const char* where, int64_t row_count) const {
  LORICA_CHECK(!offsets.empty() && offsets.front() == 0, "[", where,
               "] row offsets must begin with 0");
  for (size_t i = 1; i < offsets.size(); ++i) {
    LORICA_CHECK(offsets[i] >= offsets[i - 1], "[", where, "] row offsets fall at group ", i - 1,
                 ": ", offsets[i - 1], " then ", offsets[i]);
  }
  LORICA_CHECK(offsets.back() == row_count, "[", where, "] row offsets end at ", offsets.back(),
               ", expected the row count ", row_count);
}

}  // namespace lorica
