// Runs kernels on the host, lane by lane: for tests, and for a HIP runtime without hardware. Slow and exact: what a
// kernel does here is what its source says.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/gpu/host_block.h"
#include "kernels/gpu/launch.h"

namespace kpt::gpu {

// A launch has ended when launch() returns. Not for several threads at once.
class HostLauncher : public Launcher {
 public:
  // `wave`: 32 or 64. `order_seed`: see HostBlock.
  explicit HostLauncher(int wave, std::uint64_t order_seed = 0, int multiprocessors = 4);

  DeviceShape shape() const override { return shape_; }
  Status launch(const Launch& launch, void* stream) override;

 private:
  DeviceShape shape_;
  HostBlock block_;
};

}  // namespace kpt::gpu
