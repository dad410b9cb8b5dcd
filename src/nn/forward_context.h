// ForwardContext: all that a layer needs to know about the batch, in one argument.
#ifndef LORICA_NN_FORWARD_CONTEXT_H_
#define LORICA_NN_FORWARD_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "lorica/autograd/weight.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/sequences.h"

namespace lorica {

class KvCache;

// Tokens of all sequences lie one behind the other, without padding. A context is read-only while a
// forward pass and its backward pass run, and lives as long; the tape may keep parts of it.
struct ForwardContext {
  // [T] position of each token within its sequence (plus the cached length).
  std::vector<int32_t> positions;
  Sequences sequences;    // cu_seqlens: [0, ..., T]
  AdapterSpans spans;     // empty: slot 0 serves all rows
  bool training = false;  // dropout is applied
  // [T] what random numbers of each token are keyed by, besides seed and module: a mix of the job's
  // running sample number and the position in the sequence. Needed when a module with dropout runs
  // in training.
  std::shared_ptr<const std::vector<uint64_t>> row_keys;
  // What the step's mean loss counts of this pass: the sum of the weights of its trained tokens. A
  // balancing loss (nn/moe_config.h) is weighted by it; 0: by the number of tokens.
  double trained_weight = 0;
  KvCache* cache = nullptr;  // decoding: keys and values so far; null in training
  bool recompute = false;    // keep only the input of each block for the backward pass

  int64_t tokens() const { return sequences.rows(); }

  // Positions from 0 in each sequence. `sample_numbers` [sequences] may be empty when no dropout is
  // used.
  static ForwardContext ForSequences(Sequences sequences,
                                     const std::vector<int64_t>& sample_numbers = {});

  // The context of those rows alone (ascending, without repeats): for what comes after the last
  // layer and is wanted for some rows only. Every sequence keeps its number, empty or not. No
  // cache.
  ForwardContext Select(absl::Span<const int32_t> rows) const;
};

// What attention takes where each sequence sees itself alone.
std::vector<AttentionSpan> SpansOf(const Sequences& sequences);

}  // namespace lorica

#endif  // LORICA_NN_FORWARD_CONTEXT_H_
