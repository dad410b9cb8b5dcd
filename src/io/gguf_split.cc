// Models that are split over several GGUF files: the first has all metadata and may have tensors,
// the others have tensors. Each says under `split.no` (from 0) which it is, under `split.count` of
// how many, and under `split.tensors.count` how many tensors all of them hold. Their names end in
// `-00001-of-0000n.gguf` and so on.
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lorica/io/gguf.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

constexpr absl::string_view kNumberKey = "split.no";
constexpr absl::string_view kCountKey = "split.count";
constexpr absl::string_view kTensorsKey = "split.tensors.count";
constexpr uint64_t kMostParts = 99999;  // five digits in a name

absl::Status Bad(absl::string_view where, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": GGUF: ", message));
}

// Part `number`, from 0.
std::string Ending(uint64_t number, uint64_t count) {
  return absl::StrFormat("-%05d-of-%05d.gguf", number + 1, count);
}

// What the part says of itself must be what the place says.
absl::Status CheckPart(const GgufFile& part, uint64_t number, uint64_t count, uint64_t tensors) {
  const std::pair<absl::string_view, uint64_t> expected[] = {
      {kNumberKey, number}, {kCountKey, count}, {kTensorsKey, tensors}};
  for (const auto& [key, value] : expected) {
    LORICA_ASSIGN_OR_RETURN(const uint64_t found, part.GetU64(key));
    if (found == value) continue;
    return Bad(part.where(), absl::StrCat("expected ", value, " under ", Quoted(key), " of part ",
                                          number + 1, " of ", count, ", found ", found));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GgufFile> GgufFile::Open(const std::string& path, FileSystem& files) {
  LORICA_ASSIGN_OR_RETURN(GgufFile first, OpenOne(path, files));
  LORICA_ASSIGN_OR_RETURN(const uint64_t count, first.GetU64Or(kCountKey, 0));
  if (count <= 1) return first;
  if (count > kMostParts) {
    return Bad(path, absl::StrCat("expected at most ", kMostParts, " parts, found ", count));
  }
  LORICA_ASSIGN_OR_RETURN(const uint64_t number, first.GetU64(kNumberKey));
  const std::string ending = Ending(0, count);
  if (number != 0) {
    return Bad(path, absl::StrCat("expected the first part of ", count, ", named *", ending,
                                  ", found part ", number + 1));
  }
  if (!absl::EndsWith(path, ending)) {
    return Bad(path, absl::StrCat("expected a name that ends in ", ending, ", because the file is ",
                                  "the first part of ", count));
  }
  const std::string stem = path.substr(0, path.size() - ending.size());
  std::vector<GgufFile> parts;
  parts.push_back(std::move(first));
  for (uint64_t i = 1; i < count; ++i) {
    absl::StatusOr<GgufFile> part = OpenOne(absl::StrCat(stem, Ending(i, count)), files);
    if (absl::IsNotFound(part.status())) {
      return absl::NotFoundError(absl::StrCat(path, ": GGUF: part ", i + 1, " of ", count, ", ",
                                              Quoted(NameOf(stem + Ending(i, count))),
                                              ", is missing beside it"));
    }
    LORICA_RETURN_IF_ERROR(part.status());
    parts.push_back(*std::move(part));
  }
  return Join(std::move(parts));
}

absl::StatusOr<GgufFile> GgufFile::Join(std::vector<GgufFile> parts) {
  const uint64_t count = parts.size();
  GgufFile joined = parts[0];
  LORICA_ASSIGN_OR_RETURN(const uint64_t tensors, joined.GetU64(kTensorsKey));
  for (uint64_t i = 0; i < count; ++i) {
    LORICA_RETURN_IF_ERROR(CheckPart(parts[i], i, count, tensors));
    if (i == 0) continue;
    for (GgufTensor& tensor : parts[i].tensors_) {
      tensor.part = i;
      const auto [at, added] = joined.tensor_index_.emplace(tensor.name, joined.tensors_.size());
      if (!added) {
        return Bad(parts[i].where(), absl::StrCat("tensor ", Quoted(tensor.name), " is also in ",
                                                  joined.where(joined.tensors_[at->second].part)));
      }
      joined.tensors_.push_back(std::move(tensor));
    }
    joined.later_parts_.push_back({parts[i].mapping_, parts[i].bytes_, parts[i].where_});
  }
  if (joined.tensors_.size() != tensors) {
    return Bad(joined.where(),
               absl::StrCat("expected ", tensors, " tensors in ", count, " parts by ",
                            Quoted(kTensorsKey), ", found ", joined.tensors_.size()));
  }
  return joined;
}

}  // namespace lorica
