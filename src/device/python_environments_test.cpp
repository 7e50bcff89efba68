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

TEST(PythonEnvironments, WhatIsInstalledGoesIntoTheFolderThatIsSearched) {
  const HardwareFixture fixture = HardwareFixture::parse(R"({
    "description": "environments with pip, with two Pythons, without an interpreter, without pip, and a system's",
    "files": {
      "/venv/lib/python3.11/site-packages/pip": {"folder": true},
      "/venv/bin/python3": "",
      "/venv/bin/python": {"link": "python3"},
      "/venv/bin/python3.11": {"link": "python3"},
      "/two/lib/python3.11/site-packages/pip": {"folder": true},
      "/two/lib/python3.13/site-packages/pip": {"folder": true},
      "/two/bin/python": "",
      "/two/bin/python3.11": "",
      "/two/bin/python3.13": {"link": "python"},
      "/plain/lib64/python3.12/site-packages/pip": {"folder": true},
      "/plain/bin/python": "",
      "/gone/lib/python3.11/site-packages/pip": {"folder": true},
      "/bare/lib/python3.11/site-packages": {"folder": true},
      "/bare/bin/python": "",
      "/usr/lib/python3/dist-packages/pip": {"folder": true},
      "/usr/bin/python3": "",
      "/usr/bin/python": {"link": "python3"}
    },
    "expect": {}
  })",
                                                         "pip");
  const std::string root = fixture.root().string();
  const auto command = [&](const std::string& folder) { return pip_command(root + folder, "libtpu"); };
  EXPECT_EQ(command("/venv/lib/python3.11/site-packages"), root + "/venv/bin/python -m pip install libtpu");
  EXPECT_EQ(command("/two/lib/python3.11/site-packages"), root + "/two/bin/python3.11 -m pip install libtpu");
  EXPECT_EQ(command("/two/lib/python3.13/site-packages"), root + "/two/bin/python -m pip install libtpu");
  EXPECT_EQ(command("/plain/lib64/python3.12/site-packages"), root + "/plain/bin/python -m pip install libtpu");
  for (const auto& [folder, python] : {std::pair("/gone/lib/python3.11/site-packages", "python3.11"),
                                       std::pair("/bare/lib/python3.11/site-packages", "python3.11"),
                                       std::pair("/usr/lib/python3/dist-packages", "python3")}) {
    EXPECT_EQ(command(folder), python + (" -m pip install --upgrade --target " + root) + folder + " libtpu");
  }
}

TEST(PythonEnvironments, ARemedyNamesTheFirstFolderOrWhatElseThereIs) {
  const std::vector<std::filesystem::path> folders = {"/no/such/a", "/no/such/b"};
  EXPECT_EQ(pip_remedy(folders, "libtpu", "set X"), "python3 -m pip install --upgrade --target /no/such/a libtpu");
  EXPECT_EQ(pip_remedy({}, "libtpu", "set X"), "pip install libtpu into an active virtual environment, or set X");
}

TEST(PythonEnvironments, NothingActiveGivesNothing) {
  EXPECT_TRUE(find_site_packages(Environment::from_map({}), "").empty());
  EXPECT_TRUE(find_site_packages(Environment::from_map({{"VIRTUAL_ENV", "/no/such/folder"}}), "torch").empty());
}

}  // namespace
}  // namespace kpt
