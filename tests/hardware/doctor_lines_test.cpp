// On every recorded machine: a line of the doctor that is not fine says what mends it.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "config/config.h"
#include "doctor/doctor.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using testing::HardwareFixture;
using testing::TemporaryFolder;

// What is unknown is said or left out: no gap where it would stand, and no zero for it.
void expect_no_gaps(const doctor::Report& report, const std::string& machine) {
  for (const doctor::Check& check : report.checks) {
    const std::string line = " " + check.message + " ";
    for (const char* gap : {" ,", " 0 B"}) {
      EXPECT_EQ(line.find(gap), std::string::npos) << machine << ": " << check.name << ": " << check.message;
    }
  }
}

void expect_remedies(const doctor::Report& report, const std::string& machine) {
  EXPECT_FALSE(report.checks.empty());
  for (const doctor::Check& check : report.checks) {
    if (check.state == doctor::State::kPass) continue;
    EXPECT_FALSE(check.message.empty()) << machine << ": " << check.category << " " << check.name;
    EXPECT_FALSE(check.recommendation.empty())
        << machine << ": " << check.category << " " << check.name << ": " << check.message;
  }
}

doctor::Report run_doctor(const std::vector<std::string>& settings, const Environment& environment, SystemFiles files,
                          std::vector<std::string> categories) {
  ConfigSources sources;
  sources.settings = settings;
  const Config config = load_config(sources, environment).value();
  return doctor::run({config, environment, std::move(files), std::move(categories)});
}

// The fakes that the fixture has, as the loader of the child finds them.
void install_libraries(const HardwareFixture& fixture, const std::filesystem::path& folder) {
  const std::map<std::string, std::string> vendors = {
      {"libcuda.so.1", "nvidia"}, {"libnvidia-ml.so.1", "nvidia"}, {"libamdhip64.so.6", "amd"}};
  for (const auto& [name, vendor] : vendors) {
    const std::filesystem::path fake = std::filesystem::path(build_dir() + "/fakes") / vendor / name;
    if (fixture.has_library(name)) std::filesystem::create_symlink(fake, folder / name);
  }
  ::setenv("LD_LIBRARY_PATH", folder.c_str(), 1);
  ::setenv("KPT_FAKE_CUDA", fixture.driver_file().c_str(), 1);
  ::setenv("KPT_FAKE_HIP", fixture.driver_file().c_str(), 1);
}

class DoctorOnMachine : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(DoctorOnMachine, SaysWhatMendsEveryWarningAndFailure) {
  const std::map<std::string, std::vector<std::string>> categories = {{"nvidia", {"nvidia"}},
                                                                      {"amd", {"amd", "toolchains"}},
                                                                      {"tpu", {"tpu"}},
                                                                      {"pjrt", {"tpu"}},
                                                                      {"cpu", {"system", "cpu", "cache", "serving"}}};
  const HardwareFixture fixture = HardwareFixture::load(GetParam());
  const std::string kind = GetParam().parent_path().filename().string();
  const TemporaryFolder libraries;
  install_libraries(fixture, libraries.path());
  // The Python environment of this build is none of the machine's.
  std::vector<std::string> settings = {"torch.dir=/no/such/torch"};
  if (fixture.name() == "ends_hang") settings.emplace_back("probe.timeout_ms=700");
  const DetectionContext recorded = fixture.context();
  const doctor::Report report = run_doctor(settings, recorded.environment, recorded.files, categories.at(kind));
  expect_remedies(report, fixture.name());
  expect_no_gaps(report, fixture.name());
}

TEST(DoctorOnUnknownTpu, WarnsAndSaysWhatIsKnown) {
  for (const auto& [name, line] : {std::pair("unknown_id", "2 × TPU of unknown generation, libtpu 0.0.51"),
                                   std::pair("unknown_subsystem", "1 × TPU of unknown generation, libtpu 0.0.51")}) {
    const HardwareFixture fixture = HardwareFixture::load(source_dir() + "/tests/data/hardware/tpu/" + name + ".json");
    const DetectionContext recorded = fixture.context();
    const doctor::Report report =
        run_doctor({"torch.dir=/no/such/torch"}, recorded.environment, recorded.files, {"tpu"});
    ASSERT_FALSE(report.checks.empty());
    EXPECT_EQ(report.checks[0].state, doctor::State::kWarn) << name;
    EXPECT_EQ(report.checks[0].message, line);
    EXPECT_EQ(report.count(doctor::State::kFail), 0) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Nvidia, DoctorOnMachine, ::testing::ValuesIn(testing::list_fixtures("nvidia")),
                         testing::FixtureName());
INSTANTIATE_TEST_SUITE_P(Amd, DoctorOnMachine, ::testing::ValuesIn(testing::list_fixtures("amd")),
                         testing::FixtureName());
INSTANTIATE_TEST_SUITE_P(Tpu, DoctorOnMachine, ::testing::ValuesIn(testing::list_fixtures("tpu")),
                         testing::FixtureName());
INSTANTIATE_TEST_SUITE_P(Pjrt, DoctorOnMachine, ::testing::ValuesIn(testing::list_fixtures("pjrt")),
                         testing::FixtureName());
INSTANTIATE_TEST_SUITE_P(Cpu, DoctorOnMachine, ::testing::ValuesIn(testing::list_fixtures("cpu")),
                         testing::FixtureName());

// libtorch and our module, wrong in one way each.
TEST(DoctorOnLibtorch, SaysWhatMendsEveryWarningAndFailure) {
  const std::filesystem::path fakes = build_dir() + "/fakes/aten";
  for (const char* module : {"fake_module_healthy", "fake_module_wrong_product", "fake_module_other_abi",
                             "fake_module_other_build", "fake_module_for_2_11", "fake_module_undefined_symbol", ""}) {
    const TemporaryFolder folder;
    const std::filesystem::path lib = folder.path() / "torch/lib";
    std::filesystem::create_directories(lib);
    std::filesystem::create_directories(folder.path() / "modules");
    std::filesystem::copy_file(fakes / "fake_libtorch_silent.so", lib / "libc10.so");
    std::filesystem::copy_file(fakes / "fake_libtorch_2_15.so", lib / "libtorch_cpu.so");
    if (*module != '\0') {
      std::filesystem::copy_file(fakes / (std::string(module) + ".so"), folder.path() / "modules/kpt_aten_2_15.so");
    }
    ::setenv("KPT_MODULE_DIR", (folder.path() / "modules").c_str(), 1);
    const doctor::Report report = run_doctor({"torch.dir=" + (folder.path() / "torch").string()},
                                             Environment::from_map({}), SystemFiles(folder.path()), {"libtorch"});
    ::unsetenv("KPT_MODULE_DIR");
    EXPECT_GT(report.count(doctor::State::kWarn) + report.count(doctor::State::kFail), 0) << module;
    expect_remedies(report, module);
  }
}

}  // namespace
}  // namespace kpt
