// Parent and child: limits, crashes, answers. The compiler is the fake plugin; one test takes the real libtpu where the
// machine has it.
#include "engines/xla/pjrt/topology_process.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sanitizers.h"
#include "engines/xla/pjrt/compile_options.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt::pjrt {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

// A copy for each process: tests that run side by side do not wait for each other's lock.
const std::string& fake_library() {
  static const kpt::testing::TemporaryFolder kFolder;
  static const std::string kPath = [] {
    std::string path = (kFolder.path() / "fake.so").string();
    std::filesystem::copy_file(build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", path);
    return path;
  }();
  return kPath;
}

Environment helpers(const std::string& folder = build_dir() + "/libexec/kpt", const std::string& path = "/usr/bin") {
  return Environment::from_map({{"KPT_HELPER_DIR", folder}, {"PATH", path}});
}

TopologyRequest fake_request() {
  TopologyRequest request;
  request.library = fake_library();
  request.topology = "v5e:2x2";
  request.module_text = "() -> (tensor<f32>, tensor<f32>)";
  request.compile_options = encode_compile_options({});
  return request;
}

Result<TopologyProgram> compile_with_fake(const std::string& orders, const TopologyLimits& limits = {60s, 0}) {
  ::setenv("FAKE_PJRT", orders.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  auto result = compile_topology_in_child(fake_request(), limits, helpers(), SystemFiles());
  ::unsetenv("FAKE_PJRT");  // NOLINT(concurrency-mt-unsafe): one thread
  return result;
}

TEST(TopologyProcess, TheChildGivesExecutableAndFigures) {
  const auto program = compile_with_fake("needs_skip_mds; print a plugin prints what it likes");
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ(program->executable, "fake_executable 2");
  EXPECT_EQ(program->devices, 4);
  EXPECT_EQ(program->figures.code_bytes, 512U);
  EXPECT_EQ(program->figures.temporary_bytes, 4096U);
  EXPECT_EQ(program->figures.flops, 64.0);
  EXPECT_EQ(program->figures.compiler_seconds, 0.25);
  EXPECT_EQ(program->figures.compiler, "PJRT 0.81; fake 1");
}

TEST(TopologyProcess, AHangEndsAtTheLimit) {
  for (const char* orders : {"hang PJRT_Compile", "hang", "hang PJRT_TopologyDescription_Create"}) {
    const auto start = std::chrono::steady_clock::now();
    const Status status = compile_with_fake(orders, {1s, 0}).status();
    EXPECT_LT(std::chrono::steady_clock::now() - start, 20s) << orders;
    EXPECT_EQ(status.code(), StatusCode::kCompilationTimeout) << orders;
    EXPECT_EQ(status.vendor(), Vendor::kTpu) << orders;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("stopped after 1.0 s"), HasSubstr("tpu.compile_timeout_ms")));
  }
}

TEST(TopologyProcess, ACrashIsAReason) {
  for (const char* orders : {"crash PJRT_Compile", "abort PJRT_Compile", "crash"}) {
    const Status status = compile_with_fake(orders).status();
    EXPECT_EQ(status.code(), StatusCode::kCompilation) << orders;
    EXPECT_EQ(status.vendor(), Vendor::kTpu) << orders;
    // AddressSanitizer catches the signal and ends the process by itself.
    EXPECT_THAT(status.message(), AnyOf(HasSubstr("killed by signal"), HasSubstr("ABORTING"))) << orders;
  }
}

