// The part of NVML that detection asks: driver version, free memory, clocks, ECC, MIG, and what a GPU does now.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/dynamic_library.h"
#include "device/hardware.h"
#include "kpt/status.h"

namespace kpt {

class Nvml {
 public:
  // Opens and initialises the library. Fails with kNotFound or kVendorLibrary; the message says why.
  static Result<Nvml> open(const std::string& library);

  std::optional<std::string> driver_version() const;
  // GPUs that NVML sees; it does not heed CUDA_VISIBLE_DEVICES.
  std::optional<unsigned> device_count() const;
  // Fills what NVML knows of the GPU with this uuid or PCI address. Adds a note for each refusal that is not simply
  // "this card does not have that".
  void complete(NvidiaGpu& gpu, std::vector<std::string>& notes) const;

 private:
  explicit Nvml(DynamicLibrary library) : library_(std::move(library)) {}
  void* find_device(NvidiaGpu& gpu) const;
  void read_clocks(void* device, NvidiaGpu& gpu, std::vector<std::string>& notes) const;
  void read_load(void* device, NvidiaGpu& gpu, std::vector<std::string>& notes) const;
  std::string error_text(int code) const;
  // False if `code` is an error; notes it unless it only says that the card lacks the feature.
  bool accept(int code, const char* what, const NvidiaGpu& gpu, std::vector<std::string>& notes) const;

  DynamicLibrary library_;
};

}  // namespace kpt
