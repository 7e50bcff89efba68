#include "backends/xla/plugin_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

PjrtPlugin plugin(const std::string& name, Presence presence = Presence::kPresent) {
  PjrtPlugin made;
  made.name = name;
  made.finding.presence = presence;
  return made;
}

TEST(XlaDeviceNames, KnownKindsHaveShortNames) {
  EXPECT_THAT(name_xla_devices({plugin("xla_cpu_pjrt"), plugin("xla_cuda13"), plugin("xla_rocm7"), plugin("tpu")}),
              ::testing::ElementsAre("xla:cpu", "xla:cuda", "xla:rocm", "xla:tpu"));
  EXPECT_THAT(name_xla_devices({plugin("cpu"), plugin("mine"), plugin("mycpu")}),
              ::testing::ElementsAre("xla:cpu", "xla:mine", "xla:mycpu"));
  EXPECT_TRUE(name_xla_devices({}).empty());
}

TEST(XlaDeviceNames, TheFirstUsableOneGetsTheShortName) {
  EXPECT_THAT(
      name_xla_devices({plugin("xla_cuda12", Presence::kBroken), plugin("xla_cuda13"), plugin("xla_cuda13_nightly")}),
      ::testing::ElementsAre("xla:xla_cuda12", "xla:cuda", "xla:xla_cuda13_nightly"));
}

TEST(XlaDeviceNames, AreThoseThatTheKindAloneGives) {
  const std::vector<PjrtPlugin> all = {plugin("xla_cuda12"), plugin("cpu"), plugin("xla_cuda13"), plugin("mine")};
  const std::vector<std::string> names = name_xla_devices(all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<PjrtPlugin> kind;
    std::size_t place = 0;
    for (const PjrtPlugin& other : all) {
      if (plugin_kind(other.name) != plugin_kind(names[i].substr(4))) continue;
      if (other.name == all[i].name) place = kind.size();
      kind.push_back(other);
    }
    ASSERT_LT(place, kind.size()) << names[i];
    EXPECT_EQ(name_xla_devices(kind)[place], names[i]);
    EXPECT_EQ(kind.size(), plugin_kind(all[i].name) == "cuda" ? 2U : 1U) << names[i];
  }
}

}  // namespace
}  // namespace kpt
