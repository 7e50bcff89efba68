#include "backends/tpu/topology.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace kpt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(TpuTopology, NamesAreReadInAllTheirForms) {
  const TpuTopology plain = parse_tpu_target("tpu:v5e:2x2").value();
  EXPECT_EQ(plain.target_name(), "tpu:v5e:2x2");
  EXPECT_EQ(plain.compiler_name, "v5e:2x2");
  EXPECT_EQ(plain.chips, 4);
  EXPECT_THAT(plain.chips_per_host, IsEmpty());
  EXPECT_EQ(parse_tpu_target("tpu:v5e")->target_name(), "tpu:v5e:2x2");
  EXPECT_EQ(parse_tpu_target(" TPU:V5LitePod:4x4 ")->target_name(), "tpu:v5e:4x4");
  EXPECT_EQ(parse_tpu_target("tpu:tpu7x")->target_name(), "tpu:v7:2x2x1");
  EXPECT_EQ(parse_tpu_target("tpu:v7")->compiler_name, "tpu7x:2x2x1");
  EXPECT_EQ(parse_tpu_target("tpu:v4:2x2x4")->chips, 16);
}

TEST(TpuTopology, OneChipIsToldToTheCompiler) {
  EXPECT_THAT(parse_tpu_target("tpu:v6e:1x1")->chips_per_host, ElementsAre(1, 1, 1));
}

TEST(TpuTopology, WhatIsNoTargetIsASentenceWithWhatIsValid) {
  for (const char* name : {"", "tpu", "tpu:", "v5e:2x2", "cpu", "tpu:v9", "tpu:v5", "tpu::2x2", "tpu:v5e:2x2:1",
                           "tpu:v5litepod-8", "tpu:0", "nvidia:sm_90"}) {
    const auto parsed = parse_tpu_target(name);
    ASSERT_FALSE(parsed.ok()) << name;
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(parsed.status().vendor(), Vendor::kTpu) << name;
    EXPECT_THAT(parsed.status().message(), HasSubstr("tpu:v5e")) << name;
  }
  for (const char* name : {"tpu:v5e:", "tpu:v5e:0x0", "tpu:v5e:3x3", "tpu:v5e:2x2x1", "tpu:v4:2x2", "tpu:v4:x",
                           "tpu:v5e:99999999999999999999x2"}) {
    const auto parsed = parse_tpu_target(name);
    ASSERT_FALSE(parsed.ok()) << name;
    EXPECT_THAT(parsed.status().message(), HasSubstr("is no shape of TPU")) << name;
  }
  EXPECT_THAT(parse_tpu_target("tpu:v2:2x2").status().message(), HasSubstr("not compiled for TPU v2"));
}

TEST(TpuTopology, EveryRowOfTheTableIsFoundByItsName) {
  std::set<std::string> names;
  for (const TpuTopology& row : tpu_topologies()) {
    const auto parsed = parse_tpu_target(row.target_name());
    ASSERT_TRUE(parsed.ok()) << row.target_name();
    EXPECT_EQ(parsed->compiler_name, row.compiler_name);
    EXPECT_EQ(parsed->chips, row.chips);
    EXPECT_TRUE(names.insert(row.target_name()).second) << row.target_name();
    const auto parts = split(row.shape, 'x');
    EXPECT_EQ(static_cast<int>(parts.size()), row.generation->topology_dimensions) << row.target_name();
    std::int64_t chips = 1;
    for (const auto part : parts) chips *= parse_int(part).value();
    EXPECT_EQ(chips, row.chips) << row.target_name();
  }
  EXPECT_GE(names.size(), 5U);
}

TEST(TpuTopology, RatesAreThoseOfOneDevice) {
  const HardwareRates v5e = rates_of(*find_tpu_generation("v5e"));
  EXPECT_EQ(v5e.memory_bytes, std::uint64_t{16} << 30U);
  EXPECT_EQ(v5e.matrix_flops_per_second, 197e12);
  const HardwareRates v7 = rates_of(*find_tpu_generation("v7"));
  EXPECT_EQ(v7.memory_bytes, std::uint64_t{96} << 30U);
  EXPECT_EQ(v5e.devices_per_chip, 1);
  EXPECT_EQ(v7.devices_per_chip, 2);
  EXPECT_EQ(v7.bytes_per_second, 3690e9);
  EXPECT_EQ(v7.narrow_flops_per_second, 2307e12);
  for (const TpuGeneration& row : tpu_generations()) {
    const HardwareRates rates = rates_of(row);
    EXPECT_GT(rates.bytes_per_second, 0) << row.name;
    // No generation computes less than 50 operations for each byte that it can fetch.
    EXPECT_GT(rates.matrix_flops_per_second / rates.bytes_per_second, 50) << row.name;
  }
}

}  // namespace
}  // namespace kpt
