#include "backends/cpu/arm_cores.h"

#include <gtest/gtest.h>

namespace kpt {
namespace {

TEST(ArmCores, TheSamePartNumberOfAnotherMakerIsAnotherCore) {
  EXPECT_EQ(find_arm_core(0x41, 0xd49), "Neoverse-N2");
  EXPECT_EQ(find_arm_core(0x6d, 0xd49), "Azure Cobalt 100");
  EXPECT_EQ(find_arm_core(0xc0, 0xd49), "");
}

TEST(ArmCores, ServerCoresAreKnown) {
  EXPECT_EQ(find_arm_core(0x41, 0xd0c), "Neoverse-N1");
  EXPECT_EQ(find_arm_core(0x41, 0xd40), "Neoverse-V1");
  EXPECT_EQ(find_arm_core(0x41, 0xd4f), "Neoverse-V2");
  EXPECT_EQ(find_arm_core(0x41, 0xd84), "Neoverse-V3");
  EXPECT_EQ(find_arm_core(0x41, 0xd8e), "Neoverse-N3");
  EXPECT_EQ(find_arm_core(0xc0, 0xac3), "Ampere-1");
}

}  // namespace
}  // namespace kpt
