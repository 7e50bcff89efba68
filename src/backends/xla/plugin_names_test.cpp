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

}  // namespace
}  // namespace kpt
