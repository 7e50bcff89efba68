// kpt_aten_cuda_<major>_<minor>.so: what the tree asks of libtorch on NVIDIA GPUs. Opened on top of the CPU module.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/headeronly/version.h>

#include "engines/aten/cuda/cuda_executable.h"
#include "engines/aten/cuda/nvtx_ranges.h"
#include "engines/aten/cuda/process_settings.h"
#include "engines/aten/module/device_calls.h"
#include "engines/aten/module/device_memory.h"
#include "engines/aten/module/guarded_call.h"
#include "engines/aten/module/matmul_check.h"
#include "engines/aten/module/own_nodes.h"
#include "engines/aten/module/tensors.h"
#include "engines/aten/module_abi.h"

namespace kpt::aten {

namespace {

// libtorch's check of _scaled_mm: Ada, Hopper and newer.
bool multiplies_fp8(c10::DeviceIndex device) {
  const cudaDeviceProp* properties = at::cuda::getDeviceProperties(device);
  return properties->major > 8 || (properties->major == 8 && properties->minor >= 9);
}

}  // namespace

const GpuKind kGpuKind = {"nvidia:", Vendor::kNvidia, "cuBLAS", true, multiplies_fp8};

namespace {

CallOutcome describe_device(std::int32_t index, CudaDeviceFacts* facts) noexcept {
  return guarded_call([=] {
    const cudaDeviceProp* properties = at::cuda::getDeviceProperties(require_device(index));
    *facts = {};
    copy_text(properties->name, facts->name);
    facts->capability_major = properties->major;
    facts->capability_minor = properties->minor;
    facts->multiprocessors = properties->multiProcessorCount;
    facts->memory_total_bytes = properties->totalGlobalMem;
  });
}

CallOutcome empty_cache() noexcept {
  return guarded_call([] {
    require_device(0);
    CudaExecutable::empty_cache();
  });
}

CallOutcome limit_memory(std::int32_t index, std::int32_t percent) noexcept {
  return guarded_call([=] {
    // libtorch's allocator fails where more would be needed.
    c10::cuda::CUDACachingAllocator::setMemoryFraction(percent / 100.0, require_device(index));
    remember_limit(static_cast<c10::DeviceIndex>(index), percent);
  });
}

CallOutcome self_check(std::int32_t index, std::uint64_t seed, SelfCheck* check) noexcept {
  return guarded_call([=] {
    const at::Device device(at::kCUDA, require_device(index));
    const c10::cuda::CUDAGuard current(device);
    const Tf32Work full_precision(false);
    *check = check_matmul(seed, device, {at::kFloat, at::kBFloat16});
  });
}

CallOutcome load_graph(std::int32_t index, const std::shared_ptr<const ir::Graph>* graph, const Weights* weights,
                       const CudaMemoryLimits* limits, const NvidiaPolicy* policy,
                       const std::shared_ptr<gpu::Launcher>* /*launcher*/, Status* status,
                       std::unique_ptr<Executable>* executable) noexcept {
  return memory_call(index, [=] {
    const c10::DeviceIndex device = require_device(index);
    auto loaded = attempt_with_kept_memory(
        device, [&] { return CudaExecutable::load(device, *graph, *weights, *limits, *policy); });
    *status = describe_shortage(loaded.status(), device, kAdviceForRequests);
    if (loaded.ok()) *executable = std::move(loaded).value();
  });
}

const CudaModuleTable kTable = {
    .abi = kModuleAbi,
    .built_for = {TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH},
    .border = kBorderHash,
    .has_nvtx = has_nvtx(),
    .has_own_kernels = !own_node_table().empty(),
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

extern "C" [[gnu::visibility("default")]] const kpt::aten::CudaModuleTable* kpt_aten_cuda_module() {
  return &kpt::aten::kTable;
}
