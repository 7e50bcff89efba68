#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/build_info.h"
#include "base/build_paths.h"
#include "base/dynamic_library.h"
#include "base/environment.h"
#include "hardware_fixture.h"
#include "program.h"
#include "support/tree_paths.h"

namespace kpt::testing {
namespace {

using nlohmann::ordered_json;
using ::testing::Contains;
using ::testing::HasSubstr;

// A machine without files, drivers, libtorch or Python, whatever the one has that runs this test: vendor libraries that
// know no device stand before real ones.
struct BareMachine {
  TemporaryFolder folder;
  BareMachine() {
    std::ofstream(folder.path() / "none.json")
        << R"({"calls": {"cuInit": 100, "nvmlInit_v2": 9, "hipInit": 100, "hipGetDeviceCount": 100}})";
  }
  std::vector<std::string> environment() const {
    const std::string none = (folder.path() / "none.json").string();
    return {"KPT_SYSTEM_ROOT=" + folder.path().string(),
            "KPT_TORCH_DIR=" + (folder.path() / "no_torch").string(),
            "LD_LIBRARY_PATH=" + build_dir() + "/fakes/nvidia:" + build_dir() + "/fakes/amd",
            "KPT_FAKE_CUDA=" + none,
            "KPT_FAKE_HIP=" + none,
            "PATH=" + (folder.path() / "no_programs").string(),
            "VIRTUAL_ENV=",
            "CONDA_PREFIX="};
  }
};

// One that shows the fakes' H200 (or whatever `spec` says) to the CUDA driver probe.
struct FakeCuda {
  TemporaryFolder folder;
  explicit FakeCuda(const ordered_json& spec) { std::ofstream(folder.path() / "cuda.json") << spec.dump(); }
  std::vector<std::string> environment() const {
    return {"LD_LIBRARY_PATH=" + build_dir() + "/fakes/nvidia",
            "KPT_FAKE_CUDA=" + (folder.path() / "cuda.json").string()};
  }
};

const ordered_json kOneHopper = {{"version", 13000},
                                 {"devices",
                                  {{{"name", "NVIDIA H200"},
                                    {"uuid", "00112233445566778899aabbccddeeff"},
                                    {"pci", "0000:1b:00.0"},
                                    {"capability", {9, 0}},
                                    {"multiprocessors", 132},
                                    {"memory_total", 150754820096}}}}};

// What the page of the schema uses of JSON Schema; keys that it does not name are refused, so that none goes
// undocumented.
void expect_schema(const ordered_json& schema, const ordered_json& value, const std::string& place) {
  SCOPED_TRACE(place);
  if (schema.contains("const")) {
    EXPECT_EQ(value, schema.at("const"));
  }
  if (schema.contains("enum")) {
    EXPECT_THAT(schema.at("enum"), Contains(value));
  }
  if (!schema.contains("type")) return;
  const std::string type = schema.at("type");
  EXPECT_EQ(type == "integer" && value.is_number_integer() ? type : value.type_name(), type);
  if (type == "array" && value.is_array()) {
    for (const ordered_json& item : value) expect_schema(schema.at("items"), item, place + " item");
  }
  if (type != "object" || !value.is_object() || !schema.contains("properties")) return;
  for (const auto& key : schema.at("required")) EXPECT_TRUE(value.contains(key)) << key;
  for (const auto& [key, part] : value.items()) {
    ASSERT_TRUE(schema.at("properties").contains(key)) << "undocumented: " << key;
    expect_schema(schema.at("properties").at(key), part, place + "." + key);
  }
}

TEST(Doctor, JsonIsWhatTheSchemaSays) {
  const ordered_json report = run_kpt({"doctor", "--json"}).json();
  std::ifstream file(source_dir() + "/docs/reference/doctor.schema.json");
  const ordered_json schema = ordered_json::parse(file);
  expect_schema(schema, report, "report");
  for (const auto& name :
       schema.at("properties").at("diagnostics").at("items").at("properties").at("category").at("enum")) {
    EXPECT_TRUE(std::any_of(report.at("diagnostics").begin(), report.at("diagnostics").end(),
                            [&](const ordered_json& line) { return line.at("category") == name; }))
        << "no line for " << name;
  }
}

TEST(Doctor, HealthyMeansExitZero) {
  const ProgramRun fine = run_kpt({"doctor", "--json", "--category", "system,cache"});
  EXPECT_EQ(fine.json().at("healthy"), true);
  EXPECT_EQ(fine.exit_code, 0);
  const ProgramRun broken = run_kpt({"doctor", "--json", "--category", "cache"}, {"KPT_CACHE_DIR=/proc/self/no/such"});
  EXPECT_EQ(broken.json().at("healthy"), false);
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_THAT(find_line(broken.json(), "cache", "folder").at("recommendation"), HasSubstr("KPT_CACHE_DIR"));
}

TEST(Doctor, WorksOnABareMachineAndSaysWhatIsMissing) {
  const BareMachine machine;
  const ProgramRun run = run_kpt({"doctor", "--json"}, machine.environment());
  const ordered_json report = run.json();
  EXPECT_EQ(report.at("diagnostics").size() > 8, true);
  const ordered_json torch = find_line(report, "libtorch", "library");
  ASSERT_FALSE(torch.is_null());
  EXPECT_NE(torch.at("status"), "pass") << torch;
  EXPECT_FALSE(torch.at("recommendation").get<std::string>().empty());
  EXPECT_EQ(find_line(report, "nvidia", "driver").at("present"), false);
  const ordered_json amd = find_line(report, "amd", "runtime");
  EXPECT_EQ(amd.at("status"), "pass");
  EXPECT_EQ(amd.at("present"), false);
}

// Our programs as they are after the Python environment of their build was removed: the folder that they remember is
// another one in these copies.
class ForgetfulPrograms {
 public:
  ForgetfulPrograms() {
    copy(build_dir() + "/bin/kpt");
    copy(find_helper(Environment::from_map({}), "kpt-probe").value());
  }
  ProgramRun run(std::vector<std::string> arguments, std::vector<std::string> environment) const {
    arguments.insert(arguments.begin(), (folder_.path() / "kpt").string());
    environment.push_back("KPT_HELPER_DIR=" + folder_.path().string());
    return run_program(arguments, environment);
  }

