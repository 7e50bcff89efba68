#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/detection.h"
#include "api/model_loading.h"
#include "backends/tpu/architecture.h"
#include "base/build_info.h"
#include "config/options.h"
#include "kpt/device.h"
#include "kpt/errors.h"
#include "kpt/version.h"
#include "support/recorded_machine.h"
#include "support/tpu_machine.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RecordedMachine;
using testing::ScopedVariables;

DeviceInfo second_device() {
  const std::vector<DeviceInfo> devices = list_devices().value();
  return devices.size() > 1 ? devices[1] : DeviceInfo{};
}

TEST(Devices, TheCpuIsAlwaysThereAndFirst) {
  const std::vector<DeviceInfo> devices = list_devices().value();
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices.front().name, "cpu");
  EXPECT_EQ(devices.front().usable, !build_info().torch_version.empty()) << devices.front().reason;
  EXPECT_GT(devices.front().memory_bytes, 0U);
}

TEST(Devices, EveryListedDeviceCanBeFoundOrSaysWhyNot) {
  const std::vector<DeviceInfo> devices = list_devices().value();
  for (const DeviceInfo& device : devices) {
    const Result<DeviceInfo> found = find_device(device.name);
    EXPECT_EQ(found.ok(), device.usable) << device.name;
    if (!device.usable) {
      EXPECT_FALSE(device.reason.empty()) << device.name;
    }
  }
}

TEST(Devices, NamesOfNoValidFormAreRefused) {
  for (const char* name : {"", "gpu", "cpu:0", "nvidia", "nvidia:", "nvidia:x", "nvidia:-1", "nvidia:0x1", "nvidia:00",
                           "amd:01", "cuda:0", "xla:"}) {
    const Result<DeviceInfo> found = find_device(name);
    ASSERT_FALSE(found.ok()) << name;
    EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument) << name;
    EXPECT_THROW((void)require_device(name), InvalidArgumentError) << name;
  }
}

TEST(Devices, AMissingDeviceThrowsTheTypeOfItsVendor) {
  EXPECT_THROW((void)require_device("nvidia:4095"), CudaNotAvailableError);
  EXPECT_THROW((void)require_device("amd:4095"), RocmNotAvailableError);
  EXPECT_THROW((void)require_device("tpu:4095"), TpuNotAvailableError);
  EXPECT_THROW((void)require_device("xla:no-such-plugin"), DeviceNotAvailableError);
  // The vendor's root catches it as well.
  EXPECT_THROW((void)require_device("nvidia:4095"), NvidiaError);
  EXPECT_THROW((void)require_device("amd:4095"), AmdError);
  EXPECT_THROW((void)require_device("tpu:4095"), TpuError);
}

TEST(Devices, TheReasonIsInTheMessage) {
  const Result<DeviceInfo> found = find_device("nvidia:4095");
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.status().message(), HasSubstr("nvidia:4095 cannot be used: "));
  EXPECT_EQ(found.status().vendor(), Vendor::kNvidia);
}

TEST(Devices, AReasonSaysWhatMendsIt) {
  EXPECT_THAT(find_device("xla:no-such-plugin").status().message(), HasSubstr("`kpt doctor --category tpu`"));
  {
    const testing::TemporaryFolder folder;
    std::ofstream(folder.path() / "hip.json")
        << R"({"version": 60443482, "devices": [{"name": "a GPU", "gfx": "gfx1300", "pci": "0000:0c:00.0"}]})";
    RecordedMachine machine("amd", "hip_without_kfd", "amd");
    machine.variables.set("LD_LIBRARY_PATH", build_dir() + "/fakes/amd");
    machine.variables.set("KPT_FAKE_HIP", (folder.path() / "hip.json").string());
    EXPECT_THAT(find_device("amd:0").status().message(),
                AllOf(HasSubstr("no kernels for gfx1300"), HasSubstr("; install a newer KernelPyTorch")));
  }
  ScopedVariables variables;
  variables.set("KPT_PROBE_BACKENDS", "torch");
  EXPECT_THAT(find_device("amd:0").status().message(), HasSubstr("probe.backends leaves out amd; add amd to it"));
}

TEST(Devices, WithoutTheEngineTheCpuSaysSo) {
  const testing::TemporaryFolder empty;
  ScopedVariables variables;
  variables.set("KPT_MODULE_DIR", empty.path().string());
  variables.set("KPT_TORCH_DIR", empty.path().string());
  variables.set("KPT_PROBE_BACKENDS", "torch");
  const DeviceInfo cpu = list_devices().value().front();
  EXPECT_FALSE(cpu.usable);
  EXPECT_THAT(cpu.reason, HasSubstr("libtorch"));
  EXPECT_THROW((void)require_device("cpu"), DeviceNotAvailableError);
}

