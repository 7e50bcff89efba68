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
// What a workgroup's LDS is rounded up to: 128 words, and 320 on gfx950 (LLVM's getLdsDwGranularity).
constexpr std::size_t kGranule = 512;
constexpr std::size_t kGranuleOf160KiB = 1280;

// Register files as LLVM 22's AMDGPU target describes them (AMDGPUBaseInfo.cpp: totals, granules and most waves; 1536
// registers are its feature "1.5x VGPRs"). From CDNA2 on, accumulation registers are part of the 512. The sizes agree
// with AMD's "GPU specifications" for ROCm 7: a unit of CDNA has 512 KiB of vector and 12.5 KiB of scalar registers.
constexpr AmdRegisterFile kGcn{256, 4, 256, 10, 4, 800};
constexpr AmdRegisterFile kUnified{512, 8, 512, 8, 4, 800};
constexpr AmdRegisterFile kRdna1Registers{1024, 8, 256, 20, 2, 0};
constexpr AmdRegisterFile kRdna2Registers{1024, 16, 256, 16, 2, 0};
constexpr AmdRegisterFile kLargeRdna3{1536, 24, 256, 16, 2, 0};

// Those that clang 22 makes machine code of for the target; kernel_table_test asks it again. clang takes more names
// (bf16 without "_1k" on gfx942, xf32 on gfx950) and then fails to select an instruction.
constexpr std::array kMfma908 = {
    AmdMatrixInstruction{kFp32, "mfma_f32_16x16x4f32", 16, 16, 4},
    AmdMatrixInstruction{kFp16, "mfma_f32_16x16x16f16", 16, 16, 16},
    AmdMatrixInstruction{kFp16, "mfma_f32_32x32x8f16", 32, 32, 8},
    AmdMatrixInstruction{kBf16, "mfma_f32_16x16x8bf16", 16, 16, 8},
    AmdMatrixInstruction{kBf16, "mfma_f32_32x32x4bf16", 32, 32, 4},
    AmdMatrixInstruction{kInt8, "mfma_i32_16x16x16i8", 16, 16, 16},
};
constexpr std::array kMfma90a = {
    AmdMatrixInstruction{kFp64, "mfma_f64_16x16x4f64", 16, 16, 4},
    AmdMatrixInstruction{kFp32, "mfma_f32_16x16x4f32", 16, 16, 4},
    AmdMatrixInstruction{kFp16, "mfma_f32_16x16x16f16", 16, 16, 16},
    AmdMatrixInstruction{kFp16, "mfma_f32_32x32x8f16", 32, 32, 8},
    AmdMatrixInstruction{kBf16, "mfma_f32_16x16x16bf16_1k", 16, 16, 16},
    AmdMatrixInstruction{kBf16, "mfma_f32_32x32x8bf16_1k", 32, 32, 8},
    AmdMatrixInstruction{kInt8, "mfma_i32_16x16x16i8", 16, 16, 16},
};
constexpr std::array kMfma942 = {
    AmdMatrixInstruction{kFp64, "mfma_f64_16x16x4f64", 16, 16, 4},
    AmdMatrixInstruction{kFp32, "mfma_f32_16x16x4f32", 16, 16, 4},
    AmdMatrixInstruction{kTf32, "mfma_f32_16x16x8_xf32", 16, 16, 8},
    AmdMatrixInstruction{kFp16, "mfma_f32_16x16x16f16", 16, 16, 16},
    AmdMatrixInstruction{kFp16, "mfma_f32_32x32x8f16", 32, 32, 8},
    AmdMatrixInstruction{kBf16, "mfma_f32_16x16x16bf16_1k", 16, 16, 16},
    AmdMatrixInstruction{kBf16, "mfma_f32_32x32x8bf16_1k", 32, 32, 8},
    AmdMatrixInstruction{kFp8, "mfma_f32_16x16x32_fp8_fp8", 16, 16, 32},
    AmdMatrixInstruction{kFp8, "mfma_f32_32x32x16_fp8_fp8", 32, 32, 16},
    AmdMatrixInstruction{kInt8, "mfma_i32_16x16x32_i8", 16, 16, 32},
    AmdMatrixInstruction{kInt8, "mfma_i32_32x32x16_i8", 32, 32, 16},
};
constexpr std::array kMfma950 = {
    AmdMatrixInstruction{kFp64, "mfma_f64_16x16x4f64", 16, 16, 4},
    AmdMatrixInstruction{kFp32, "mfma_f32_16x16x4f32", 16, 16, 4},
    AmdMatrixInstruction{kFp16, "mfma_f32_16x16x16f16", 16, 16, 16},
    AmdMatrixInstruction{kFp16, "mfma_f32_32x32x8f16", 32, 32, 8},
    AmdMatrixInstruction{kFp16, "mfma_f32_16x16x32_f16", 16, 16, 32},
    AmdMatrixInstruction{kFp16, "mfma_f32_32x32x16_f16", 32, 32, 16},
    AmdMatrixInstruction{kBf16, "mfma_f32_16x16x16bf16_1k", 16, 16, 16},
    AmdMatrixInstruction{kBf16, "mfma_f32_32x32x8bf16_1k", 32, 32, 8},
    AmdMatrixInstruction{kBf16, "mfma_f32_16x16x32_bf16", 16, 16, 32},
    AmdMatrixInstruction{kBf16, "mfma_f32_32x32x16_bf16", 32, 32, 16},
    AmdMatrixInstruction{kFp8, "mfma_f32_16x16x32_fp8_fp8", 16, 16, 32},
    AmdMatrixInstruction{kFp8, "mfma_f32_32x32x16_fp8_fp8", 32, 32, 16},
    AmdMatrixInstruction{kFp8, "mfma_scale_f32_16x16x128_f8f6f4", 16, 16, 128},
    AmdMatrixInstruction{kFp6, "mfma_scale_f32_16x16x128_f8f6f4", 16, 16, 128},
    AmdMatrixInstruction{kFp4, "mfma_scale_f32_16x16x128_f8f6f4", 16, 16, 128},
    AmdMatrixInstruction{kInt8, "mfma_i32_16x16x32_i8", 16, 16, 32},
    AmdMatrixInstruction{kInt8, "mfma_i32_32x32x16_i8", 32, 32, 16},
    AmdMatrixInstruction{kInt8, "mfma_i32_16x16x64_i8", 16, 16, 64},
};
constexpr std::array kWmma11 = {
    AmdMatrixInstruction{kFp16, "wmma_f32_16x16x16_f16_w32", 16, 16, 16},
    AmdMatrixInstruction{kBf16, "wmma_f32_16x16x16_bf16_w32", 16, 16, 16},
    AmdMatrixInstruction{kInt8, "wmma_i32_16x16x16_iu8_w32", 16, 16, 16},
    AmdMatrixInstruction{kInt4, "wmma_i32_16x16x16_iu4_w32", 16, 16, 16},
};
constexpr std::array kWmma12 = {
    AmdMatrixInstruction{kFp16, "wmma_f32_16x16x16_f16_w32_gfx12", 16, 16, 16},
    AmdMatrixInstruction{kBf16, "wmma_f32_16x16x16_bf16_w32_gfx12", 16, 16, 16},
    AmdMatrixInstruction{kFp8, "wmma_f32_16x16x16_fp8_fp8_w32_gfx12", 16, 16, 16},
    AmdMatrixInstruction{kInt8, "wmma_i32_16x16x16_iu8_w32_gfx12", 16, 16, 16},
    AmdMatrixInstruction{kInt4, "wmma_i32_16x16x32_iu4_w32_gfx12", 16, 16, 32},
};