TEST(TopologyProcess, TheCompilersErrorComesThroughWithItsType) {
  const Status refused = compile_with_fake("fail PJRT_Compile 3 unknown operation 'foo'").status();
  EXPECT_EQ(refused.code(), StatusCode::kCompilation);
  EXPECT_EQ(refused.vendor(), Vendor::kTpu);
  EXPECT_THAT(refused.message(), HasSubstr("PJRT_Compile): unknown operation 'foo'"));
  EXPECT_EQ(compile_with_fake("fail PJRT_Compile 13 x").status().code(), StatusCode::kCompilation);
  EXPECT_EQ(compile_with_fake("fail PJRT_Compile 8 HBM is full").status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(compile_with_fake("lack PJRT_Executable_Serialize").status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(compile_with_fake("fail PJRT_TopologyDescription_Create 3 x").status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(compile_with_fake("version 0 12").status().code(), StatusCode::kVendorLibrary);
}

TEST(TopologyProcess, AFailureEndsWithWhatToDo) {
  const std::pair<const char*, const char*> rows[] = {
      {"fail PJRT_Compile 3 odd", "odd; try another release of libtpu, or report it with the model"},
      {"fail PJRT_Compile 2 odd", "odd; try another release of libtpu, or report it with the model"},
      {"fail PJRT_Compile 13 odd", "odd; try another release of libtpu, or report it with the model"},
      {"fail PJRT_Compile 8 odd", "odd; use smaller sizes, a smaller element type or a generation with more memory"},
      {"fail PJRT_Compile 12 odd", "odd; install another release of libtpu"},
      {"fail PJRT_Plugin_Initialize 14 odd", "odd; see what libtpu lacks here: kpt doctor --category tpu"},
      {"fail PJRT_TopologyDescription_Create 3 odd",
       "odd; install another release of libtpu, or compile for another slice"},
      {"null", "its GetPjrtApi gives no table; install another release of libtpu"},
  };
  for (const auto& [orders, end] : rows) EXPECT_THAT(compile_with_fake(orders).status().message(), EndsWith(end));
}

TEST(TopologyProcess, TheMemoryLimitHolds) {
#if defined(KPT_ADDRESS_SANITIZER) || defined(KPT_THREAD_SANITIZER)
  GTEST_SKIP() << "a sanitizer reserves terabytes for itself";
#else
  const std::uint64_t limit = std::uint64_t{256} << 20U;
  EXPECT_TRUE(compile_with_fake("allocate 1000000", {60s, limit}).ok());
  const Status status = compile_with_fake("allocate 600000000", {60s, limit}).status();
  EXPECT_EQ(status.code(), StatusCode::kCompilation);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("256.0 MiB"), HasSubstr("tpu.compile_memory_bytes")));
  EXPECT_TRUE(compile_with_fake("allocate 600000000").ok());
#endif
}

TEST(TopologyProcess, OneCompileAtATime) {
  const int fd = ::open(topology_lock_path(fake_library()).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  const Status status = compile_with_fake("", {300ms, 0}).status();
  EXPECT_EQ(status.code(), StatusCode::kCompilationTimeout);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("another compile"), HasSubstr(topology_lock_path(fake_library()).string())));
  ASSERT_EQ(::flock(fd, LOCK_UN), 0);
  EXPECT_TRUE(compile_with_fake("").ok());
  ::close(fd);
  EXPECT_FALSE(std::filesystem::exists(topology_lock_path(fake_library())));
}

bool is_compiler_running() {
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator("/proc", error)) {
    std::ifstream stream(process.path() / "cmdline", std::ios::binary);
    const std::string line((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    if (line.find(fake_library()) != std::string::npos) return true;
  }
  return false;
}

bool wait_for_compiler(bool running) {
  for (int i = 0; i < 500 && is_compiler_running() != running; ++i) std::this_thread::sleep_for(20ms);
  return is_compiler_running() == running;
}

TEST(TopologyProcess, TheCompilerEndsWithTheProcessThatStartedIt) {
  fake_library();
  const pid_t parent = ::fork();
  if (parent == 0) {
    static_cast<void>(compile_with_fake("hang PJRT_Compile"));
    ::_exit(0);
  }
  ASSERT_GT(parent, 0);
  EXPECT_TRUE(wait_for_compiler(true));
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  EXPECT_TRUE(wait_for_compiler(false));
  EXPECT_TRUE(compile_with_fake("").ok());
}

TEST(TopologyProcess, AnswersThatCannotBeReadAreNone) {
  for (const char* output : {"kpt-tpu-compile: ", "kpt-tpu-compile: {", "kpt-tpu-compile: []", "kpt-tpu-compile: {}",
                             "kpt-tpu-compile: {\"figures\":{}}", "kpt-tpu-compile: {\"figures\":7}",
                             "kpt-tpu-compile: {\"failure\":{\"call\":3}}",
                             "kpt-tpu-compile: {\"figures\":{\"api\":\"0.1\",\"devices\":\"x\"}}",
                             "kpt-tpu-compile: \xff\xfe", "", "hello\nworld", "{\"figures\":{}}"}) {
    const auto answer = read_topology_answer(output);
    ASSERT_FALSE(answer.ok()) << output;
    EXPECT_EQ(answer.status().code(), StatusCode::kCompilation) << output;
  }
  // The same through the child: its plugin prints a line that looks like our answer.
  EXPECT_EQ(compile_with_fake("print kpt-tpu-compile: {\"figures\":").status().code(), StatusCode::kCompilation);
}

TEST(TopologyProcess, NumbersOutOfReasonAreAbsent) {
  const auto answer = read_topology_answer(
      R"(kpt-tpu-compile: {"figures":{"api":"0.1","devices":1,"device_kind":"k","platform_version":"",)"
      R"("code_bytes":-5,"flops":-1,"bytes_accessed":1e9}})");
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->figures.code_bytes, 0U);
  EXPECT_EQ(answer->figures.flops, std::nullopt);
  EXPECT_EQ(answer->figures.bytes_accessed, 1e9);
  EXPECT_EQ(answer->figures.compiler, "PJRT 0.1");
}

