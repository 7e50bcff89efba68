#include "backends/amd/device_pools.h"

namespace kpt {
namespace {

class HipBuffer final : public Buffer {
 public:
  HipBuffer(std::string device, HipMemory memory) : device_(std::move(device)), memory_(std::move(memory)) {}
  void* data() const override { return memory_.data(); }
  std::size_t bytes() const override { return memory_.bytes(); }
  std::string_view device() const override { return device_; }

 private:
  std::string device_;
  HipMemory memory_;
};

MemorySource make_source(const std::string& name, const HipDevice& device) {
  const auto take = [name, device](std::size_t bytes) -> Result<std::unique_ptr<Buffer>> {
    KPT_ASSIGN_OR_RETURN(HipMemory memory, device.allocate(bytes));
    return std::unique_ptr<Buffer>(std::make_unique<HipBuffer>(name, std::move(memory)));
  };
  const auto ask = [device]() -> Result<DeviceMemory> {
    KPT_ASSIGN_OR_RETURN(const HipMemoryInfo info, device.memory_info());
    return DeviceMemory{info.free_bytes, info.total_bytes};
  };
  return {take, ask};
}

}  // namespace

std::shared_ptr<DevicePools> DevicePools::of_process() {
  static auto* const kPools = new std::shared_ptr<DevicePools>(std::make_shared<DevicePools>());  // never destroyed
  return *kPools;
}

std::shared_ptr<MemoryPool> DevicePools::get(const std::string& name, const HipDevice& device,
                                             const MemoryLimits& limits) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<MemoryPool>& known = pools_[{device.library_path(), device.index()}];
  if (auto pool = known.lock()) {
    pool->tighten(limits);
    return pool;
  }
  auto made = MemoryPool::make(name, Vendor::kAmd, make_source(name, device), limits);
  known = made;
  return made;
}

}  // namespace kpt
