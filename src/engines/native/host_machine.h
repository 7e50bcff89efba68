// A machine of the host: its kernels run through the host mapping. For tests of plans without any device.
#pragma once

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engines/native/machine.h"
#include "kernels/gpu/host_launcher.h"
#include "memory/memory_pool.h"

namespace kpt::native::testing {

// For several threads only as far as they wait for each other. Counts what it is asked for and fails on demand.
class HostMachine final : public Machine {
 public:
  explicit HostMachine(int wave, gpu::MatrixUnit matrix = gpu::MatrixUnit::kNone);

  std::string_view name() const override { return "host:0"; }
  Vendor vendor() const override { return Vendor::kNone; }
  const Traits& traits() const override { return traits_; }
  Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes) override;
  std::shared_ptr<void> add_holder(std::function<void()> let_go) override {
    return pool_->add_holder(std::move(let_go));
  }
  Result<std::unique_ptr<Stream>> make_stream() override;
  Result<gpu::Launcher*> load_family(std::string_view family) override;

  std::size_t launches = 0;
  std::size_t allocations = 0;
  // Bytes that it has in all.
  void limit_memory(std::size_t bytes) { memory_->most = bytes; }
  MemoryStatistics memory() const { return pool_->statistics(); }

  std::size_t fail_launch = 0;        // the launch of this number fails; 0: none
  bool hangs = false;                 // synchronize() meets its limit
  std::function<void()> before_load;  // called when a family is asked for
  std::function<void()> before_launch;
  std::vector<std::string> families;  // that were asked for, in order

 private:
  struct Memory {
    std::atomic<std::size_t> most = ~std::size_t{0};
    std::atomic<std::size_t> used = 0;
  };
  static MemorySource make_source(std::shared_ptr<Memory> memory);

  Traits traits_;
  gpu::HostLauncher launcher_;
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
  std::shared_ptr<MemoryPool> pool_;
};

}  // namespace kpt::native::testing
