#include "lorica/tensor/available_cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

#include "lorica/tensor/thread_pool.h"

namespace lorica {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

int CoresOf(double quota, double period) {
  if (!(quota > 0) || !(period > 0)) return 0;
  return static_cast<int>(std::clamp(std::ceil(quota / period), 1.0, 1e6));
}

// Version 2: "max 100000" or "150000 100000".
int CoresOfV2(const std::string& folder) {
  std::istringstream text(ReadText(folder + "/cpu.max"));
  double quota = 0, period = 0;
  if (!(text >> quota >> period)) return 0;
  return CoresOf(quota, period);
}

// Version 1: a quota of -1 means none.
int CoresOfV1(const std::string& folder) {
  std::istringstream quota_text(ReadText(folder + "/cpu.cfs_quota_us"));
  std::istringstream period_text(ReadText(folder + "/cpu.cfs_period_us"));
  double quota = 0, period = 0;
  if (!(quota_text >> quota) || !(period_text >> period)) return 0;
  return CoresOf(quota, period);
}

// The smallest limit of a group and those around it. In a container the path of /proc/self/cgroup
// may be the host's and absent below the mount; the walk upwards then ends at the mount itself.
template <typename CoresOfFolder>
int SmallestLimit(const std::string& mount, std::string path, const CoresOfFolder& cores_of) {
  int smallest = 0;
  while (true) {
    const int cores = cores_of(mount + path);
    if (cores > 0 && (smallest == 0 || cores < smallest)) smallest = cores;
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return smallest;
    path.resize(slash);
  }
}

bool HasCpuController(const std::string& controllers) {
  std::istringstream list(controllers);
  std::string name;
  while (std::getline(list, name, ',')) {
    if (name == "cpu") return true;
  }
  return false;
}

int AffinityCores() {
  // The mask grows until the kernel's fits: machines may have more than the 1024 cores of
  // cpu_set_t.
  for (int cores = 1024; cores <= 1 << 20; cores *= 2) {
    cpu_set_t* set = CPU_ALLOC(cores);
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(cores);
    CPU_ZERO_S(bytes, set);
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const int count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

int CgroupCores(const std::string& proc_cgroup, const std::string& mount) {
  int smallest = 0;
  std::istringstream lines(proc_cgroup);
  std::string line;
  while (std::getline(lines, line)) {
    // hierarchy:controllers:path
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    int cores = 0;
    if (controllers.empty()) {
      cores = SmallestLimit(mount, path, CoresOfV2);
    } else if (HasCpuController(controllers)) {
      for (const std::string& folder : {controllers, std::string("cpu")}) {
        cores = SmallestLimit(mount + "/" + folder, path, CoresOfV1);
        if (cores > 0) break;
      }
    }
    if (cores > 0 && (smallest == 0 || cores < smallest)) smallest = cores;
  }
  return smallest;
}

int AvailableCores() {
  const int affinity = AffinityCores();
  const int quota = CgroupCores(ReadText("/proc/self/cgroup"), "/sys/fs/cgroup");
  return quota > 0 ? std::min(affinity, quota) : affinity;
}

}  // namespace lorica