// The table of prices names generations; only the backend knows them.
TEST(Devices, PricesCanBeGivenForEveryTpu) {
  std::vector<std::string_view> known;
  for (const TpuGeneration& generation : tpu_generations()) known.push_back(generation.name);
  EXPECT_THAT(known, ::testing::UnorderedElementsAreArray(kTpuGenerationWords));
}

// The fake plugin in libtpu's place, which does what it is told when kpt-probe opens it.
TEST(Devices, TpusThatAreHereAreUsableWhereLibtpuAnswers) {
  const testing::HardwareFixture machine = testing::make_tpu_machine();
  const testing::TemporaryFolder folder;
  const std::string library = (folder.path() / "libtpu.so").string();
  std::filesystem::copy_file(build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", library);
  ScopedVariables variables;
  for (const auto& [name, value] : testing::tpu_machine_variables(library)) variables.set(name, value);
  variables.set("KPT_SYSTEM_ROOT", machine.root().string());
  variables.set("KPT_PROBE_BACKENDS", "tpu");
  variables.set("FAKE_PJRT", "");
  const DeviceInfo device = second_device();
  EXPECT_EQ(device.name, "tpu:0");
  EXPECT_TRUE(device.usable) << device.reason;
  EXPECT_EQ(device.memory_bytes, std::uint64_t{16} << 30U);
  EXPECT_EQ(require_device("tpu:3").name, "tpu:3");
  EXPECT_THROW((void)require_device("tpu:4"), TpuNotAvailableError);
  variables.set("FAKE_PJRT", "locked");  // that another process computes shows when they are opened
  EXPECT_TRUE(second_device().usable) << second_device().reason;
  variables.set("KPT_TPU_TOPOLOGY", "v6e:2x2");
  EXPECT_FALSE(second_device().usable);
  EXPECT_THAT(second_device().reason, HasSubstr("tpu.topology is v6e:2x2"));
  EXPECT_EQ(find_device("tpu:0").status().code(), StatusCode::kInvalidArchitecture) << "as loading on it says";
  variables.set("KPT_TPU_TOPOLOGY", "v5e:9x9");
  EXPECT_EQ(find_device("tpu:0").status().code(), StatusCode::kConfiguration);
  variables.set("KPT_TPU_TOPOLOGY", "auto");
  const std::pair<const char*, const char*> faults[] = {{"abort", "signal 6"},
                                                        {"hang", "no answer within 1.0 s"},
                                                        {"abort PJRT_Plugin_Initialize", "signal 6"},
                                                        {"hang PJRT_Plugin_Initialize", "no answer within 1.0 s"},
                                                        {"fail PJRT_Plugin_Initialize 13 no licence", "no licence"},
                                                        {"null", "gives no table"},
                                                        {"version 0 3", "0.57 or newer is needed"}};
  for (const auto& [orders, reason] : faults) {
    SCOPED_TRACE(orders);
    variables.set("FAKE_PJRT", orders);
    // Only who never answers is not waited for long: a busy machine may take a second to start a process.
    variables.set("KPT_PROBE_TIMEOUT_MS", std::string_view(orders).starts_with("hang") ? "1000" : "60000");
    const std::vector<DeviceInfo> devices = list_devices().value();
    ASSERT_EQ(devices.size(), 5U);
    for (std::size_t i = 1; i < devices.size(); ++i) {
      EXPECT_FALSE(devices[i].usable) << devices[i].name;
      EXPECT_THAT(devices[i].reason, HasSubstr(reason));
    }
    EXPECT_THROW((void)require_device("tpu:0"), TpuNotAvailableError);
  }
}

TEST(Devices, TpusWhoseLibtpuCannotBeOpenedAreNotUsable) {
  const RecordedMachine machine("tpu", "v5e", "tpu");  // its libtpu is the head of a library
  const DeviceInfo device = second_device();
  EXPECT_EQ(device.name, "tpu:0");
  EXPECT_FALSE(device.usable);
  EXPECT_THAT(device.reason, HasSubstr("libtpu.so"));
  EXPECT_EQ(device.memory_bytes, std::uint64_t{16} << 30U);
}

// Files that only look like libtorch and our modules: nothing here opens them.
TEST(Devices, AnNvidiaGpuNeedsTheCudaModuleAndCodeForItsArchitecture) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path torch = folder.path() / "torch";
  const std::filesystem::path modules = folder.path() / "modules";
  std::filesystem::create_directories(torch / "lib");
  std::filesystem::create_directories(modules);
  std::ofstream(torch / "version.py") << "__version__ = '2.15.0'\ncuda = '13.2'\n";
  for (const auto& file : {torch / "lib/libtorch_cpu.so", torch / "lib/libtorch_cuda.so", modules / "kpt_aten_2_15.so"})
    std::ofstream(file) << "";
  ScopedVariables variables;
  variables.set("KPT_TORCH_DIR", torch.string());
  variables.set("KPT_MODULE_DIR", modules.string());
  {
    const RecordedMachine machine("nvidia", "hopper_h200", "nvidia");
    const DeviceInfo device = second_device();
    EXPECT_EQ(device.name, "nvidia:0");
    EXPECT_FALSE(device.usable);
    EXPECT_THAT(device.reason,
                AllOf(HasSubstr("no CUDA engine module"), HasSubstr("make install PRESET=cuda-release")));
    EXPECT_THROW((void)require_device("nvidia:0"), CudaNotAvailableError);
    std::ofstream(modules / "kpt_aten_cuda_2_15.so") << "";
    EXPECT_TRUE(second_device().usable) << second_device().reason;
    EXPECT_NO_THROW((void)require_device("nvidia:0"));
    EXPECT_EQ(find_device("nvidia:1").status().message(),
              "nvidia:1 cannot be used: this machine has 1 of that kind; it is nvidia:0");
  }
  {
    const RecordedMachine unknown("nvidia", "unknown_future", "nvidia");
    EXPECT_THAT(second_device().reason,
                AllOf(HasSubstr("this release does not know sm_"), HasSubstr("; install a newer KernelPyTorch")));
    EXPECT_THROW((void)require_device("nvidia:0"), NvidiaInvalidComputeCapabilityError);
  }
  const RecordedMachine old("nvidia", "pascal_p100", "nvidia");
  EXPECT_FALSE(second_device().usable);
  EXPECT_EQ(second_device().reason, "libtorch has no code for sm_60; models run on Turing (sm_75) and newer");
  EXPECT_THROW((void)require_device("nvidia:0"), NvidiaInvalidComputeCapabilityError);
  EXPECT_THROW((void)require_device("nvidia:1"), CudaNotAvailableError) << "which is not there at all";
  std::filesystem::remove(modules / "kpt_aten_cuda_2_15.so");
  EXPECT_THROW((void)require_device("nvidia:0"), CudaNotAvailableError) << "the module is missing first";
}

