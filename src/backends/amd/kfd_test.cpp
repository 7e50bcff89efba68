#include "backends/amd/kfd.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/hardware_fixture.h"

namespace kpt {
namespace {

using testing::HardwareFixture;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string gpu_text() {
  return "cpu_cores_count 0\nsimd_count 1216\nsimd_per_cu 4\nwave_front_size 64\ngfx_target_version 90402\n"
         "vendor_id 4098\ndevice_id 29857\nlocation_id 3072\ndomain 2\n";
}

KfdTopology read_one(const std::string& properties, const std::string& bank) {
  const nlohmann::json machine = {{"description", "one node"},
                                  {"files",
                                   {{"/sys/class/kfd/kfd/topology/nodes/1/properties", properties},
                                    {"/sys/class/kfd/kfd/topology/nodes/1/mem_banks/0/properties", bank}}},
                                  {"expect", nlohmann::json::object()}};
  const HardwareFixture fixture = HardwareFixture::parse(machine.dump(), "one node");
  return read_kfd_topology(fixture.context().files);
}

TEST(KfdTopology, ReadsAGpu) {
  const KfdTopology topology = read_one(gpu_text(), "heap_type 1\nsize_in_bytes 1024\n");
  EXPECT_THAT(topology.notes, IsEmpty());
  ASSERT_EQ(topology.gpus.size(), 1U);
  EXPECT_EQ(topology.gpus[0].gfx_target, "gfx942");
  EXPECT_EQ(topology.gpus[0].compute_units, 304);
  EXPECT_EQ(topology.gpus[0].pci_bus_id, "0002:0c:00.0");
  EXPECT_EQ(topology.gpus[0].memory_total_bytes, 1024U);
  EXPECT_EQ(topology.gpus[0].name, "AMD Instinct MI300X");
}

TEST(KfdTopology, HostMemoryIsNotVideoMemory) {
  const KfdTopology topology = read_one(gpu_text(), "heap_type 0\nsize_in_bytes 1024\n");
  ASSERT_EQ(topology.gpus.size(), 1U);
  EXPECT_EQ(topology.gpus[0].memory_total_bytes, 0U);
}

TEST(KfdTopology, NoTopologyIsNotPresent) { EXPECT_FALSE(read_kfd_topology(SystemFiles("/nonexistent_root")).present); }

// Prefixes of a node's file, as a reader may see it: never a crash, never an invented target.
TEST(KfdTopology, TruncationAnywhereIsSurvived) {
  const std::string text = gpu_text();
  for (std::size_t length = 0; length < text.size(); length += 7) {
    const KfdTopology topology = read_one(text.substr(0, length), "heap_type 1\nsize_in_bytes 1024\n");
    for (const AmdGpu& gpu : topology.gpus) {
      EXPECT_TRUE(gpu.gfx_target == "gfx942" || gpu.gfx_target.empty()) << length << " " << gpu.gfx_target;
    }
  }
}

TEST(KfdTopology, RandomBytesAreSurvived) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    std::string text = gpu_text();
    for (int change = 0; change < 8; ++change) text[random() % text.size()] = static_cast<char>(random() % 128);
    const KfdTopology topology = read_one(text, "heap_type 1\nsize_in_bytes 1024\n");
    EXPECT_LE(topology.gpus.size(), 1U);
  }
}

}  // namespace
}  // namespace kpt
