// A device of the fake plugin, which may be told to hang or to stall.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/dynamic_library.h"
#include "engines/xla/execution/xla_device.h"
#include "engines/xla/execution/xla_program.h"
#include "ir/text.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt::testing {

using Clock = std::chrono::steady_clock;

inline constexpr std::chrono::milliseconds kShort{200};   // for what must pass it
inline constexpr std::chrono::milliseconds kLimit{2000};  // of a device that must do other things within it before
inline constexpr std::chrono::seconds kMuchLonger{20};    // than the limit, for a busy machine

// The fake's programs give their arguments back.
inline constexpr const char* kGraph = R"(kpt_graph 1
input x: float32[3]
parameter w: float32[3] "weight"
sum: float32[3] = aten.add.Tensor(self=%x, other=%w)
output %sum "y"
)";

inline constexpr const char* kCounter = R"(kpt_graph 1
buffer c: float32[3] "count"
input x: float32[3]
sum: float32[3] = aten.add.Tensor(self=%c, other=%x)
buffer_mutation %sum "count"
output %sum "y"
)";

inline void order(const std::string& text) {
  ::setenv("FAKE_PJRT", text.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): no thread reads it now
}

class FakeTarget final : public Target {
 public:
  std::string_view name() const override { return "xla:fake"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::vector<Support>> supports(const ir::Graph& graph) const override { return xla::check_lowering(graph); }
  Result<std::unique_ptr<Program>> compile(ir::Graph graph) const override {
    return XlaProgram::make("xla:fake", std::move(graph));
  }
  Result<std::unique_ptr<Program>> deserialize(std::string_view bytes) const override {
    return XlaProgram::deserialize("xla:fake", bytes);
  }

 private:
  Capabilities capabilities_ = xla_capabilities();
};

inline Tensor filled(const Dims& dims, float value) {
  Tensor tensor = Tensor::empty(DType::kFloat32, dims).value();
  for (float& element : tensor.elements<float>()) element = value;
  return tensor;
}

// Each test has its own copy of the plugin, so that none meets what another left in it.
class PluginThatHangs : public ::testing::Test {
 protected:
  PluginThatHangs() {
    order("");
    std::filesystem::copy_file(build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", plugin());
    host_ = filled({3}, 3);
  }
  ~PluginThatHangs() override { order(""); }

  std::string plugin() const { return (folder_.path() / "fake.so").string(); }
  std::string gate() const { return (folder_.path() / "gate").string(); }
  void open_gate() const { std::ofstream(gate()) << ""; }
  std::string stall(const std::string& call) const { return "stall " + call + " " + gate(); }
  int live_objects() const {
    return DynamicLibrary::open(plugin()).value().find<int (*)()>("fake_pjrt_live_objects")();
  }

  XlaDeviceSetup setup(std::chrono::milliseconds limit) const {
    XlaDeviceSetup made;
    made.info = {"xla:fake", "fake", "", 0, true, ""};
    made.plugin.name = "fake";
    made.plugin.path = plugin();
    made.call_limit = limit;
    return made;
  }
  Result<std::unique_ptr<Executable>> load(XlaDevice& device, const char* graph, const Weights& weights,
                                           XlaLoadExtras extras = {}) const {
    KPT_ASSIGN_OR_RETURN(auto program, target_.compile(ir::read_graph(graph).value()));
    std::shared_ptr<const Program> shared = std::move(program);
    return load_on_device(device, std::dynamic_pointer_cast<const XlaProgram>(shared), weights, context_,
                          std::move(extras));
  }
  Result<std::unique_ptr<Executable>> load(XlaDevice& device, const char* graph) const {
    return load(device, graph, {{"weight", host_}, {"count", host_}});
  }
  Status run(Executable& executable, State* state = nullptr, std::chrono::milliseconds limit = {},
             const std::atomic<bool>* cancelled = nullptr) const {
    return run_on(executable, {host_}, state, limit, cancelled);
  }
  static Status run_on(Executable& executable, const std::vector<Tensor>& inputs, State* state = nullptr,
                       std::chrono::milliseconds limit = {}, const std::atomic<bool>* cancelled = nullptr) {
    RunContext context;
    context.state = state;
    context.cancelled = cancelled;
    if (limit.count() > 0) context.deadline = Clock::now() + limit;
    std::vector<Tensor> outputs;
    const auto start = Clock::now();
    Status status = executable.run(context, inputs, outputs);
    EXPECT_LT(Clock::now() - start, kMuchLonger);
    EXPECT_EQ(outputs.size(), status.ok() ? 1U : 0U);
    return status;
  }
  // Until the plugin has let the run go.
  Status run_when_free(Executable& executable, State* state = nullptr) const {
    Status status;
    for (const auto end = Clock::now() + kMuchLonger; Clock::now() < end;) {
      status = run(executable, state);
      if (status.code() != StatusCode::kDeviceNotAvailable) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return status;
  }

  void expect_nothing_left() const {
    for (const auto end = Clock::now() + kMuchLonger; live_objects() > 0 && Clock::now() < end;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(live_objects(), 0);
  }

  TemporaryFolder folder_;
  BackendContext context_;
  FakeTarget target_;
  Tensor host_;
};

}  // namespace kpt::testing
