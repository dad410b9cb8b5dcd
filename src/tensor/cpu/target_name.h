#ifndef LORICA_TENSOR_CPU_TARGET_NAME_H_
#define LORICA_TENSOR_CPU_TARGET_NAME_H_

namespace lorica::cpu {

// The instruction set that kernels are dispatched to, by Highway's name.
const char* TargetName();

}  // namespace lorica::cpu

#endif  // LORICA_TENSOR_CPU_TARGET_NAME_H_
