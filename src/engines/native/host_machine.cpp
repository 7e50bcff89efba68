#include "engines/native/host_machine.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

namespace kpt::native::testing {
namespace {

class HostBuffer final : public Buffer {
 public:
  HostBuffer(std::size_t bytes, std::shared_ptr<std::atomic<std::size_t>> used)
      : bytes_(bytes), used_(std::move(used)) {
    *used_ += bytes;
    if (posix_memalign(&data_, kBlockAlignment, bytes) != 0) throw std::bad_alloc();
    std::memset(data_, 0xff, bytes);  // NaN: what nobody wrote shows
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  ~HostBuffer() override {
    std::free(data_);
    *used_ -= bytes_;
  }
  void* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }
  std::string_view device() const override { return "host:0"; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
  std::shared_ptr<std::atomic<std::size_t>> used_;
};

class HostStream final : public Stream {
 public:
  explicit HostStream(HostMachine& machine) : machine_(machine) {}
  Status copy_to_device(void* target, const void* source, std::size_t bytes) override {
    return copy_on_device(target, source, bytes);
  }
  Status copy_to_host(void* target, const void* source, std::size_t bytes) override {
    return copy_on_device(target, source, bytes);
  }
  Status copy_on_device(void* target, const void* source, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(target, source, bytes);
    return {};
  }
  Status clear(void* target, std::size_t bytes) override {
    std::memset(target, 0, bytes);
    return {};
  }
  Status launch(gpu::Launcher& launcher, const gpu::Launch& launch) override {
    if (machine_.before_launch) machine_.before_launch();
    if (++machine_.launches == machine_.fail_launch) return {StatusCode::kKernelLaunch, "told to fail"};
    return launcher.launch(launch, nullptr);
  }
  Status synchronize(std::chrono::milliseconds limit) override {
    if (!machine_.hangs) return {};
    std::this_thread::sleep_for(std::min(limit, std::chrono::milliseconds(5)));  // for tests' sake not all of it
    return {StatusCode::kDeadlineExceeded, "told to hang"};
  }

 private:
  HostMachine& machine_;
};

}  // namespace

HostMachine::HostMachine(int wave, gpu::MatrixUnit matrix) : launcher_(wave) {
  traits_.shape = launcher_.shape();
  traits_.shape.matrix = matrix;
  MemoryLimits limits;
  limits.kept_bytes = 0;  // so that all memory is new, and what nobody wrote shows
  pool_ = MemoryPool::make("host:0", Vendor::kNone, make_source(memory_), limits);
}

MemorySource HostMachine::make_source(std::shared_ptr<Memory> memory) {
  const auto take = [memory](std::size_t bytes) -> Result<std::unique_ptr<Buffer>> {
    if (memory->used + bytes > memory->most) return Status(StatusCode::kOutOfMemory, "told to have no more");
    return std::unique_ptr<Buffer>(
        std::make_unique<HostBuffer>(bytes, std::shared_ptr<std::atomic<std::size_t>>(memory, &memory->used)));
  };
  const auto ask = [memory]() -> Result<DeviceMemory> {
    const std::size_t most = memory->most;
    return DeviceMemory{most - std::min(most, memory->used.load()), most};
  };
  return {take, ask};
}

Result<std::shared_ptr<Buffer>> HostMachine::allocate(std::size_t bytes) {
  ++allocations;
  return pool_->allocate(bytes);
}

Result<std::unique_ptr<Stream>> HostMachine::make_stream() {
  return std::unique_ptr<Stream>(std::make_unique<HostStream>(*this));
}

Result<gpu::Launcher*> HostMachine::load_family(std::string_view family) {
  if (before_load) before_load();
  families.emplace_back(family);
  return static_cast<gpu::Launcher*>(&launcher_);
}

}  // namespace kpt::native::testing
