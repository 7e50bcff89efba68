// kpt_aten_cuda_<major>_<minor>.so: what the tree asks of libtorch on NVIDIA GPUs. Opened on top of the CPU module.
#include <mutex>

#include <ATen/Functions.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/headeronly/version.h>

#include "engines/aten/cuda/cuda_executable.h"
#include "engines/aten/cuda/cuda_memory.h"
#include "engines/aten/cuda/nvtx_ranges.h"
#include "engines/aten/cuda/tf32.h"
#include "engines/aten/module/compiled_graph.h"
#include "engines/aten/module/guarded_call.h"
#include "engines/aten/module/matmul_check.h"
#include "engines/aten/module/tensors.h"
#include "engines/aten/module/warning_sink.h"
#include "engines/aten/module_abi.h"

namespace kpt::aten {
namespace {

// libtorch looks for its CUDA part once, at the first call that might concern it (even reading its settings), and keeps
// the answer. A CUDA library that came later can count devices but never use one.
void require_connected() {
  if (!at::detail::getCUDAHooks().hasCUDART()) {
    throw CallFailure(CallCode::kFailed, "libtorch was used before its CUDA part was opened, and now ignores it");
  }
}

// libtorch's index type is a signed char; it is a number here and not a character.
std::int32_t count_devices() { return int{c10::cuda::device_count()}; }

// Also initializes libtorch's CUDA state, which allocator and generator need. Never throws for "no driver".
c10::DeviceIndex require_device(std::int32_t index) {
  require_connected();
  if (index < 0 || index >= count_devices()) {
    throw CallFailure(CallCode::kNoDevice, "libtorch sees no CUDA device of that index");
  }
  at::globalContext().lazyInitDevice(at::kCUDA);
  // libtorch rounds the operands of float32 convolutions to TF32 unless told not to; less precision is a level's choice
  // or the option nvidia.tf32, not the library's.
  static std::once_flag once;
  std::call_once(once, [] {
    at::globalContext().setAllowTF32CuDNN(false);
    // cuDNN's attention gives a row that a mask of truth values lets look nowhere a value (seen with 2.11); the others
    // give zero.
    at::globalContext().setSDPUseCuDNN(false);
  });
  return static_cast<c10::DeviceIndex>(index);
}

CallOutcome device_count(std::int32_t* count) noexcept {
  return guarded_call([count] {
    require_connected();
    *count = count_devices();
  });
}

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

CallOutcome memory_statistics(std::int32_t index, MemoryStatistics* statistics) noexcept {
  return guarded_call([=] { *statistics = read_memory(require_device(index)); });
}

CallOutcome reset_peak_memory(std::int32_t index) noexcept {
  return guarded_call([=] { c10::cuda::CUDACachingAllocator::resetPeakStats(require_device(index)); });
}

CallOutcome empty_cache() noexcept {
  return guarded_call([] {
    require_device(0);
    CudaExecutable::empty_cache();
  });
}

CallOutcome limit_memory(std::int32_t index, std::int32_t percent) noexcept {
  return guarded_call([=] { aten::limit_memory(require_device(index), percent); });
}

CallOutcome self_check(std::int32_t index, std::uint64_t seed, SelfCheck* check) noexcept {
  return guarded_call([=] {
    const at::Device device(at::kCUDA, require_device(index));
    const c10::cuda::CUDAGuard current(device);
    const Tf32Work full_precision(false);
    *check = check_matmul(seed, device, {at::kFloat, at::kBFloat16});
  });
}

CallOutcome check_graph(const ir::Graph* graph, std::vector<Support>* answers) noexcept {
  return guarded_call([=] { *answers = CompiledGraph::check(*graph, at::Device(at::kCUDA, 0)); });
}

CallOutcome load_graph(std::int32_t index, const std::shared_ptr<const ir::Graph>* graph, const Weights* weights,
                       const CudaMemoryLimits* limits, const NvidiaPolicy* policy, Status* status,
                       std::unique_ptr<Executable>* executable) noexcept {
  return guarded_call([=] {
    auto loaded = CudaExecutable::load(require_device(index), *graph, *weights, *limits, *policy);
    *status = loaded.status();
    if (loaded.ok()) *executable = std::move(loaded).value();
  });
}

CallOutcome set_warning_sink(void (*sink)(const char* text)) noexcept {
  return guarded_call([=] { WarningSink::instance().set(sink); });
}

// A request of a caller that failed counts, whoever made it.
CallOutcome counted(std::int32_t index, const CallOutcome& outcome) noexcept {
  if (outcome.code == CallCode::kOutOfMemory) count_out_of_memory(static_cast<c10::DeviceIndex>(index));
  return outcome;
}

CallOutcome allocate(std::int32_t index, DType dtype, const Dims* dims, Tensor* tensor) noexcept {
  const CallOutcome outcome = guarded_call([=] {
    const c10::InferenceMode inference;
    const at::Device device(at::kCUDA, require_device(index));
    replace_tensor(at::empty({dims->data(), dims->size()}, at::TensorOptions(device).dtype(to_scalar_type(dtype))),
                   *tensor);
  });
  return counted(index, outcome);
}

CallOutcome upload(std::int32_t index, const Tensor* host, Tensor* tensor) noexcept {
  const CallOutcome outcome = guarded_call([=] {
    const c10::InferenceMode inference;
    const at::Device device(at::kCUDA, require_device(index));
    replace_tensor(to_aten(*host).to(device, /*non_blocking=*/false, /*copy=*/true), *tensor);
    at::cuda::getCurrentCUDAStream(device.index()).synchronize();  // runs use streams of their own
  });
  return counted(index, outcome);
}

CallOutcome download(const Tensor* tensor, Tensor* host) noexcept {
  return guarded_call([=] {
    const c10::InferenceMode inference;
    replace_tensor(to_aten(*tensor).to(at::kCPU, /*non_blocking=*/false, /*copy=*/true), *host);
  });
}

const CudaModuleTable kTable = {
    .abi = kModuleAbi,
    .built_for = {TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH},
    .border = kBorderHash,
    .has_nvtx = has_nvtx(),
    .device_count = device_count,
    .describe_device = describe_device,
    .memory_statistics = memory_statistics,
    .reset_peak_memory = reset_peak_memory,
    .empty_cache = empty_cache,
    .self_check = self_check,
    .limit_memory = limit_memory,
    .check_graph = check_graph,
    .load_graph = load_graph,
    .set_warning_sink = set_warning_sink,
    .allocate = allocate,
    .upload = upload,
    .download = download,
};

}  // namespace
}  // namespace kpt::aten

extern "C" [[gnu::visibility("default")]] const kpt::aten::CudaModuleTable* kpt_aten_cuda_module() {
  return &kpt::aten::kTable;
}
