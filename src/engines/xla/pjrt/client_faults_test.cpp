// The client against a plugin that fails as told (tests/fakes/fake_pjrt_plugin.cpp).
#include <array>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/dynamic_library.h"
#include "base/log.h"
#include "engines/xla/pjrt/client.h"
#include "engines/xla/pjrt/compile_options.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt::pjrt {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

void order(const std::string& text) {
  ::setenv("FAKE_PJRT", text.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
}

// Its own copy of the library, so that every test opens one that no other has opened.
class PjrtFaults : public ::testing::Test {
 protected:
  PjrtFaults() : path_((folder_.path() / "fake.so").string()) {
    order("");
    std::filesystem::copy_file(build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", path_);
  }
  ~PjrtFaults() override { order(""); }

  Result<std::shared_ptr<const Plugin>> open() const { return Plugin::open(path_, "fake"); }
  int live_objects() const { return DynamicLibrary::open(path_).value().find<int (*)()>("fake_pjrt_live_objects")(); }

  // Everything that a run needs, from the client to the result.
  Status run_once() const {
    KPT_ASSIGN_OR_RETURN(auto plugin, open());
    KPT_ASSIGN_OR_RETURN(const auto client, Client::create(std::move(plugin), {}));
    KPT_ASSIGN_OR_RETURN(const auto compiled, client->compile("() -> (tensor<f32>)", encode_compile_options({})));
    KPT_ASSIGN_OR_RETURN(const std::string bytes, compiled->serialize());
    KPT_ASSIGN_OR_RETURN(const auto program, client->deserialize(bytes));
    KPT_ASSIGN_OR_RETURN(const Tensor host, Tensor::empty(DType::kFloat32, Dims{3}));
    KPT_ASSIGN_OR_RETURN(const auto buffer, client->upload(host, HostMemory::kBorrowed));
    KPT_RETURN_IF_ERROR(buffer->wait_for_upload());
    const std::vector<std::vector<const DeviceBuffer*>> arguments = {{buffer.get()}};
    KPT_ASSIGN_OR_RETURN(Execution execution, program->execute(arguments));
    KPT_RETURN_IF_ERROR(execution.wait());
    KPT_ASSIGN_OR_RETURN(const DeviceMemory memory, client->device_memory(0));
    if (memory.bytes_limit != 5678 || memory.peak_bytes_in_use.has_value()) {
      return {StatusCode::kInternal, "the memory statistics are wrong"};
    }
    return execution.outputs[0][0]->download().status();
  }

  kpt::testing::TemporaryFolder folder_;
  std::string path_;
};

TEST_F(PjrtFaults, APluginThatHangsWhileItIsOpenedKeepsNoOtherWaiting) {
  const std::string other = (folder_.path() / "other.so").string();
  std::filesystem::copy_file(path_, other);
  order("hang");
  std::thread([path = path_] { (void)Plugin::open(path, "fake"); }).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // until it hangs
  order("");
  std::promise<bool> opened;
  std::future<bool> answer = opened.get_future();
  std::thread([other, promise = std::move(opened)]() mutable {
    promise.set_value(Plugin::open(other, "other").ok());
  }).detach();
  ASSERT_EQ(answer.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_TRUE(answer.get());
  EXPECT_FALSE(Plugin::is_open(path_));
}

TEST_F(PjrtFaults, ASoundPluginRunsAndEverythingIsDestroyed) {
  const Status status = run_once();
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(live_objects(), 0);
}

constexpr std::array kCalls = {"PJRT_Client_Create",
                               "PJRT_Client_PlatformName",
                               "PJRT_Client_PlatformVersion",
                               "PJRT_Client_AddressableDevices",
                               "PJRT_Device_GetDescription",
                               "PJRT_DeviceDescription_Id",
                               "PJRT_DeviceDescription_Kind",
                               "PJRT_Client_Compile",
                               "PJRT_LoadedExecutable_GetExecutable",
                               "PJRT_Executable_NumOutputs",
                               "PJRT_Executable_Serialize",
                               "PJRT_Executable_DeserializeAndLoad",
                               "PJRT_Client_BufferFromHostBuffer",
                               "PJRT_Event_Await",
                               "PJRT_LoadedExecutable_Execute",
                               "PJRT_Buffer_ElementType",
                               "PJRT_Buffer_Dimensions",
                               "PJRT_Device_MemoryStats",
                               "PJRT_Buffer_ToHostBuffer"};

TEST_F(PjrtFaults, AnErrorOfEachCallIsTypedKeepsItsMessageAndLeaksNothing) {
  ASSERT_TRUE(open().ok());
  for (const char* call : kCalls) {
    SCOPED_TRACE(call);
    order(std::string("fail ") + call + " 8 the device is full");
    const Status status = run_once();
    EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("PJRT plugin fake"), HasSubstr(call), HasSubstr("the device is full"),
                                        HasSubstr("free memory")));
    order("");
    EXPECT_EQ(live_objects(), 0);
  }
  EXPECT_TRUE(run_once().ok());
}

TEST_F(PjrtFaults, AnErrorOfEachCallEndsWithWhatToDo) {
  ASSERT_TRUE(open().ok());
  const std::string elsewhere = "run on another device";
  const std::pair<int, std::string> rows[] = {
      {1, "try again, and see who else uses the device: kpt doctor"},
      {2, elsewhere},
      {3, "update the plugin, or run on another device"},
      {4, "try again, and see who else uses the device: kpt doctor"},
      {5, "see whether the plugin is installed with all that it needs: kpt doctor"},
      {6, elsewhere},
      {7, "see who may use the device: kpt doctor"},
      {9, elsewhere},
      {10, elsewhere},
      {12, "update the plugin, or run on another device"},
      {13, elsewhere},
      {14, "see whether the device is there and free: kpt doctor"},
      {15, elsewhere},
      {99, elsewhere},
  };
  for (const auto& [code, remedy] : rows) {
    for (const char* const name : kCalls) {
      const std::string call = name;
      order("fail " + call + " " + std::to_string(code) + " odd");
      const std::string expected =
          code == 12 && call == "PJRT_Device_MemoryStats" ? "only these figures are missing" : remedy;
      EXPECT_THAT(run_once().message(), AllOf(HasSubstr(call + " failed: odd; "), EndsWith(expected))) << code;
    }
  }
}

TEST_F(PjrtFaults, InitializeMayFailToo) {
  order("fail PJRT_Plugin_Initialize 13 no licence");
  EXPECT_THAT(open().status().message(), HasSubstr("PJRT_Plugin_Initialize failed: no licence"));
  ::unsetenv("ALLOW_MULTIPLE_LIBTPU_LOAD");  // NOLINT(concurrency-mt-unsafe): one thread
  order("locked");
  const Status held = open().status();
  EXPECT_EQ(held.code(), StatusCode::kDeviceNotAvailable);
  EXPECT_THAT(held.message(), AllOf(HasSubstr("already in use by process with pid 1"), HasSubstr("kpt doctor")));
  order("");
  EXPECT_TRUE(open().ok()) << "a failure is not remembered";
}

TEST_F(PjrtFaults, FailuresOfDestructionAreLoggedNotThrown) {
  ASSERT_TRUE(open().ok());
  std::string lines;
  const auto capture = log::capture(&lines);
  order("fail PJRT_Client_Destroy 13 busy;fail PJRT_Buffer_Destroy 13 busy");
  EXPECT_TRUE(run_once().ok());
  EXPECT_THAT(lines, AllOf(HasSubstr("PJRT_Client_Destroy"), HasSubstr("PJRT_Buffer_Destroy")));
}

TEST_F(PjrtFaults, CodesBecomeOurs) {
  ASSERT_TRUE(open().ok());
  const std::pair<int, StatusCode> rows[] = {
      {1, StatusCode::kCancelled},           {2, StatusCode::kVendorLibrary}, {3, StatusCode::kInvalidArgument},
      {4, StatusCode::kDeadlineExceeded},    {5, StatusCode::kNotFound},      {7, StatusCode::kPermissionDenied},
      {8, StatusCode::kOutOfMemory},         {12, StatusCode::kUnsupported},  {13, StatusCode::kVendorLibrary},
      {14, StatusCode::kDeviceNotAvailable}, {15, StatusCode::kCorruptData},  {99, StatusCode::kVendorLibrary},
  };
  for (const auto& [code, expected] : rows) {
    order("fail PJRT_Client_Create " + std::to_string(code) + " text");
    EXPECT_EQ(run_once().code(), expected) << code;
  }
  for (const int code : {3, 13}) {
    order("fail PJRT_Client_Compile " + std::to_string(code) + " text");
    EXPECT_EQ(run_once().code(), StatusCode::kCompilation) << code;
  }
}

TEST_F(PjrtFaults, MissingEntriesAreNamed) {
  order("lack PJRT_Client_Compile;lack PJRT_Buffer_Dimensions");
  const Status status = open().status();
  EXPECT_EQ(status.code(), StatusCode::kVendorLibrary);
  EXPECT_THAT(status.message(),
              HasSubstr("lacks PJRT_Client_Compile, PJRT_Buffer_Dimensions; install another release"));
}

TEST_F(PjrtFaults, AnEntryThatOnlySomeNeedIsMissedWhenItIsNeeded) {
  order("lack PJRT_Executable_Serialize;lack PJRT_Plugin_Attributes");
  const Status status = run_once();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("PJRT plugin fake (PJRT 0.81) lacks PJRT_Executable_Serialize"));
}

