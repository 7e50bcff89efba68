// Calls of HIP's that do not come back, on "amd:0" of the test libamdhip64 (tests/fakes): nobody waits for them for
// ever, everybody is told which call it is, and a process ends all the same.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/amd/amd_backend.h"
#include "backends/amd/test_gpu.h"
#include "base/dynamic_library.h"
#include "base/log.h"
#include "base/stray_threads.h"
#include "ir/text.h"
#include "support/rounds.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

constexpr std::chrono::milliseconds kHangLimit = testing::kSanitized ? 1000ms : 300ms;
constexpr auto kSlack = 5s;  // of a machine that is busy

constexpr const char* kGraph = R"(kpt_graph 1
parameter w: float32[4] "w"
buffer b: float32[4, 1] "b"
input x: float32[4]
input i: int64[1]
y: float32[4] = aten.mul.Tensor(self=%x, other=%w)
y2: float32[4, 1] = aten.view.default(self=%y, size=[4, 1])
z: float32[4, 1] = aten.add_.Tensor(self=%b, other=%y2)
s: float32[1, 1] = aten.index_select.default(self=%z, dim=0, index=%i)
output %y "y"
output %s "s"
)";

Tensor numbers(const Dims& dims, const std::vector<float>& values) {
  return Tensor::from_bytes(DType::kFloat32, dims, std::as_bytes(std::span(values))).value();
}

std::vector<Tensor> make_inputs() {
  const std::int64_t index[] = {2};
  return {numbers({4}, {5, 6, 7, 8}),
          Tensor::from_bytes(DType::kInt64, Dims{1}, std::as_bytes(std::span(index))).value()};
}

class AmdHangTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto library = DynamicLibrary::open(build_dir() + "/fakes/amd/libamdhip64.so.6");
    ASSERT_TRUE(library.ok()) << library.status().to_string();
    hang_ = library->find<void (*)(int)>("fake_hip_hang");
    hang_in_ = library->find<void (*)(const char*)>("fake_hip_hang_in");
    hung_ = library->find<const char* (*)()>("fake_hip_hung");
    let_go_ = library->find<void (*)()>("fake_hip_let_go");
    calls_ = library->find<const char* (*)()>("fake_hip_calls");
    live_ = library->find<std::size_t (*)()>("fake_hip_live");
    reset_ = library->find<void (*)()>("fake_hip_reset");
    ASSERT_TRUE(hang_ != nullptr && hang_in_ != nullptr && hung_ != nullptr && let_go_ != nullptr &&
                calls_ != nullptr && live_ != nullptr && reset_ != nullptr);
    reset_();
    graph_ = ir::read_graph(kGraph).value();
  }
  void TearDown() override { come_back(); }

  // What hangs returns, and all of it has ended.
  void come_back() {
    let_go_();
    for (const auto end = std::chrono::steady_clock::now() + 60s; count_stray_threads() > 0;) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "a thread has not come back";
      std::this_thread::sleep_for(1ms);
    }
  }

  Status load(Backend& backend, std::unique_ptr<Executable>& executable) {
    KPT_ASSIGN_OR_RETURN(const auto devices, backend.devices());
    if (devices.empty()) return {StatusCode::kDeviceNotAvailable, "no device"};
    KPT_ASSIGN_OR_RETURN(auto program, devices[0]->target().compile(graph_));
    KPT_ASSIGN_OR_RETURN(executable, backend.load(std::move(program), weights_, std::span(devices).first(1)));
    return {};
  }
  Status run(Executable& executable, State& state, std::vector<Tensor>& outputs, RunContext context = {}) const {
    context.state = &state;
    return executable.run(context, inputs_, outputs);
  }
  // All that a program does with a model, from the first call to the last.
  Status use(Backend& backend) {
    std::unique_ptr<Executable> executable;
    KPT_RETURN_IF_ERROR(load(backend, executable));
    KPT_ASSIGN_OR_RETURN(const auto state, executable->make_state());
    std::vector<Tensor> outputs;
    KPT_RETURN_IF_ERROR(run(*executable, *state, outputs));
    KPT_RETURN_IF_ERROR(state->write("b", numbers({4, 1}, {1, 1, 1, 1})));
    KPT_RETURN_IF_ERROR(state->reset());
    KPT_RETURN_IF_ERROR(state->read("b").status());
    Device& device = *backend.devices().value().front();
    KPT_ASSIGN_OR_RETURN(const Tensor up, device.upload(inputs_[0]));
    KPT_RETURN_IF_ERROR(device.download(up).status());
    KPT_RETURN_IF_ERROR(device.memory().status());
    return device.record([&] { return run(*executable, *state, outputs); }).status();
  }

  testing::TestGpu gpu_{"gfx942", kHangLimit};
  Weights weights_ = {{"w", numbers({4}, {1, 2, 3, 4})}, {"b", numbers({4, 1}, {0, 0, 10, 0})}};
  std::vector<Tensor> inputs_ = make_inputs();
  ir::Graph graph_;
  void (*hang_)(int nth) = nullptr;
  void (*hang_in_)(const char* function) = nullptr;
  const char* (*hung_)() = nullptr;
  void (*let_go_)() = nullptr;
  const char* (*calls_)() = nullptr;
  std::size_t (*live_)() = nullptr;
  void (*reset_)() = nullptr;
};

