// What the machine has: plain descriptions, filled by src/backends/<vendor>, shown by doctor, asked by everything that
// chooses. They are values without behaviour; hardware_json.h turns them into JSON and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kpt {

// kAbsent: no such hardware. Normal, never a failure by itself.
// kNotInstalled: the hardware is there, but nobody installed its software. Worth a word; an integrated GPU is the usual
// case. kBroken: hardware and software are there but cannot be used; `reason` says why and `remedy` what mends it.
enum class Presence { kAbsent, kPresent, kNotInstalled, kBroken };

struct Finding {
  Presence presence = Presence::kAbsent;
  std::string reason;  // one sentence; empty when present and nothing is to be said
  std::string remedy;  // one command or action; empty when there is none
  bool operator==(const Finding&) const = default;
};

// Number formats a device's matrix units multiply in hardware.
enum class Precision { kFp64, kFp32, kTf32, kFp16, kBf16, kFp8, kFp6, kFp4, kInt8, kInt4 };

struct NvidiaGpu {
  int index = 0;           // the driver's ordinal, after CUDA_VISIBLE_DEVICES
  std::string name;        // "NVIDIA H200"
  std::string uuid;        // "GPU-xxxxxxxx-…"
  std::string pci_bus_id;  // "0000:1b:00.0"
  int capability_major = 0;
  int capability_minor = 0;
  std::string architecture;  // "Hopper"; see backends/nvidia/architecture.h
  int multiprocessors = 0;
  std::optional<int> max_threads_per_block;
  std::optional<int> max_shared_memory_per_block_bytes;  // without asking for more than every kernel gets
  std::uint64_t memory_total_bytes = 0;
  std::optional<std::uint64_t> memory_free_bytes;  // from NVML: what all processes leave
  std::optional<int> clock_sm_mhz;                 // maximum
  std::optional<int> clock_memory_mhz;             // maximum
  std::optional<bool> ecc_enabled;                 // nothing: the card has no ECC or NVML is missing
  std::optional<bool> mig_enabled;
  // At the moment of asking, from NVML; nothing where the card or a slice of it does not tell.
  std::optional<int> utilization_percent;  // of the last sample period: some kernel was at work
  std::optional<int> temperature_celsius;
  std::optional<int> power_milliwatts;
  std::optional<int> power_limit_milliwatts;
  std::optional<int> clock_sm_now_mhz;
  std::optional<int> clock_memory_now_mhz;
  std::vector<Precision> matrix_precisions;
  bool operator==(const NvidiaGpu&) const = default;
};

struct NvidiaReport {
  Finding finding;
  std::string driver_version;       // "580.159.04", from NVML or /proc/driver/nvidia/version
  std::string cuda_driver_version;  // newest CUDA the driver serves: "13.0"
  std::vector<NvidiaGpu> gpus;
  std::vector<std::string> notes;  // what could not be read, and why
  bool operator==(const NvidiaReport&) const = default;
};

enum class Fp8Flavour { kNone, kFnuz, kOcp };

struct AmdGpu {
  int index = 0;
  std::string name;
  std::string gfx_target;    // "gfx942"
  std::string architecture;  // "CDNA3"; see backends/amd/architecture.h
  std::string pci_bus_id;
  int compute_units = 0;
  int wavefront_size = 0;
  std::uint64_t memory_total_bytes = 0;
  bool has_matrix_cores = false;
  Fp8Flavour fp8_flavour = Fp8Flavour::kNone;
  std::vector<Precision> matrix_precisions;
  bool operator==(const AmdGpu&) const = default;
};

struct AmdReport {
  Finding finding;
  std::string source;               // where the list comes from: "hip", "kfd" or "pci"
  std::string rocm_version;         // "6.4.1", from the installation's version file
  std::string hip_runtime_version;  // from libamdhip64: "6.4.43482"
  std::vector<AmdGpu> gpus;
  std::vector<std::string> notes;
  bool operator==(const AmdReport&) const = default;
};

struct TpuReport {
  Finding finding;
  std::string generation;  // "v5e"; empty when unknown
  int chips = 0;           // of this host
  int cores_per_chip = 0;
  std::string topology;          // "2x2"; empty when the environment does not say
  std::string accelerator_type;  // "v5litepod-4", from the environment
  std::uint64_t hbm_bytes_per_chip = 0;
  std::string libtpu_path;
  std::string libtpu_version;
  std::vector<std::string> notes;
  bool operator==(const TpuReport&) const = default;
};

// A library that speaks the PJRT C API.
struct PjrtPlugin {
  std::string name;  // "xla_cpu_pjrt", "tpu", …
  std::string path;
  std::string source;  // which step of the search order found it: "environment", "config" or "python environment"
  Finding finding;
  int api_major = 0;
  int api_minor = 0;
  bool operator==(const PjrtPlugin&) const = default;
};

struct CpuCache {
  int level = 0;
  std::string type;  // "Data", "Instruction", "Unified"
  std::uint64_t size_bytes = 0;
  bool operator==(const CpuCache&) const = default;
};

struct CpuReport {
  std::string model;         // "Neoverse-V1", "AMD EPYC 9654"
  std::string architecture;  // "aarch64", "x86_64"
  int logical_cpus = 0;      // of the machine
  int usable_cpus = 0;       // of this process: affinity and container limit
  int numa_nodes = 0;
  std::vector<std::string> isa;         // what we make use of: "NEON", "SVE", "BF16", "AVX2", "AMX-INT8", …
  std::vector<std::string> isa_hidden;  // what would stand there but for the option cpu.isa
  std::vector<Precision> matrix_precisions;
  std::vector<CpuCache> caches;
  std::uint64_t memory_total_bytes = 0;
  std::optional<std::uint64_t> memory_limit_bytes;  // of the container, when lower than the machine's memory
  std::vector<std::string> notes;
  bool operator==(const CpuReport&) const = default;
};

}  // namespace kpt
