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
  EXPECT_EQ(find_amd_rates("AMD Radeon RX 7900 XT"), nullptr) << "not those of a neighbour";
  EXPECT_EQ(find_amd_rates(""), nullptr);
}

}  // namespace
}  // namespace kpt
