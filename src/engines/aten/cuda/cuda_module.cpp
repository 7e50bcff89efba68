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
#include "engines/aten/module/compiled_graph.h"
#include "engines/aten/module/guarded_call.h"
#include "engines/aten/module/matmul_check.h"
#include "engines/aten/module/tensors.h"
#include "engines/aten/module/warning_sink.h"
#include "engines/aten/module_abi.h"

namespace kpt::aten {
namespace {

std::uint64_t to_bytes(std::int64_t value) { return value > 0 ? static_cast<std::uint64_t>(value) : 0; }

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
  // libtorch rounds the operands of float32 convolutions to TF32 unless told not to; less precision is a level's
  // choice, not the library's.
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

CallOutcome memory_stats(std::int32_t index, CudaMemoryStats* stats) noexcept {
  return guarded_call([=] {
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const c10::DeviceIndex device = require_device(index);
    c10::cuda::CUDACachingAllocator::CUDAAllocator* allocator = c10::cuda::CUDACachingAllocator::get();
    const c10::CachingDeviceAllocator::DeviceStats all = allocator->getDeviceStats(device);
    *stats = {
        .allocated_bytes = to_bytes(all.allocated_bytes[kAll].current),
        .allocated_peak_bytes = to_bytes(all.allocated_bytes[kAll].peak),
        .reserved_bytes = to_bytes(all.reserved_bytes[kAll].current),
        .reserved_peak_bytes = to_bytes(all.reserved_bytes[kAll].peak),
        .free_bytes = allocator->getMemoryInfo(device).first,
        .out_of_memory_count = to_bytes(all.num_ooms),
    };
  });
}

CallOutcome self_check(std::int32_t index, std::uint64_t seed, SelfCheck* check) noexcept {
  return guarded_call([=] {
    const at::Device device(at::kCUDA, require_device(index));
    const c10::cuda::CUDAGuard current(device);
    *check = check_matmul(seed, device, {at::kFloat, at::kBFloat16});
  });
}

CallOutcome check_graph(const ir::Graph* graph, std::vector<Support>* answers) noexcept {
  return guarded_call([=] { *answers = CompiledGraph::check(*graph, at::Device(at::kCUDA, 0)); });
}

CallOutcome load_graph(std::int32_t index, const std::shared_ptr<const ir::Graph>* graph, const Weights* weights,
                       std::uint64_t graph_bytes, Status* status, std::unique_ptr<Executable>* executable) noexcept {
  return guarded_call([=] {
    auto loaded = CudaExecutable::load(require_device(index), *graph, *weights, graph_bytes);
    *status = loaded.status();
    if (loaded.ok()) *executable = std::move(loaded).value();
  });
}

CallOutcome set_warning_sink(void (*sink)(const char* text)) noexcept {
  return guarded_call([=] { WarningSink::instance().set(sink); });
}

CallOutcome allocate(std::int32_t index, DType dtype, const Dims* dims, Tensor* tensor) noexcept {
  return guarded_call([=] {
    const c10::InferenceMode inference;
    const at::Device device(at::kCUDA, require_device(index));
    replace_tensor(at::empty({dims->data(), dims->size()}, at::TensorOptions(device).dtype(to_scalar_type(dtype))),
                   *tensor);
  });
}

CallOutcome upload(std::int32_t index, const Tensor* host, Tensor* tensor) noexcept {
  return guarded_call([=] {
    const c10::InferenceMode inference;
    const at::Device device(at::kCUDA, require_device(index));
    replace_tensor(to_aten(*host).to(device, /*non_blocking=*/false, /*copy=*/true), *tensor);
    at::cuda::getCurrentCUDAStream(device.index()).synchronize();  // runs use streams of their own
  });
}

CallOutcome download(const Tensor* tensor, Tensor* host) noexcept {
  return guarded_call([=] {
    const c10::InferenceMode inference;
    replace_tensor(to_aten(*tensor).to(at::kCPU, /*non_blocking=*/false, /*copy=*/true), *host);
  });
}

constexpr CudaModuleTable kTable = {
    .abi = kModuleAbi,
    .built_for = {TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH},
    .border = kBorderHash,
    .device_count = device_count,
    .describe_device = describe_device,
    .memory_stats = memory_stats,
    .self_check = self_check,
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
