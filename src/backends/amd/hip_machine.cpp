#include "backends/amd/hip_machine.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "backends/amd/target_traits.h"
#include "base/log.h"

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

class MachineStream final : public native::Stream {
 public:
  explicit MachineStream(HipStream stream) : stream_(std::move(stream)) {}
  Status copy_to_device(void* target, const void* source, std::size_t bytes) override {
    return stream_.copy_to_device(target, source, bytes);
  }
  Status copy_to_host(void* target, const void* source, std::size_t bytes) override {
    return stream_.copy_to_host(target, source, bytes);
  }
  Status copy_on_device(void* target, const void* source, std::size_t bytes) override {
    return stream_.copy_on_device(target, source, bytes);
  }
  Status clear(void* target, std::size_t bytes) override { return stream_.fill(target, 0, bytes); }
  Status launch(gpu::Launcher& launcher, const gpu::Launch& launch) override {
    return launcher.launch(launch, stream_.get());
  }
  Status synchronize(std::chrono::milliseconds limit) override { return stream_.synchronize(limit); }

 private:
  HipStream stream_;
};

}  // namespace

HipMachine::HipMachine(std::string name, HipDevice device, int compute_units, KernelSource kernels)
    : name_(std::move(name)),
      device_(std::move(device)),
      traits_(native_traits(device_.architecture(), compute_units)),
      kernels_(std::move(kernels)) {}

Result<std::shared_ptr<Buffer>> HipMachine::allocate(std::size_t bytes) {
  auto memory = device_.allocate(bytes);
  if (memory.ok()) return std::shared_ptr<Buffer>(std::make_shared<HipBuffer>(name_, std::move(memory).value()));
  Status status = memory.status();
  if (status.code() != StatusCode::kOutOfMemory) return status;
  status.with("needed_bytes", std::to_string(bytes));
  const auto info = device_.memory_info();
  if (!info.ok()) return status;
  return Status(StatusCode::kOutOfMemory,
                fmt::format("{}; {} of {} bytes are free", status.message(), info->free_bytes, info->total_bytes),
                Vendor::kAmd)
      .with("needed_bytes", std::to_string(bytes))
      .with("free_bytes", std::to_string(info->free_bytes));
}

Result<std::unique_ptr<native::Stream>> HipMachine::make_stream() {
  KPT_ASSIGN_OR_RETURN(HipStream stream, device_.make_stream());
  return std::unique_ptr<native::Stream>(std::make_unique<MachineStream>(std::move(stream)));
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
