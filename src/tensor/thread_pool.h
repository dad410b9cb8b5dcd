// A persistent pool of worker threads for short parallel loops.
#ifndef LORICA_TENSOR_THREAD_POOL_H_
#define LORICA_TENSOR_THREAD_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>

namespace lorica {

// The cores that this process may use: affinity and cgroup quota included; at least 1.
int AvailableCores();

class ThreadPool {
 public:
  // `threads` in all, the caller of Run included; 1 starts no worker. Workers spin briefly between
  // loops, then sleep; they don't spin when threads exceed AvailableCores().
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Calls body(task, thread) for every task in [0, tasks), spread dynamically over the threads;
  // returns when all are done. `thread` in [0, threads()) is distinct among bodies running at the
  // same time: an index for scratch memory. One Run at a time (a second caller waits); body must
  // not throw and must not call Run. With `flush_denormals` the computing threads, the caller's
  // included, run with FTZ and DAZ set; the caller's mode is restored.
  void Run(int64_t tasks, const std::function<void(int64_t task, int thread)>& body,
           bool flush_denormals = true);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lorica

#endif  // LORICA_TENSOR_THREAD_POOL_H_