std::chrono::steady_clock::duration time_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::steady_clock::now() - begin;
}

// Which of the calls of a program to try: of each name the first, the last and some between.
std::map<int, std::string> choose_calls(std::string_view calls) {
  std::map<std::string, std::vector<int>, std::less<>> places;
  int count = 0;
  for (std::size_t at = 0; at < calls.size(); at = calls.find('\n', at) + 1) {
    const std::string_view line = calls.substr(at, calls.find('\n', at) - at);
    if (line.starts_with("hip")) places[std::string(line)].push_back(++count);
  }
  constexpr std::size_t kMost = testing::kSanitized ? 1 : 4;  // of each, and the last
  std::map<int, std::string> chosen;
  for (const auto& [name, own] : places) {
    for (std::size_t i = 0; i < kMost; ++i) chosen.emplace(own[i * own.size() / kMost], name);
    chosen.emplace(own.back(), name);
  }
  return chosen;
}

// Opening, loading, running, moving tensors, recording and letting go.
TEST_F(AmdHangTest, NoCallHoldsItsCallerForEver) {
  ASSERT_TRUE(use(*gpu_.make_backend()).ok());
  const auto chosen = choose_calls(calls_());
  std::set<std::string> names;
  for (const auto& [nth, call] : chosen) {
    SCOPED_TRACE(fmt::format("call {}, {}", nth, call));
    names.insert(call);
    reset_();
    std::string lines;
    const auto capture = log::capture(&lines);
    const testing::TestGpu gpu{"gfx942", kHangLimit};
    auto backend = gpu.make_backend();
    hang_(nth);
    Status status;
    EXPECT_LT(time_of([&] { status = use(*backend); }), kHangLimit + kSlack);
    const bool told = !status.ok();  // or it hangs where something is let go
    if (told) {
      EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.to_string();
      EXPECT_EQ(status.vendor(), Vendor::kAmd);
      EXPECT_THAT(status.message(),
                  AllOf(HasSubstr(fmt::format("has not answered {} within", call)), HasSubstr("kpt doctor")));
      status = use(*backend);
      EXPECT_EQ(status.code(), StatusCode::kDeviceNotAvailable) << status.to_string();
      EXPECT_THAT(status.message(), HasSubstr(fmt::format("does not answer: it has not come back from {} for", call)));
    }
    EXPECT_LT(time_of([&] { backend.reset(); }), kHangLimit + kSlack);
    EXPECT_EQ(hung_(), call);
    EXPECT_THAT(lines, HasSubstr(call));
    come_back();
    EXPECT_EQ(live_(), 0U) << "what was given up lets go of all that it had";
    status = use(*gpu.make_backend());
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  EXPECT_THAT(names, IsSupersetOf({"hipInit",
                                   "hipGetDeviceCount",
                                   "hipSetDevice",
                                   "hipMemGetInfo",
                                   "hipMalloc",
                                   "hipFree",
                                   "hipMemcpyAsync",
                                   "hipMemsetAsync",
                                   "hipDeviceGetStreamPriorityRange",
                                   "hipStreamCreateWithPriority",
                                   "hipStreamDestroy",
                                   "hipStreamQuery",
                                   "hipEventCreateWithFlags",
                                   "hipEventDestroy",
                                   "hipEventRecord",
                                   "hipEventQuery",
                                   "hipEventElapsedTime",
                                   "hipModuleLoadData",
                                   "hipModuleUnload",
                                   "hipModuleGetFunction",
                                   "hipModuleLaunchKernel"}));
}

// Waiting for the limit each time would take twice as long as this allows.
TEST_F(AmdHangTest, AfterwardsEverybodyIsToldAtOnce) {
  const auto backend = gpu_.make_backend();
  std::unique_ptr<Executable> executable;
  ASSERT_TRUE(load(*backend, executable).ok());
  const auto state = executable->make_state().value();
  hang_in_("hipModuleLaunchKernel");
  std::vector<Tensor> outputs;
  EXPECT_EQ(run(*executable, *state, outputs).code(), StatusCode::kDeadlineExceeded);
  Device& device = *backend->devices().value().front();
  const auto requests = {
      std::function([&] { return run(*executable, *state, outputs); }),
      std::function([&] { return executable->make_state().status(); }),
      std::function([&] { return state->reset(); }),
      std::function([&] { return state->read("b").status(); }),
      std::function([&] { return state->write("b", numbers({4, 1}, {1, 1, 1, 1})); }),
      std::function([&] { return device.upload(inputs_[0]).status(); }),
      std::function([&] { return device.memory().status(); }),
      std::function([&] { return device.empty_cache(); }),
      std::function([&] { return device.record([] { return Status(); }).status(); }),
      std::function([&] { return use(*backend); }),
      std::function([&] { return use(*gpu_.make_backend()); }),  // for another model of the process
  };
  const auto taken = time_of([&] {
    for (const auto& request : requests) {
      const Status status = request();
      EXPECT_EQ(status.code(), StatusCode::kDeviceNotAvailable) << status.to_string();
      EXPECT_THAT(status.message(),
                  HasSubstr("amd:0 does not answer: it has not come back from hipModuleLaunchKernel"));
    }
    EXPECT_TRUE(executable->plan().empty());
  });
  EXPECT_LT(taken, kHangLimit * requests.size() / 2);
}

// It waits for a lock that the one in hipMalloc holds.
TEST_F(AmdHangTest, WhoWaitsForSomebodyThatHangsIsToldToo) {
  const auto backend = gpu_.make_backend();
  Device& device = *backend->devices().value().front();
  hang_in_("hipMalloc");
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&device, this] {
      const Status status = device.upload(inputs_[0]).status();
      EXPECT_THAT(status.message(), HasSubstr("hipMalloc"));
    });
  }
  EXPECT_LT(time_of([&] { std::ranges::for_each(callers, &std::thread::join); }), kHangLimit + kSlack);
}