constexpr AmdArchitecture without_matrix_cores(std::string_view target, std::string_view name, int wavefront_size,
                                               const AmdRegisterFile& registers) {
  return {target, name, wavefront_size, AmdMatrixUnit::kNone, {}, k64KiB, kGranule, Fp8Flavour::kNone, registers, {}};
}

constexpr AmdArchitecture cdna(std::string_view target, std::string_view name, std::span<const Precision> precisions,
                               std::size_t lds_bytes, Fp8Flavour flavour, const AmdRegisterFile& registers,
                               std::span<const AmdMatrixInstruction> instructions) {
  const std::size_t granule = lds_bytes == k160KiB ? kGranuleOf160KiB : kGranule;
  return {target, name, 64, AmdMatrixUnit::kMfma, precisions, lds_bytes, granule, flavour, registers, instructions};
}

constexpr AmdArchitecture rdna3(std::string_view target, std::string_view name, const AmdRegisterFile& registers) {
  return {target, name, 32, AmdMatrixUnit::kWmma, kRdna3, k64KiB, kGranule, Fp8Flavour::kNone, registers, kWmma11};
}

constexpr AmdArchitecture rdna4(std::string_view target) {
  return {target, "RDNA4", 32, AmdMatrixUnit::kWmma, kRdna4, k64KiB, kGranule, Fp8Flavour::kOcp, kLargeRdna3, kWmma12};
}

