// What libtorch is on this machine and whether it works: the answer of `kpt-probe torch`, shown by doctor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "device/hardware.h"

namespace kpt {

// One matrix product compared with fp64; see MatmulError in module_abi.h for what the error is.
struct TorchMatmulCheck {
  std::string device;  // "cpu", "cuda:0"
  std::string dtype;   // "float32"
  std::uint64_t seed = 0;
  int rows = 0;
  int inner = 0;
  int columns = 0;
  std::optional<double> relative_error;  // nothing: not a number
  double tolerance = 0;
  bool passed = false;
  bool operator==(const TorchMatmulCheck&) const = default;
};

struct TorchCudaDevice {
  int index = 0;
  std::string name;
  int capability_major = 0;
  int capability_minor = 0;
  int multiprocessors = 0;
  std::uint64_t memory_total_bytes = 0;
  std::optional<std::uint64_t> memory_free_bytes;
  std::optional<std::uint64_t> reserved_bytes;  // by libtorch's caching allocator, in the probe
  bool operator==(const TorchCudaDevice&) const = default;
};

struct TorchReport {
  Finding finding;              // present: found, opened, and its products are right
  std::string torch_dir;        // empty when none was found
  std::string source;           // which step of the search found it
  std::string library_version;  // "2.15.0": the library's own answer; what its files say when it was not opened
  std::string flavour;          // "13.2" (CUDA), "rocm 7.1", "none" (CPU only); empty when unknown
  std::string cudnn_version;    // "9.26.0", of the wheel beside libtorch; empty when there is none
  std::string module_path;      // of our module; empty when none was opened
  std::string module_version;   // the libtorch it was compiled for
  int threads = 0;              // libtorch's own count, inside one operator
  std::string cpu_capability;   // the vector code it chose
  std::string blas;
  std::vector<TorchMatmulCheck> checks;
  Finding cuda;  // the module for GPUs, CUDA's or ROCm's: present also when it sees no device
  std::string cuda_module_path;
  bool cuda_own_kernels = false;  // whether that module was built with kernels of ours
  std::vector<TorchCudaDevice> cuda_devices;
  std::optional<double> open_seconds;       // libtorch and our module
  std::optional<double> cuda_open_seconds;  // what CUDA adds
  std::vector<std::string> notes;           // what could not be read, and why
  bool operator==(const TorchReport&) const = default;
};

// As device/hardware_json.h: keys are field names, missing keys keep defaults, a wrong type throws
// nlohmann::json::exception; read foreign text through parse_report().
void to_json(nlohmann::ordered_json& json, const TorchReport& value);
void from_json(const nlohmann::ordered_json& json, TorchReport& value);

}  // namespace kpt