TEST(TopologyProcess, WhatIsMissingIsNamedWithItsPackage) {
  // The head of an x86_64 library is enough: nothing opens it. The other machine is whichever this is not.
  const kpt::testing::TemporaryFolder folder;
  const std::string library = (folder.path() / "libtpu.so").string();
  std::string head(64, '\0');
  head.replace(0, 7,
               "\x7f"
               "ELF\x02\x01\x01");
  head[16] = 3;
  head[18] = 62;
  std::ofstream(library, std::ios::binary) << head;
  std::ofstream(folder.path() / "cpuinfo") << "CPU implementer : 0x41\nCPU part : 0xd0c\n";
  std::filesystem::create_directories(folder.path() / "root/proc");
  std::filesystem::rename(folder.path() / "cpuinfo", folder.path() / "root/proc/cpuinfo");
  const SystemFiles arm(folder.path() / "root");
  TopologyRequest request = fake_request();
  request.library = library;
  const std::string empty = folder.path().string();

  const Status no_program = compile_topology_in_child(request, {}, helpers(empty), arm).status();
  EXPECT_EQ(no_program.code(), StatusCode::kNotFound);
  EXPECT_THAT(no_program.message(), HasSubstr("apt-get install g++-x86-64-linux-gnu"));
  EXPECT_EQ(find_missing_package(library, helpers(empty), arm), "g++-x86-64-linux-gnu");

  for (const char* name : {"kpt-tpu-compile-x86_64", "qemu-x86_64-static"}) {
    std::ofstream(folder.path() / name) << "#!/bin/sh\n";
    std::filesystem::permissions(folder.path() / name, std::filesystem::perms::owner_all);
  }
  EXPECT_EQ(find_missing_package(library, helpers(empty, "/no/such/folder"), arm), "qemu-user-static");
  EXPECT_EQ(find_missing_package(library, helpers(empty, empty), arm), "libc6:amd64 libstdc++6:amd64");
  std::filesystem::create_directories(folder.path() / "root/lib64");
  std::ofstream(folder.path() / "root/lib64/ld-linux-x86-64.so.2") << "";
  EXPECT_EQ(find_missing_package(library, helpers(empty, empty), arm), "");
  // Everything is there, but the emulator says nothing.
  const Status silent = compile_topology_in_child(request, {}, helpers(empty, empty), arm).status();
  EXPECT_EQ(silent.code(), StatusCode::kCompilation);
  EXPECT_THAT(silent.message(), HasSubstr("without an answer: exit code 0"));
}

TEST(TopologyProcess, LibrariesThatAreNoneAreSentences) {
  TopologyRequest request = fake_request();
  request.library = "/no/such/libtpu.so";
  EXPECT_EQ(compile_topology_in_child(request, {}, helpers(), SystemFiles()).status().code(), StatusCode::kNotFound);
  request.library = source_dir() + "/LICENSE";
  EXPECT_EQ(compile_topology_in_child(request, {}, helpers(), SystemFiles()).status().code(), StatusCode::kCorruptData);
}

// TPU_LIBRARY_PATH is where `make tpu-aot` puts it.
TEST(TopologyProcess, TheRealCompilerTakesATinyModule) {
  const Environment environment = Environment::from_process();
  const auto library = environment.find("TPU_LIBRARY_PATH");
  if (!library) GTEST_SKIP() << "TPU_LIBRARY_PATH is not set; make tpu-aot gets libtpu and sets it";
  const Environment here = helpers(build_dir() + "/libexec/kpt", environment.find("PATH").value_or("/usr/bin"));
  if (const std::string package = find_missing_package(*library, here, SystemFiles()); !package.empty()) {
    GTEST_SKIP() << "the Debian package " << package << " is not installed";
  }
  TopologyRequest request = fake_request();
  request.library = *library;
  request.module_text = R"(
module @m {
  func.func public @main(%x: tensor<64x128xf32>, %w: tensor<128x256xf32>) -> (tensor<64x256xf32>) {
    %s = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1],
      rhs_contracting_dimensions = [0]>}> : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    return %s : tensor<64x256xf32>
  }
})";
  const auto program = compile_topology_in_child(request, {280s, std::uint64_t{16} << 30U}, here, SystemFiles());
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ(program->devices, 4);
  EXPECT_EQ(program->figures.device_kind, "TPU v5 lite");
  EXPECT_GT(program->executable.size(), 1000U);
  EXPECT_GT(program->figures.code_bytes.value_or(0), 0U);
  EXPECT_EQ(program->figures.argument_bytes, (64U * 128U + 128U * 256U) * 4U);
  EXPECT_EQ(program->figures.output_bytes, 64U * 256U * 4U);
  EXPECT_EQ(program->figures.flops, 2.0 * 64 * 128 * 256);
  EXPECT_GT(program->figures.compiler_seconds.value_or(0), 0);
  request.module_text = "module @m { nonsense }";
  const Status refused =
      compile_topology_in_child(request, {280s, std::uint64_t{16} << 30U}, here, SystemFiles()).status();
  EXPECT_EQ(refused.code(), StatusCode::kCompilation);
  EXPECT_THAT(refused.message(), HasSubstr("PJRT_Compile"));
}

}  // namespace
}  // namespace kpt::pjrt