TEST_F(PjrtFaults, AnEntryBeyondTheTableIsMissing) {
  order("struct_size 592");  // 69 entries: PJRT_Buffer_ToHostBuffer is number 70
  EXPECT_THAT(open().status().message(), HasSubstr("lacks PJRT_Buffer_ToHostBuffer;"));
}

TEST_F(PjrtFaults, VersionsOutsideTheWindowAreRefused) {
  for (const char* version : {"version 0 56", "version 1 0", "version -1 3"}) {
    order(version);
    const Status status = open().status();
    EXPECT_EQ(status.code(), StatusCode::kVersionMismatch) << version;
    EXPECT_THAT(status.message(), HasSubstr("0.57 or newer"));
  }
  order("version 0 57");
  EXPECT_TRUE(open().ok());
}

TEST_F(PjrtFaults, WhatIsNoPluginIsRefused) {
  order("null");
  EXPECT_EQ(open().status().code(), StatusCode::kVendorLibrary);
  order("struct_size 8");
  EXPECT_EQ(open().status().code(), StatusCode::kVendorLibrary);
  const Status other = Plugin::open(build_dir() + "/fakes/pjrt/fake_pjrt_plugin_without_entry.so", "other").status();
  EXPECT_EQ(other.code(), StatusCode::kVendorLibrary);
  EXPECT_THAT(other.message(), HasSubstr("has no function GetPjrtApi"));
  EXPECT_EQ(Plugin::open("/no/such/plugin.so", "none").status().code(), StatusCode::kNotFound);
}

TEST_F(PjrtFaults, UnknownOptionIsTheCallersError) {
  const ClientOption options[] = {{"preallocate", false}, {"colour", std::string("red")}};
  const Status status = Client::create(open().value(), options).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("unknown option colour"));
}

}  // namespace
}  // namespace kpt::pjrt