constexpr std::array kArchitectures = {
    without_matrix_cores("gfx900", "GCN5", 64, kGcn),
    without_matrix_cores("gfx906", "GCN5", 64, kGcn),
    cdna("gfx908", "CDNA1", kCdna1, k64KiB, Fp8Flavour::kNone, kGcn, kMfma908),
    cdna("gfx90a", "CDNA2", kCdna2, k64KiB, Fp8Flavour::kNone, kUnified, kMfma90a),
    cdna("gfx942", "CDNA3", kCdna3, k64KiB, Fp8Flavour::kFnuz, kUnified, kMfma942),
    cdna("gfx950", "CDNA4", kCdna4, k160KiB, Fp8Flavour::kOcp, kUnified, kMfma950),
    without_matrix_cores("gfx1010", "RDNA1", 32, kRdna1Registers),
    without_matrix_cores("gfx1011", "RDNA1", 32, kRdna1Registers),
    without_matrix_cores("gfx1012", "RDNA1", 32, kRdna1Registers),
    without_matrix_cores("gfx1030", "RDNA2", 32, kRdna2Registers),
    without_matrix_cores("gfx1031", "RDNA2", 32, kRdna2Registers),
    without_matrix_cores("gfx1032", "RDNA2", 32, kRdna2Registers),
    without_matrix_cores("gfx1033", "RDNA2", 32, kRdna2Registers),
    without_matrix_cores("gfx1034", "RDNA2", 32, kRdna2Registers),
    without_matrix_cores("gfx1035", "RDNA2", 32, kRdna2Registers),
    without_matrix_cores("gfx1036", "RDNA2", 32, kRdna2Registers),
    rdna3("gfx1100", "RDNA3", kLargeRdna3),
    rdna3("gfx1101", "RDNA3", kLargeRdna3),
    rdna3("gfx1102", "RDNA3", kRdna2Registers),
    rdna3("gfx1103", "RDNA3", kRdna2Registers),
    rdna3("gfx1150", "RDNA3.5", kRdna2Registers),
    rdna3("gfx1151", "RDNA3.5", kLargeRdna3),
    rdna3("gfx1152", "RDNA3.5", kRdna2Registers),
    rdna3("gfx1153", "RDNA3.5", kRdna2Registers),
    rdna4("gfx1200"),
    rdna4("gfx1201"),
};

struct ProductRates {
  std::string_view gfx_target;
  std::string_view product;  // a part of the driver's name; of a Radeon the end
  HardwareRates rates;
};

constexpr std::uint64_t kGigabyte = 1'000'000'000;