// A program that only uses the library; started anew, so that no other test has configured the process.
TEST(LibraryLoggingDeathTest, NothingIsPrintedUnlessTheConfigurationAsks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto list_with = [](const std::vector<std::pair<std::string, std::string>>& settings) {
    ScopedVariables variables;
    for (const char* name : {"KPT_LOG", "KPT_LOG_FORMAT", "KPT_PRESET", "KPT_CONFIG"}) variables.set(name, "");
    variables.set("XDG_CONFIG_HOME", "/nonexistent");
    variables.set("KPT_PROBE_BACKENDS", "torch");
    variables.set("KPT_LOGG", "debug");
    for (const auto& [name, value] : settings) variables.set(name, value);
    if (!list_devices().ok()) ::_exit(1);
    ::_exit(0);
  };
  EXPECT_EXIT(list_with({}), ::testing::ExitedWithCode(0),
              AllOf(Not(HasSubstr("devices")), Not(HasSubstr("KPT_LOGG"))));
  EXPECT_EXIT(list_with({{"KPT_LOG", "info"}}), ::testing::ExitedWithCode(0),
              AllOf(HasSubstr("info  devices listed found=1"), HasSubstr("KPT_LOGG is read by nobody")));
  EXPECT_EXIT(list_with({{"KPT_LOG", "error"}}), ::testing::ExitedWithCode(0),
              AllOf(Not(HasSubstr("devices")), Not(HasSubstr("KPT_LOGG"))));
  EXPECT_EXIT(list_with({{"KPT_LOG", "info"}, {"KPT_LOG_FORMAT", "json"}}), ::testing::ExitedWithCode(0),
              HasSubstr("\"message\":\"devices listed\""));
  EXPECT_EXIT(list_with({{"KPT_LOG", "info"}, {"KPT_MODULE_DIR", "/no/modules"}}), ::testing::ExitedWithCode(0),
              HasSubstr("usable=0"));
}

TEST(BackendContexts, WhatInputsOfFp8ProductsBecomeIsTheUsersWord) {
  const auto inputs = [] {
    const Environment environment = Environment::from_process();
    return make_backend_context(load_library_config(environment).value(), environment).value().nvidia_policy.fp8_inputs;
  };
  EXPECT_EQ(inputs(), Fp8Inputs::kE4M3);
  for (const auto& [word, meaning] :
       {std::pair{"e4m3", Fp8Inputs::kE4M3}, {"e5m2", Fp8Inputs::kE5M2}, {"auto", Fp8Inputs::kByData}}) {
    ScopedVariables variables;
    variables.set("KPT_NVIDIA_FP8_ACTIVATIONS", word);
    EXPECT_EQ(inputs(), meaning) << word;
  }
}

TEST(Version, IsThatOfTheBuild) {
  EXPECT_EQ(version(), build_info().version);
  EXPECT_FALSE(commit().empty());
}

}  // namespace
}  // namespace kpt
