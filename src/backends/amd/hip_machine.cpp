#include "backends/amd/hip_machine.h"

#include <array>
#include <utility>

#include "base/log.h"

namespace kpt {
namespace {

class MachineStream final : public native::Stream {
 public:
  MachineStream(HipStream stream, std::shared_ptr<HipRecorder> recorder)
      : stream_(std::move(stream)), recorder_(std::move(recorder)) {}
  Status copy_to_device(void* target, const void* source, std::size_t bytes) override {
    return around_copy("copy to the device", [&] { return stream_.copy_to_device(target, source, bytes); });
  }
  Status copy_to_host(void* target, const void* source, std::size_t bytes) override {
    return around_copy("copy to the host", [&] { return stream_.copy_to_host(target, source, bytes); });
  }
  Status copy_on_device(void* target, const void* source, std::size_t bytes) override {
    return around_copy("copy on the device", [&] { return stream_.copy_on_device(target, source, bytes); });
  }
  Status clear(void* target, std::size_t bytes) override {
    return recorder_->around(Activity::Kind::kCopy, "fill", "hipMemsetAsync", stream_,
                             [&] { return stream_.fill(target, 0, bytes); });
  }
  Status launch(gpu::Launcher& launcher, const gpu::Launch& launch) override {
    return recorder_->around(Activity::Kind::kKernel, launch.kernel, "hipModuleLaunchKernel", stream_,
                             [&] { return launcher.launch(launch, stream_.get()); });
  }
  Status synchronize(std::chrono::milliseconds limit) override { return stream_.synchronize(limit); }

 private:
  template <typename Copy>
  Status around_copy(std::string_view name, const Copy& copy) {
    return recorder_->around(Activity::Kind::kCopy, name, "hipMemcpyAsync", stream_, copy);
  }

  HipStream stream_;
  std::shared_ptr<HipRecorder> recorder_;
};

}  // namespace

HipMachine::HipMachine(std::string name, HipDevice device, const native::Traits& traits, KernelSource kernels,
                       std::shared_ptr<MemoryPool> pool)
    : name_(std::move(name)),
      device_(std::move(device)),
      traits_(traits),
      kernels_(std::move(kernels)),
      pool_(std::move(pool)),
      recorder_(std::make_shared<HipRecorder>(device_)) {}

Result<std::unique_ptr<native::Stream>> HipMachine::make_stream() {
  KPT_ASSIGN_OR_RETURN(HipStream stream, device_.make_stream());
  return std::unique_ptr<native::Stream>(std::make_unique<MachineStream>(std::move(stream), recorder_));
}

Result<std::unique_ptr<HipLauncher>> HipMachine::make_launcher(const std::string& code) const {
  return HipLauncher::make(device_, traits_.shape.multiprocessors, std::array{code});
}

gpu::Launcher* HipMachine::find_launcher(std::string_view family) {
  const std::lock_guard lock(mutex_);
  const auto found = launchers_.find(family);
  return found == launchers_.end() ? nullptr : found->second.get();
}

Result<gpu::Launcher*> HipMachine::load_family(std::string_view family) {
  if (gpu::Launcher* const found = find_launcher(family)) return found;
  return loading_.run(std::string(family), [&]() -> Result<gpu::Launcher*> {
    if (gpu::Launcher* const found = find_launcher(family)) return found;
    KPT_ASSIGN_OR_RETURN(const std::string code, kernels_(family, device_.architecture().gfx_target));
    KPT_ASSIGN_OR_RETURN(auto launcher, make_launcher(code));
    const std::lock_guard lock(mutex_);
    return launchers_.emplace(family, std::move(launcher)).first->second.get();
  });
}

Result<gpu::Launcher*> ProgramMachine::load_family(std::string_view family) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = loaded_.find(family); found != loaded_.end()) return found->second;
  }
  const KernelObject* const object = program_->find_current(family);
  if (object == nullptr) {
    log::info("kernels are not in the stored program and are compiled here",
              {{"device", std::string(name())}, {"family", std::string(family)}});
    KPT_ASSIGN_OR_RETURN(gpu::Launcher* const launcher, machine_->load_family(family));
    const std::lock_guard lock(mutex_);
    return loaded_.emplace(family, launcher).first->second;
  }
  const std::lock_guard lock(mutex_);
  if (const auto found = loaded_.find(family); found != loaded_.end()) return found->second;
  KPT_ASSIGN_OR_RETURN(auto launcher, machine_->make_launcher(object->code));
  launchers_.push_back(std::move(launcher));
  return loaded_.emplace(family, launchers_.back().get()).first->second;
}

}  // namespace kpt
