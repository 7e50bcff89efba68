#include <cstdlib>

#include "kernels/gpu/gpu_testing.h"
#include "kernels/gpu/host_launcher.h"
#include "support/rounds.h"

namespace kpt::gpu::testing {
namespace {

class HostDevice : public TestDevice {
 public:
  HostDevice(int wave, std::uint64_t order_seed) : launcher_(wave, order_seed) {}
  Launcher& launcher() override { return launcher_; }
  void* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    return posix_memalign(&memory, 64, bytes) == 0 ? memory : nullptr;
  }
  void release(void* memory) override { std::free(memory); }
  Status synchronize() override { return {}; }

 private:
  HostLauncher launcher_;
};

}  // namespace

std::vector<std::string> device_names() {
  // Whoever reads or writes where it must not does so in any order.
  if (kpt::testing::kSanitized) return {"wave32_shuffled", "wave64_shuffled"};
  return {"wave32", "wave64", "wave32_shuffled", "wave64_shuffled"};
}

std::unique_ptr<TestDevice> open_device(const std::string& name, std::uint64_t seed, std::string* /*reason*/) {
  const int wave = name.starts_with("wave64") ? 64 : 32;
  return std::make_unique<HostDevice>(wave, name.ends_with("shuffled") ? seed : 0);
}

}  // namespace kpt::gpu::testing
