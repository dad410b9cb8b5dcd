#include "lorica/tensor/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "lorica/tensor/check.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace lorica {
namespace {

inline void Pause() {
#if defined(__SSE2__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // stalls about as long as pause does; yield is a no-op on most cores
#endif
}

// Denormals as zero, in and out, while alive. A fused multiply-add with a denormal operand or
// result takes twelve times as long.
class DenormalMode {
 public:
  explicit DenormalMode(bool flush) : flush_(flush) {
    if (!flush_) return;
    saved_ = Get();
    Set(saved_ | kFlush);
  }
  ~DenormalMode() {
    if (flush_) Set(saved_);
  }
  DenormalMode(const DenormalMode&) = delete;
  DenormalMode& operator=(const DenormalMode&) = delete;

 private:
#if defined(__SSE2__)
  static constexpr uint64_t kFlush = 0x8040;  // MXCSR: FTZ, DAZ
  static uint64_t Get() { return _mm_getcsr(); }
  static void Set(uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
  static constexpr uint64_t kFlush = uint64_t{1} << 24;  // FPCR: FZ
  static uint64_t Get() {
    uint64_t mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void Set(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
  static constexpr uint64_t kFlush = 0;
  static uint64_t Get() { return 0; }
  static void Set(uint64_t) {}
#endif

  bool flush_;
  uint64_t saved_ = 0;
};

// How long a thread spins before it sleeps: loops of a training step follow each other within
// microseconds, and waking a sleeper takes 10 to 30 of them. Longer spins only burn the core while
// the caller does something else.
constexpr std::chrono::microseconds kSpin(500);

// Spins until done() or the time is up; true when done.
template <typename Done>
bool SpinUntil(bool may_spin, const Done& done) {
  if (done()) return true;
  if (!may_spin) return false;
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      Pause();
      if (done()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

// One loop at a time is published in `state_`: its number, whether it takes workers, and how many
// workers are inside. A worker enters by raising the count while the loop is open; the caller
// closes the loop when no task is left and waits for those inside only, so that a worker that
// slept, or whose core was taken away, is never waited for.
class ThreadPool::Impl {
 public:
  explicit Impl(int threads) : may_spin_(threads <= AvailableCores()) {
    workers_.reserve(static_cast<size_t>(threads - 1));
    try {
      for (int thread = 1; thread < threads; ++thread) {
        workers_.emplace_back([this, thread] { Work(thread); });
      }
    } catch (const std::system_error& error) {
      Stop();
      Fail("[thread_pool] the system starts no more than ", workers_.size(), " of ", threads - 1,
           " workers: ", error.what());
    }
  }

  ~Impl() { Stop(); }

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  void Run(int64_t tasks, const std::function<void(int64_t, int)>& body, bool flush_denormals) {
    if (tasks <= 0) return;
    std::lock_guard<std::mutex> one_loop(run_mutex_);
    if (tasks == 1 || workers_.empty()) {
      DenormalMode mode(flush_denormals);
      for (int64_t task = 0; task < tasks; ++task) body(task, 0);
      return;
    }
    body_ = &body;
    tasks_ = tasks;
    flush_denormals_ = flush_denormals;
    next_.store(0, std::memory_order_relaxed);
    const uint64_t loop = (state_.load(std::memory_order_relaxed) >> kLoopShift) + 1;
    state_.store(loop << kLoopShift | kOpen);  // publishes the fields above
    // Sequentially consistent on both sides: either this sees the sleeper, or the sleeper sees the
    // new loop before it sleeps.
    if (sleepers_.load() > 0) {
      { std::lock_guard<std::mutex> lock(sleep_mutex_); }
      wake_.notify_all();
    }
    Take(0);
    state_.fetch_and(~kOpen);
    const auto empty = [this] { return (state_.load() & kInside) == 0; };
    if (SpinUntil(may_spin_, empty)) return;
    caller_sleeps_.store(true);
    {
      std::unique_lock<std::mutex> lock(sleep_mutex_);
      done_.wait(lock, empty);
    }
    caller_sleeps_.store(false);
  }

 private:
  static constexpr uint64_t kInside = 0xFFFF;  // workers inside the loop
  static constexpr uint64_t kOpen = 0x10000;   // workers may enter
  static constexpr int kLoopShift = 17;        // the loop's number above

  void Stop() {
    stop_.store(true);
    { std::lock_guard<std::mutex> lock(sleep_mutex_); }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  void Take(int thread) {
    DenormalMode mode(flush_denormals_);
    while (true) {
      const int64_t task = next_.fetch_add(1, std::memory_order_relaxed);
      if (task >= tasks_) return;
      (*body_)(task, thread);
    }
  }

  // Enters the open loop unless its number is `last`, the one this worker has already been in.
  bool Enter(uint64_t& last) {
    uint64_t state = state_.load();
    while ((state & kOpen) != 0 && state >> kLoopShift != last) {
      if (state_.compare_exchange_weak(state, state + 1)) {
        last = state >> kLoopShift;
        return true;
      }
    }
    return false;
  }

  void Leave() {
    const uint64_t state = state_.fetch_sub(1) - 1;
    if ((state & (kInside | kOpen)) == 0 && caller_sleeps_.load()) {
      { std::lock_guard<std::mutex> lock(sleep_mutex_); }
      done_.notify_one();
    }
  }

  void Work(int thread) {
    uint64_t last = 0;
    while (!stop_.load(std::memory_order_relaxed)) {
      bool entered = false;
      const auto entered_or_stopped = [&] {
        entered = Enter(last);
        return entered || stop_.load(std::memory_order_relaxed);
      };
      if (!SpinUntil(may_spin_, entered_or_stopped)) {
        std::unique_lock<std::mutex> lock(sleep_mutex_);
        sleepers_.fetch_add(1);
        wake_.wait(lock, entered_or_stopped);
        sleepers_.fetch_sub(1);
      }
      if (entered) {
        Take(thread);
        Leave();
      }
    }
  }

  const bool may_spin_;
  std::vector<std::thread> workers_;
  std::mutex run_mutex_;

  // The loop; written by the caller of Run while no worker is inside.
  const std::function<void(int64_t, int)>* body_ = nullptr;
  int64_t tasks_ = 0;
  bool flush_denormals_ = false;

  // Apart from each other: both are written by every thread.
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<uint64_t> state_{0};

  alignas(64) std::atomic<bool> stop_{false};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> caller_sleeps_{false};
  std::mutex sleep_mutex_;
  std::condition_variable wake_;  // workers: a loop was opened
  std::condition_variable done_;  // the caller: the last worker left
};

ThreadPool::ThreadPool(int threads) {
  LORICA_CHECK(threads >= 1 && threads <= 4096, "[thread_pool] 1 to 4096 threads, found ", threads);
  impl_ = std::make_unique<Impl>(threads);
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const { return impl_->threads(); }

void ThreadPool::Run(int64_t tasks, const std::function<void(int64_t task, int thread)>& body,
                     bool flush_denormals) {
  impl_->Run(tasks, body, flush_denormals);
}

}  // namespace lorica
