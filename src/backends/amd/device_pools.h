// One memory pool for each GPU, whoever opens it: the models of a process share what is kept, let go of what another of
// them needs, and are bounded together.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "backends/amd/hip_runtime.h"
#include "memory/memory_pool.h"

namespace kpt {

// Thread safe. A pool lives as long as anybody has it or memory of it.
class DevicePools {
 public:
  // Those of this process.
  static std::shared_ptr<DevicePools> of_process();

  // `name`: of the device, "amd:0". Of all limits that were given while the pool lived, the tightest hold.
  std::shared_ptr<MemoryPool> get(const std::string& name, const HipDevice& device, const MemoryLimits& limits);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::weak_ptr<MemoryPool>> pools_;  // by the runtime's library and the GPU
};

}  // namespace kpt
