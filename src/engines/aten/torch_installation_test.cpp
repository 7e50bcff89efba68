#include "engines/aten/torch_installation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/build_info.h"
#include "engines/aten/probe_child.h"

namespace kpt {
namespace {

using aten_test::FakeTorch;
using aten_test::TemporaryFolder;
using aten_test::version_py;
using testing::HasSubstr;

TorchSearch search_for(const std::filesystem::path& dir) {
  return {.environment = Environment::from_map({}), .torch_dir = dir.string(), .site_packages = {}};
}

TEST(TorchVersionText, ReleasesLocalTagsAndPreReleasesAreRead) {
  EXPECT_EQ(parse_torch_version("2.15.0"), (aten::TorchVersion{2, 15, 0}));
  EXPECT_EQ(parse_torch_version("2.11.1+cu130"), (aten::TorchVersion{2, 11, 1}));
  EXPECT_EQ(parse_torch_version("2.16.0a0+git1234567"), (aten::TorchVersion{2, 16, 0}));
}

TEST(TorchVersionText, AnythingElseIsNothing) {
  for (const char* text :
       {"", "2", "2.15", "2.15.", "2..0", "v2.15.0", "2.999.0", "-2.15.0", "99999999999999999999.1.1"}) {
    EXPECT_FALSE(parse_torch_version(text)) << text;
  }
}

TEST(TorchVersionText, SupportedRangeIncludesBothEnds) {
  EXPECT_FALSE(is_supported({2, 10, 9}));
  EXPECT_TRUE(is_supported({2, 11, 0}));
  EXPECT_TRUE(is_supported({2, 15, 3}));
  EXPECT_FALSE(is_supported({2, 16, 0}));
  EXPECT_FALSE(is_supported({3, 11, 0}));
  EXPECT_EQ(supported_range(), "2.11 to 2.15");
}

TEST(TorchInstallation, ReadsVersionAndFlavourOfAWheel) {
  const FakeTorch torch("fake_libtorch_silent", version_py("2.15.0+cu132"));
  const auto found = find_torch_installation(search_for(torch.path()));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->dir, torch.path());
  EXPECT_EQ(found->version_text, "2.15.0+cu132");
  EXPECT_EQ(found->flavour, "13.2");
  EXPECT_EQ(found->source, "option torch.dir");
}

TEST(TorchInstallation, TellsTheCudnnOfTheWheelBesideIt) {
  const TemporaryFolder folder;
  folder.copy_fake("fake_libtorch_silent", "torch/lib/libtorch_cpu.so");
  folder.write("torch/version.py", version_py("2.15.0+cu132"));
  const auto version = [&] { return find_torch_installation(search_for(folder.path() / "torch"))->cudnn_version; };
  EXPECT_EQ(version(), "");
  const std::string header = "nvidia/cudnn/include/cudnn_version.h";
  folder.write(header,
               "/* CUDNN_MAJOR 7 */\n#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 26\n#define CUDNN_PATCHLEVEL 0\n"
               "#define CUDNN_VERSION (CUDNN_MAJOR * 10000 + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL)\n");
  EXPECT_EQ(version(), "9.26.0");
  folder.write("torch/version.py", "__version__ = '2.15.0+cpu'\ncuda: Optional[str] = None\n");
  EXPECT_EQ(version(), "") << "somebody else's";
  folder.write("torch/version.py", version_py("2.15.0+cu132"));
  folder.write(header, "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR x\n#define CUDNN_PATCHLEVEL 0\n");
  EXPECT_EQ(version(), "");
}

TEST(TorchInstallation, TellsRocmAndCpuWheelsApart) {
  const FakeTorch rocm(
      "fake_libtorch_silent",
      "__version__ = '2.11.0+rocm7.1'\ncuda: Optional[str] = None\nhip: Optional[str] = '7.1.25424'\n");
  EXPECT_EQ(find_torch_installation(search_for(rocm.path()))->flavour, "rocm 7.1.25424");
  EXPECT_TRUE(find_torch_installation(search_for(rocm.path()))->rocm);
  const FakeTorch cpu("fake_libtorch_silent", "__version__ = \"2.11.0+cpu\"\ncuda: Optional[str] = None\nhip = None\n");
  EXPECT_EQ(find_torch_installation(search_for(cpu.path()))->flavour, "none");
  EXPECT_FALSE(find_torch_installation(search_for(cpu.path()))->rocm);
  // The library itself tells too, whatever the files say of the version.
  cpu.write("lib/libtorch_hip.so", "");
  EXPECT_TRUE(find_torch_installation(search_for(cpu.path()))->rocm);
}

TEST(TorchInstallation, UnpackedArchiveTellsItsVersionInAnotherFile) {
  const FakeTorch torch("fake_libtorch_silent", "");
  torch.write("build-version", "2.11.0+cpu\n");
  EXPECT_EQ(find_torch_installation(search_for(torch.path()))->version, (aten::TorchVersion{2, 11, 0}));
  const auto flavour_of = [&](const char* version) {
    torch.write("build-version", version);
    return find_torch_installation(search_for(torch.path()))->flavour;
  };
  EXPECT_EQ(flavour_of("2.11.0+cpu\n"), "none");
  EXPECT_EQ(flavour_of("2.11.0+cu130\n"), "13.0");
  EXPECT_EQ(flavour_of("2.11.0+rocm7.1\n"), "rocm 7.1");
  EXPECT_TRUE(find_torch_installation(search_for(torch.path()))->rocm);
  EXPECT_EQ(flavour_of("2.11.0\n"), "");
  EXPECT_EQ(flavour_of("2.11.0+cu\n"), "");
}

TEST(TorchInstallation, UnreadableVersionIsAbsentNotInvented) {
  for (const char* text :
       {"", "__version__ = ", "__version__ = '", "__version__ = 2.15.0", "__version__x = '2.15.0'"}) {
    const FakeTorch torch("fake_libtorch_silent", text);
    const auto found = find_torch_installation(search_for(torch.path()));
    ASSERT_TRUE(found.ok()) << text;
    EXPECT_FALSE(found->version) << text;
    EXPECT_EQ(found->version_text, "") << text;
  }
}

TEST(TorchInstallation, EnvironmentAndSitePackagesFoldersAreAcceptedAsTorchDir) {
  const TemporaryFolder environment;
  const std::filesystem::path site = environment.path() / "lib/python3.11/site-packages";
  environment.copy_fake("fake_libtorch_silent", "lib/python3.11/site-packages/torch/lib/libtorch_cpu.so");
  EXPECT_EQ(find_torch_installation(search_for(environment.path()))->dir, site / "torch");
  EXPECT_EQ(find_torch_installation(search_for(site))->dir, site / "torch");
}

TEST(TorchInstallation, ExplicitFolderWithoutLibtorchIsAnErrorAndNotSkipped) {
  const TemporaryFolder empty;
  const FakeTorch elsewhere("fake_libtorch_silent", version_py("2.15.0"));
  TorchSearch search = search_for(empty.path());
  search.site_packages = {elsewhere.path().parent_path()};
  const auto found = find_torch_installation(search);
  EXPECT_EQ(found.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(found.status().message(), HasSubstr(empty.path().string()));
}

TEST(TorchInstallation, PythonEnvironmentsAreSearchedAfterTheBuildsOwn) {
  const TemporaryFolder site;
  site.copy_fake("fake_libtorch_silent", "torch/lib/libtorch_cpu.so");
  const TemporaryFolder without;
  const TorchSearch search{
      .environment = Environment::from_map({}), .torch_dir = "", .site_packages = {without.path(), site.path()}};
  const auto found = find_torch_installation(search);
  ASSERT_TRUE(found.ok());
  const bool has_own = !build_info().torch_dir.empty();
  EXPECT_EQ(found->source, has_own ? "build" : "python environment");
  EXPECT_EQ(found->dir, has_own ? std::filesystem::path(build_info().torch_dir) : site.path() / "torch");
}

TEST(TorchReinstallation, GoesWhereThatTorchIs) {
  for (const char* folder :
       {"/no/such/lib/python3.11/site-packages/torch", "/no/such/lib/python3.11/site-packages/torch/"}) {
    EXPECT_EQ(reinstall_remedy(folder, "2.15.0"),
              "python3.11 -m pip install --upgrade --target /no/such/lib/python3.11/site-packages --force-reinstall "
              "torch==2.15.0");
  }
  EXPECT_EQ(reinstall_remedy("/no/such/libtorch", ""),
            "put torch into /no/such/libtorch again, or set KPT_TORCH_DIR to another");
}

}  // namespace
}  // namespace kpt
