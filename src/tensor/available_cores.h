// Limits on the number of cores besides the machine's size.
#ifndef LORICA_TENSOR_AVAILABLE_CORES_H_
#define LORICA_TENSOR_AVAILABLE_CORES_H_

#include <string>

namespace lorica {

// Cores that the CPU quota of this process's control groups allows, rounded up; 0 when unlimited or
// unknown. `proc_cgroup` is the text of /proc/self/cgroup, `mount` the folder that the groups are
// mounted at (/sys/fs/cgroup). Understands versions 1 and 2 and looks at every enclosing group.
int CgroupCores(const std::string& proc_cgroup, const std::string& mount);

}  // namespace lorica

#endif  // LORICA_TENSOR_AVAILABLE_CORES_H_
