// Consistency of a manifest: names, ranges and boxes.
#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lorica/io/file_system.h"
#include "lorica/io/manifest.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

// Boxes are compared in pairs: 8 million pairs a tensor at most. A box per rank of a large cluster
// fits.
constexpr size_t kMostChunks = 4096;
constexpr size_t kMostDimensions = 16;

bool Overlap(const ManifestChunk& a, const ManifestChunk& b) {
  for (size_t i = 0; i < a.shape.size(); ++i) {
    if (a.offset[i] + a.shape[i] <= b.offset[i] || b.offset[i] + b.shape[i] <= a.offset[i]) {
      return false;
    }
  }
  return true;
}

class Checker {
 public:
  explicit Checker(const Manifest& manifest, absl::string_view where)
      : manifest_(manifest), where_(where) {}

  absl::Status Check() {
    if (manifest_.step < 0) return Bad(absl::StrCat("step ", manifest_.step, " is negative"));
    if (manifest_.writers < 1) return Bad(absl::StrCat("found ", manifest_.writers, " writers"));
    for (const ManifestFile& file : manifest_.files) {
      if (!IsPlainName(file.name) || file.name[0] == '.' || file.name == kManifestName) {
        return Bad(absl::StrCat("file name ", Quoted(file.name), " isn't allowed"));
      }
      if (!sizes_.emplace(file.name, file.size).second) {
        return Bad(absl::StrCat("file ", Quoted(file.name), " is listed twice"));
      }
    }
    std::set<absl::string_view> names;
    for (const ManifestTensor& tensor : manifest_.tensors) {
      if (!names.insert(tensor.name).second) return BadTensor(tensor, "is listed twice");
      LORICA_RETURN_IF_ERROR(CheckTensor(tensor));
    }
    return CheckRanges();
  }

 private:
  struct Range {
    uint64_t begin;
    uint64_t end;
    const ManifestTensor* tensor;
  };

