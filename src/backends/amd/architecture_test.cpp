#include "backends/amd/architecture.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/amd/pci_ids.h"

namespace kpt {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(AmdArchitecture, KernelNumbersBecomeTargetNames) {
  EXPECT_EQ(gfx_target_from_kfd(90008), "gfx908");
  EXPECT_EQ(gfx_target_from_kfd(90010), "gfx90a");
  EXPECT_EQ(gfx_target_from_kfd(90402), "gfx942");
  EXPECT_EQ(gfx_target_from_kfd(90500), "gfx950");
  EXPECT_EQ(gfx_target_from_kfd(100300), "gfx1030");
  EXPECT_EQ(gfx_target_from_kfd(110000), "gfx1100");
  EXPECT_EQ(gfx_target_from_kfd(110501), "gfx1151");
  EXPECT_EQ(gfx_target_from_kfd(120001), "gfx1201");
}

TEST(AmdArchitecture, ImpossibleKernelNumbersGiveNothing) {
  EXPECT_EQ(gfx_target_from_kfd(0), std::nullopt);
  EXPECT_EQ(gfx_target_from_kfd(99), std::nullopt);
  EXPECT_EQ(gfx_target_from_kfd(90016), std::nullopt);
  EXPECT_EQ(gfx_target_from_kfd(91600), std::nullopt);
  EXPECT_EQ(gfx_target_from_kfd(18446744073709551615U), std::nullopt);
}

TEST(AmdArchitecture, Fp8FlavourPerTarget) {
  EXPECT_EQ(find_amd_architecture("gfx90a")->fp8_flavour, Fp8Flavour::kNone);
  EXPECT_EQ(find_amd_architecture("gfx942")->fp8_flavour, Fp8Flavour::kFnuz);
  EXPECT_EQ(find_amd_architecture("gfx950")->fp8_flavour, Fp8Flavour::kOcp);
  EXPECT_EQ(find_amd_architecture("gfx1100")->fp8_flavour, Fp8Flavour::kNone);
  EXPECT_EQ(find_amd_architecture("gfx1201")->fp8_flavour, Fp8Flavour::kOcp);
}

TEST(AmdArchitecture, RowsAgreeWithThemselves) {
  std::set<std::string_view> targets;
  for (const AmdArchitecture& row : amd_architectures()) {
    SCOPED_TRACE(row.gfx_target);
    EXPECT_TRUE(targets.insert(row.gfx_target).second);
    const bool has_fp8 = std::ranges::find(row.matrix_precisions, Precision::kFp8) != row.matrix_precisions.end();
    EXPECT_EQ(has_fp8, row.fp8_flavour != Fp8Flavour::kNone);
    EXPECT_EQ(row.matrix_unit == AmdMatrixUnit::kNone, row.matrix_precisions.empty());
    if (row.matrix_unit != AmdMatrixUnit::kNone) {
      EXPECT_EQ(row.wavefront_size, row.matrix_unit == AmdMatrixUnit::kMfma ? 64 : 32);
    }
    EXPECT_EQ(row.lds_bytes, row.gfx_target == "gfx950" ? 163840U : 65536U);
    EXPECT_EQ(row.lds_bytes % row.lds_granule, 0U);
    EXPECT_GT(row.registers.max_waves, 0);
    EXPECT_EQ(row.registers.registers % row.registers.granule, 0);
    EXPECT_EQ(row.matrix_instructions.empty(), row.matrix_unit == AmdMatrixUnit::kNone);
    for (const AmdMatrixInstruction& instruction : row.matrix_instructions) {
      EXPECT_THAT(row.matrix_precisions, Contains(instruction.precision)) << instruction.name;
      EXPECT_TRUE(instruction.name.starts_with(row.matrix_unit == AmdMatrixUnit::kMfma ? "mfma_" : "wmma_"));
      // "…_16x16x32_…": the shape is in the name.
      const std::string shape = fmt::format("_{}x{}x{}", instruction.m, instruction.n, instruction.k);
      const std::size_t at = instruction.name.find(shape);
      ASSERT_NE(at, std::string_view::npos) << instruction.name;
      const std::size_t end = at + shape.size();
      EXPECT_TRUE(end == instruction.name.size() || instruction.name[end] < '0' || instruction.name[end] > '9');
    }
    for (const Precision precision : row.matrix_precisions) {
      EXPECT_NE(std::ranges::find(row.matrix_instructions, precision, &AmdMatrixInstruction::precision),
                row.matrix_instructions.end());
    }
  }
}

TEST(AmdArchitecture, EveryTargetOfTheReleaseHasARow) {
  for (const char* target : {"gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1101", "gfx1102",
                             "gfx1103", "gfx1150", "gfx1151", "gfx1200", "gfx1201"}) {
    EXPECT_NE(find_amd_architecture(target), nullptr) << target;
  }
}

TEST(AmdArchitecture, Tf32OnlyOnCdna3) {
  EXPECT_THAT(find_amd_architecture("gfx942")->matrix_precisions, Contains(Precision::kTf32));
  EXPECT_THAT(find_amd_architecture("gfx950")->matrix_precisions, Not(Contains(Precision::kTf32)));
}

TEST(AmdArchitecture, UnknownTargetIsNotANeighbour) {
  EXPECT_EQ(find_amd_architecture("gfx943"), nullptr);
  AmdGpu gpu;
  gpu.gfx_target = "gfx1250";
  gpu.wavefront_size = 32;
  describe_amd_target(gpu);
  EXPECT_EQ(gpu.architecture, "unknown (gfx1250)");
  EXPECT_EQ(gpu.wavefront_size, 32);
  EXPECT_FALSE(gpu.has_matrix_cores);
  EXPECT_THAT(gpu.matrix_precisions, IsEmpty());
}

TEST(AmdPciIds, EveryIdNamesATargetOfTheTable) {
  EXPECT_TRUE(std::ranges::is_sorted(amd_pci_ids(), {}, &AmdPciId::device));
  EXPECT_EQ(std::ranges::adjacent_find(amd_pci_ids(), {}, &AmdPciId::device), amd_pci_ids().end());
  for (const AmdPciId& id : amd_pci_ids()) {
    EXPECT_NE(find_amd_architecture(id.gfx_target), nullptr) << id.product;
  }
  EXPECT_EQ(find_amd_pci_id(0x74a1)->gfx_target, "gfx942");
  EXPECT_EQ(find_amd_pci_id(0xffff), nullptr);
}

TEST(AmdArchitecture, RatesAreThoseOfTheProduct) {
  const HardwareRates* const rates = find_amd_rates("AMD Instinct MI300X OAM");
  ASSERT_NE(rates, nullptr);
  EXPECT_EQ(rates->memory_bytes, 192'000'000'000U);
  EXPECT_EQ(rates->matrix_flops_per_second, 1307.4e12);
  EXPECT_EQ(rates->narrow_flops_per_second, 2614.9e12);
  EXPECT_EQ(find_amd_rates("AMD Radeon RX 7900 XTX")->bytes_per_second, 0.96e12);
  EXPECT_EQ(find_amd_rates("AMD Radeon RX 7900 XT")->bytes_per_second, 0.8e12);
  EXPECT_EQ(find_amd_rates("AMD Radeon RX 6800")->float32_flops_per_second, 16.17e12);
  for (const char* neighbour : {"AMD Radeon RX 7900 GRE", "AMD Radeon RX 6800M", "AMD Radeon RX 7600S",
                                "AMD Radeon RX 7700 XT/7800 XT", "AMD Radeon RX 9070", ""}) {
    EXPECT_EQ(find_amd_rates(neighbour), nullptr) << neighbour;
  }
}

// One product stands for a target: none that the driver may show instead is faster.
TEST(AmdArchitecture, RatesOfATargetAreThoseOfItsFastestProduct) {
  struct Products {
    const char* target;
    std::vector<const char*> products;
  };
  for (const auto& [target, products] :
       {Products{"gfx950", {"MI355X", "MI350X"}}, Products{"gfx942", {"MI325X", "MI300X", "MI300A"}},
        Products{"gfx90a", {"MI250X", "MI210"}}, Products{"gfx908", {"MI100"}},
        Products{"gfx1030", {"RX 6950 XT", "RX 6900 XT", "RX 6800 XT", "RX 6800"}},
        Products{"gfx1100", {"RX 7900 XTX", "RX 7900 XT"}}, Products{"gfx1101", {"RX 7800 XT", "RX 7700 XT"}},
        Products{"gfx1102", {"RX 7600 XT", "RX 7600"}}, Products{"gfx1103", {"Radeon 780M"}},
        Products{"gfx1150", {"Radeon 890M"}}, Products{"gfx1151", {"Radeon 8060S"}},
        Products{"gfx1200", {"RX 9060 XT"}}, Products{"gfx1201", {"RX 9070 XT"}}}) {
    SCOPED_TRACE(target);
    const HardwareRates* const fastest = find_amd_target_rates(target);
    ASSERT_NE(fastest, nullptr);
    EXPECT_EQ(fastest, find_amd_rates(products.front()));
    for (const char* product : products) {
      const HardwareRates* const rates = find_amd_rates(product);
      ASSERT_NE(rates, nullptr) << product;
      EXPECT_LE(rates->bytes_per_second, fastest->bytes_per_second) << product;
      EXPECT_LE(rates->matrix_flops_per_second, fastest->matrix_flops_per_second) << product;
      EXPECT_LE(rates->float32_flops_per_second, fastest->float32_flops_per_second) << product;
      EXPECT_LE(rates->narrow_flops_per_second, fastest->narrow_flops_per_second) << product;
    }
  }
  EXPECT_EQ(find_amd_target_rates("gfx1152"), nullptr) << "not those of a neighbour";
}

// What the rates say of matrix cores is what the table of targets says of them.
TEST(AmdArchitecture, RatesAgreeWithTheMatrixCores) {
  for (const AmdArchitecture& row : amd_architectures()) {
    const HardwareRates* const rates = find_amd_target_rates(row.gfx_target);
    if (rates == nullptr) continue;
    SCOPED_TRACE(row.gfx_target);
    EXPECT_EQ(rates->matrix_flops_per_second > 0, row.matrix_unit != AmdMatrixUnit::kNone);
    if (rates->matrix_flops_per_second > 0) {
      EXPECT_GT(rates->matrix_flops_per_second, rates->float32_flops_per_second);
    }
    if (rates->narrow_flops_per_second > 0) {
      EXPECT_NEAR(rates->narrow_flops_per_second / rates->matrix_flops_per_second, 2, 1e-3);
    }
  }
}

}  // namespace
}  // namespace kpt
