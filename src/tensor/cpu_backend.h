// The CPU backend: SIMD kernels by Highway with dynamic dispatch, on a thread pool that is passed
// in.
#ifndef LORICA_TENSOR_CPU_BACKEND_H_
#define LORICA_TENSOR_CPU_BACKEND_H_

#include <cstddef>
#include <memory>
#include <string>

#include "lorica/tensor/backend.h"
#include "lorica/tensor/thread_pool.h"

namespace lorica {

struct CpuBackendOptions {
  // Bytes that packed forms of right operands may take (GemmArgs::b_storage_id). 0 repacks on every
  // call, which costs a percent or two of a product of thousands of rows; decoding one row at a
  // time wants all weights cached.
  size_t packed_cache_bytes = 0;
};

// `pool` must outlive the backend.
std::unique_ptr<Backend> MakeCpuBackend(ThreadPool& pool, const CpuBackendOptions& options = {});

// "AVX3", "AVX2", ...: the instruction set that kernels are dispatched to on this machine.
std::string CpuTargetName();

}  // namespace lorica

#endif  // LORICA_TENSOR_CPU_BACKEND_H_