TEST_F(AmdHangTest, ARunEndsAtItsDeadlineAndAtItsCancellation) {
  const testing::TestGpu gpu{"gfx942"};  // ten minutes for a call
  const auto backend = gpu.make_backend();
  std::unique_ptr<Executable> executable;
  ASSERT_TRUE(load(*backend, executable).ok());
  const auto state = executable->make_state().value();
  std::vector<Tensor> outputs;
  for (const char* call : {"hipMemcpyAsync", "hipModuleLaunchKernel", "hipStreamQuery"}) {
    SCOPED_TRACE(call);
    hang_in_(call);
    RunContext context;
    context.deadline = std::chrono::steady_clock::now() + kHangLimit;
    Status status;
    EXPECT_LT(time_of([&] { status = run(*executable, *state, outputs, context); }), kHangLimit + kSlack);
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr(fmt::format("amd:0 has not come back from {} for", call)));
    come_back();

    hang_in_(call);
    std::atomic<bool> cancelled{false};
    context = {};
    context.cancelled = &cancelled;
    std::thread other([&] {
      while (std::string_view(hung_()).empty()) std::this_thread::sleep_for(1ms);
      cancelled = true;
    });
    EXPECT_LT(time_of([&] { status = run(*executable, *state, outputs, context); }), kSlack);
    other.join();
    EXPECT_EQ(status.code(), StatusCode::kCancelled) << status.to_string();
    come_back();
  }
  // None of them has changed the buffer.
  ASSERT_TRUE(run(*executable, *state, outputs).ok());
  EXPECT_EQ(outputs.at(1).elements<float>()[0], 10 + 21);
}

