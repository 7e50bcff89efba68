#include "backends/amd/device_pools.h"

namespace kpt {
namespace {

class HipBuffer final : public Buffer {
 public:
  HipBuffer(std::string device, HipMemory memory, std::shared_ptr<native::DeviceCalls> calls)
      : device_(std::move(device)), memory_(std::move(memory)), calls_(std::move(calls)) {}
  HipBuffer(const HipBuffer&) = delete;
  HipBuffer& operator=(const HipBuffer&) = delete;
  ~HipBuffer() override { calls_->let_go(std::move(memory_)); }
  void* data() const override { return memory_.data(); }
  std::size_t bytes() const override { return memory_.bytes(); }
  std::string_view device() const override { return device_; }

 private:
  std::string device_;
  HipMemory memory_;
  std::shared_ptr<native::DeviceCalls> calls_;
};

MemorySource make_source(const std::string& name, const HipDevice& device,
                         const std::shared_ptr<native::DeviceCalls>& calls) {
  const auto take = [name, device, calls](std::size_t bytes) -> Result<std::unique_ptr<Buffer>> {
    KPT_ASSIGN_OR_RETURN(HipMemory memory, device.allocate(bytes));
    return std::unique_ptr<Buffer>(std::make_unique<HipBuffer>(name, std::move(memory), calls));
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

std::shared_ptr<native::DeviceCalls> DevicePools::find_calls(std::weak_ptr<native::DeviceCalls>& known,
                                                             const std::string& name) const {
  auto calls = known.lock();
  if (calls == nullptr) known = calls = std::make_shared<native::DeviceCalls>(name, Vendor::kAmd, longest_call_);
  return calls;
}

std::shared_ptr<native::DeviceCalls> DevicePools::opening() {
  const std::lock_guard lock(mutex_);
  return find_calls(opening_, "the HIP runtime");
}

Result<GpuShare> DevicePools::get(const std::string& name, const HipDevice& device, const MemoryLimits& limits) {
  std::unique_lock lock(mutex_);
  Known& known = known_[{device.library_path(), device.index()}];
  GpuShare share{find_calls(known.calls, name), known.pool.lock()};
  if (share.pool == nullptr) {
    share.pool = MemoryPool::make(name, Vendor::kAmd, make_source(name, device, share.calls), limits);
    known.pool = share.pool;
  }
  lock.unlock();
  KPT_RETURN_IF_ERROR(share.calls->ask([pool = share.pool, limits] {  // it may give memory back
    pool->tighten(limits);
    return Status();
  }));
  return share;
}

}  // namespace kpt
