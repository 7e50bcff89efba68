// The backend with a plugin that fails as told: every failure is a typed error with a sentence, and none is a hang.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/xla/xla_backend.h"
#include "base/log.h"
#include "engines/xla/execution/xla_device.h"
#include "ir/text.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kFaultCounter = R"(kpt_graph 1
buffer c: float32[3] "count"
input x: float32[3]
sum: float32[3] = aten.add.Tensor(self=%c, other=%x)
buffer_mutation %sum "count"
output %sum "y"
)";

void order(const std::string& text) {
  ::setenv("FAKE_PJRT", text.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
}

class XlaBackendFaults : public ::testing::Test {
 protected:
  XlaBackendFaults() {
    order("");
    const std::string path = (folder_.path() / "fake.so").string();
    std::filesystem::copy_file(build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", path);
    context_.detection.environment = Environment::from_map({{"KPT_HELPER_DIR", build_dir() + "/libexec/kpt"}});
    context_.detection.pjrt_plugins = {"fake=" + path};
    host_ = Tensor::empty(DType::kFloat32, Dims{3}).value();
    for (float& value : host_.elements<float>()) value = 3;
  }
  ~XlaBackendFaults() override { order(""); }

  // From looking for the plugin to a second run.
  Status run_twice() {
    const auto backend = make_xla_backend(context_);
    KPT_ASSIGN_OR_RETURN(const auto devices, backend->devices());
    if (devices.empty()) return {StatusCode::kDeviceNotAvailable, "there is no device"};
    KPT_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program,
                         devices[0]->target().compile(ir::read_graph(kFaultCounter).value()));
    KPT_ASSIGN_OR_RETURN(const auto executable, backend->load(program, {{"count", host_}}, devices));
    KPT_ASSIGN_OR_RETURN(const auto state, executable->make_state());
    RunContext context;
    context.state = state.get();
    std::vector<Tensor> outputs;
    const Tensor inputs[] = {host_};
    KPT_RETURN_IF_ERROR(executable->run(context, inputs, outputs));
    KPT_RETURN_IF_ERROR(executable->run(context, inputs, outputs));
    KPT_RETURN_IF_ERROR(state->read("count").status());
    return devices[0]->upload(host_).status();
  }

  testing::TemporaryFolder folder_;
  BackendContext context_;
  Tensor host_;
};

TEST_F(XlaBackendFaults, ASoundPluginWorks) {
  const Status status = run_twice();
  EXPECT_TRUE(status.ok()) << status.message();
}

// On a GPU the plugin would take three quarters of the memory when it starts, and libtorch lives there too.
TEST_F(XlaBackendFaults, OnGpusMemoryIsNotTakenBeforeItIsNeeded) {
  const std::string path = context_.detection.pjrt_plugins[0].substr(std::string("fake=").size());
  order("greedy");
  for (const char* kind : {"cuda=", "rocm="}) {
    context_.detection.pjrt_plugins = {kind + path};
    const Status status = run_twice();
    EXPECT_TRUE(status.ok()) << kind << status.message();
  }
  context_.detection.pjrt_plugins = {"fake=" + path};
  EXPECT_THAT(run_twice().message(), HasSubstr("another client has the memory"));
}

TEST_F(XlaBackendFaults, APluginThatEndsOrHangsIsNoDevice) {
  context_.detection.probe_time_limit = std::chrono::milliseconds(1000);
  for (const char* orders :
       {"crash", "abort", "hang", "null", "version 0 3", "crash PJRT_Plugin_Initialize", "hang PJRT_Plugin_Initialize",
        "fail PJRT_Plugin_Initialize 13 no licence", "crash PJRT_Plugin_Attributes"}) {
    order(orders);
    std::string lines;
    const auto capture = log::capture(&lines);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(run_twice().code(), StatusCode::kDeviceNotAvailable) << orders;
    EXPECT_THAT(lines, AllOf(HasSubstr("a PJRT plugin cannot be used"), HasSubstr("plugin=fake"))) << orders;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  }
}

// One that hangs would cost every start on any other device the probe's limit.
TEST_F(XlaBackendFaults, OnlyPluginsOfTheNamedKindAreAsked) {
  const std::string fake = context_.detection.pjrt_plugins[0].substr(std::string("fake=").size());
  const std::string slow = (folder_.path() / "slow.so").string();
  std::filesystem::copy_file(fake, slow);
  const auto probe = folder_.path() / "kpt-probe";
  const std::string real = build_dir() + "/libexec/kpt/kpt-probe";
  const std::string script = "#!/bin/sh\n[ \"$2\" != '" + slow + "' ] || exec sleep 600\nexec '" + real + "' \"$@\"\n";
  ASSERT_TRUE(write_file_atomically(probe, script).ok());
  std::filesystem::permissions(probe, std::filesystem::perms::owner_all);
  context_.detection.environment = Environment::from_map({{"KPT_HELPER_DIR", folder_.path().string()}});
  context_.detection.pjrt_plugins = {"slow=" + slow, "fake=" + fake};
  context_.detection.probe_time_limit = std::chrono::minutes(2);
  const auto start = std::chrono::steady_clock::now();
  const auto backend = make_xla_backend(context_);
  for (int round = 0; round < 2; ++round) {
    const auto devices = backend->devices_named("xla:fake");
    ASSERT_TRUE(devices.ok()) << devices.status().message();
    ASSERT_EQ(devices->size(), 1U);
    EXPECT_EQ((*devices)[0]->info().name, "xla:fake");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1)) << "the one that hangs was asked";
  context_.detection.probe_time_limit = std::chrono::milliseconds(1000);
  std::string lines;
  const auto capture = log::capture(&lines);
  const auto all = make_xla_backend(context_);
  ASSERT_EQ(all->devices_named("xla:fake").value().size(), 1U);
  EXPECT_EQ(lines, "") << "it does not matter here";
  EXPECT_EQ(all->devices().value().size(), 1U);
  EXPECT_THAT(lines, AllOf(HasSubstr("a PJRT plugin cannot be used"), HasSubstr("plugin=slow")));
}

