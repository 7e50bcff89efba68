#include "engines/xla/pjrt/compile_process.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "engines/xla/pjrt/compile_options.h"
#include "engines/xla/testing/run_stablehlo.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt::pjrt {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::string_view kTwice = R"(
module @m {
  func.func public @main(%x: tensor<3xf32>) -> (tensor<3xf32>) {
    %s = "stablehlo.add"(%x, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    return %s : tensor<3xf32>
  }
})";

Environment helpers() { return Environment::from_map({{"KPT_HELPER_DIR", build_dir() + "/libexec/kpt"}}); }

// The child inherits the orders.
Result<std::string> compile_with_fake(const std::string& orders, std::chrono::milliseconds limit = 20s) {
  ::setenv("FAKE_PJRT", orders.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  CompileRequest request;
  request.plugin_path = build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so";
  request.plugin_name = "fake";
  request.client_options = {{"cpu_device_count", std::int64_t{1}}, {"preallocate", false}};
  request.module_text = "() -> (tensor<f32>, tensor<f32>)";
  request.compile_options = encode_compile_options({});
  const auto result = compile_in_child(request, limit, helpers());
  ::unsetenv("FAKE_PJRT");  // NOLINT(concurrency-mt-unsafe): one thread
  return result;
}

TEST(CompileProcess, TheChildGivesTheSerializedExecutable) {
  const auto bytes = compile_with_fake("");
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  EXPECT_EQ(*bytes, "fake_executable 2");
}

TEST(CompileProcess, AHangEndsAtTheLimit) {
  const auto start = std::chrono::steady_clock::now();
  const Status status = compile_with_fake("hang PJRT_Client_Compile", 500ms).status();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
  EXPECT_EQ(status.code(), StatusCode::kCompilationTimeout);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("stopped after 0.5 s"), HasSubstr("pjrt.compile_timeout_ms")));
}

TEST(CompileProcess, ACrashIsAReason) {
  for (const char* orders : {"crash PJRT_Client_Compile", "abort PJRT_Client_Create"}) {
    const Status status = compile_with_fake(orders).status();
    EXPECT_EQ(status.code(), StatusCode::kCompilation) << orders;
    // AddressSanitizer catches the signal and ends the process by itself.
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("plugin fake"), AnyOf(HasSubstr("killed by signal"), HasSubstr("ABORTING"))))
        << orders;
  }
}

TEST(CompileProcess, TheErrorOfACallComesThroughWithItsType) {
  const Status refused = compile_with_fake("fail PJRT_Client_Compile 3 unknown operation 'foo'").status();
  EXPECT_EQ(refused.code(), StatusCode::kCompilation);
  EXPECT_THAT(refused.message(), HasSubstr("PJRT_Client_Compile failed: unknown operation 'foo'"));
  EXPECT_EQ(compile_with_fake("fail PJRT_Client_Create 8 full").status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(compile_with_fake("lack PJRT_Executable_Serialize").status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(compile_with_fake("version 0 12").status().code(), StatusCode::kVersionMismatch);
}

TEST(CompileProcess, AMissingHelperIsNamed) {
  const auto nowhere = Environment::from_map({{"KPT_HELPER_DIR", "/no/such/folder"}});
  const Status status = compile_in_child({}, 1s, nowhere).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("kpt-pjrt-compile"));
}

TEST(CompileProcess, ARequestThatIsNoneIsRefused) {
  const kpt::testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "request").string();
  for (const char* text : {"", "hello", "\xa1\x61\x61\x01"}) {
    ASSERT_TRUE(write_file_atomically(path, text).ok());
    EXPECT_EQ(serve_compile_request(path, path + ".out").code(), StatusCode::kCorruptData) << text;
  }
  EXPECT_EQ(serve_compile_request("/no/such/request", path).code(), StatusCode::kNotFound);
}

TEST(CompileProcess, WhatTheChildCompiledRunsHere) {
  KPT_NEEDS_CPU_PLUGIN();
  CompileRequest request;
  request.plugin_path = kpt::testing::cpu_plugin_path();
  request.plugin_name = "cpu";
  request.client_options = {{"cpu_device_count", std::int64_t{4}}};
  request.module_text = kTwice;
  request.compile_options = encode_compile_options({});
  const auto bytes = compile_in_child(request, 120s, helpers());
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  const auto client = kpt::testing::cpu_client().value();
  const auto program = client->deserialize(*bytes);
  ASSERT_TRUE(program.ok()) << program.status().message();
  const Tensor host = Tensor::empty(DType::kFloat32, Dims{3}).value();
  for (float& value : host.elements<float>()) value = 21;
  const auto x = client->upload(host, HostMemory::kCopied).value();
  auto run = (*program)->execute(std::vector<std::vector<const DeviceBuffer*>>{{x.get()}}).value();
  EXPECT_EQ(run.outputs[0][0]->download().value().elements<float>()[1], 42);
}

}  // namespace
}  // namespace kpt::pjrt
