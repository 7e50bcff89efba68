#include "backends/tpu/architecture.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace kpt {
namespace {

std::string_view name_of(const TpuGeneration* generation) { return generation == nullptr ? "" : generation->name; }

TEST(TpuArchitecture, SliceTypesAreRecognised) {
  EXPECT_EQ(name_of(find_tpu_generation("v2-8")), "v2");
  EXPECT_EQ(name_of(find_tpu_generation("v3-32")), "v3");
  EXPECT_EQ(name_of(find_tpu_generation("v4-256")), "v4");
  EXPECT_EQ(name_of(find_tpu_generation("v5litepod-8")), "v5e");
  EXPECT_EQ(name_of(find_tpu_generation("V5Lite-4")), "v5e");
  EXPECT_EQ(name_of(find_tpu_generation("v5p-8")), "v5p");
  EXPECT_EQ(name_of(find_tpu_generation("v6e-16")), "v6e");
  EXPECT_EQ(name_of(find_tpu_generation("tpu7x-8")), "v7");
}

TEST(TpuArchitecture, NothingIsGuessed) {
  for (const char* name : {"", "-", "v5", "v8", "v50e", "v5litepod-", "tpu8i-4", "x-v4-8"}) {
    EXPECT_EQ(find_tpu_generation(name), nullptr) << name;
  }
  EXPECT_EQ(find_tpu_generation(0x0027, 0x0000), nullptr);
  EXPECT_EQ(find_tpu_generation(0x0056, 0x0000), nullptr);
}

TEST(TpuArchitecture, SubsystemTellsV2FromV3) {
  EXPECT_EQ(name_of(find_tpu_generation(0x0027, 0x004e)), "v2");
  EXPECT_EQ(name_of(find_tpu_generation(0x0027, 0x004f)), "v3");
  EXPECT_EQ(name_of(find_tpu_generation(0x0063, 0x1234)), "v5e");
}

TEST(TpuArchitecture, EightBitsCountWhereTheyAreFaster) {
  const auto products = [](const char* name) { return matrix_dtypes_of(*find_tpu_generation(name)); };
  EXPECT_EQ(products("v4"), std::vector{DType::kBFloat16});
  for (const char* name : {"v5e", "v5p", "v6e"}) {
    EXPECT_EQ(products(name), (std::vector{DType::kBFloat16, DType::kInt8})) << name;
  }
  EXPECT_EQ(products("v7"), (std::vector{DType::kBFloat16, DType::kFloat8E4M3FN}));
  for (const TpuGeneration& row : tpu_generations()) {
    EXPECT_TRUE(row.narrow_flops_per_second == 0 || row.narrow_flops_per_second > row.bf16_flops_per_second)
        << row.name;
  }
}

TEST(TpuArchitecture, EveryRowIsFoundByItsOwnNameAndIds) {
  ASSERT_EQ(tpu_generations().size(), 7U);
  for (const TpuGeneration& row : tpu_generations()) {
    EXPECT_EQ(name_of(find_tpu_generation(row.name)), row.name);
    EXPECT_EQ(name_of(find_tpu_generation(row.pci_device, row.pci_subsystem)), row.name);
    EXPECT_GT(row.hbm_bytes_per_chip, 0U) << row.name;
    EXPECT_TRUE(row.cores_per_chip == 1 || row.cores_per_chip == 2) << row.name;
  }
}

}  // namespace
}  // namespace kpt
