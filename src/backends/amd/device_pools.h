// One memory pool for each GPU, whoever opens it: the models of a process share what is kept, let go of what another of
// them needs, and are bounded together. They also share the knowledge that the GPU does not answer.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "backends/amd/hip_runtime.h"
#include "base/call_threads.h"
#include "engines/native/device_calls.h"
#include "memory/memory_pool.h"

namespace kpt {

// What those who use a GPU share.
struct GpuShare {
  std::shared_ptr<native::DeviceCalls> calls;
  std::shared_ptr<MemoryPool> pool;  // its memory goes back to the GPU through `calls`
};

// Thread safe. A share lives as long as anybody has it or memory of it, or a call of HIP's has not come back.
class DevicePools {
 public:
  explicit DevicePools(std::chrono::milliseconds longest_call = kLongestCall) : longest_call_(longest_call) {}
  // Those of this process.
  static std::shared_ptr<DevicePools> of_process();

  // For calls that find out which GPUs there are.
  std::shared_ptr<native::DeviceCalls> opening();
  // `name`: of the device, "amd:0". Of all limits that were given while the pool lived, the tightest hold. Fails when
  // the GPU does not answer.
  Result<GpuShare> get(const std::string& name, const HipDevice& device, const MemoryLimits& limits);

 private:
  struct Known {
    std::weak_ptr<native::DeviceCalls> calls;
    std::weak_ptr<MemoryPool> pool;
  };

  // With mutex_ held.
  std::shared_ptr<native::DeviceCalls> find_calls(std::weak_ptr<native::DeviceCalls>& known,
                                                  const std::string& name) const;

  std::chrono::milliseconds longest_call_;
  std::mutex mutex_;
  std::weak_ptr<native::DeviceCalls> opening_;
  std::map<std::pair<std::string, int>, Known> known_;  // by the runtime's library and the GPU
};

}  // namespace kpt
