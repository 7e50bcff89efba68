// The border between the tree and the modules compiled with libtorch headers (kpt_aten_<major>_<minor>.so,
// kpt_aten_cuda_<major>_<minor>.so and kpt_aten_rocm_<major>_<minor>.so): plain data and C functions, so that both
// sides agree whatever libtorch is.
//
// Graphs, weights and executables are this tree's own C++ types, compiled into both sides; `border` notices a module of
// another build.
//
// Each module exports one function that returns its table. `abi` and `built_for` are its first fields for ever; a
// reader checks both before it touches the rest. Any change of what follows raises kModuleAbi.
//
// No function throws: what libtorch throws comes back as a code and one line of text. All may be called from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "border_hash.h"
#include "device/activity.h"
#include "device/execution.h"
#include "device/memory_statistics.h"
#include "device/nvidia_policy.h"
#include "ir/graph.h"
#include "kernels/gpu/launch.h"

namespace kpt::aten {

inline constexpr std::uint32_t kModuleAbi = 10;
inline constexpr char kModuleEntry[] = "kpt_aten_module";
inline constexpr char kCudaModuleEntry[] = "kpt_aten_cuda_module";
inline constexpr char kRocmModuleEntry[] = "kpt_aten_rocm_module";

// kOutOfMemory: of the device at hand; kOutOfHostMemory: of the host, whatever the device.
enum class CallCode : std::int32_t { kOk, kFailed, kOutOfMemory, kNoDevice, kInvalidArgument, kOutOfHostMemory };

struct CallOutcome {
  CallCode code;
  char text[1020];  // one line, zero-terminated; empty when ok
};

struct TorchVersion {
  std::int32_t major;
  std::int32_t minor;
  std::int32_t patch;
  bool operator==(const TorchVersion&) const = default;
};

// What the loaded libtorch says about itself. All text is zero-terminated and cut to fit.
struct BuildFacts {
  std::int32_t threads;      // inside one operator
  char cpu_capability[32];   // the vector code it chose: "AVX512", "SVE256", "DEFAULT"
  char blas[32];             // "mkl", "nvpl", "open"; empty when it does not say
  char configuration[8192];  // its build settings, several lines
  char parallel[4096];       // its threading settings, several lines
};

// The error of one product, |computed - exact| / (|A| |B|), the greatest over all elements. Seen this way rounding
// alone gives at most about inner * unit roundoff, whatever the order of summation.
struct MatmulError {
  char dtype[16];         // "float32"
  double relative_error;  // NaN when the product has one
  double tolerance;       // passed: relative_error <= tolerance
};

struct SelfCheck {
  std::uint64_t seed;
  std::int32_t rows;  // the shapes follow from the seed too
  std::int32_t inner;
  std::int32_t columns;
  std::int32_t count;  // of `errors`
  MatmulError errors[4];
};

struct ModuleTable {
  std::uint32_t abi;       // kModuleAbi
  TorchVersion built_for;  // of the headers
  std::uint64_t border;    // kBorderHash: of the headers whose types cross

  // Of the libtorch that the process has loaded.
  CallOutcome (*runtime_version)(TorchVersion* version) noexcept;
  CallOutcome (*build_facts)(BuildFacts* facts) noexcept;
  // Multiplies random matrices through the dispatcher on the CPU and compares with an fp64 product.
  CallOutcome (*self_check)(std::uint64_t seed, SelfCheck* check) noexcept;

