// Communicator: collectives among the ranks of one group, as an object, so that several groups, or
// several ranks as threads, live in one process.
//
// Every rank of the group calls the same collectives in the same order with fitting sizes; a rank
// that doesn't makes the call fail on all ranks (Error) where the transport can tell. Buffers are
// contiguous host memory of one element type. Sums run in rank order, so results are the same on
// every rank and every run.
#ifndef LORICA_DIST_COMMUNICATOR_H_
#define LORICA_DIST_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lorica/tensor/view.h"

namespace lorica {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // x = sum over ranks of x. f32, bf16 (summed in f32, rounded once), f64, i32, i64.
  virtual void AllReduceSum(MutableTensorView x) = 0;
  // y = the ranks' x one behind the other along axis 0; y has size() times the elements of x.
  virtual void AllGather(TensorView x, MutableTensorView y) = 0;
  // y = the rank's slice, along axis 0, of the sum over ranks of x.
  virtual void ReduceScatterSum(TensorView x, MutableTensorView y) = 0;
  // Rank r gets rows [offset of r, + send_rows[r]) of x; y holds what arrives, in rank order. Both
  // counts are known to the caller; the row sizes of all ranks are equal.
  virtual void AllToAllV(TensorView x, absl::Span<const int64_t> send_rows, MutableTensorView y,
                         absl::Span<const int64_t> receive_rows) = 0;
  // x of `root` to all.
  virtual void Broadcast(MutableTensorView x, int root) = 0;
  virtual void Barrier() = 0;
};

// A group of one.
std::unique_ptr<Communicator> MakeLocalCommunicator();

// `size` ranks for as many threads of this process; element i belongs to the thread that plays rank
// i.
std::vector<std::unique_ptr<Communicator>> MakeThreadCommunicators(int size);

// Across processes. Unimplemented where the transport isn't built in (twin files).
absl::StatusOr<std::unique_ptr<Communicator>> MakeMpiCommunicator();
absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicator(int device);
bool IsMpiBuiltIn();
bool IsNcclBuiltIn();

}  // namespace lorica

#endif  // LORICA_DIST_COMMUNICATOR_H_
