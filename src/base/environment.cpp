#include "base/environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "kpt/errors.h"

namespace kpt {
namespace {

constexpr std::array kTable = {
    EnvironmentVariable{"CONDA_PREFIX", "system", "active conda environment; searched for libtorch and PJRT plugins"},
    EnvironmentVariable{"CUDA_HOME", "nvidia", "CUDA toolkit; searched for nvcc"},
    EnvironmentVariable{"CUDA_VISIBLE_DEVICES", "nvidia", "GPUs that the driver shows to this process"},
    EnvironmentVariable{"HIP_VISIBLE_DEVICES", "amd", "GPUs that the HIP runtime shows to this process"},
    EnvironmentVariable{"HOME", "system", "home of the default cache and configuration folders"},
    EnvironmentVariable{"KPT_AMD_ARCHITECTURE", "kpt", "option amd.architecture"},
    EnvironmentVariable{"KPT_AMD_COMPILE_OPTIONS", "kpt", "option amd.compile_options"},
    EnvironmentVariable{"KPT_AMD_ENGINE", "kpt", "option amd.engine"},
    EnvironmentVariable{"KPT_AMD_MATRIX_CORES", "kpt", "option amd.matrix_cores"},
    EnvironmentVariable{"KPT_AMD_MEMORY_KEPT_BYTES", "kpt", "option amd.memory_kept_bytes"},
    EnvironmentVariable{"KPT_AMD_MEMORY_MARGIN_BYTES", "kpt", "option amd.memory_margin_bytes"},
    EnvironmentVariable{"KPT_AMD_MEMORY_PERCENT", "kpt", "option amd.memory_percent"},
    EnvironmentVariable{"KPT_CACHE_BUDGET_BYTES", "kpt", "option cache.budget_bytes"},
    EnvironmentVariable{"KPT_CACHE_DIR", "kpt", "option cache.dir"},
    EnvironmentVariable{"KPT_COLOR", "kpt", "option cli.color"},
    EnvironmentVariable{"KPT_CONFIG", "kpt", "configuration file to read instead of the default one"},
    EnvironmentVariable{"KPT_CPU_ISA", "kpt", "option cpu.isa"},
    EnvironmentVariable{
        "KPT_HELPER_DIR", "kpt",
        "folder of the helper programs (kpt-probe, kpt-pjrt-compile, kpt-tpu-compile), when they were moved"},
    EnvironmentVariable{"KPT_LOG", "kpt", "option log.level"},
    EnvironmentVariable{"KPT_LOG_FORMAT", "kpt", "option log.format"},
    EnvironmentVariable{"KPT_MEMORY_BATCH_BUCKETS", "kpt", "option memory.batch_buckets"},
    EnvironmentVariable{"KPT_MEMORY_SEQUENCE_BUCKETS", "kpt", "option memory.sequence_buckets"},
    EnvironmentVariable{"KPT_MEMORY_SPLIT_BATCHES", "kpt", "option memory.split_batches"},
    EnvironmentVariable{"KPT_MODULE_DIR", "kpt", "folder of the engine modules (kpt_aten), when they were moved"},
    EnvironmentVariable{"KPT_NVIDIA_FP8_ACTIVATIONS", "kpt", "option nvidia.fp8_activations"},
    EnvironmentVariable{"KPT_NVIDIA_FP8_HISTORY", "kpt", "option nvidia.fp8_history"},
    EnvironmentVariable{"KPT_NVIDIA_FP8_SCALING", "kpt", "option nvidia.fp8_scaling"},
    EnvironmentVariable{"KPT_NVIDIA_GRAPH_MEMORY_BYTES", "kpt", "option nvidia.graph_memory_bytes"},
    EnvironmentVariable{"KPT_NVIDIA_MEMORY_MARGIN_BYTES", "kpt", "option nvidia.memory_margin_bytes"},
    EnvironmentVariable{"KPT_NVIDIA_MEMORY_PERCENT", "kpt", "option nvidia.memory_percent"},
    EnvironmentVariable{"KPT_NVIDIA_NVTX", "kpt", "option nvidia.nvtx"},
    EnvironmentVariable{"KPT_NVIDIA_TF32", "kpt", "option nvidia.tf32"},
    EnvironmentVariable{"KPT_NVIDIA_TUNE", "kpt", "option nvidia.tune"},
    EnvironmentVariable{"KPT_PJRT_COMPILE_TIMEOUT_MS", "kpt", "option pjrt.compile_timeout_ms"},
    EnvironmentVariable{"KPT_PJRT_DEVICES", "kpt", "option pjrt.devices"},
    EnvironmentVariable{"KPT_PJRT_PLUGINS", "kpt", "option pjrt.plugins"},
    EnvironmentVariable{"KPT_PJRT_SHARDING", "kpt", "option pjrt.sharding"},
    EnvironmentVariable{"KPT_PLACEMENT_SPLIT", "kpt", "option placement.split"},
    EnvironmentVariable{"KPT_PRESET", "kpt", "preset to start from: inference, training or development"},
    EnvironmentVariable{"KPT_PROBE_BACKENDS", "kpt", "option probe.backends"},
    EnvironmentVariable{"KPT_PROBE_TIMEOUT_MS", "kpt", "option probe.timeout_ms"},
    EnvironmentVariable{"KPT_STRICT", "kpt", "option strict"},
    EnvironmentVariable{"KPT_SYSTEM_ROOT", "kpt",
                        "read /proc, /sys, /dev and /opt below this folder (recorded machines, tests)"},
    EnvironmentVariable{"KPT_THREADS", "kpt", "option threads.count"},
    EnvironmentVariable{"KPT_TORCH_DIR", "kpt", "option torch.dir"},
    EnvironmentVariable{"KPT_TPU_COMPILE_MEMORY_BYTES", "kpt", "option tpu.compile_memory_bytes"},
    EnvironmentVariable{"KPT_TPU_COMPILE_TIMEOUT_MS", "kpt", "option tpu.compile_timeout_ms"},
    EnvironmentVariable{"KPT_TPU_MEMORY_PERCENT", "kpt", "option tpu.memory_percent"},
    EnvironmentVariable{"KPT_TPU_PRECISION", "kpt", "option tpu.precision"},
    EnvironmentVariable{"KPT_TPU_PRICES", "kpt", "option tpu.prices"},
    EnvironmentVariable{"KPT_TPU_TOPOLOGY", "kpt", "option tpu.topology"},
    EnvironmentVariable{"LIBTPU_INIT_ARGS", "tpu", "libtpu's own options; part of a compiled program's cache key"},
    EnvironmentVariable{"NO_COLOR", "system", "plain output without colours"},
    EnvironmentVariable{"NVPL_BLAS_DEBUG_CPU_TYPE", "nvidia",
                        "kernels of the BLAS in libtorch's aarch64 wheels; 1 (plain ones) on processors without SVE "
                        "unless set"},
    EnvironmentVariable{"OMP_NUM_THREADS", "system", "upper limit for our thread pool as for OpenMP"},
    EnvironmentVariable{"PATH", "system", "searched for compilers and the emulator of x86_64"},
    EnvironmentVariable{"PJRT_NAMES_AND_LIBRARY_PATHS", "pjrt", "PJRT plugins as name:path,name:path"},
    EnvironmentVariable{"ROCM_PATH", "amd", "ROCm installation; searched for compilers and the version file"},
    EnvironmentVariable{"ROCR_VISIBLE_DEVICES", "amd", "GPUs that the ROCm runtime shows to this process"},
    EnvironmentVariable{"TF_CPP_MIN_LOG_LEVEL", "pjrt", "least severe message that XLA prints; 1 unless set: warnings"},
    EnvironmentVariable{"TPU_ACCELERATOR_TYPE", "tpu", "slice of a TPU VM, e.g. v5litepod-8"},
    EnvironmentVariable{"TPU_CHIPS_PER_HOST_BOUNDS", "tpu", "chips of this host as x,y,z"},
    EnvironmentVariable{"TPU_HOST_BOUNDS", "tpu", "hosts of the slice as x,y,z"},
    EnvironmentVariable{"TPU_LIBRARY_PATH", "tpu", "path of libtpu.so"},
    EnvironmentVariable{"TPU_SKIP_MDS_QUERY", "tpu", "passed on to libtpu; we never ask the metadata server"},
    EnvironmentVariable{"TPU_TOPOLOGY", "tpu", "topology of the slice, e.g. 2x2"},
    EnvironmentVariable{"TPU_VISIBLE_CHIPS", "tpu", "chips that libtpu shows to this process"},
    EnvironmentVariable{"VIRTUAL_ENV", "system", "active Python environment; searched for libtorch and PJRT plugins"},
    EnvironmentVariable{"XDG_CACHE_HOME", "system", "parent of the default cache folder"},
    EnvironmentVariable{"XDG_CONFIG_HOME", "system", "parent of the default configuration folder"},
    EnvironmentVariable{
        "XLA_FLAGS", "pjrt",
        "XLA's own options; we add one on processors where the CPU plugin's compiler would end the process"},
};

// Read by `make`, the lint and the tests of the source tree (KPT_FAKE_: by stand-ins for vendor libraries), never by
// our programs.
constexpr std::array<std::string_view, 10> kOfTheTree = {
    "KPT_AMD_TARGETS", "KPT_FUZZ_CORPUS", "KPT_FUZZ_CORPUS_KB", "KPT_FUZZ_SECONDS",  "KPT_LINT_DEEP",
    "KPT_LINT_FIX",    "KPT_LINT_SHARE",  "KPT_PYTHON",         "KPT_TORCH_VERSION", "KPT_TRACE_EXPORT"};

bool in_table(std::string_view name) {
  return std::ranges::any_of(kTable, [name](const EnvironmentVariable& row) { return row.name == name; });
}

bool is_unknown(std::string_view name) {
  return name.starts_with("KPT_") && !name.starts_with("KPT_FAKE_") && !in_table(name) &&
         std::ranges::find(kOfTheTree, name) == kOfTheTree.end();
}

}  // namespace

std::span<const EnvironmentVariable> environment_table() { return kTable; }

Environment Environment::from_process() {
  Environment environment;
  for (const EnvironmentVariable& row : kTable) {
    // The snapshot is taken at the start of a program, before it has threads that could call setenv.
    const char* value = std::getenv(std::string(row.name).c_str());  // NOLINT(concurrency-mt-unsafe)
    if (value != nullptr) environment.values_.emplace(row.name, value);
  }
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (name.size() + 1 < text.size() && is_unknown(name)) environment.unknown_names_.emplace_back(name);
  }
  std::ranges::sort(environment.unknown_names_);
  return environment;
}

Environment Environment::from_map(std::map<std::string, std::string, std::less<>> values) {
  Environment environment;
  environment.values_ = std::move(values);
  for (const auto& [name, value] : environment.values_) {
    if (!value.empty() && is_unknown(name)) environment.unknown_names_.push_back(name);
  }
  return environment;
}

std::optional<std::string> Environment::find(std::string_view name) const {
  if (!in_table(name)) {
    throw InternalError(
        Status(StatusCode::kInternal, "environment variable missing from the table: " + std::string(name)));
  }
  const auto found = values_.find(name);
  if (found == values_.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

}  // namespace kpt
