// A machine with one AMD GPU of the test libamdhip64 (tests/fakes), for tests of whole models without hardware.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/amd/amd_backend.h"
#include "backends/amd/architecture.h"
#include "backends/amd/code_object_forge.h"
#include "base/call_threads.h"
#include "kernels/gpu/launch.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt::testing {

// A code object that names the family's kernels, for the test library to find.
inline Result<std::string> forge_family(std::string_view family, std::string_view target) {
  const auto wave = static_cast<std::uint64_t>(find_amd_architecture(target)->wavefront_size);
  std::vector<std::pair<std::string, KernelFields>> kernels;
  for (const gpu::KernelInfo& info : gpu::list_kernels()) {
    if (info.family != family) continue;
    kernels.push_back({std::string(info.name),
                       {{".kernarg_segment_size", info.arg_bytes},
                        {".max_flat_workgroup_size", static_cast<std::uint64_t>(info.max_threads)},
                        {".wavefront_size", wave}}});
  }
  return make_code_object(make_metadata(kernels, fmt::format("amdgcn-amd-amdhsa--{}", target)));
}

class TestGpu {
 public:
  // `longest_call`: of HIP's.
  explicit TestGpu(std::string gfx_target, std::chrono::milliseconds longest_call = kLongestCall)
      : gfx_target_(std::move(gfx_target)), pools_(std::make_shared<DevicePools>(longest_call)) {
    order();
  }

  // What the runtime shall do from now on (tests/fakes/fake_hip.cpp); its objects stay.
  void order(const std::string& orders = "", std::size_t memory = 64U << 20U) {
    const auto path = folder_.path() / fmt::format("spec{}.json", specs_++);
    std::ofstream(path) << fmt::format(R"({{"version": 60443482, {} "devices": [{{"name": "test", "gfx": "{}",
      "memory_total": {}}}]}})",
                                       orders, gfx_target_, memory);
    ::setenv("KPT_FAKE_HIP", path.c_str(), 1);
  }

  // Backends of one TestGpu share its memory as those of a process do. `told_bytes`: how much of it detection sees.
  std::unique_ptr<Backend> make_backend(BackendContext context = BackendContext(),
                                        std::uint64_t told_bytes = 64U << 20U,
                                        KernelSource kernels = forge_family) const {
    AmdBackendParts parts;
    parts.libraries = {build_dir() + "/fakes/amd/libamdhip64.so.6"};
    parts.pools = pools_;
    parts.detect = [target = gfx_target_, told_bytes](const DetectionContext&) {
      AmdReport report;
      report.finding.presence = Presence::kPresent;
      AmdGpu gpu;
      gpu.name = "test";
      gpu.gfx_target = target;
      gpu.compute_units = 4;
      gpu.memory_total_bytes = told_bytes;
      report.gpus = {gpu};
      return report;
    };
    parts.kernels = std::move(kernels);
    context.detection.environment = Environment({});
    return make_amd_backend(context, std::move(parts));
  }

 private:
  std::string gfx_target_;
  std::shared_ptr<DevicePools> pools_;
  TemporaryFolder folder_;
  int specs_ = 0;
};

}  // namespace kpt::testing
