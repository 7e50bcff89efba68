#include "backends/nvidia/architecture.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace kpt {
namespace {

using enum Precision;

constexpr std::array kVolta = {kFp16};
constexpr std::array kXavier = {kFp16, kInt8};
constexpr std::array kTuring = {kFp16, kInt8, kInt4};
constexpr std::array kAmpereDataCenter = {kFp64, kTf32, kFp16, kBf16, kInt8, kInt4};
constexpr std::array kAmpere = {kTf32, kFp16, kBf16, kInt8, kInt4};
constexpr std::array kAda = {kTf32, kFp16, kBf16, kFp8, kInt8, kInt4};
constexpr std::array kHopper = {kFp64, kTf32, kFp16, kBf16, kFp8, kInt8};
constexpr std::array kBlackwellDataCenter = {kFp64, kTf32, kFp16, kBf16, kFp8, kFp6, kFp4, kInt8};
// 10.3 gave up the INT8 kind of the fifth-generation matrix instruction (ptxas 13.0 refuses it) and most FP64 units.
constexpr std::array kBlackwellUltra = {kTf32, kFp16, kBf16, kFp8, kFp6, kFp4};
constexpr std::array kBlackwell = {kTf32, kFp16, kBf16, kFp8, kFp6, kFp4, kInt8};

// Sorted by capability. 8.7 is Orin, 7.2 Xavier; 11.0 is Thor, which CUDA 12 called 10.1.
constexpr std::array<NvidiaArchitecture, 21> kTable = {{
    {5, 0, "Maxwell", {}},
    {5, 2, "Maxwell", {}},
    {5, 3, "Maxwell", {}},
    {6, 0, "Pascal", {}},
    {6, 1, "Pascal", {}},
    {6, 2, "Pascal", {}},
    {7, 0, "Volta", kVolta},
    {7, 2, "Volta", kXavier},
    {7, 5, "Turing", kTuring},
    {8, 0, "Ampere", kAmpereDataCenter},
    {8, 6, "Ampere", kAmpere},
    {8, 7, "Ampere", kAmpere},
    {8, 8, "Ampere", kAmpere},
    {8, 9, "Ada", kAda},
    {9, 0, "Hopper", kHopper},
    {10, 0, "Blackwell", kBlackwellDataCenter},
    {10, 1, "Blackwell", kBlackwell},
    {10, 3, "Blackwell", kBlackwellUltra},
    {11, 0, "Blackwell", kBlackwell},
    {12, 0, "Blackwell", kBlackwell},
    {12, 1, "Blackwell", kBlackwell},
}};

struct ProductRates {
  std::string_view product;  // the driver's name
  HardwareRates rates;
};

constexpr std::uint64_t kGigabyte = 1'000'000'000;

// Memory, its bandwidth, dense bfloat16 products, float32 arithmetic, dense products of eight bits, from the data
// sheets. Those of eight bits are of FP8 and INT8 alike; an A100 has INT8 alone.
constexpr auto kProducts = std::to_array<ProductRates>({
    {"NVIDIA H200", {141 * kGigabyte, 4.8e12, 989e12, 67e12, 1979e12}},
    {"NVIDIA H100 80GB HBM3", {80 * kGigabyte, 3.35e12, 989e12, 67e12, 1979e12}},
    {"NVIDIA H100 PCIe", {80 * kGigabyte, 2.0e12, 756e12, 51e12, 1513e12}},
    {"NVIDIA A100-SXM4-80GB", {80 * kGigabyte, 2.039e12, 312e12, 19.5e12, 624e12}},
    {"NVIDIA A100-SXM4-40GB", {40 * kGigabyte, 1.555e12, 312e12, 19.5e12, 624e12}},
    {"NVIDIA A100 80GB PCIe", {80 * kGigabyte, 1.935e12, 312e12, 19.5e12, 624e12}},
    {"NVIDIA L40S", {48 * kGigabyte, 0.864e12, 362e12, 91.6e12, 733e12}},
    {"NVIDIA L4", {24 * kGigabyte, 0.3e12, 121e12, 30.3e12, 242e12}},
});

}  // namespace

const HardwareRates* find_nvidia_rates(std::string_view product) {
  const auto* row =
      std::ranges::find_if(kProducts, [=](const ProductRates& entry) { return product == entry.product; });
  return row == kProducts.end() ? nullptr : &row->rates;
}

std::span<const NvidiaArchitecture> nvidia_architectures() { return kTable; }

const NvidiaArchitecture* find_nvidia_architecture(int major, int minor) {
  const auto* row = std::ranges::find_if(
      kTable, [=](const NvidiaArchitecture& entry) { return entry.major == major && entry.minor == minor; });
  return row == kTable.end() ? nullptr : row;
}

std::string nvidia_architecture_name(int major, int minor) {
  const NvidiaArchitecture* row = find_nvidia_architecture(major, minor);
  return row != nullptr ? std::string(row->name) : fmt::format("unknown ({})", nvidia_target_name(major, minor));
}

std::vector<Precision> nvidia_matrix_precisions(int major, int minor) {
  const NvidiaArchitecture* row = find_nvidia_architecture(major, minor);
  if (row == nullptr) return {};
  return {row->matrix_precisions.begin(), row->matrix_precisions.end()};
}

std::string nvidia_target_name(int major, int minor) { return fmt::format("sm_{}{}", major, minor); }

}  // namespace kpt