  // Whether each node of a graph can run, in the order of the nodes.
  CallOutcome (*check_graph)(const ir::Graph* graph, std::vector<Support>* answers) noexcept;
  // Ties a graph to its weights. What goes wrong with the graph or the weights is in `status`, what libtorch throws in
  // the outcome.
  CallOutcome (*load_graph)(const std::shared_ptr<const ir::Graph>* graph, const Weights* weights, Status* status,
                            std::unique_ptr<Executable>* executable) noexcept;
  // Threads inside one operator and between operators, for the whole process: for every thread that runs graphs. The
  // second can be set once, before the first work of that kind; where the program was earlier, what holds comes back.
  CallOutcome (*set_threads)(std::int32_t threads, std::int32_t* interop_threads) noexcept;
  // Who hears what libtorch warns of during runs, in place of the standard error stream. `sink` may be called from any
  // thread.
  CallOutcome (*set_warning_sink)(void (*sink)(const char* text)) noexcept;
  // Words of the option cpu.isa: what kernels of ours leave alone in graphs that are loaded from now on.
  CallOutcome (*hide_instructions)(const std::vector<std::string>* words) noexcept;
  // Runs `work` on this thread and tells what libtorch, and with `with_gpus` the GPUs, did meanwhile.
  CallOutcome (*record)(const std::function<void()>* work, bool with_gpus, std::vector<Activity>* activities) noexcept;
};

// kpt_aten_rocm knows the memory alone: the rest is empty and 0.
struct CudaDeviceFacts {
  char name[256];
  std::int32_t capability_major;
  std::int32_t capability_minor;
  std::int32_t multiprocessors;
  std::uint64_t memory_total_bytes;
};

// What one graph on a device may take.
struct CudaMemoryLimits {
  // Captured runs keep at most this; 0 means an eighth of the device's memory. kpt_aten_rocm captures none.
  std::uint64_t graph_bytes;
  std::uint64_t margin_bytes;  // a run leaves this much by estimate, or is refused
};

// Of kpt_aten_cuda and kpt_aten_rocm. An index outside the devices, or no device at all, is kNoDevice.
struct CudaModuleTable {
  std::uint32_t abi;
  TorchVersion built_for;
  std::uint64_t border;
  bool has_nvtx;         // NVTX's headers were there when it was compiled
  bool has_own_kernels;  // kernels of ours: false for CUDA where no nvcc was

  CallOutcome (*device_count)(std::int32_t* count) noexcept;
  CallOutcome (*describe_device)(std::int32_t index, CudaDeviceFacts* facts) noexcept;
  // Of libtorch's allocator for this process, and of the driver.
  CallOutcome (*memory_statistics)(std::int32_t index, MemoryStatistics* statistics) noexcept;
  CallOutcome (*reset_peak_memory)(std::int32_t index) noexcept;
  // Gives what the allocator keeps for later back to the driver, on all devices.
  CallOutcome (*empty_cache)() noexcept;
  // float32 and bfloat16 products on the device against an fp64 product on the CPU.
  CallOutcome (*self_check)(std::int32_t index, std::uint64_t seed, SelfCheck* check) noexcept;

  // What tensors of this process may take of the device's memory, in per cent.
  CallOutcome (*limit_memory)(std::int32_t index, std::int32_t percent) noexcept;

  // As in ModuleTable, for graphs on a device. check_graph needs no device.
  CallOutcome (*check_graph)(const ir::Graph* graph, std::vector<Support>* answers) noexcept;
  // `launcher` starts kernels of ours for kpt_aten_rocm on its stream, for all families that the graph's nodes may
  // launch; null for graphs that need none. kpt_aten_cuda has launchers of its own.
  CallOutcome (*load_graph)(std::int32_t index, const std::shared_ptr<const ir::Graph>* graph, const Weights* weights,
                            const CudaMemoryLimits* limits, const NvidiaPolicy* policy,
                            const std::shared_ptr<gpu::Launcher>* launcher, Status* status,
                            std::unique_ptr<Executable>* executable) noexcept;
  CallOutcome (*set_warning_sink)(void (*sink)(const char* text)) noexcept;
  // Memory of a device. Uploads return when the host's memory may change again, downloads when the copy is complete.
  CallOutcome (*allocate)(std::int32_t index, DType dtype, const Dims* dims, Tensor* tensor) noexcept;
  CallOutcome (*upload)(std::int32_t index, const Tensor* host, Tensor* tensor) noexcept;
  CallOutcome (*download)(const Tensor* tensor, Tensor* host) noexcept;
  // As Device::begin_upload(), begin_download() and begin_copy(): the last from any device of this table.
  CallOutcome (*begin_upload)(std::int32_t index, const Tensor* host, Tensor* tensor, Event* event) noexcept;
  CallOutcome (*begin_download)(const Tensor* tensor, Tensor* host, Event* event) noexcept;
  CallOutcome (*begin_copy)(std::int32_t index, const Tensor* from, Tensor* tensor, Event* event) noexcept;
};

using ModuleEntry = const ModuleTable* (*)();
using CudaModuleEntry = const CudaModuleTable* (*)();

}  // namespace kpt::aten