TEST_F(XlaBackendFaults, WhatAPluginPrintsIsNotItsAnswer) {
  order("say PJRT_Plugin_Initialize welcome");
  const Status status = run_twice();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(XlaBackendFaults, AnErrorOfEachCallComesThrough) {
  ASSERT_TRUE(run_twice().ok());
  for (const char* call : {"PJRT_Client_Create", "PJRT_Client_AddressableDevices", "PJRT_Client_Compile",
                           "PJRT_LoadedExecutable_GetExecutable", "PJRT_Executable_NumOutputs",
                           "PJRT_Client_BufferFromHostBuffer", "PJRT_LoadedExecutable_Execute", "PJRT_Event_Await",
                           "PJRT_Buffer_ElementType", "PJRT_Buffer_Dimensions", "PJRT_Buffer_ToHostBuffer"}) {
    for (const char* code : {"3", "12", "13"}) {
      order(std::string("fail ") + call + " " + code + " the board is on fire");
      const Status status = run_twice();
      EXPECT_FALSE(status.ok()) << call;
      EXPECT_THAT(status.message(),
                  AllOf(HasSubstr(call), HasSubstr("the board is on fire; "), HasSubstr("run on another device")))
          << code;
    }
  }
  order("");
  EXPECT_TRUE(run_twice().ok());
}

TEST_F(XlaBackendFaults, MemoryIsWhatThePluginCountsOverAllDevicesInUse) {
  for (const std::size_t devices : {1U, 3U}) {
    context_.pjrt_devices = devices;
    const auto backend = make_xla_backend(context_);
    Device& device = *backend->devices().value().at(0);
    const auto memory = device.memory();
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    EXPECT_EQ(memory->allocated_bytes, 1234U * devices);
    EXPECT_EQ(memory->limit_bytes, 5678U * devices);
    EXPECT_EQ(memory->peak_bytes, std::nullopt);  // the plugin does not say
    order("fail PJRT_Device_MemoryStats 12 not counted here");
    EXPECT_THAT(device.memory().status().message(),
                AllOf(HasSubstr("PJRT_Device_MemoryStats"), HasSubstr("not counted here")));
    order("");
  }
}

TEST_F(XlaBackendFaults, AMissingEntryIsNamed) {
  order("lack PJRT_LoadedExecutable_Execute");
  EXPECT_THAT(run_twice().message(), HasSubstr("lacks PJRT_LoadedExecutable_Execute; install another release"));
}

TEST_F(XlaBackendFaults, MoreDevicesThanThereAreIsASentence) {
  context_.pjrt_devices = 5;
  const Status status = run_twice();
  EXPECT_EQ(status.code(), StatusCode::kDeviceNotAvailable);
  EXPECT_THAT(status.message(), HasSubstr("the option pjrt.devices asks for 5 devices, and xla:fake has 4"));
}

TEST_F(XlaBackendFaults, AllButTheHostHaveALimitToCompileWhereNoneIsSet) {
  const std::string host = (folder_.path() / "cpu.so").string();
  std::filesystem::copy_file(build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", host);
  context_.detection.pjrt_plugins.push_back("cpu=" + host);
  const auto backend = make_xla_backend(context_);
  const auto devices = backend->devices().value();
  ASSERT_EQ(devices.size(), 2U);
  for (Device* const device : devices) {
    const auto limit = dynamic_cast<XlaDevice&>(*device).setup().compile_limit;
    EXPECT_EQ(limit, device->info().name == "xla:cpu" ? std::chrono::minutes(0) : std::chrono::minutes(30));
  }
}

TEST_F(XlaBackendFaults, AHangingCompilerEndsAtTheLimit) {
  ASSERT_TRUE(run_twice().ok());
  context_.compile_time_limit = std::chrono::milliseconds(500);
  order("hang PJRT_Client_Compile");
  const auto start = std::chrono::steady_clock::now();
  const Status status = run_twice();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(status.code(), StatusCode::kCompilationTimeout);
  EXPECT_THAT(status.message(), HasSubstr("pjrt.compile_timeout_ms"));
}

}  // namespace
}  // namespace kpt
