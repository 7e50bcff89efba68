#include "backends/nvidia/architecture.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "device/hardware_json.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(NvidiaArchitecture, EveryGenerationHasItsName) {
  EXPECT_EQ(nvidia_architecture_name(6, 1), "Pascal");
  EXPECT_EQ(nvidia_architecture_name(7, 0), "Volta");
  EXPECT_EQ(nvidia_architecture_name(7, 5), "Turing");
  EXPECT_EQ(nvidia_architecture_name(8, 0), "Ampere");
  EXPECT_EQ(nvidia_architecture_name(8, 6), "Ampere");
  EXPECT_EQ(nvidia_architecture_name(8, 9), "Ada");
  EXPECT_EQ(nvidia_architecture_name(9, 0), "Hopper");
  for (const auto& [major, minor] : {std::pair(10, 0), {10, 1}, {10, 3}, {11, 0}, {12, 0}, {12, 1}}) {
    EXPECT_EQ(nvidia_architecture_name(major, minor), "Blackwell") << major << "." << minor;
  }
}

TEST(NvidiaArchitecture, AdaHasFp8AndAmpereHasNot) {
  EXPECT_THAT(nvidia_matrix_precisions(8, 9), Contains(Precision::kFp8));
  EXPECT_THAT(nvidia_matrix_precisions(8, 0), Not(Contains(Precision::kFp8)));
  EXPECT_THAT(nvidia_matrix_precisions(8, 6), Not(Contains(Precision::kFp8)));
}

TEST(NvidiaArchitecture, PrecisionsPerGeneration) {
  using enum Precision;
  EXPECT_THAT(nvidia_matrix_precisions(6, 0), IsEmpty());
  EXPECT_THAT(nvidia_matrix_precisions(7, 0), ElementsAre(kFp16));
  EXPECT_THAT(nvidia_matrix_precisions(7, 5), ElementsAre(kFp16, kInt8, kInt4));
  EXPECT_THAT(nvidia_matrix_precisions(9, 0), ElementsAre(kFp64, kTf32, kFp16, kBf16, kFp8, kInt8));
  EXPECT_THAT(nvidia_matrix_precisions(10, 0), Contains(kFp4));
  EXPECT_THAT(nvidia_matrix_precisions(10, 3), Not(Contains(kInt8)));
  EXPECT_THAT(nvidia_matrix_precisions(12, 0), Contains(kFp6));
}

TEST(NvidiaArchitecture, UnknownCapabilityIsNotANeighbour) {
  EXPECT_EQ(find_nvidia_architecture(9, 9), nullptr);
  EXPECT_EQ(nvidia_architecture_name(14, 2), "unknown (sm_142)");
  EXPECT_THAT(nvidia_matrix_precisions(14, 2), IsEmpty());
  EXPECT_THAT(nvidia_matrix_precisions(-1, 0), IsEmpty());
}

TEST(NvidiaArchitecture, ThePageHasEveryRow) {
  const std::string page = read_text_file(source_dir() + "/docs/backends/nvidia.md", 1U << 20U).value();
  for (const NvidiaArchitecture& row : nvidia_architectures()) {
    std::string line = fmt::format("| `{}` | {} |", nvidia_target_name(row.major, row.minor), row.name);
    for (const Precision precision : row.matrix_precisions) line += fmt::format(" {}", to_string(precision));
    if (row.matrix_precisions.empty()) line += " none";
    EXPECT_THAT(page, ::testing::HasSubstr(line + " |\n"));
  }
}

TEST(NvidiaArchitecture, RatesBelongToOneProduct) {
  ASSERT_NE(find_nvidia_rates("NVIDIA H200"), nullptr);
  EXPECT_DOUBLE_EQ(find_nvidia_rates("NVIDIA H200")->bytes_per_second, 4.8e12);
  EXPECT_NE(find_nvidia_rates("NVIDIA L4"), nullptr);
  for (const char* other : {"NVIDIA L40", "NVIDIA H200 NVL", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA H2", ""}) {
    EXPECT_EQ(find_nvidia_rates(other), nullptr) << other;
  }
}

TEST(NvidiaArchitecture, EightBitsAreTwiceAsFastAsBfloat16) {
  EXPECT_DOUBLE_EQ(find_nvidia_rates("NVIDIA H200")->narrow_flops_per_second, 1979e12);
  EXPECT_DOUBLE_EQ(find_nvidia_rates("NVIDIA L40S")->narrow_flops_per_second, 733e12);
  for (const char* product : {"NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA A100-SXM4-80GB",
                              "NVIDIA A100-SXM4-40GB", "NVIDIA A100 80GB PCIe", "NVIDIA L40S", "NVIDIA L4"}) {
    const HardwareRates* const rates = find_nvidia_rates(product);
    ASSERT_NE(rates, nullptr) << product;
    EXPECT_NEAR(rates->narrow_flops_per_second / rates->matrix_flops_per_second, 2, 0.03) << product;
  }
}

TEST(NvidiaArchitecture, TargetName) {
  EXPECT_EQ(nvidia_target_name(9, 0), "sm_90");
  EXPECT_EQ(nvidia_target_name(12, 1), "sm_121");
}

TEST(NvidiaArchitecture, TableIsSortedAndWithoutRepeats) {
  const auto key = [](const NvidiaArchitecture& row) { return std::pair(row.major, row.minor); };
  EXPECT_TRUE(std::ranges::is_sorted(nvidia_architectures(), {}, key));
  EXPECT_EQ(std::ranges::adjacent_find(nvidia_architectures(), {}, key), nvidia_architectures().end());
}

}  // namespace
}  // namespace kpt
