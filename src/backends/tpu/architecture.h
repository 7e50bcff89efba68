// The one table of TPU generations.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kpt/dtype.h"

namespace kpt {

constexpr std::uint16_t kGooglePciVendor = 0x1ae0;

enum class TpuNodeKind {
  kAccel,  // /dev/accel<n>, one per chip
  kVfio,   // /dev/vfio/<group>, one per chip, and the control node /dev/vfio/vfio
};

struct TpuGeneration {
  std::string_view name;  // "v5e"
  // Spellings of the slice type before "-<count>", lower case; the name itself is one of them.
  std::span<const std::string_view> spellings;
  std::uint16_t pci_device = 0;
  std::uint16_t pci_subsystem = 0;  // v2 and v3 share a device id; 0 where the device id alone decides
  int cores_per_chip = 0;           // TensorCores
  std::uint64_t hbm_bytes_per_chip = 0;
  int topology_dimensions = 0;                  // 2: "4x4", 3: "2x2x4"
  TpuNodeKind node_kind = TpuNodeKind::kAccel;  // what Google's images make; older ones differ, so it only words advice
  // How programs see a chip: as one device with all its cores, or as one device per core.
  int devices_per_chip = 1;
  // Published peak rates of a chip: dense products in bfloat16, those of eight bits where they are faster (and of which
  // type: int8, or float8_e4m3fn), and HBM.
  double bf16_flops_per_second = 0;
  double narrow_flops_per_second = 0;  // 0: none are faster
  DType narrow_dtype = DType::kInt8;
  double hbm_bytes_per_second = 0;
  int matrix_unit = 0;  // rows and columns of the matrix that one unit multiplies by
  // For compiling without the hardware: the name in libtpu's topologies, and the shapes that are offered, the default
  // first. None: the generation is not compiled for.
  std::string_view compiler_name;
  std::string_view chip_config;  // libtpu's word for making a chip one device; empty: that is its default
  std::span<const std::string_view> topologies;
};

// What a chip multiplies faster than float32, for Capabilities::matrix_dtypes.
std::vector<DType> matrix_dtypes_of(const TpuGeneration& generation);

// Oldest first.
std::span<const TpuGeneration> tpu_generations();

// By PCI ids; nothing for ids that are not in the table, also for 0x0027 with an unknown subsystem.
const TpuGeneration* find_tpu_generation(std::uint16_t pci_device, std::uint16_t pci_subsystem);

// By a name ("v5e", "tpu7x") or a slice type ("v5litepod-8"), in any case.
const TpuGeneration* find_tpu_generation(std::string_view name);

}  // namespace kpt
