#include "backends/amd/architecture.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace kpt {
namespace {

using enum Precision;

constexpr std::array kCdna1 = {kFp32, kFp16, kBf16, kInt8};
constexpr std::array kCdna2 = {kFp64, kFp32, kFp16, kBf16, kInt8};
constexpr std::array kCdna3 = {kFp64, kFp32, kTf32, kFp16, kBf16, kFp8, kInt8};
// CDNA4 has the scaled FP8/FP6/FP4 instructions and gave up TF32 (xf32) again.
constexpr std::array kCdna4 = {kFp64, kFp32, kFp16, kBf16, kFp8, kFp6, kFp4, kInt8};
constexpr std::array kRdna3 = {kFp16, kBf16, kInt8, kInt4};
constexpr std::array kRdna4 = {kFp16, kBf16, kFp8, kInt8, kInt4};

constexpr std::size_t k64KiB = 64U << 10U;
constexpr std::size_t k160KiB = 160U << 10U;

constexpr AmdArchitecture without_matrix_cores(std::string_view target, std::string_view name, int wavefront_size) {
  return {target, name, wavefront_size, AmdMatrixUnit::kNone, {}, k64KiB, Fp8Flavour::kNone};
}

constexpr AmdArchitecture rdna3(std::string_view target, std::string_view name) {
  return {target, name, 32, AmdMatrixUnit::kWmma, kRdna3, k64KiB, Fp8Flavour::kNone};
}

constexpr std::array kTable = {
    without_matrix_cores("gfx900", "GCN5", 64),
    without_matrix_cores("gfx906", "GCN5", 64),
    AmdArchitecture{"gfx908", "CDNA1", 64, AmdMatrixUnit::kMfma, kCdna1, k64KiB, Fp8Flavour::kNone},
    AmdArchitecture{"gfx90a", "CDNA2", 64, AmdMatrixUnit::kMfma, kCdna2, k64KiB, Fp8Flavour::kNone},
    AmdArchitecture{"gfx942", "CDNA3", 64, AmdMatrixUnit::kMfma, kCdna3, k64KiB, Fp8Flavour::kFnuz},
    AmdArchitecture{"gfx950", "CDNA4", 64, AmdMatrixUnit::kMfma, kCdna4, k160KiB, Fp8Flavour::kOcp},
    without_matrix_cores("gfx1010", "RDNA1", 32),
    without_matrix_cores("gfx1011", "RDNA1", 32),
    without_matrix_cores("gfx1012", "RDNA1", 32),
    without_matrix_cores("gfx1030", "RDNA2", 32),
    without_matrix_cores("gfx1031", "RDNA2", 32),
    without_matrix_cores("gfx1032", "RDNA2", 32),
    without_matrix_cores("gfx1033", "RDNA2", 32),
    without_matrix_cores("gfx1034", "RDNA2", 32),
    without_matrix_cores("gfx1035", "RDNA2", 32),
    without_matrix_cores("gfx1036", "RDNA2", 32),
    rdna3("gfx1100", "RDNA3"),
    rdna3("gfx1101", "RDNA3"),
    rdna3("gfx1102", "RDNA3"),
    rdna3("gfx1103", "RDNA3"),
    rdna3("gfx1150", "RDNA3.5"),
    rdna3("gfx1151", "RDNA3.5"),
    rdna3("gfx1152", "RDNA3.5"),
    AmdArchitecture{"gfx1200", "RDNA4", 32, AmdMatrixUnit::kWmma, kRdna4, k64KiB, Fp8Flavour::kOcp},
    AmdArchitecture{"gfx1201", "RDNA4", 32, AmdMatrixUnit::kWmma, kRdna4, k64KiB, Fp8Flavour::kOcp},
};

}  // namespace

std::span<const AmdArchitecture> amd_architectures() { return kTable; }

const AmdArchitecture* find_amd_architecture(std::string_view gfx_target) {
  const auto* row = std::ranges::find(kTable, gfx_target, &AmdArchitecture::gfx_target);
  return row == kTable.end() ? nullptr : row;
}

std::optional<std::string> gfx_target_from_kfd(std::uint64_t gfx_target_version) {
  const std::uint64_t major = gfx_target_version / 10000;
  const std::uint64_t minor = gfx_target_version / 100 % 100;
  const std::uint64_t stepping = gfx_target_version % 100;
  // Minor and stepping are one hexadecimal digit each in the name.
  if (major == 0 || major > 99 || minor > 15 || stepping > 15) return std::nullopt;
  return fmt::format("gfx{}{:x}{:x}", major, minor, stepping);
}

void describe_amd_target(AmdGpu& gpu) {
  if (gpu.gfx_target.empty()) return;
  const AmdArchitecture* row = find_amd_architecture(gpu.gfx_target);
  if (row == nullptr) {
    gpu.architecture = fmt::format("unknown ({})", gpu.gfx_target);
    return;
  }
  gpu.architecture = row->name;
  gpu.wavefront_size = row->wavefront_size;
  gpu.has_matrix_cores = row->matrix_unit != AmdMatrixUnit::kNone;
  gpu.matrix_precisions.assign(row->matrix_precisions.begin(), row->matrix_precisions.end());
  gpu.fp8_flavour = row->fp8_flavour;
}

}  // namespace kpt
