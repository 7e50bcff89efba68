// An AMD GPU for planned launches: memory, streams and kernels of one device through HIP.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "backends/amd/amd_program.h"
#include "backends/amd/hip_launcher.h"
#include "backends/amd/hip_recorder.h"
#include "backends/amd/hip_runtime.h"
#include "backends/amd/kernel_store.h"
#include "base/shared_work.h"
#include "engines/native/machine.h"
#include "memory/memory_pool.h"

namespace kpt {

class HipMachine final : public native::Machine {
 public:
  // `traits`, `pool`: of the device.
  HipMachine(std::string name, HipDevice device, const native::Traits& traits, KernelSource kernels,
             std::shared_ptr<MemoryPool> pool);

  std::string_view name() const override { return name_; }
  Vendor vendor() const override { return Vendor::kAmd; }
  const native::Traits& traits() const override { return traits_; }
  Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes) override { return pool_->allocate(bytes); }
  std::shared_ptr<void> add_holder(std::function<void()> let_go) override {
    return pool_->add_holder(std::move(let_go));
  }
  Result<std::unique_ptr<native::Stream>> make_stream() override;
  // Others may be loaded while one is compiled.
  Result<gpu::Launcher*> load_family(std::string_view family) override;
  Result<std::unique_ptr<HipLauncher>> make_launcher(const std::string& code) const;

  MemoryPool& pool() { return *pool_; }
  HipRecorder& recorder() { return *recorder_; }

 private:
  gpu::Launcher* find_launcher(std::string_view family);

  std::string name_;
  HipDevice device_;
  native::Traits traits_;
  KernelSource kernels_;
  std::shared_ptr<MemoryPool> pool_;
  std::shared_ptr<HipRecorder> recorder_;  // streams have a share in it
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<HipLauncher>, std::less<>> launchers_;  // by family
  SharedWork<std::string, gpu::Launcher*> loading_;
};

// The same GPU with kernels that a stored program brings along. Those that it lacks, or that another build made of
// other source, come from the machine.
class ProgramMachine final : public native::Machine {
 public:
  ProgramMachine(std::shared_ptr<HipMachine> machine, std::shared_ptr<const AmdProgram> program)
      : machine_(std::move(machine)), program_(std::move(program)) {}

  std::string_view name() const override { return machine_->name(); }
  Vendor vendor() const override { return machine_->vendor(); }
  const native::Traits& traits() const override { return machine_->traits(); }
  Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes) override { return machine_->allocate(bytes); }
  std::shared_ptr<void> add_holder(std::function<void()> let_go) override {
    return machine_->add_holder(std::move(let_go));
  }
  Result<std::unique_ptr<native::Stream>> make_stream() override { return machine_->make_stream(); }
  Result<gpu::Launcher*> load_family(std::string_view family) override;

 private:
  std::shared_ptr<HipMachine> machine_;
  std::shared_ptr<const AmdProgram> program_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<HipLauncher>> launchers_;        // of the program's code
  std::map<std::string, gpu::Launcher*, std::less<>> loaded_;  // by family; some are the machine's
};

}  // namespace kpt
