#include "engines/xla/pjrt/plugin_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/python_environments.h"
#include "support/hardware_fixture.h"

namespace kpt {
namespace {

using testing::HardwareFixture;

nlohmann::ordered_json to_json(const std::vector<PluginCandidate>& candidates, const std::string& root) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const PluginCandidate& candidate : candidates) {
    std::string path = candidate.path.string();
    if (path.starts_with(root)) path.erase(0, root.size());
    json.push_back({{"name", candidate.name},
                    {"path", path},
                    {"source", candidate.source},
                    {"note", candidate.note},
                    {"fault", candidate.fault}});
  }
  return json;
}

class PluginSearch : public ::testing::TestWithParam<std::filesystem::path> {};

// The fixture's "driver" may hold the option pjrt.plugins.
TEST_P(PluginSearch, FollowsTheDocumentedOrder) {
  const HardwareFixture fixture = HardwareFixture::load(GetParam());
  DetectionContext context = fixture.context();
  context.site_packages = find_site_packages(context.environment, "");
  if (fixture.driver().contains("pjrt_plugins")) {
    context.pjrt_plugins = fixture.driver()["pjrt_plugins"].get<std::vector<std::string>>();
  }
  const auto found = to_json(find_plugins(context), fixture.root().string());
  EXPECT_EQ(testing::find_difference(fixture.expect(), found), std::nullopt) << fixture.description() << "\n"
                                                                             << found.dump(2);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, PluginSearch, ::testing::ValuesIn(testing::list_fixtures("pjrt")),
                         [](const auto& parameter) { return parameter.param.stem().string(); });

TEST(PluginSearchLimits, AFolderFullOfPluginsIsCutOffAndSaidSo) {
  DetectionContext context;
  for (int i = 0; i < 100; ++i) context.pjrt_plugins.push_back(std::to_string(i) + "=/no/such.so");
  const auto found = find_plugins(context);
  ASSERT_EQ(found.size(), 64U);
  EXPECT_EQ(found[62].fault, "");
  EXPECT_THAT(found[63].fault, ::testing::HasSubstr("more than 63 plugins"));
}

}  // namespace
}  // namespace kpt
