#include "backends/amd/architecture_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using ::testing::HasSubstr;

std::function<AmdReport()> machine_with(const std::vector<std::string>& gfx_targets) {
  return [gfx_targets] {
    AmdReport report;
    for (const std::string& target : gfx_targets) {
      AmdGpu gpu;
      gpu.gfx_target = target;
      report.gpus.push_back(gpu);
    }
    return report;
  };
}

TEST(AmdArchitectureChoice, AutoIsTheGpuAtHand) {
  EXPECT_EQ(choose_amd_target("", machine_with({"gfx1100"})).value_or(""), "gfx1100");
  EXPECT_EQ(choose_amd_target("", machine_with({"gfx942", "gfx942"})).value_or(""), "gfx942");
  EXPECT_EQ(choose_amd_target("", machine_with({"gfx9999", "gfx90a"})).value_or(""), "gfx90a");
}

TEST(AmdArchitectureChoice, WithoutAnAnswerItSaysWhatToName) {
  const Status none = choose_amd_target("", machine_with({})).status();
  EXPECT_EQ(none.code(), StatusCode::kDeviceNotAvailable);
  EXPECT_EQ(none.vendor(), Vendor::kAmd);
  EXPECT_EQ(choose_amd_target("", machine_with({"gfx9999"})).status().code(), StatusCode::kDeviceNotAvailable);
  const Status several = choose_amd_target("", machine_with({"gfx942", "gfx1100"})).status();
  EXPECT_EQ(several.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(several.message(), HasSubstr("are gfx1100, gfx942; name the one that is meant"));
}

TEST(AmdArchitectureChoice, AUsersChoiceIsNotAskedAbout) {
  const auto nobody = []() -> AmdReport {
    ADD_FAILURE() << "detection was asked";
    return {};
  };
  EXPECT_EQ(choose_amd_target("gfx950", nobody).value_or(""), "gfx950");
  const Status unknown = choose_amd_target("gfx943", nobody).status();
  EXPECT_EQ(unknown.code(), StatusCode::kConfiguration);
  EXPECT_EQ(unknown.vendor(), Vendor::kAmd);
  EXPECT_THAT(unknown.message(), HasSubstr("amd.architecture is 'gfx943'; valid are auto, gfx"));
}

TEST(AmdArchitectureChoice, AnotherGpuIsOneSentence) {
  EXPECT_TRUE(check_chosen_target("", "amd:0", "gfx1100").ok());
  EXPECT_TRUE(check_chosen_target("gfx1100", "amd:0", "gfx1100").ok());
  const Status status = check_chosen_target("gfx942", "amd:0", "gfx1100");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArchitecture);
  EXPECT_EQ(status.vendor(), Vendor::kAmd);
  EXPECT_EQ(status.message(),
            "amd:0 is gfx1100, and amd.architecture is gfx942; take another device, or set it to auto");
  EXPECT_EQ(check_chosen_target("gfx943", "amd:0", "gfx1100").code(), StatusCode::kConfiguration);
}

}  // namespace
}  // namespace kpt
