#include "backends/tpu/architecture.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/text.h"

namespace kpt {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;

constexpr std::array<std::string_view, 1> kV2 = {"v2"};
constexpr std::array<std::string_view, 1> kV3 = {"v3"};
constexpr std::array<std::string_view, 1> kV4 = {"v4"};
constexpr std::array<std::string_view, 3> kV5e = {"v5e", "v5litepod", "v5lite"};
constexpr std::array<std::string_view, 1> kV5p = {"v5p"};
constexpr std::array<std::string_view, 1> kV6e = {"v6e"};
constexpr std::array<std::string_view, 3> kV7 = {"v7", "tpu7x", "7x"};

constexpr std::array<std::string_view, 8> kFlat = {"2x2", "1x1", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"};
constexpr std::array<std::string_view, 6> kCubes = {"2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8"};

// PCI ids as Google's tpu-info and JAX read them. HBM is per chip: tpu-info shows v2 and v3 per core, half of it. Rates
// and the size of the matrix unit are those of Google's pages on each generation.
constexpr DType kI8 = DType::kInt8;
constexpr DType kF8 = DType::kFloat8E4M3FN;
constexpr auto kAccel = TpuNodeKind::kAccel;
constexpr auto kVfio = TpuNodeKind::kVfio;

constexpr TpuGeneration kGenerations[] = {
    {"v2", kV2, 0x0027, 0x004e, 2, 16 * kGiB, 2, kAccel, 2, 46e12, 0, kI8, 700e9, 128, "", "", {}},
    {"v3", kV3, 0x0027, 0x004f, 2, 32 * kGiB, 2, kAccel, 2, 123e12, 0, kI8, 900e9, 128, "", "", {}},
    {"v4", kV4, 0x005e, 0, 2, 32 * kGiB, 3, kAccel, 1, 275e12, 0, kI8, 1228e9, 128, "v4", "megacore", kCubes},
    {"v5e", kV5e, 0x0063, 0, 1, 16 * kGiB, 2, kVfio, 1, 197e12, 393e12, kI8, 819e9, 128, "v5e", "", kFlat},
    {"v5p", kV5p, 0x0062, 0, 2, 95 * kGiB, 3, kVfio, 1, 459e12, 918e12, kI8, 2765e9, 128, "v5p", "", kCubes},
    {"v6e", kV6e, 0x006f, 0, 1, 32 * kGiB, 2, kVfio, 1, 918e12, 1836e12, kI8, 1638e9, 256, "v6e", "", kFlat},
    {"v7", kV7, 0x0076, 0, 2, 192 * kGiB, 3, kVfio, 2, 2307e12, 4614e12, kF8, 7380e9, 256, "tpu7x", "", kCubes},
};

}  // namespace

std::span<const TpuGeneration> tpu_generations() { return kGenerations; }

std::vector<DType> matrix_dtypes_of(const TpuGeneration& generation) {
  std::vector<DType> dtypes = {DType::kBFloat16};
  if (generation.narrow_flops_per_second > 0) dtypes.push_back(generation.narrow_dtype);
  return dtypes;
}

const TpuGeneration* find_tpu_generation(std::uint16_t pci_device, std::uint16_t pci_subsystem) {
  const auto* const found = std::ranges::find_if(kGenerations, [=](const TpuGeneration& row) {
    return row.pci_device == pci_device && (row.pci_subsystem == 0 || row.pci_subsystem == pci_subsystem);
  });
  return found == std::end(kGenerations) ? nullptr : found;
}

const TpuGeneration* find_tpu_generation(std::string_view name) {
  std::string wanted = to_lower(trim(name));
  // "v5litepod-8": the number of cores or chips follows the last dash.
  if (const auto dash = wanted.rfind('-'); dash != std::string::npos && parse_uint(wanted.substr(dash + 1))) {
    wanted.resize(dash);
  }
  const auto* const found = std::ranges::find_if(kGenerations, [&wanted](const TpuGeneration& row) {
    return std::ranges::find(row.spellings, wanted) != row.spellings.end();
  });
  return found == std::end(kGenerations) ? nullptr : found;
}

}  // namespace kpt
