// The devices of this machine, and whether each can be used.
//
// Names: "cpu", "nvidia:0", "amd:0", "tpu:0", "xla:<plugin>". Vendor libraries are asked in a child process with a time
// limit (option probe.timeout_ms), so a broken driver cannot take the caller down. Functions here may take as long as
// that limit for each vendor; they are thread safe and keep nothing between calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kpt/export.h"
#include "kpt/status.h"

namespace kpt {

struct DeviceInfo {
  std::string name;          // "nvidia:0"
  std::string description;   // "NVIDIA H200"
  std::string architecture;  // "sm_90 Hopper", "gfx942 CDNA3", "v5e", "aarch64"
  std::uint64_t memory_bytes = 0;
  bool usable = false;  // models can run on it, as far as can be told without opening its libraries in this process
  std::string reason;   // why it is not usable, and what mends it; empty when it is
};

// Everything found, "cpu" first. Hardware that is there but cannot be used is listed with its reason. The user's
// configuration file and KPT_ variables apply (probe.timeout_ms, probe.backends, pjrt.plugins, torch.dir); fails with
// kConfiguration when they are wrong.
KPT_API Result<std::vector<DeviceInfo>> list_devices();

// The device of that name. Fails with kInvalidArgument for a name of no valid form, kInvalidArchitecture for an NVIDIA
// GPU that libtorch has no code for and for TPUs that are not tpu.topology's, else the vendor's kDeviceNotAvailable.
KPT_API Result<DeviceInfo> find_device(std::string_view name);

// For callers who accept no other device: throws CudaNotAvailableError, NvidiaInvalidComputeCapabilityError,
// RocmNotAvailableError, TpuNotAvailableError, DeviceNotAvailableError or InvalidArgumentError.
KPT_API DeviceInfo require_device(std::string_view name);

}  // namespace kpt