  absl::Status Bad(absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat(where_, ": ", message));
  }

  absl::Status BadTensor(const ManifestTensor& tensor, absl::string_view message) const {
    return Bad(absl::StrCat("tensor ", Quoted(tensor.name), " ", message));
  }

  absl::Status CheckTensor(const ManifestTensor& tensor) {
    if (IsQuantised(tensor.type)) {
      return BadTensor(tensor, absl::StrCat("has the block type ", Name(tensor.type)));
    }
    if (tensor.shape.size() > kMostDimensions || tensor.chunks.size() > kMostChunks) {
      return BadTensor(tensor, absl::StrCat("has ", tensor.shape.size(), " dimensions and ",
                                            tensor.chunks.size(), " chunks, at most ",
                                            kMostDimensions, " and ", kMostChunks, " are allowed"));
    }
    if (!tensor.axes.empty() && tensor.axes.size() != tensor.shape.size()) {
      return BadTensor(tensor, absl::StrCat("of shape ", ShapeText(tensor.shape), " has ",
                                            tensor.axes.size(), " axes"));
    }
    const absl::StatusOr<int64_t> total = CheckedElementCount(tensor.shape);
    if (!total.ok()) return BadTensor(tensor, total.status().message());
    int64_t covered = 0;
    for (const ManifestChunk& chunk : tensor.chunks) {
      LORICA_ASSIGN_OR_RETURN(const int64_t volume, CheckChunk(tensor, chunk));
      if (volume > *total - covered) return BadTensor(tensor, "is covered twice by its chunks");
      covered += volume;
    }
    if (covered != *total) {
      return BadTensor(tensor,
                       absl::StrCat("has ", *total, " elements, its chunks hold ", covered));
    }
    return CheckDisjoint(tensor);
  }

  // The number of elements.
  absl::StatusOr<int64_t> CheckChunk(const ManifestTensor& tensor, const ManifestChunk& chunk) {
    const size_t rank = tensor.shape.size();
    if (chunk.offset.size() != rank || chunk.shape.size() != rank) {
      return BadTensor(tensor,
                       absl::StrCat("of shape ", ShapeText(tensor.shape), " has a chunk at ",
                                    ShapeText(chunk.offset), " of shape ", ShapeText(chunk.shape)));
    }
    for (size_t i = 0; i < rank; ++i) {
      if (chunk.offset[i] < 0 || chunk.shape[i] < 0 || chunk.offset[i] > tensor.shape[i] ||
          chunk.shape[i] > tensor.shape[i] - chunk.offset[i]) {
        return BadTensor(tensor,
                         absl::StrCat("of shape ", ShapeText(tensor.shape), " has a chunk at ",
                                      ShapeText(chunk.offset), " of shape ", ShapeText(chunk.shape),
                                      " that goes outside"));
      }
    }
    const auto file = sizes_.find(chunk.file);
    if (file == sizes_.end()) {
      return BadTensor(
          tensor, absl::StrCat("lies in ", Quoted(chunk.file), ", which isn't listed under files"));
    }
    if (chunk.begin > chunk.end || chunk.end > file->second) {
      return BadTensor(tensor,
                       absl::StrCat("lies in bytes ", chunk.begin, " to ", chunk.end, " of ",
                                    Quoted(chunk.file), ", which has ", file->second));
    }
    LORICA_ASSIGN_OR_RETURN(const uint64_t size, StoredBytes(tensor.type, chunk.shape));
    if (size != chunk.end - chunk.begin) {
      return BadTensor(
          tensor, absl::StrCat("has a chunk of shape ", ShapeText(chunk.shape), ", which takes ",
                               size, " bytes, in ", chunk.end - chunk.begin, " bytes"));
    }
    if (size > 0) ranges_[chunk.file].push_back({chunk.begin, chunk.end, &tensor});
    return CheckedElementCount(chunk.shape);
  }

  // With the volumes adding up, disjoint boxes inside the shape tile it.
  absl::Status CheckDisjoint(const ManifestTensor& tensor) const {
    if (tensor.shape.empty()) return absl::OkStatus();  // one element, covered once
    std::vector<const ManifestChunk*> boxes;
    for (const ManifestChunk& chunk : tensor.chunks) {
      if (chunk.begin != chunk.end) boxes.push_back(&chunk);
    }
    std::sort(boxes.begin(), boxes.end(),
              [](const auto* a, const auto* b) { return a->offset[0] < b->offset[0]; });
    for (size_t i = 0; i < boxes.size(); ++i) {
      for (size_t j = i + 1; j < boxes.size(); ++j) {
        if (boxes[j]->offset[0] >= boxes[i]->offset[0] + boxes[i]->shape[0]) break;
        if (Overlap(*boxes[i], *boxes[j])) {
          return BadTensor(tensor, absl::StrCat("is covered twice by its chunks at ",
                                                ShapeText(boxes[i]->offset), " and ",
                                                ShapeText(boxes[j]->offset)));
        }
      }
    }
    return absl::OkStatus();
  }

  // No byte belongs to two chunks.
  absl::Status CheckRanges() {
    for (auto& [file, ranges] : ranges_) {
      std::sort(ranges.begin(), ranges.end(),
                [](const Range& a, const Range& b) { return a.begin < b.begin; });
      for (size_t i = 1; i < ranges.size(); ++i) {
        if (ranges[i].begin < ranges[i - 1].end) {
          return BadTensor(*ranges[i].tensor,
                           absl::StrCat("shares bytes of ", Quoted(file), " with tensor ",
                                        Quoted(ranges[i - 1].tensor->name)));
        }
      }
    }
    return absl::OkStatus();
  }

  const Manifest& manifest_;
  absl::string_view where_;
  std::map<std::string, uint64_t> sizes_;
  std::map<std::string, std::vector<Range>> ranges_;
};

}  // namespace

absl::Status CheckManifest(const Manifest& manifest, absl::string_view where) {
  return Checker(manifest, where).Check();
}

}  // namespace lorica
