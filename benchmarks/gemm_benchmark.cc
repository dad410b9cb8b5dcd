// Matrix products and token sums as a share of what the machine's multiply-add units can do.
//
// A shared machine changes its speed from one millisecond to the next and takes cores away, so
// every product is timed between two runs of a loop that does nothing but multiply-adds in
// registers on the same number of threads: by processor time on one thread, where what others do
// hardly shows, else by elapsed time. `of_peak` is the median of the ratios, `best_of_peak` the
// ratio of the fastest of both, `rate` and `peak` those fastest in GF/s.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lorica/tensor/cpu/simd_targets.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/tensor.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm_benchmark.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lorica {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// `rounds` x 12 independent multiply-adds; returns the floating-point operations.
double FmaLoop(int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  const auto x = hn::Set(d, 0.999999f), y = hn::Set(d, 1e-6f);
  // Different values, or the compiler keeps one chain for all.
  auto s0 = hn::Set(d, 0.f), s1 = hn::Set(d, 1.f), s2 = hn::Set(d, 2.f), s3 = hn::Set(d, 3.f),
       s4 = hn::Set(d, 4.f), s5 = hn::Set(d, 5.f), s6 = hn::Set(d, 6.f), s7 = hn::Set(d, 7.f),
       s8 = hn::Set(d, 8.f), s9 = hn::Set(d, 9.f), s10 = hn::Set(d, 10.f), s11 = hn::Set(d, 11.f);
  for (int64_t i = 0; i < rounds; ++i) {
    s0 = hn::MulAdd(s0, x, y);
    s1 = hn::MulAdd(s1, x, y);
    s2 = hn::MulAdd(s2, x, y);
    s3 = hn::MulAdd(s3, x, y);
    s4 = hn::MulAdd(s4, x, y);
    s5 = hn::MulAdd(s5, x, y);
    s6 = hn::MulAdd(s6, x, y);
    s7 = hn::MulAdd(s7, x, y);
    s8 = hn::MulAdd(s8, x, y);
    s9 = hn::MulAdd(s9, x, y);
    s10 = hn::MulAdd(s10, x, y);
    s11 = hn::MulAdd(s11, x, y);
  }
  s0 = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(hn::Add(s4, s5), s6));
  s7 = hn::Add(hn::Add(s7, s8), hn::Add(hn::Add(s9, s10), s11));
  *sink = hn::GetLane(hn::Add(s0, s7));
  return static_cast<double>(rounds) * 24.0 * static_cast<double>(hn::Lanes(d));
}

}  // namespace HWY_NAMESPACE
}  // namespace lorica
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lorica {

HWY_EXPORT(FmaLoop);

namespace {

double Seconds(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}
double Now(const ThreadPool& pool) {
  return Seconds(pool.threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC);
}

// GF/s of the multiply-add loop on all threads, over about 100 us.
double PeakSample(ThreadPool& pool) {
  std::vector<float> sinks(static_cast<size_t>(pool.threads()) * 16);
  std::vector<double> flops(static_cast<size_t>(pool.threads()));
  const double begin = Now(pool);
  pool.Run(pool.threads(), [&](int64_t task, int) {
    flops[static_cast<size_t>(task)] =
        HWY_DYNAMIC_DISPATCH(FmaLoop)(30000, &sinks[static_cast<size_t>(task) * 16]);
  });
  const double end = Now(pool);
  benchmark::DoNotOptimize(sinks.data());
  double sum = 0;
  for (double f : flops) sum += f;
  return sum / (end - begin) * 1e-9;
}

Tensor Values(Backend& backend, int64_t rows, int64_t columns, DType dtype) {
  Tensor tensor = Tensor::Zeros(backend, {rows, columns}, DType::kF32);
  float* data = tensor.mutable_data<float>();
  for (int64_t i = 0; i < rows * columns; ++i) data[i] = static_cast<float>(i % 1013) * 1e-3f;
  return raw::Cast(tensor, dtype);
}

template <typename Body>
void Measure(benchmark::State& state, ThreadPool& pool, double flops, const Body& body) {
  body();
  std::vector<double> ratios;
  double best = 0, best_peak = 0;
  double before = PeakSample(pool);
  for (auto _ : state) {
    const double begin = Now(pool);
    body();
    const double seconds = Now(pool) - begin;
    const double after = PeakSample(pool);
    const double rate = flops / seconds * 1e-9;
    ratios.push_back(rate / ((before + after) / 2));
    best = std::max(best, rate);
    best_peak = std::max(best_peak, after);
    before = after;
    state.SetIterationTime(seconds);
  }
  std::sort(ratios.begin(), ratios.end());
  state.counters["of_peak"] = ratios[ratios.size() / 2];
  state.counters["best_of_peak"] = best / best_peak;
  state.counters["rate"] = best;
  state.counters["peak"] = best_peak;
}

struct Product {
  const char* name;
  int64_t m, k, n;
  GemmLayout layout;
  int64_t prefix_k = 0;
  DType dtype = DType::kF32;
  bool cached = false;
};

void GemmBenchmark(benchmark::State& state, const Product& product) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  const auto backend =
      MakeCpuBackend(pool, {.packed_cache_bytes = product.cached ? size_t{1} << 30 : 0});
  const auto right = [&](int64_t k) {
    return product.layout == GemmLayout::kNT ? Values(*backend, product.n, k, product.dtype)
                                             : Values(*backend, k, product.n, product.dtype);
  };
  const Tensor a = Values(*backend, product.m, product.k, product.dtype);
  const Tensor b = right(product.k);
  const Tensor prefix_a = Values(*backend, product.m, product.prefix_k, product.dtype);
  const Tensor prefix_b = right(product.prefix_k);
  Tensor y = Tensor::Zeros(*backend, {product.m, product.n}, product.dtype);
  GemmDesc desc;
  desc.m = product.m;
  desc.n = product.n;
  desc.k = product.k;
  desc.layout = desc.prefix_layout = product.layout;
  desc.prefix_k = product.prefix_k;
  desc.a_type = desc.b_type = desc.y_type = product.dtype;
  GemmArgs args;
  args.a = a.view();
  args.b = b.view();
  args.prefix_a = prefix_a.view();
  args.prefix_b = prefix_b.view();
  args.y = y.mutable_view();
  args.b_storage_id = product.cached ? b.storage()->id() : 0;
  const double flops = 2.0 * static_cast<double>(product.m) * static_cast<double>(product.n) *
                       static_cast<double>(product.k + product.prefix_k);
  Measure(state, pool, flops, [&] { backend->Gemm(desc, args); });
}

void TokenSumBenchmark(benchmark::State& state, int64_t m, int64_t n) {
  constexpr int64_t kTokens = 2048;
  ThreadPool pool(static_cast<int>(state.range(0)));
  const auto backend = MakeCpuBackend(pool);
  const Tensor dy = Values(*backend, kTokens, m, DType::kF32);
  const Tensor x = Values(*backend, kTokens, n, DType::kF32);
  Tensor acc = Tensor::Zeros(*backend, {m, n}, DType::kF32);
  const Sequences sequences{{0, 512, 1024, 1536, 2048}};
  TokenSumArgs args;
  args.dy = dy.view();
  args.x = x.view();
  args.acc = acc.mutable_view();
  const double flops = 2.0 * kTokens * static_cast<double>(m) * static_cast<double>(n);
  Measure(state, pool, flops,
          [&] { backend->TokenSum({.tokens = kTokens, .m = m, .n = n}, sequences, args); });
}

void Register(const char* name, int64_t iterations,
              const std::function<void(benchmark::State&)>& body) {
  benchmark::RegisterBenchmark(name, body)
      ->Arg(1)
      ->Arg(2)
      ->ArgName("threads")
      ->Iterations(iterations)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

// The products of a SmolLM2-135M step of 4 x 512 tokens, LoRA of rank 16, and of decoding.
constexpr Product kProducts[] = {
    {"gemm_nt 2048x576x576", 2048, 576, 576, GemmLayout::kNT},
    {"gemm_nn 2048x576x576", 2048, 576, 576, GemmLayout::kNN},
    {"gemm_nt 2048x576x192", 2048, 576, 192, GemmLayout::kNT},
    {"gemm_nt 2048x576x1536", 2048, 576, 1536, GemmLayout::kNT},
    {"gemm_nn 2048x576x1536", 2048, 576, 1536, GemmLayout::kNN},
    {"gemm_nt 2048x1536x576", 2048, 1536, 576, GemmLayout::kNT},
    {"gemm_nn 2048x1536x576", 2048, 1536, 576, GemmLayout::kNN},
    {"gemm_nt 512x576x49152 head", 512, 576, 49152, GemmLayout::kNT},
    {"gemm_nn 512x49152x576 head", 512, 49152, 576, GemmLayout::kNN},
    {"gemm_nt 2048x576x576+16 lora", 2048, 576, 576, GemmLayout::kNT, 16},
    {"gemm_nt 2048x576x16 lora_down", 2048, 576, 16, GemmLayout::kNT},
    {"gemm_nn 2048x1536x16 lora_down", 2048, 1536, 16, GemmLayout::kNN},
    {"gemm_nt 2048x576x1536 bf16", 2048, 576, 1536, GemmLayout::kNT, 0, DType::kBF16},
    {"gemm_nt 1x576x1536 cached", 1, 576, 1536, GemmLayout::kNT, 0, DType::kF32, true},
    {"gemm_nt 1x576x49152 cached", 1, 576, 49152, GemmLayout::kNT, 0, DType::kF32, true},
    {"gemm_nt 1x576x49152", 1, 576, 49152, GemmLayout::kNT},
};

void RegisterAll() {
  for (const Product& product : kProducts) {
    const double work = static_cast<double>(product.m * product.n) * static_cast<double>(product.k);
    const int64_t iterations = std::clamp<int64_t>(static_cast<int64_t>(2e10 / work), 3, 100);
    Register(product.name, iterations,
             [&product](benchmark::State& state) { GemmBenchmark(state, product); });
  }
  for (auto [m, n] : {std::pair<int64_t, int64_t>{16, 576},
                      {16, 1536},
                      {576, 16},
                      {1536, 16},
                      {576, 576},
                      {1536, 576}}) {
    const std::string name = "token_sum " + std::to_string(m) + "x" + std::to_string(n);
    Register(name.c_str(), 50,
             [m = m, n = n](benchmark::State& state) { TokenSumBenchmark(state, m, n); });
  }
}

}  // namespace
}  // namespace lorica

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  lorica::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
#endif  // HWY_ONCE
