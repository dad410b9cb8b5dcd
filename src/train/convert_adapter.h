// Converting an adapter from one layout of files to another.
#ifndef LORICA_TRAIN_CONVERT_ADAPTER_H_
#define LORICA_TRAIN_CONVERT_ADAPTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lorica/io/file_system.h"
#include "lorica/tensor/backend.h"
#include "lorica/train/option_list.h"

namespace lorica {

struct ConvertOptions {
  std::string adapter;             // a folder or GGUF file of any layout
  std::string to;                  // name of a layout
  std::string output;              // a folder that doesn't exist yet; for gguf a file
  std::string model;               // the base model, or empty
  std::string expert_axis;         // of the input: "rank-major", "expert-major", or empty
  std::string expert_orientation;  // of the input: "in-out", "out-in", or empty
};

void VisitConvertOptions(ConvertOptions& options, OptionVisitor& visitor);

struct ConvertSummary {
  std::string from;                      // the layout that was recognised
  std::string expert_kind;               // "fused", "split", "shared-outer", or empty
  int64_t modules = 0;                   // of the input
  std::vector<std::string> left_behind;  // tensors that are no part of an adapter
  std::vector<std::string> notes;        // sentences: what readers of the output will make of it
};

// Reads, writes, reads what was written and compares every delta with the input's; only then does
// the output appear, complete. Errors have the codes of exit_status.h.
absl::StatusOr<ConvertSummary> ConvertAdapter(const ConvertOptions& options, Backend& backend,
                                              FileSystem& files = PosixFiles());

}  // namespace lorica

#endif  // LORICA_TRAIN_CONVERT_ADAPTER_H_
