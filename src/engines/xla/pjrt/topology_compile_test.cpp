// What runs inside kpt-tpu-compile, here in this process, against the fake plugin.
#include "engines/xla/pjrt/topology_compile.h"

#include <dlfcn.h>

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engines/xla/pjrt/compile_options.h"
#include "support/tree_paths.h"

namespace kpt::pjrt {
namespace {

using ::testing::HasSubstr;

TopologyRequest fake_request() {
  TopologyRequest request;
  request.library = build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so";
  request.topology = "v5e:2x2";
  request.module_text = "() -> (tensor<f32>, tensor<f32>)";
  request.compile_options = encode_compile_options({});
  return request;
}

TopologyResult compile_with_fake(const std::string& orders, const TopologyRequest& request = fake_request()) {
  ::setenv("FAKE_PJRT", orders.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  TopologyResult result = compile_for_topology(request);
  ::unsetenv("FAKE_PJRT");  // NOLINT(concurrency-mt-unsafe): one thread
  return result;
}

TEST(TopologyCompile, GivesTheExecutableAndAllFigures) {
  const TopologyResult result = compile_with_fake("");
  ASSERT_FALSE(result.failure) << result.failure->message;
  EXPECT_EQ(result.executable, "fake_executable 2");
  EXPECT_EQ(result.figures.api_minor, 81);
  EXPECT_EQ(result.figures.devices, 4);
  EXPECT_EQ(result.figures.device_kind, "fake device");
  EXPECT_EQ(result.figures.platform_version, "fake 1");
  EXPECT_EQ(result.figures.code_bytes, 512);
  EXPECT_EQ(result.figures.argument_bytes, 1000);
  EXPECT_EQ(result.figures.output_bytes, 200);
  EXPECT_EQ(result.figures.alias_bytes, 8);
  EXPECT_EQ(result.figures.temporary_bytes, 4096);
  EXPECT_EQ(result.figures.peak_bytes, 5000);
  EXPECT_EQ(result.figures.flops, 2.0 * static_cast<double>(fake_request().module_text.size()));
  EXPECT_EQ(result.figures.bytes_accessed, static_cast<double>(fake_request().module_text.size()));
  EXPECT_EQ(result.figures.optimal_seconds, 0.25);
  EXPECT_EQ(result.figures.transcendentals, std::nullopt);
}

TEST(TopologyCompile, EverythingIsGivenBack) {
  void* const plugin = ::dlopen(fake_request().library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(plugin, nullptr);
  const auto live = reinterpret_cast<int (*)()>(::dlsym(plugin, "fake_pjrt_live_objects"));
  ASSERT_NE(live, nullptr);
  const int before = live();
  for (const char* orders : {"", "fail PJRT_Compile 3 no", "fail PJRT_Executable_Serialize 13 no", "devices 0", "bare",
                             "fail PJRT_Executable_Destroy 13 no;fail PJRT_TopologyDescription_Destroy 13 no"}) {
    compile_with_fake(orders);
    EXPECT_EQ(live(), before) << orders;
  }
}

TEST(TopologyCompile, OptionsReachThePlugin) {
  TopologyRequest request = fake_request();
  request.topology = "v5e:1x1";
  request.chips_per_host = {1, 1, 1};
  request.chip_config = "megacore";
  const TopologyResult result = compile_with_fake("", request);
  ASSERT_FALSE(result.failure) << result.failure->message;
  EXPECT_EQ(result.figures.devices, 1);
}

TEST(TopologyCompile, AFailureOfEachCallIsTold) {
  for (const char* call :
       {"PJRT_Plugin_Initialize", "PJRT_TopologyDescription_Create", "PJRT_TopologyDescription_PlatformVersion",
        "PJRT_TopologyDescription_GetDeviceDescriptions", "PJRT_DeviceDescription_Kind", "PJRT_Compile",
        "PJRT_Executable_SizeOfGeneratedCodeInBytes", "PJRT_Executable_GetCompiledMemoryStats",
        "PJRT_Executable_GetCostAnalysis", "PJRT_Executable_Serialize"}) {
    const TopologyResult result = compile_with_fake(std::string("fail ") + call + " 13 it broke");
    ASSERT_TRUE(result.failure) << call;
    EXPECT_EQ(result.failure->call, call);
    EXPECT_EQ(result.failure->code, 13);
    EXPECT_EQ(result.failure->message, "it broke");
    EXPECT_EQ(result.executable, "") << call;
  }
}

TEST(TopologyCompile, FiguresThatAPluginDoesNotGiveStayAbsent) {
  for (const char* how : {"lack ", "fail "}) {
    std::string orders;
    for (const char* call : {"PJRT_Executable_SizeOfGeneratedCodeInBytes", "PJRT_Executable_GetCompiledMemoryStats",
                             "PJRT_Executable_GetCostAnalysis", "PJRT_TopologyDescription_PlatformVersion"}) {
      orders += std::string(how) + call + (how == std::string("fail ") ? " 12 not here;" : ";");
    }
    const TopologyResult result = compile_with_fake(orders);
    ASSERT_FALSE(result.failure) << result.failure->message;
    EXPECT_EQ(result.figures.code_bytes, std::nullopt);
    EXPECT_EQ(result.figures.argument_bytes, std::nullopt);
    EXPECT_EQ(result.figures.flops, std::nullopt);
    EXPECT_EQ(result.figures.platform_version, "");
    EXPECT_EQ(result.executable, "fake_executable 2");
  }
}

TEST(TopologyCompile, WhatNothingRunsWithoutIsMissed) {
  for (const char* call : {"PJRT_TopologyDescription_Create", "PJRT_Compile", "PJRT_Executable_Serialize",
                           "PJRT_TopologyDescription_GetDeviceDescriptions"}) {
    const TopologyResult result = compile_with_fake(std::string("lack ") + call);
    ASSERT_TRUE(result.failure) << call;
    EXPECT_EQ(result.failure->call, call);
    EXPECT_EQ(result.failure->code, 12);
  }
}

TEST(TopologyCompile, LibrariesThatAreNoPluginAreRefused) {
  TopologyRequest request = fake_request();
  request.library = "/no/such/libtpu.so";
  EXPECT_THAT(compile_with_fake("", request).failure->message, HasSubstr("/no/such/libtpu.so"));
  request.library = build_dir() + "/fakes/pjrt/fake_pjrt_plugin_without_entry.so";
  EXPECT_THAT(compile_with_fake("", request).failure->message, HasSubstr("GetPjrtApi"));
  EXPECT_THAT(compile_with_fake("null").failure->message, HasSubstr("no table"));
  EXPECT_THAT(compile_with_fake("struct_size 40").failure->message, HasSubstr("40 bytes"));
  EXPECT_THAT(compile_with_fake("struct_size 99999999").failure->message, HasSubstr("99999999 bytes"));
  EXPECT_THAT(compile_with_fake("version 0 12").failure->message, HasSubstr("PJRT 0.12"));
  EXPECT_THAT(compile_with_fake("version 1 0").failure->message, HasSubstr("PJRT 1.0"));
  EXPECT_THAT(compile_with_fake("lack PJRT_Error_Message").failure->message, HasSubstr("PJRT_Error_Message"));
  EXPECT_THAT(compile_with_fake("devices 0").failure->message, HasSubstr("without a device"));
  EXPECT_THAT(compile_with_fake("bare").failure->message, HasSubstr("without bytes"));
  for (const char* orders : {"null", "version 1 0", "bare"}) EXPECT_EQ(compile_with_fake(orders).failure->call, "");
}

TEST(TopologyCompile, TheAnswerIsJsonWhateverTheTextsHold) {
  TopologyResult result;
  result.figures.device_kind = "a \"quoted\" \\ kind\n\t\x01";
  result.figures.flops = 1.5e300;
  result.figures.code_bytes = -1;
  const auto json = nlohmann::json::parse(to_json(result)).at("figures");
  EXPECT_EQ(json.at("device_kind").get<std::string>(), result.figures.device_kind);
  EXPECT_EQ(json.at("flops").get<double>(), 1.5e300);
  EXPECT_EQ(json.at("code_bytes").get<int>(), -1);
  EXPECT_FALSE(json.contains("peak_bytes"));
  result.failure = TopologyFailure{"PJRT_Compile", 3, "line one\nline \"two\""};
  const auto failure = nlohmann::json::parse(to_json(result)).at("failure");
  EXPECT_EQ(failure.at("message").get<std::string>(), "line one\nline \"two\"");
  EXPECT_EQ(failure.at("code").get<int>(), 3);
}

}  // namespace
}  // namespace kpt::pjrt
