// kpt_aten_rocm_<major>_<minor>.so: what the tree asks of libtorch on AMD GPUs. Opened on top of the CPU module.
#include <c10/core/DeviceGuard.h>
#include <torch/headeronly/version.h>

#include "engines/aten/module/device_calls.h"
#include "engines/aten/module/device_memory.h"
#include "engines/aten/module/guarded_call.h"
#include "engines/aten/module/matmul_check.h"
#include "engines/aten/module/tensors.h"
#include "engines/aten/module_abi.h"
#include "engines/aten/rocm/rocm_executable.h"

namespace kpt::aten {

const GpuKind kGpuKind = {"amd:", Vendor::kAmd, "hipBLAS", false, nullptr};

namespace {

CallOutcome describe_device(std::int32_t index, CudaDeviceFacts* facts) noexcept {
  return guarded_call([=] {
    *facts = {};
    facts->memory_total_bytes = read_memory(require_device(index)).total_bytes.value_or(0);
  });
}

CallOutcome empty_cache() noexcept {
  return guarded_call([] {
    require_device(0);
    empty_device_cache();
  });
}

// libtorch's interface without a vendor cannot bound its allocator: runs beyond the limit are refused by estimate.
CallOutcome limit_memory(std::int32_t index, std::int32_t percent) noexcept {
  return guarded_call([=] { remember_limit(require_device(index), percent); });
}

CallOutcome self_check(std::int32_t index, std::uint64_t seed, SelfCheck* check) noexcept {
  return guarded_call([=] {
    const at::Device device(at::kCUDA, require_device(index));
    const c10::DeviceGuard current(device);
    *check = check_matmul(seed, device, {at::kFloat, at::kBFloat16});
  });
}

CallOutcome load_graph(std::int32_t index, const std::shared_ptr<const ir::Graph>* graph, const Weights* weights,
                       const CudaMemoryLimits* limits, const NvidiaPolicy* /*policy*/,
                       const std::shared_ptr<gpu::Launcher>* launcher, Status* status,
                       std::unique_ptr<Executable>* executable) noexcept {
  return memory_call(index, [=] {
    auto loaded = RocmExecutable::load(require_device(index), *graph, *weights, limits->margin_bytes, *launcher);
    *status = describe_shortage(loaded.status(), static_cast<c10::DeviceIndex>(index), kAdviceForRequests);
    if (loaded.ok()) *executable = std::move(loaded).value();
  });
}

const CudaModuleTable kTable = {
    .abi = kModuleAbi,
    .built_for = {TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH},
    .border = kBorderHash,
    .has_nvtx = false,
    .has_own_kernels = true,
    .device_count = calls::device_count,
    .describe_device = describe_device,
    .memory_statistics = calls::memory_statistics,
    .reset_peak_memory = calls::reset_peak_memory,
    .empty_cache = empty_cache,
    .self_check = self_check,
    .limit_memory = limit_memory,
    .check_graph = calls::check_graph,
    .load_graph = load_graph,
    .set_warning_sink = calls::set_warning_sink,
    .allocate = calls::allocate,
    .upload = calls::upload,
    .download = calls::download,
    .begin_upload = calls::begin_upload,
    .begin_download = calls::begin_download,
    .begin_copy = calls::begin_copy,
};

}  // namespace
}  // namespace kpt::aten

extern "C" [[gnu::visibility("default")]] const kpt::aten::CudaModuleTable* kpt_aten_rocm_module() {
  return &kpt::aten::kTable;
}
