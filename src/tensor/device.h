#ifndef LORICA_TENSOR_DEVICE_H_
#define LORICA_TENSOR_DEVICE_H_

#include <ostream>

namespace lorica {

enum class DeviceType { kCpu, kCuda };

// Where a storage lives.
struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, Device device) {
  if (device.type == DeviceType::kCpu) return out << "cpu";
  return out << "cuda:" << device.index;
}

}  // namespace lorica

#endif  // LORICA_TENSOR_DEVICE_H_
