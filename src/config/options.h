// The option table: every setting of KernelPyTorch, declared once.
//
// From the rows below come parsing, the environment names, `kpt config show|check|docs` and docs/reference/options.md.
// An option stands here only while something reads it; tools/check_options.py fails otherwise.
//
// Thread safety: everything here is constant.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/log.h"

namespace kpt {

enum class ColorMode : std::uint8_t { kAuto, kAlways, kNever };
enum class NvidiaFp8Activations : std::uint8_t { kE4M3, kE5M2, kAuto };
enum class NvidiaFp8Scaling : std::uint8_t { kRow, kTensor, kDelayed };
enum class NvidiaTune : std::uint8_t { kNone, kProducts, kConvolutions, kAll };
enum class AmdEngineWord : std::uint8_t { kAuto, kLibtorch, kNative };
enum class PjrtSharding : std::uint8_t { kBatch, kWeights };
enum class TpuPrecision : std::uint8_t { kFloat32, kBFloat16x3, kBFloat16 };

// The words of an enum option, in the order of its enumerators, which count from 0.
inline constexpr std::array<std::string_view, 5> kLogLevelWords = {"debug", "info", "warn", "error", "off"};
inline constexpr std::array<std::string_view, 2> kLogFormatWords = {"text", "json"};
inline constexpr std::array<std::string_view, 3> kColorModeWords = {"auto", "always", "never"};
inline constexpr std::array<std::string_view, 3> kNvidiaFp8ActivationsWords = {"e4m3", "e5m2", "auto"};
inline constexpr std::array<std::string_view, 3> kNvidiaFp8ScalingWords = {"row", "tensor", "delayed"};
inline constexpr std::array<std::string_view, 4> kNvidiaTuneWords = {"none", "products", "convolutions", "all"};
inline constexpr std::array<std::string_view, 3> kAmdEngineWords = {"auto", "libtorch", "native"};
inline constexpr std::array<std::string_view, 2> kPjrtShardingWords = {"batch", "weights"};
inline constexpr std::array<std::string_view, 3> kTpuPrecisionWords = {"float32", "bfloat16x3", "bfloat16"};
// The vendor stacks that probe.backends may name.
inline constexpr std::array<std::string_view, 5> kProbeBackendWords = {"nvidia", "amd", "tpu", "pjrt", "torch"};

// What cpu.isa may hide (src/backends/cpu/isa.h says what each word covers).
inline constexpr std::array<std::string_view, 8> kCpuIsaWords = {"no-dotprod", "no-i8mm",   "no-bf16", "no-sme",
                                                                 "no-avx2",    "no-avx512", "no-vnni", "no-amx"};

// What amd.compile_options may hold: nothing that names a file, starts a program or lets the compiler assume that there
// is no NaN and no infinity, which masks and checks of results rest on.
inline constexpr std::array<std::string_view, 8> kAmdCompileOptionWords = {
    "-O1",        "-O2", "-O3", "-ffp-contract=off", "-ffp-contract=on", "-fno-unroll-loops", "-gline-tables-only",
    "-mno-cumode"};

inline constexpr std::array<std::string_view, 7> kTpuGenerationWords = {"v2", "v3", "v4", "v5e", "v5p", "v6e", "v7"};

inline constexpr std::int64_t kMaxCacheBudgetBytes = std::int64_t{1} << 50;

enum class OptionKind : std::uint8_t {
  kBool,
  kInt,         // between `least` and `most`
  kChoice,      // one of `words`
  kName,        // letters, digits, '.', '-', '_' and ':', at most 64
  kPath,        // any text without NUL; a leading "~/" means the home folder
  kWordList,    // any of `words`, each at most once
  kNamedPaths,  // items "name=path", each name at most once
  kPrices,      // items "word=number", each of `words` at most once, numbers not below 0
};

// What values an option takes.
struct OptionDomain {
  OptionKind kind = OptionKind::kBool;
  std::int64_t least = 0;
  std::int64_t most = 0;
  std::span<const std::string_view> words = {};
};

namespace domain {
inline constexpr OptionDomain truth() { return {OptionKind::kBool}; }
inline constexpr OptionDomain range(std::int64_t least, std::int64_t most) { return {OptionKind::kInt, least, most}; }
inline constexpr OptionDomain one_of(std::span<const std::string_view> words) {
  return {OptionKind::kChoice, 0, 0, words};
}
inline constexpr OptionDomain any_of(std::span<const std::string_view> words) {
  return {OptionKind::kWordList, 0, 0, words};
}
inline constexpr OptionDomain name() { return {OptionKind::kName}; }
inline constexpr OptionDomain path() { return {OptionKind::kPath}; }
inline constexpr OptionDomain named_paths() { return {OptionKind::kNamedPaths}; }
inline constexpr OptionDomain prices_of(std::span<const std::string_view> words) {
  return {OptionKind::kPrices, 0, 0, words};
}
}  // namespace domain

// X(handle, type, name, default, domain, environment variable, meaning). Options of one group ("log.…") stand together.
// Defaults are written as they would be after `--set name=`; a list is separated by commas.
#define KPT_OPTIONS(X)                                                                                                 \
  X(kLogLevel, log::Level, "log.level", "warn", domain::one_of(kLogLevelWords), "KPT_LOG",                             \
    "least severe message that is logged")                                                                             \
  X(kLogFormat, log::Format, "log.format", "text", domain::one_of(kLogFormatWords), "KPT_LOG_FORMAT",                  \
    "log lines for people (text) or for machines (json)")                                                              \
  X(kCacheDir, std::string, "cache.dir", "", domain::path(), "KPT_CACHE_DIR",                                          \
    "cache folder; empty means $XDG_CACHE_HOME/kpt, or ~/.cache/kpt")                                                  \
  X(kCacheBudgetBytes, std::int64_t, "cache.budget_bytes", "10737418240", domain::range(0, kMaxCacheBudgetBytes),      \
    "KPT_CACHE_BUDGET_BYTES", "size of the compile cache beyond which the least recently used entries go")             \
  X(kCliColor, ColorMode, "cli.color", "auto", domain::one_of(kColorModeWords), "KPT_COLOR",                           \
    "colours in the output; auto means only on a terminal")                                                            \
  X(kCpuIsa, std::vector<std::string>, "cpu.isa", "", domain::any_of(kCpuIsaWords), "KPT_CPU_ISA",                     \
    "instruction sets that our kernels and passes leave alone although the processor has them, to see what a lesser "  \
    "one does; libtorch's own kernels still use them")                                                                 \
  X(kProbeTimeoutMs, std::int64_t, "probe.timeout_ms", "10000", domain::range(100, 120000), "KPT_PROBE_TIMEOUT_MS",    \
    "time limit, in milliseconds, for one vendor library to answer during detection")                                  \
  X(kProbeBackends, std::vector<std::string>, "probe.backends", "nvidia,amd,tpu,pjrt,torch",                           \
    domain::any_of(kProbeBackendWords), "KPT_PROBE_BACKENDS", "vendor stacks that detection may open")                 \
  X(kPjrtPlugins, std::vector<std::string>, "pjrt.plugins", "", domain::named_paths(), "KPT_PJRT_PLUGINS",             \
    "further PJRT plugins to look at")                                                                                 \
  X(kPjrtCompileTimeoutMs, std::int64_t, "pjrt.compile_timeout_ms", "0", domain::range(0, 86400000),                   \
    "KPT_PJRT_COMPILE_TIMEOUT_MS",                                                                                     \
    "time limit, in milliseconds, for a PJRT plugin to compile one program, in a process of its own that is killed "   \
    "there; 0 means that it compiles in this process, which waits half an hour, and without a limit on xla:cpu")       \
  X(kPjrtDevices, std::int64_t, "pjrt.devices", "1", domain::range(1, 1024), "KPT_PJRT_DEVICES",                       \
    "devices of a PJRT plugin over which a model is spread; the host (xla:cpu) is as many as are asked for")           \
  X(kPjrtSharding, PjrtSharding, "pjrt.sharding", "batch", domain::one_of(kPjrtShardingWords), "KPT_PJRT_SHARDING",    \
    "what several devices share out: the rows of inputs and outputs (batch), or the weights of products (weights)")    \
  X(kMemorySplitBatches, bool, "memory.split_batches", "false", domain::truth(), "KPT_MEMORY_SPLIT_BATCHES",           \
    "a batch that does not fit into a device's memory runs in parts, where the model's rows are independent")          \
  X(kMemoryBatchBuckets, bool, "memory.batch_buckets", "true", domain::truth(), "KPT_MEMORY_BATCH_BUCKETS",            \
    "batches are padded to a few sizes (1, 2, 3, 4, 6, 8, 12, …) on devices where each new size costs a compile or "   \
    "a capture, where the model's rows are independent")                                                               \
  X(kMemorySequenceBuckets, bool, "memory.sequence_buckets", "true", domain::truth(), "KPT_MEMORY_SEQUENCE_BUCKETS",   \
    "the same for the length of sequences, where the model's positions are known not to see those behind the end")     \
  X(kPlacementSplit, bool, "placement.split", "false", domain::truth(), "KPT_PLACEMENT_SPLIT",                         \
    "nodes that the chosen device cannot run go to the CPU; what lies between travels over the host's memory")         \
  X(kAmdArchitecture, std::string, "amd.architecture", "auto", domain::name(), "KPT_AMD_ARCHITECTURE",                 \
    "gfx target of the AMD GPUs that models run on and that --target amd means, such as gfx942; a GPU of "             \
    "another is refused; auto means that of the GPU at hand")                                                          \
  X(kAmdCompileOptions, std::vector<std::string>, "amd.compile_options", "", domain::any_of(kAmdCompileOptionWords),   \
    "KPT_AMD_COMPILE_OPTIONS",                                                                                         \
    "options for the compiler of our kernels for AMD GPUs, after its own; code in a file that was made with "          \
    "others is made anew")                                                                                             \
  X(kAmdEngine, AmdEngineWord, "amd.engine", "auto", domain::one_of(kAmdEngineWords), "KPT_AMD_ENGINE",                \
    "what runs models on AMD GPUs: libtorch's ROCm build or our own kernels (native); auto means the first where it "  \
    "is the libtorch at hand")                                                                                         \
  X(kAmdMatrixCores, bool, "amd.matrix_cores", "true", domain::truth(), "KPT_AMD_MATRIX_CORES",                        \
    "products and attention on the matrix cores of AMD GPUs that have them; false means vector arithmetic, and no "    \
    "products in FP8 and int8; where libtorch's ROCm build runs models, that levels lower no products to 16 bits and " \
    "attention is libtorch's, whose kernels may use them")                                                             \
  X(kAmdMemoryKeptBytes, std::int64_t, "amd.memory_kept_bytes", "1125899906842624",                                    \
    domain::range(0, kMaxCacheBudgetBytes), "KPT_AMD_MEMORY_KEPT_BYTES",                                               \
    "memory of an AMD GPU that nobody uses and that this process keeps for its next request; 0 keeps none; "           \
    "libtorch's "                                                                                                      \
    "ROCm build keeps all, and a line in the log says so")                                                             \
  X(kAmdMemoryMarginBytes, std::int64_t, "amd.memory_margin_bytes", "33554432",                                        \
    domain::range(0, kMaxCacheBudgetBytes), "KPT_AMD_MEMORY_MARGIN_BYTES",                                             \
    "memory of an AMD GPU that taking more must leave; a model or run that would not is refused")                      \
  X(kAmdMemoryPercent, std::int64_t, "amd.memory_percent", "100", domain::range(1, 100), "KPT_AMD_MEMORY_PERCENT",     \
    "part of an AMD GPU's memory, in per cent, that this process may take")                                            \
  X(kNvidiaFp8Activations, NvidiaFp8Activations, "nvidia.fp8_activations", "e4m3",                                     \
    domain::one_of(kNvidiaFp8ActivationsWords), "KPT_NVIDIA_FP8_ACTIVATIONS",                                          \
    "what FP8 products that are made for NVIDIA GPUs round their inputs to: e4m3, e5m2 (a bit less of each number, "   \
    "more range), or for each product what keeps more of the inputs that it is optimized on (auto)")                   \
  X(kNvidiaFp8History, std::int64_t, "nvidia.fp8_history", "16", domain::range(1, 1024), "KPT_NVIDIA_FP8_HISTORY",     \
    "runs whose greatest magnitudes nvidia.fp8_scaling=delayed looks back on")                                         \
  X(kNvidiaFp8Scaling, NvidiaFp8Scaling, "nvidia.fp8_scaling", "row", domain::one_of(kNvidiaFp8ScalingWords),          \
    "KPT_NVIDIA_FP8_SCALING",                                                                                          \
    "scales of the inputs of FP8 products on NVIDIA GPUs: for each row its own (row), one for the tensor (tensor), "   \
    "or one for the tensor from earlier runs (delayed)")                                                               \
  X(kNvidiaGraphMemoryBytes, std::int64_t, "nvidia.graph_memory_bytes", "0", domain::range(0, kMaxCacheBudgetBytes),   \
    "KPT_NVIDIA_GRAPH_MEMORY_BYTES",                                                                                   \
    "memory that one model's captured runs may keep on an NVIDIA GPU; 0 means an eighth of the device's")              \
  X(kNvidiaMemoryMarginBytes, std::int64_t, "nvidia.memory_margin_bytes", "33554432",                                  \
    domain::range(0, kMaxCacheBudgetBytes), "KPT_NVIDIA_MEMORY_MARGIN_BYTES",                                          \
    "memory of an NVIDIA GPU that a run must leave by estimate; one that would not is refused before it starts")       \
  X(kNvidiaMemoryPercent, std::int64_t, "nvidia.memory_percent", "100", domain::range(1, 100),                         \
    "KPT_NVIDIA_MEMORY_PERCENT", "part of an NVIDIA GPU's memory, in per cent, that this process may take")            \
  X(kNvidiaNvtx, bool, "nvidia.nvtx", "false", domain::truth(), "KPT_NVIDIA_NVTX",                                     \
    "each run on an NVIDIA GPU is an NVTX range for profilers, and so is each node of a run that goes node by node")   \
  X(kNvidiaTf32, bool, "nvidia.tf32", "false", domain::truth(), "KPT_NVIDIA_TF32",                                     \
    "products and convolutions of float32 on NVIDIA GPUs may round their operands to TF32 (10 bits of mantissa)")      \
  X(kNvidiaTune, NvidiaTune, "nvidia.tune", "none", domain::one_of(kNvidiaTuneWords), "KPT_NVIDIA_TUNE",               \
    "what on NVIDIA GPUs takes algorithms by measuring them, in the first run of each shape: products, convolutions, " \
    "all of these or none, which means those that cuBLAS and cuDNN propose")                                           \
  X(kStrict, bool, "strict", "false", domain::truth(), "KPT_STRICT", "warnings count as failures")                     \
  X(kThreadsCount, std::int64_t, "threads.count", "0", domain::range(0, 4096), "KPT_THREADS",                          \
    "worker threads of runs; 0 means automatic: as many as the machine, its container and OMP_NUM_THREADS allow, "     \
    "which loading and optimizing follow in any case")                                                                 \
  X(kTorchDir, std::string, "torch.dir", "", domain::path(), "KPT_TORCH_DIR",                                          \
    "folder of the torch Python package to load libtorch from; empty means the one this build was made with, or the "  \
    "one found in the Python environment")                                                                             \
  X(kTpuCompileTimeoutMs, std::int64_t, "tpu.compile_timeout_ms", "1800000", domain::range(1, 86400000),               \
    "KPT_TPU_COMPILE_TIMEOUT_MS",                                                                                      \
    "time limit, in milliseconds, for libtpu to compile one program for a TPU that is not here")                       \
  X(kTpuCompileMemoryBytes, std::int64_t, "tpu.compile_memory_bytes", "17179869184",                                   \
    domain::range(0, kMaxCacheBudgetBytes), "KPT_TPU_COMPILE_MEMORY_BYTES",                                            \
    "memory that libtpu may take for that; 0 means no limit")                                                          \
  X(kTpuMemoryPercent, std::int64_t, "tpu.memory_percent", "100", domain::range(1, 100), "KPT_TPU_MEMORY_PERCENT",     \
    "part of a TPU's memory, in per cent, that a program may take; one that needs more is refused")                    \
  X(kTpuPrices, std::vector<std::string>, "tpu.prices", "", domain::prices_of(kTpuGenerationWords), "KPT_TPU_PRICES",  \
    "dollars for one chip and hour by generation, as v5e=1.20, which kpt compile shows beside estimates of "           \
    "time; its --price comes before them")                                                                             \
  X(kTpuPrecision, TpuPrecision, "tpu.precision", "float32", domain::one_of(kTpuPrecisionWords), "KPT_TPU_PRECISION",  \
    "how a TPU multiplies float32: as float32, or rounded to three parts (bfloat16x3) or to one (bfloat16)")           \
  X(kTpuTopology, std::string, "tpu.topology", "auto", domain::name(), "KPT_TPU_TOPOLOGY",                             \
    "slice that --target tpu means and that TPUs at hand belong to where the machine does not tell it, such as "       \
    "v5e:2x2; TPUs of another are refused; auto means what the machine tells")

// The position of an option in the table.
enum class OptionId : std::size_t {
#define KPT_DECLARE_ID(handle, type, name, fallback, domain, environment, meaning) handle,
  KPT_OPTIONS(KPT_DECLARE_ID)
#undef KPT_DECLARE_ID
};

// A typed handle: Config::get(options::kStrict) returns bool.
template <typename T>
struct Option {
  using Value = T;
  OptionId id;
};

namespace options {
#define KPT_DECLARE_HANDLE(handle, type, name, fallback, domain, environment, meaning) \
  inline constexpr Option<type> handle{OptionId::handle};
KPT_OPTIONS(KPT_DECLARE_HANDLE)
#undef KPT_DECLARE_HANDLE
}  // namespace options

struct OptionRow {
  std::string_view name;
  std::string_view default_text;
  OptionDomain domain;
  std::string_view environment;
  std::string_view meaning;
};

// True if a value of C++ type T can hold what `domain` describes. Checked for each row at compile time.
template <typename T>
constexpr bool fits(const OptionDomain& domain) {
  switch (domain.kind) {
    case OptionKind::kBool: return std::is_same_v<T, bool>;
    case OptionKind::kInt: return std::is_same_v<T, std::int64_t> && domain.least <= domain.most;
    case OptionKind::kChoice: return std::is_enum_v<T> && !domain.words.empty();
    case OptionKind::kName:
    case OptionKind::kPath: return std::is_same_v<T, std::string>;
    case OptionKind::kWordList:
    case OptionKind::kNamedPaths:
    case OptionKind::kPrices: return std::is_same_v<T, std::vector<std::string>>;
  }
  return false;
}

#define KPT_CHECK_ROW(handle, type, name, fallback, domain, environment, meaning) \
  static_assert(fits<type>(domain), "the domain of " name " does not fit its type");
KPT_OPTIONS(KPT_CHECK_ROW)
#undef KPT_CHECK_ROW

// All rows, in the order of OptionId.
std::span<const OptionRow> option_table();
const OptionRow& get_row(OptionId id);
std::optional<OptionId> find_option(std::string_view name);
// All names, for find_nearest().
std::span<const std::string> option_names();

// A named set of values to start from.
struct PresetSetting {
  OptionId option;
  std::string_view text;  // as after `--set name=`
};
struct Preset {
  std::string_view name;
  std::string_view meaning;
  std::span<const PresetSetting> settings;
};
std::span<const Preset> preset_table();
const Preset* find_preset(std::string_view name);

}  // namespace kpt
