// The real libtorch and our real modules; part of builds that have them.
#include <cstdio>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/build_info.h"
#include "engines/aten/probe_child.h"
#include "engines/aten/torch_installation.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using aten_test::probe;
using aten_test::ProbeAnswer;
using aten_test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;

TEST(TorchModule, ProductsAreRightForFreshSeeds) {
  std::random_device entropy;
  for (int round = 0; round < 5; ++round) {
    const std::uint64_t seed = std::uint64_t{entropy()} << 32 | entropy();
    const ProbeAnswer answer = probe({""}, build_dir() + "/lib/kpt", seed);
    ASSERT_EQ(answer.code, "ok") << "seed " << seed << ": " << answer.message;
    ASSERT_GE(answer.report.checks.size(), 2u);
    for (const TorchMatmulCheck& check : answer.report.checks) {
      std::printf("seed %llu %s %s %dx%dx%d error %.2e tolerance %.2e\n", static_cast<unsigned long long>(check.seed),
                  check.device.c_str(), check.dtype.c_str(), check.rows, check.inner, check.columns,
                  check.relative_error.value_or(-1), check.tolerance);
      EXPECT_TRUE(check.passed);
      EXPECT_EQ(check.seed, seed);
    }
    EXPECT_EQ(answer.report.checks[0].dtype, "float32");
    // Not exactly zero either: then the product would have been compared with itself.
    EXPECT_GT(answer.report.checks[0].relative_error.value_or(0), 0.0);
  }
}

TEST(TorchModule, ReportNamesLibraryModuleAndSettings) {
  const ProbeAnswer answer = probe({""}, build_dir() + "/lib/kpt");
  const TorchReport& report = answer.report;
  EXPECT_EQ(report.finding.presence, Presence::kPresent) << report.finding.reason;
  EXPECT_EQ(report.library_version, build_info().torch_version);
  EXPECT_EQ(report.module_version, build_info().torch_version);
  EXPECT_EQ(report.torch_dir, build_info().torch_dir);
  EXPECT_EQ(report.source, "build");
  EXPECT_GE(report.threads, 1);
  EXPECT_NE(report.cpu_capability, "");
  EXPECT_NE(report.blas, "");
  EXPECT_TRUE(report.notes.empty()) << report.notes.front();
  ASSERT_TRUE(report.open_seconds.has_value());
  std::printf("opened in %.3f s, CUDA in %.3f s more\n", *report.open_seconds, report.cuda_open_seconds.value_or(0));
}

TEST(TorchModule, RealLibraryIsRefusedWhenOnlyAnotherMinorWasBuilt) {
  const TemporaryFolder modules;
  modules.copy_fake("fake_module_healthy", "kpt_aten_2_99.so");
  const ProbeAnswer answer = probe({""}, modules.path());
  EXPECT_EQ(answer.code, "version_mismatch");
  EXPECT_THAT(answer.message, AllOf(HasSubstr(std::string(build_info().torch_version)), HasSubstr("made for 2.99")));
}

// A libtorch that is the ROCm build by links (tests/fakes): the module opens on it and counts the GPUs that are there.
TEST(TorchRocmModule, OpensWithoutAGpuAndChecksEachGpuThereIs) {
  const std::filesystem::path torch = build_dir() + "/fakes/rocm/torch";
  if (!std::filesystem::exists(torch)) GTEST_SKIP() << "this build has no libtorch with CUDA";
  const TorchReport report = probe({torch.string()}, build_dir() + "/lib/kpt").report;
  EXPECT_EQ(report.cuda.presence, Presence::kPresent) << report.cuda.reason;
  EXPECT_THAT(report.flavour, HasSubstr("rocm"));
  EXPECT_THAT(report.cuda_module_path, HasSubstr("kpt_aten_rocm_"));
  for (const TorchCudaDevice& device : report.cuda_devices) EXPECT_GT(device.memory_total_bytes, 0u);
  EXPECT_EQ(report.checks.size(), 2 + 2 * report.cuda_devices.size());
}

#ifdef KPT_HAS_TORCH_CUDA
TEST(TorchCudaModule, OpensWithoutAGpuAndChecksEachGpuThereIs) {
  const TorchReport report = probe({""}, build_dir() + "/lib/kpt").report;
  EXPECT_EQ(report.cuda.presence, Presence::kPresent) << report.cuda.reason;
  EXPECT_NE(report.cuda_module_path, "");
  for (const TorchCudaDevice& device : report.cuda_devices) {
    EXPECT_NE(device.name, "");
    EXPECT_GT(device.capability_major, 0);
    EXPECT_GT(device.memory_total_bytes, 0u);
    EXPECT_LE(device.memory_free_bytes.value_or(~0ull), device.memory_total_bytes);
  }
  // Two products on the CPU and two on each device.
  EXPECT_EQ(report.checks.size(), 2 + 2 * report.cuda_devices.size());
}

// libtorch would answer with a page about linkers, and only at the first kernel.
TEST(TorchCudaModule, OpenedAfterTheFirstUseOfLibtorchSaysSo) {
  const ProbeAnswer answer = aten_test::run_driver({"late-cuda"}, build_dir() + "/lib/kpt");
  EXPECT_EQ(answer.code, "vendor_library");
  EXPECT_THAT(answer.message, HasSubstr("used before its GPU part was opened"));
}
#endif

}  // namespace
}  // namespace kpt
