// What a backend is made with.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "device/detection_context.h"
#include "device/nvidia_policy.h"

namespace kpt {

// What runs models on AMD GPUs: libtorch's ROCm build where it is at hand, always that, or always our own kernels.
enum class AmdEngine : std::uint8_t { kAuto, kLibtorch, kNative };

struct BackendContext {
  DetectionContext detection;
  std::filesystem::path torch_dir;  // option torch.dir; empty: search
  int threads = 1;                  // for one run: option threads.count
  // Where compiled programs are kept between processes (options cache.dir, cache.budget_bytes); empty: nowhere.
  std::filesystem::path compile_cache_folder;
  std::uint64_t compile_cache_bytes = 0;
  std::chrono::milliseconds compile_time_limit{0};  // option pjrt.compile_timeout_ms; 0: none
  // Over how many devices of a PJRT plugin a model is spread, and whether by its weights or by its batch: options
  // pjrt.devices, pjrt.sharding.
  std::size_t pjrt_devices = 1;
  bool pjrt_split_weights = false;
  // What libtpu may take to compile one program: options tpu.compile_timeout_ms, tpu.compile_memory_bytes (0: no
  // limit).
  std::chrono::milliseconds tpu_compile_time_limit{1800000};
  std::uint64_t tpu_compile_memory_bytes = 0;
  int tpu_memory_percent = 100;           // option tpu.memory_percent
  std::string tpu_precision = "HIGHEST";  // option tpu.precision, as XLA calls it: HIGHEST, HIGH, DEFAULT
  std::string tpu_topology;               // option tpu.topology; empty: auto
  // Options nvidia.graph_memory_bytes, nvidia.memory_margin_bytes, nvidia.memory_percent.
  std::uint64_t nvidia_graph_bytes = 0;
  std::uint64_t nvidia_margin_bytes = 0;
  int nvidia_memory_percent = 100;
  NvidiaPolicy nvidia_policy;
  // Options amd.memory_margin_bytes, amd.memory_kept_bytes, amd.memory_percent.
  std::uint64_t amd_margin_bytes = 0;
  std::uint64_t amd_kept_bytes = std::numeric_limits<std::uint64_t>::max();
  int amd_memory_percent = 100;
  bool amd_matrix_cores = true;  // option amd.matrix_cores
  std::string amd_architecture;  // option amd.architecture; empty: auto
  // Option amd.compile_options: for the compiler of our kernels.
  std::vector<std::string> amd_compile_options;
  AmdEngine amd_engine = AmdEngine::kAuto;  // option amd.engine
  bool split_batches = false;               // option memory.split_batches
  bool batch_buckets = true;                // option memory.batch_buckets
  bool sequence_buckets = true;             // option memory.sequence_buckets
  bool split_graphs = false;                // option placement.split
};

}  // namespace kpt