// The caller's memory is his again when the run was given up.
TEST_F(AmdHangTest, ARunThatComesBackLateTouchesNothingOfItsCaller) {
  const auto backend = gpu_.make_backend();
  std::unique_ptr<Executable> executable;
  ASSERT_TRUE(load(*backend, executable).ok());
  const auto state = executable->make_state().value();
  const std::int64_t dims[] = {4};
  auto input = std::make_unique<std::vector<float>>(4, 1.F);
  auto output = std::make_unique<std::vector<float>>(4, 1.F);
  inputs_[0] = Tensor::from_memory(DType::kFloat32, dims, input->data(), 16).value();
  std::vector<Tensor> outputs = {Tensor::from_memory(DType::kFloat32, dims, output->data(), 16).value()};
  hang_in_("hipMemcpyAsync");
  EXPECT_EQ(run(*executable, *state, outputs).code(), StatusCode::kDeadlineExceeded);
  inputs_.clear();
  outputs.clear();
  input.reset();
  output.reset();  // AddressSanitizer would see it
  come_back();
  inputs_ = make_inputs();
  ASSERT_TRUE(run(*executable, *state, outputs).ok()) << "and the device is used again";
  EXPECT_EQ(outputs.at(1).elements<float>()[0], 10 + 21);
}

TEST_F(AmdHangTest, TensorsThatTheGpuHasAreLeftWithIt) {
  BackendContext context;
  context.amd_kept_bytes = 0;  // each goes back to the GPU at once
  const auto backend = gpu_.make_backend(context);
  Device& device = *backend->devices().value().front();
  std::vector<Tensor> tensors;
  for (int i = 0; i < 3; ++i) tensors.push_back(device.upload(inputs_[0]).value());
  hang_in_("hipFree");
  std::string lines;
  {
    const auto capture = log::capture(&lines);
    EXPECT_LT(time_of([&] { tensors.clear(); }), kHangLimit + kSlack);
  }
  EXPECT_THAT(lines, HasSubstr("keeps what it was asked to let go owner=\"amd:0 in hipFree\""));
  EXPECT_EQ(lines.find("keeps"), lines.rfind("keeps")) << "one line: " << lines;
  EXPECT_EQ(live_(), 3U);
  come_back();
  EXPECT_EQ(live_(), 0U);
}

TEST_F(AmdHangTest, AProcessEndsWhileACallHangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end = [this](const char* call) {
    {
      const auto backend = gpu_.make_backend();
      std::unique_ptr<Executable> executable;
      if (!load(*backend, executable).ok()) std::exit(1);
      const auto state = executable->make_state().value();
      hang_in_(call);
      std::vector<Tensor> outputs;
      if (run(*executable, *state, outputs).code() != StatusCode::kDeadlineExceeded) std::exit(2);
    }
    std::exit(0);
  };
  for (const char* call : {"hipModuleLaunchKernel", "hipStreamQuery", "hipMalloc"}) {
    EXPECT_EXIT(end(call), ::testing::ExitedWithCode(0), "") << call;
  }
}

}  // namespace
}  // namespace kpt
