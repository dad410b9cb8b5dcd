// What tells one base model from another.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lorica/io/crc32c.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/model_loader.h"
#include "lorica/tensor/random.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

// Two training runs from one start differ nearly everywhere, so a page at the start, in the middle
// and at the end of each tensor is enough.
constexpr size_t kSampleBytes = 4096;

uint32_t SampledCrc(absl::Span<const uint8_t> bytes) {
  if (bytes.size() <= 3 * kSampleBytes) return Crc32c(bytes);
  uint32_t crc = Crc32c(bytes.first(kSampleBytes));
  crc = ExtendCrc32c(crc, bytes.subspan(bytes.size() / 2, kSampleBytes));
  return ExtendCrc32c(crc, bytes.last(kSampleBytes));
}

}  // namespace

absl::StatusOr<std::string> Fingerprint(const ModelFiles& files) {
  // By name: how tensors are spread over shards makes no difference.
  std::vector<std::string> names = files.stored->names();
  std::sort(names.begin(), names.end());
  uint64_t key = HashName(MathsText(files.config));
  for (const std::string& name : names) {
    const StoredTensorInfo& info = *files.stored->Find(name);
    LORICA_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, files.stored->Bytes(name));
    key =
        CombineKeys(key, HashName(absl::StrCat(name, " ", Name(info.type), ShapeText(info.shape))));
    key = CombineKeys(key, SampledCrc(bytes));
  }
  return absl::StrFormat("%016x", key);
}

}  // namespace lorica
