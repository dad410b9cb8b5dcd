// Ranks as threads. Each collective is: publish the call, wait for all, check that all calls agree,
// read the others' buffers into own memory, wait for all, write. Between the two waits nobody
// writes what somebody reads.
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>

#include "lorica/dist/communicator.h"
#include "lorica/dist/sum_in_rank_order.h"
#include "lorica/tensor/check.h"

namespace lorica {
namespace {

struct Call {
  const char* name = "";
  DType dtype = DType::kF32;
  int64_t elements = 0;  // that must agree; -1: may differ
  int root = 0;
  const void* data = nullptr;
  absl::Span<const int64_t> send_rows;
};

struct Group {
  explicit Group(int group_size) : size(group_size), calls(group_size) {}

  // Returns when all ranks have arrived.
  void Meet() {
    std::unique_lock<std::mutex> lock(mutex);
    const uint64_t mine = generation;
    if (++arrived == size) {
      arrived = 0;
      ++generation;
      met.notify_all();
      return;
    }
    met.wait(lock, [&] { return generation != mine; });
  }

  const int size;
  std::vector<Call> calls;
  std::mutex mutex;
  std::condition_variable met;
  int arrived = 0;
  uint64_t generation = 0;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size; }

  void AllReduceSum(MutableTensorView x) override {
    Begin({.name = "all_reduce", .dtype = x.dtype, .elements = x.numel(), .data = x.data});
    std::vector<char> sum(Bytes(x));
    SumInRankOrder(x.dtype, Buffers(), 0, x.numel(), sum.data());
    group_->Meet();
    if (!sum.empty()) std::memcpy(x.data, sum.data(), sum.size());
  }

  void AllGather(TensorView x, MutableTensorView y) override {
    CheckSize("all_gather", y.numel(), x.numel() * size());
    Begin({.name = "all_gather", .dtype = x.dtype, .elements = x.numel(), .data = x.data});
    const size_t bytes = Bytes(x);
    for (int r = 0; r < size(); ++r) {
      if (bytes > 0)
        std::memcpy(static_cast<char*>(y.data) + r * bytes, group_->calls[r].data, bytes);
    }
    group_->Meet();
  }

  void ReduceScatterSum(TensorView x, MutableTensorView y) override {
    CheckSize("reduce_scatter", x.numel(), y.numel() * size());
    Begin({.name = "reduce_scatter", .dtype = x.dtype, .elements = x.numel(), .data = x.data});
    SumInRankOrder(x.dtype, Buffers(), rank_ * y.numel(), y.numel(), y.data);
    group_->Meet();
  }

  void AllToAllV(TensorView x, absl::Span<const int64_t> send_rows, MutableTensorView y,
                 absl::Span<const int64_t> receive_rows) override {
    CheckSize("all_to_all", static_cast<int64_t>(send_rows.size()), size());
    CheckSize("all_to_all", static_cast<int64_t>(receive_rows.size()), size());
    int64_t sent = 0, received = 0;
    for (int64_t rows : send_rows) sent += rows;
    for (int64_t rows : receive_rows) received += rows;
    CheckSize("all_to_all", sent, x.shape[0]);
    CheckSize("all_to_all", received, y.shape[0]);
    const int64_t row = x.shape[0] > 0   ? x.numel() / x.shape[0]
                        : y.shape[0] > 0 ? y.numel() / y.shape[0]
                                         : 0;
    Begin({.name = "all_to_all",
           .dtype = x.dtype,
           .elements = -1,
           .data = x.data,
           .send_rows = send_rows});
    // All ranks see all counts, so all throw when one pair disagrees.
    const size_t row_bytes = static_cast<size_t>(row) * SizeOf(x.dtype);
    char* out = static_cast<char*>(y.data);
    std::string wrong;
    for (int r = 0; r < size(); ++r) {
      const Call& call = group_->calls[r];
      if (call.send_rows[rank_] != receive_rows[r]) {
        wrong = internal::Concat("[all_to_all] rank ", r, " sends ", call.send_rows[rank_],
                                 " rows to rank ", rank_, ", which expects ", receive_rows[r]);
        break;
      }
      int64_t offset = 0;
      for (int to = 0; to < rank_; ++to) offset += call.send_rows[to];
      const size_t bytes = static_cast<size_t>(receive_rows[r]) * row_bytes;
      if (bytes > 0) {
        std::memcpy(out, static_cast<const char*>(call.data) + offset * row_bytes, bytes);
      }
      out += bytes;
    }
    group_->Meet();
    LORICA_CHECK(wrong.empty(), wrong);
  }

  void Broadcast(MutableTensorView x, int root) override {
    LORICA_CHECK(root >= 0 && root < size(), "[broadcast] root ", root, " of ", size());
    Begin({.name = "broadcast",
           .dtype = x.dtype,
           .elements = x.numel(),
           .root = root,
           .data = x.data});
    if (rank_ != root && Bytes(x) > 0) std::memcpy(x.data, group_->calls[root].data, Bytes(x));
    group_->Meet();
  }

  void Barrier() override {
    Begin({.name = "barrier"});
    group_->Meet();
  }

 private:
  static size_t Bytes(const TensorView& x) {
    return static_cast<size_t>(x.numel()) * SizeOf(x.dtype);
  }
  static void CheckSize(const char* name, int64_t found, int64_t expected) {
    LORICA_CHECK(found == expected, "[", name, "] expected ", expected, ", found ", found);
  }

  // Publishes the call and throws, on every rank, when the ranks' calls differ.
  void Begin(Call call) {
    group_->calls[rank_] = call;
    group_->Meet();
    const Call& first = group_->calls[0];
    std::string wrong;
    for (int r = 1; r < size() && wrong.empty(); ++r) {
      const Call& other = group_->calls[r];
      if (std::strcmp(other.name, first.name) != 0 || other.dtype != first.dtype ||
          other.elements != first.elements || other.root != first.root) {
        wrong = internal::Concat("[communicator] rank 0 calls ", first.name, " of ", first.elements,
                                 " ", first.dtype, " values, rank ", r, " calls ", other.name,
                                 " of ", other.elements, " ", other.dtype, " values");
      }
    }
    if (!wrong.empty()) {
      group_->Meet();
      Fail(wrong);
    }
  }

  std::vector<const void*> Buffers() const {
    std::vector<const void*> buffers;
    for (const Call& call : group_->calls) buffers.push_back(call.data);
    return buffers;
  }

  std::shared_ptr<Group> group_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> MakeThreadCommunicators(int size) {
  LORICA_CHECK(size >= 1, "[communicator] a group has at least one rank, found ", size);
  auto group = std::make_shared<Group>(size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(std::make_unique<ThreadCommunicator>(group, r));
  return ranks;
}

std::unique_ptr<Communicator> MakeLocalCommunicator() {
  return std::move(MakeThreadCommunicators(1).front());
}

}  // namespace lorica
