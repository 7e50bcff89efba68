#include "engines/aten/rocm/rocm_launch.h"

#include <utility>

#include "engines/aten/module/gpu_launch.h"
#include "engines/aten/module/own_nodes.h"

namespace kpt::aten {
namespace {

thread_local gpu::Launcher* current_launcher = nullptr;
thread_local void* current_stream = nullptr;

gpu::Launcher& launcher() {
  OwnCall::require(current_launcher != nullptr, "the model was loaded without kernels of ours");
  return *current_launcher;
}

}  // namespace

LauncherScope::LauncherScope(gpu::Launcher* launcher, void* stream)
    : launcher_(std::exchange(current_launcher, launcher)), stream_(std::exchange(current_stream, stream)) {}

LauncherScope::~LauncherScope() {
  current_launcher = launcher_;
  current_stream = stream_;
}

gpu::DeviceShape device_shape() { return launcher().shape(); }

void launch(const Result<gpu::Plan>& plan) {
  const Status status = gpu::run_plan(launcher(), plan, current_stream);
  if (!status.ok()) throw OwnNodeFailure(status.message());
}

}  // namespace kpt::aten