// Memory, its bandwidth, dense bfloat16 products, float32 arithmetic without matrix cores, dense products of eight bits
// where they are faster. Of Instincts from the data sheets; an MI250X is two devices: these are of one. Of Radeons from
// AMD's announcements: bandwidth, and compute units by boost clock with 128 (RDNA2) or 256 operations of float32 a
// clock, 512 (RDNA3) or 1024 (RDNA4) of bfloat16, 2048 (RDNA4) of eight bits. RDNA2 has no matrix cores. An RX 9060 XT
// has 8 or 16 GB by one name. Graphics of a processor (780M, 890M, 8060S) use the machine's memory, here the fastest
// that the processor takes. The fastest of a target stands first and for the target.
constexpr auto kProducts = std::to_array<ProductRates>({
    {"gfx950", "MI355X", {288 * kGigabyte, 8.0e12, 2516.6e12, 157.3e12, 5033.2e12}},
    {"gfx950", "MI350X", {288 * kGigabyte, 8.0e12, 2306.9e12, 144.2e12, 4613.7e12}},
    {"gfx942", "MI325X", {256 * kGigabyte, 6.0e12, 1307.4e12, 163.4e12, 2614.9e12}},
    {"gfx942", "MI300X", {192 * kGigabyte, 5.3e12, 1307.4e12, 163.4e12, 2614.9e12}},
    {"gfx942", "MI300A", {128 * kGigabyte, 5.3e12, 980.6e12, 122.6e12, 1961.2e12}},
    {"gfx90a", "MI250X", {64 * kGigabyte, 1.6e12, 191.5e12, 23.9e12}},
    {"gfx90a", "MI210", {64 * kGigabyte, 1.6e12, 181.0e12, 22.6e12}},
    {"gfx908", "MI100", {32 * kGigabyte, 1.2e12, 92.3e12, 23.1e12, 184.6e12}},
    {"gfx1030", "RX 6950 XT", {16 * kGigabyte, 0.576e12, 0, 23.65e12}},
    {"gfx1030", "RX 6900 XT", {16 * kGigabyte, 0.512e12, 0, 23.04e12}},
    {"gfx1030", "RX 6800 XT", {16 * kGigabyte, 0.512e12, 0, 20.74e12}},
    {"gfx1030", "RX 6800", {16 * kGigabyte, 0.512e12, 0, 16.17e12}},
    {"gfx1100", "RX 7900 XTX", {24 * kGigabyte, 0.96e12, 122.8e12, 61.4e12}},
    {"gfx1100", "RX 7900 XT", {20 * kGigabyte, 0.8e12, 103.2e12, 51.6e12}},
    {"gfx1101", "RX 7800 XT", {16 * kGigabyte, 0.624e12, 74.6e12, 37.3e12}},
    {"gfx1101", "RX 7700 XT", {12 * kGigabyte, 0.432e12, 70.3e12, 35.2e12}},
    {"gfx1102", "RX 7600 XT", {16 * kGigabyte, 0.288e12, 45.1e12, 22.6e12}},
    {"gfx1102", "RX 7600", {8 * kGigabyte, 0.288e12, 43.5e12, 21.75e12}},
    {"gfx1103", "Radeon 780M", {0, 0.12e12, 17.8e12, 8.9e12}},
    {"gfx1150", "Radeon 890M", {0, 0.128e12, 23.8e12, 11.9e12}},
    {"gfx1151", "Radeon 8060S", {0, 0.256e12, 59.4e12, 29.7e12}},
    {"gfx1200", "RX 9060 XT", {0, 0.32e12, 102.6e12, 25.6e12, 205.1e12}},
    {"gfx1201", "RX 9070 XT", {16 * kGigabyte, 0.64e12, 194.6e12, 48.7e12, 389.3e12}},
});

// A further word makes a Radeon another product: "RX 7900 XT" is no "RX 7900 XTX", "RX 6800" no "RX 6800M".
bool is_product(std::string_view name, std::string_view product) {
  return product.starts_with("RX ") ? name.ends_with(product) : name.find(product) != std::string_view::npos;
}

}  // namespace

std::span<const AmdArchitecture> amd_architectures() { return kArchitectures; }

const HardwareRates* find_amd_rates(std::string_view name) {
  const auto* row =
      std::ranges::find_if(kProducts, [=](const ProductRates& entry) { return is_product(name, entry.product); });
  return row == kProducts.end() ? nullptr : &row->rates;
}

const HardwareRates* find_amd_target_rates(std::string_view gfx_target) {
  const auto* row = std::ranges::find(kProducts, gfx_target, &ProductRates::gfx_target);
  return row == kProducts.end() ? nullptr : &row->rates;
}

const AmdArchitecture* find_amd_architecture(std::string_view gfx_target) {
  const auto* row = std::ranges::find(kArchitectures, gfx_target, &AmdArchitecture::gfx_target);
  return row == kArchitectures.end() ? nullptr : row;
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
