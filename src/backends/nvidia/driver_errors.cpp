#include "backends/nvidia/driver_errors.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

namespace kpt {
namespace {

struct ErrorMeaning {
  int code;
  std::string_view meaning;
  std::string_view remedy;
};

constexpr std::array kMeanings = {
    ErrorMeaning{3, "the driver is not initialised", "load the kernel modules: sudo modprobe nvidia nvidia_uvm"},
    ErrorMeaning{34, "the library found is the CUDA toolkit's stub, which has no driver in it",
                 "take the toolkit's 'stubs' folder out of LD_LIBRARY_PATH"},
    ErrorMeaning{46, "the GPU is used exclusively by another process or prohibited",
                 "end the other process or allow sharing: sudo nvidia-smi -c DEFAULT"},
    ErrorMeaning{kCudaErrorNoDevice, kNoGpuShown,
                 "check 'nvidia-smi -L'; in a container, start it with access to the GPUs (docker run --gpus all)"},
    ErrorMeaning{102, "the GPU has no licence for compute", "check the vGPU licence: nvidia-smi -q | grep -i license"},
    ErrorMeaning{304, "an operating system call of the driver was refused",
                 "check that this user may open /dev/nvidia* and that nvidia_uvm is loaded: sudo modprobe nvidia_uvm"},
    ErrorMeaning{800, "this process is not permitted to use the GPU",
                 "check the permissions of /dev/nvidia* and the container's device rules"},
    ErrorMeaning{802, "the GPU's fabric is not ready",
                 "start the fabric service: sudo systemctl start nvidia-fabricmanager"},
    ErrorMeaning{803, "libcuda.so.1 and the loaded kernel module are of different driver versions",
                 "reboot, so that the installed kernel module is loaded; in a container, use the host's libcuda.so.1"},
    ErrorMeaning{804, "the forward-compatibility libcuda.so.1 does not serve this GPU",
                 "take the cuda-compat folder out of LD_LIBRARY_PATH and use the driver's own libcuda.so.1"},
    ErrorMeaning{999, "the driver failed without saying why", "load the module it needs: sudo modprobe nvidia_uvm"},
};

}  // namespace

Finding explain_cuda_error(int code, const std::string& call, const std::string& name) {
  const auto* row = std::ranges::find(kMeanings, code, &ErrorMeaning::code);
  const std::string origin =
      name.empty() ? fmt::format("{} returned {}", call, code) : fmt::format("{} returned {} ({})", call, name, code);
  if (row == kMeanings.end()) {
    return {Presence::kBroken, fmt::format("the NVIDIA driver failed: {}", origin),
            "check that 'nvidia-smi' works; if not, reinstall the NVIDIA driver and reboot"};
  }
  return {Presence::kBroken, fmt::format("{}: {}", row->meaning, origin), std::string(row->remedy)};
}

}  // namespace kpt
