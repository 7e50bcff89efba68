#include "device/python_environments.h"

#include <gtest/gtest.h>

#include "support/hardware_fixture.h"

namespace kpt {
namespace {

using testing::HardwareFixture;

TEST(PythonEnvironments, OrderIsTorchThenVirtualEnvironmentThenConda) {
  const HardwareFixture fixture = HardwareFixture::parse(R"({
    "description": "three environments, one with two Pythons",
    "files": {
      "/torch_env/lib/python3.12/site-packages/torch": {"folder": true},
      "/venv/lib/python3.9/site-packages": {"folder": true},
      "/venv/lib/python3.11/site-packages": {"folder": true},
      "/venv/lib/python3.10": {"folder": true},
      "/venv/lib/python3.x/site-packages": {"folder": true},
      "/venv/lib64": {"link": "lib"},
      "/conda/lib64/python3.13/site-packages": {"folder": true}
    },
    "environment": {"VIRTUAL_ENV": "$ROOT/venv", "CONDA_PREFIX": "$ROOT/conda"},
    "expect": {}
  })",
                                                         "order");
  const auto root = fixture.root();
  const auto folders =
      find_site_packages(fixture.context().environment, root / "torch_env/lib/python3.12/site-packages/torch");
  const std::vector<std::filesystem::path> expected = {
      root / "torch_env/lib/python3.12/site-packages", root / "venv/lib/python3.11/site-packages",
      root / "venv/lib/python3.9/site-packages", root / "conda/lib64/python3.13/site-packages"};
  EXPECT_EQ(folders, expected);
}

TEST(PythonEnvironments, TorchInsideTheActiveEnvironmentIsListedOnce) {
  const HardwareFixture fixture = HardwareFixture::parse(R"({
    "description": "one environment, reached by two ways",
    "files": {"/venv/lib/python3.11/site-packages/torch": {"folder": true}},
    "environment": {"VIRTUAL_ENV": "$ROOT/venv", "CONDA_PREFIX": "$ROOT/venv"},
    "expect": {}
  })",
                                                         "once");
  const auto site_packages = fixture.root() / "venv/lib/python3.11/site-packages";
  const std::vector<std::filesystem::path> expected = {site_packages};
  EXPECT_EQ(find_site_packages(fixture.context().environment, site_packages / "torch"), expected);
  EXPECT_EQ(find_site_packages(fixture.context().environment, (site_packages / "torch").string() + "/"), expected);
}

TEST(PythonEnvironments, NothingActiveGivesNothing) {
  EXPECT_TRUE(find_site_packages(Environment::from_map({}), "").empty());
  EXPECT_TRUE(find_site_packages(Environment::from_map({{"VIRTUAL_ENV", "/no/such/folder"}}), "torch").empty());
}

}  // namespace
}  // namespace kpt
