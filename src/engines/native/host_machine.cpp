#include "engines/native/host_machine.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

namespace kpt::native::testing {
namespace {

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(std::size_t bytes) : bytes_(bytes) {
    if (posix_memalign(&data_, kBlockAlignment, bytes) != 0) throw std::bad_alloc();
    std::memset(data_, 0xff, bytes);  // NaN: what nobody wrote shows
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  ~HostBuffer() override { std::free(data_); }
  void* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }
  std::string_view device() const override { return "host:0"; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
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
}

Result<std::shared_ptr<Buffer>> HostMachine::allocate(std::size_t bytes) {
  ++allocations;
  if (bytes > memory_left) return Status(StatusCode::kOutOfMemory, "told to have no more");
  memory_left -= bytes;
  return std::shared_ptr<Buffer>(std::make_shared<HostBuffer>(bytes));
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