 private:
  void copy(const std::filesystem::path& program) const {
    std::string bytes(std::filesystem::file_size(program), '\0');  // by the character it takes minutes under sanitizers
    std::ifstream(program, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    const std::string known(build_info().torch_dir);
    for (auto at = bytes.find(known); !known.empty() && at != std::string::npos; at = bytes.find(known, at + 1)) {
      bytes[at + 1] = '#';
    }
    const std::filesystem::path target = folder_.path() / program.filename();
    std::ofstream(target, std::ios::binary) << bytes;
    std::filesystem::permissions(target, std::filesystem::perms::owner_all);
  }
  TemporaryFolder folder_;
};

TEST(Doctor, WithoutLibtorchDriverAndPythonItSaysSo) {
  const ForgetfulPrograms programs;
  const BareMachine machine;
  std::vector<std::string> environment = machine.environment();
  std::erase_if(environment, [](const std::string& entry) {
    return entry.starts_with("KPT_TORCH_DIR=") || entry.starts_with("LD_LIBRARY_PATH=");
  });
  const ordered_json report = programs.run({"doctor", "--json"}, environment).json();
  const ordered_json torch = find_line(report, "libtorch", "library");
  EXPECT_NE(torch.at("status"), "pass");
  EXPECT_THAT(torch.at("message"), HasSubstr("no libtorch was found: "));
  EXPECT_THAT(torch.at("message"),
              HasSubstr(build_info().torch_dir.empty() ? "this build was made without one"
                                                       : "the one this build was made with is gone from /#"));
  EXPECT_THAT(torch.at("message"), HasSubstr("and no Python environment is active"));
  // Where the build was made without libtorch, another one does not help it.
  EXPECT_THAT(torch.at("recommendation"), HasSubstr(build_info().torch_dir.empty() ? "make quickstart" : "make setup"));
  EXPECT_THAT(programs.run({"--version"}, environment).out, HasSubstr("none found here"));
  if (!DynamicLibrary::open("libcuda.so.1").ok()) {
    EXPECT_EQ(find_line(report, "nvidia", "driver").at("message"),
              "no NVIDIA driver library (libcuda.so.1) and no NVIDIA GPU on the PCI bus");
  }
  // A Python environment without torch is another sentence.
  const std::filesystem::path site = machine.folder.path() / "venv/lib/python3.11/site-packages";
  std::filesystem::create_directories(site);
  std::erase(environment, "VIRTUAL_ENV=");
  environment.push_back("VIRTUAL_ENV=" + (machine.folder.path() / "venv").string());
  const ordered_json other = programs.run({"doctor", "--json", "--category", "libtorch"}, environment).json();
  EXPECT_THAT(find_line(other, "libtorch", "library").at("message"), HasSubstr("and none is in " + site.string()));
}

TEST(Doctor, TheHumanReportSaysTheSameAsTheJson) {
  const BareMachine machine;
  const ProgramRun run = run_kpt({"doctor"}, machine.environment());
  const ordered_json report = run_kpt({"doctor", "--json"}, machine.environment()).json();
  EXPECT_EQ(run.exit_code, report.at("healthy") == true ? 0 : 1);
  for (const ordered_json& line : report.at("diagnostics"))
    EXPECT_THAT(run.out, HasSubstr(line.at("name").get<std::string>()));
  const ordered_json summary = report.at("summary");
  const int absent = summary.at("absent");
  EXPECT_GT(absent, 0);
  EXPECT_THAT(run.out, HasSubstr(fmt::format(": {} pass, {} absent, {} warn, {} fail in ",
                                             summary.at("pass").get<int>() - absent, absent,
                                             summary.at("warn").get<int>(), summary.at("fail").get<int>())));
  EXPECT_EQ(run.out.find('\x1b'), std::string::npos);
}

TEST(Doctor, APathThatIsNoUtf8DoesNotBreakTheJson) {
  const TemporaryFolder folder;
  const ProgramRun run = run_kpt({"doctor", "--json", "--category", "cache"},
                                 {"KPT_CACHE_DIR=", "XDG_CACHE_HOME=" + (folder.path() / "x\xff").string()});
  EXPECT_EQ(run.exit_code, 0) << run.out;
  // A nearly full disk is a warning, which is not what this is about.
  EXPECT_NE(find_line(run.json(), "cache", "folder").at("status"), "fail");
}

// Whatever this machine has installed: a stand-in for kpt-probe says that there is no HIP runtime.
TEST(Doctor, AGpuWithoutItsSoftwareIsAWarningOnly) {
  const BareMachine machine;
  const std::filesystem::path device = machine.folder.path() / "sys/bus/pci/devices/0000:c1:00.0";
  std::filesystem::create_directories(device);
  std::ofstream(device / "vendor") << "0x1002\n";
  std::ofstream(device / "device") << "0x15bf\n";
  std::ofstream(device / "class") << "0x030000\n";
  const std::filesystem::path probe = machine.folder.path() / "kpt-probe";
  std::ofstream(probe) << "#!/bin/sh\n[ \"$*\" = amd ] && "
                          "echo '{\"finding\": {\"presence\": \"absent\", \"reason\": \"no HIP runtime is here\"}}'\n";
  std::filesystem::permissions(probe, std::filesystem::perms::owner_all);
  std::vector<std::string> environment = machine.environment();
  environment.push_back("KPT_HELPER_DIR=" + machine.folder.path().string());
  const ProgramRun run = run_kpt({"doctor", "--json", "--category", "amd"}, environment);
  EXPECT_EQ(run.exit_code, 0) << run.out;
  const ordered_json line = find_line(run.json(), "amd", "runtime");
  EXPECT_EQ(line.at("status"), "warn") << line;
  EXPECT_EQ(line.at("present"), true);
  EXPECT_THAT(line.at("message"), HasSubstr("no HIP runtime is here"));
  EXPECT_THAT(line.at("recommendation"), HasSubstr("install ROCm"));
  EXPECT_EQ(find_line(run.json(), "amd", "gpu 0").at("present"), false);
}

TEST(Doctor, ShowsAFakeH200AsHopperWithItsPrecisions) {
  const FakeCuda cuda(kOneHopper);
  const ProgramRun run = run_kpt({"doctor", "--json", "--category", "nvidia"}, cuda.environment());
  EXPECT_EQ(run.exit_code, 0) << run.out;
  const ordered_json gpu = find_line(run.json(), "nvidia", "gpu 0");
  ASSERT_FALSE(gpu.is_null()) << run.out;
  for (const char* word : {"NVIDIA H200", "sm_90 Hopper", "132 SMs", "140.4 GiB", "tf32", "bf16", "fp8"}) {
    EXPECT_THAT(gpu.at("message"), HasSubstr(word));
  }
}

// Files that look like a libtorch with CUDA and like our modules; the doctor only looks whether they are there.
TEST(Doctor, AnNvidiaGpuWithoutTheCudaModuleIsAWarningWithTheCommand) {
  const FakeCuda cuda(kOneHopper);
  const std::filesystem::path torch = cuda.folder.path() / "torch";
  const std::filesystem::path modules = cuda.folder.path() / "modules";
  std::filesystem::create_directories(torch / "lib");
  std::filesystem::create_directories(modules);
  std::ofstream(torch / "version.py") << "__version__ = '2.15.0'\ncuda = '13.2'\n";
  for (const auto& file : {torch / "lib/libtorch_cpu.so", torch / "lib/libtorch_cuda.so", modules / "kpt_aten_2_15.so"})
    std::ofstream(file) << "";
  std::vector<std::string> environment = cuda.environment();
  environment.push_back("KPT_TORCH_DIR=" + torch.string());
  environment.push_back("KPT_MODULE_DIR=" + modules.string());
  const auto engine = [&environment] {
    return find_line(run_kpt({"doctor", "--json", "--category", "nvidia"}, environment).json(), "nvidia", "engine");
  };
  const ordered_json without = engine();
  EXPECT_EQ(without.at("status"), "warn") << without;
  EXPECT_THAT(without.at("message"), HasSubstr("this build has no CUDA engine module in " + modules.string()));
  EXPECT_EQ(without.at("recommendation"), "make install PRESET=cuda-release");
  std::ofstream(modules / "kpt_aten_cuda_2_15.so") << "";
  EXPECT_EQ(engine().at("status"), "pass");
}

TEST(Doctor, AnAmdGpuNeedsACompilerThatFindsItsLinker) {
  const HardwareFixture machine = HardwareFixture::load(source_dir() + "/tests/data/hardware/amd/cdna3_mi300x.json");
  const TemporaryFolder programs;
  const auto compiler = [&] {
    return find_line(run_kpt({"doctor", "--json", "--category", "amd"},
                             {"KPT_SYSTEM_ROOT=" + machine.root().string(),
                              "ROCM_PATH=", "LD_LIBRARY_PATH=" + build_dir() + "/fakes/amd",
                              "KPT_FAKE_HIP=" + machine.driver_file().string(), "PATH=" + programs.path().string()})
                         .json(),
                     "amd", "compiler");
  };
  const auto install = [&](const std::string& linker) {
    const std::filesystem::path clang = programs.path() / "clang++-22";
    std::ofstream(clang) << "#!/bin/sh\ncase \"$*\" in *--version*) echo 'clang 22';; *print-prog-name=lld*) echo "
                         << linker << ";; esac\n";
    std::filesystem::permissions(clang, std::filesystem::perms::owner_all);
    return clang.string();
  };
  if (std::filesystem::exists("/opt/rocm/llvm/bin/clang++")) GTEST_SKIP() << "ROCm's own compiler is always found";
  const ordered_json none = compiler();
  ASSERT_FALSE(none.is_null());
  EXPECT_EQ(none.at("status"), "warn");
  EXPECT_THAT(none.at("message"), HasSubstr("nothing compiles kernels for gfx942: there is none here"));
  EXPECT_EQ(none.at("recommendation"), "apt-get install clang-22 lld-22");
  install("lld");  // what clang prints for a program that it does not find
  EXPECT_EQ(compiler().at("status"), "warn");
  EXPECT_THAT(compiler().at("message"), HasSubstr("finds no lld"));
  const std::string path = install("/bin/sh");
  EXPECT_EQ(compiler().at("status"), "pass");
  EXPECT_THAT(compiler().at("message"), HasSubstr(path + " (clang 22) compiles kernels for gfx942"));
}

TEST(Doctor, SaysWhatAGpuDoesNowAndWhatItDoesNotTell) {
  ordered_json spec = kOneHopper;
  const FakeCuda silent(spec);
  EXPECT_TRUE(find_line(run_kpt({"doctor", "--json", "--category", "nvidia"}, silent.environment()).json(), "nvidia",
                        "gpu 0 now")
                  .is_null());
  spec["devices"][0].update({{"utilization", 37}, {"power", 76420}, {"power_limit", 700000}, {"clock_sm_now", 345}});
  const FakeCuda cuda(spec);
  const ordered_json json = run_kpt({"doctor", "--json", "--category", "nvidia"}, cuda.environment()).json();
  const ordered_json line = find_line(json, "nvidia", "gpu 0 now");
  ASSERT_FALSE(line.is_null()) << json;
  for (const char* word : {"37 % busy", "76 W of 700 W", "SM at 345", "not told: temperature, memory clock"}) {
    EXPECT_THAT(line.at("message"), HasSubstr(word));
  }
}

TEST(Doctor, SurvivesADriverThatCrashes) {
  for (const char* death : {"abort", "null_write"}) {
    ordered_json spec = kOneHopper;
    spec["calls"] = {{"cuDeviceGetCount", death}};
    const FakeCuda cuda(spec);
    const ProgramRun run = run_kpt({"doctor", "--json", "--category", "system,nvidia"}, cuda.environment());
    EXPECT_EQ(run.exit_code, 1);
    const ordered_json line = find_line(run.json(), "nvidia", "driver");
    EXPECT_EQ(line.at("status"), "fail");
    // A signal, or under a sanitizer its report and an exit code.
    EXPECT_THAT(line.at("message"), HasSubstr("the probe for nvidia failed: "));
    EXPECT_EQ(find_line(run.json(), "system", "platform").at("status"), "pass");
  }
}

TEST(Doctor, SurvivesADriverThatHangsAndKillsItAtTheLimit) {
  ordered_json spec = kOneHopper;
  spec["calls"] = {{"cuInit", "hang"}};
  const FakeCuda cuda(spec);
  const auto start = std::chrono::steady_clock::now();
  const ProgramRun run =
      run_kpt({"doctor", "--json", "--category", "nvidia", "--set", "probe.timeout_ms=300"}, cuda.environment());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(find_line(run.json(), "nvidia", "driver").at("message"), HasSubstr("0.3 s"));
}

TEST(Doctor, TwoHangingLibrariesTakeOneTimeLimitAlsoWithOneThread) {
  ordered_json spec = kOneHopper;
  spec["calls"] = {{"cuInit", "hang"}, {"hipInit", "hang"}};
  const FakeCuda both(spec);
  const ProgramRun run = run_kpt(
      {"doctor", "--json", "--category", "nvidia,amd", "--set", "probe.timeout_ms=3000", "--set", "threads.count=1"},
      {"LD_LIBRARY_PATH=" + build_dir() + "/fakes/nvidia:" + build_dir() + "/fakes/amd",
       "KPT_FAKE_CUDA=" + (both.folder.path() / "cuda.json").string(),
       "KPT_FAKE_HIP=" + (both.folder.path() / "cuda.json").string()});
  for (const auto& [category, name] : {std::pair("nvidia", "driver"), std::pair("amd", "runtime")}) {
    EXPECT_THAT(find_line(run.json(), category, name).at("message"), HasSubstr("3.0 s")) << category;
  }
  EXPECT_GE(run.json().at("seconds").get<double>(), 3.0);
  EXPECT_LT(run.json().at("seconds").get<double>(), 5.8) << "one after the other takes six seconds";
}

TEST(Doctor, ADriverWithoutADeviceFailsOnlyWhereHardwareIs) {
  ordered_json spec = kOneHopper;
  spec["calls"] = {{"cuInit", 100}};
  const FakeCuda cuda(spec);
  const TemporaryFolder root;
  std::vector<std::string> environment = cuda.environment();
  environment.push_back("KPT_SYSTEM_ROOT=" + root.path().string());
  const ordered_json without =
      find_line(run_kpt({"doctor", "--json", "--category", "nvidia"}, environment).json(), "nvidia", "driver");
  EXPECT_EQ(without.at("status"), "pass") << without;
  EXPECT_EQ(without.at("present"), false);

  const std::filesystem::path device = root.path() / "sys/bus/pci/devices/0000:1b:00.0";
  std::filesystem::create_directories(device);
  std::ofstream(device / "vendor") << "0x10de\n";
  std::ofstream(device / "device") << "0x2335\n";
  std::ofstream(device / "class") << "0x030200\n";
  const ordered_json with =
      find_line(run_kpt({"doctor", "--json", "--category", "nvidia"}, environment).json(), "nvidia", "driver");
  EXPECT_EQ(with.at("status"), "fail") << with;
  EXPECT_FALSE(with.at("recommendation").get<std::string>().empty());
}

}  // namespace
}  // namespace kpt::testing
