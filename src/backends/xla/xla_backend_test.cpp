// Graphs on the real CPU plugin, through the interface that the runtime uses.
#include "backends/xla/xla_backend.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile_cache/compile_cache.h"
#include "engines/xla/execution/xla_executable.h"
#include "engines/xla/testing/run_stablehlo.h"
#include "ir/text.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kScaleAndShift = R"(kpt_graph 1
parameter w: float32[4, 3] "weight"
input x: float32[4, 3]
product: float32[4, 3] = aten.mul.Tensor(self=%x, other=%w)
sum: float32[4, 3] = aten.add.Tensor(self=%product, other=%x)
output %sum "y"
output %product "z"
)";

constexpr const char* kAnySize = R"(kpt_graph 1
symbol s0 in 1..100
input x: float32[s0, 3]
sum: float32[s0, 3] = aten.add.Tensor(self=%x, other=%x)
output %sum "y"
)";

// A buffer that every run adds its input to.
constexpr const char* kCounter = R"(kpt_graph 1
buffer c: float32[3] "count"
input x: float32[3]
sum: float32[3] = aten.add.Tensor(self=%c, other=%x)
twice: float32[3] = aten.add.Tensor(self=%sum, other=%sum)
buffer_mutation %sum "count"
output %twice "y"
)";

Tensor make(const Dims& dims, const std::vector<float>& values) {
  Tensor tensor = Tensor::empty(DType::kFloat32, dims).value();
  std::copy(values.begin(), values.end(), tensor.elements<float>().begin());
  return tensor;
}

std::vector<float> values_of(const Tensor& tensor) {
  const auto elements = tensor.elements<float>();
  return {elements.begin(), elements.end()};
}

Tensor random_floats(std::mt19937& random, const Dims& dims) {
  Tensor tensor = Tensor::empty(DType::kFloat32, dims).value();
  std::normal_distribution<float> normal;
  for (float& value : tensor.elements<float>()) value = normal(random);
  return tensor;
}

class XlaBackendTest : public ::testing::Test {
 protected:
  XlaBackendTest() {
    context_.detection.environment = Environment::from_map({{"KPT_HELPER_DIR", build_dir() + "/libexec/kpt"}});
    context_.detection.probe_time_limit = std::chrono::seconds(60);
    context_.detection.pjrt_plugins = {"xla_cpu_pjrt=" + testing::cpu_plugin_path()};
    context_.compile_cache_folder = folder_.path() / "cache";
    context_.compile_cache_bytes = 1 << 26;
    context_.threads = 2;
    backend_ = make_xla_backend(context_);
  }

  Device& device() { return *backend_->devices().value().at(0); }

  Result<std::unique_ptr<Executable>> load(const std::string& text, const Weights& weights) {
    KPT_ASSIGN_OR_RETURN(ir::Graph graph, ir::read_graph(text));
    KPT_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, device().target().compile(std::move(graph)));
    Device* const devices[] = {&device()};
    return backend_->load(std::move(program), weights, devices);
  }

  testing::TemporaryFolder folder_;
  BackendContext context_;
  std::unique_ptr<Backend> backend_;
};

TEST_F(XlaBackendTest, ThePluginIsADeviceWithATarget) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto devices = backend_->devices().value();
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0]->info().name, "xla:cpu");
  EXPECT_THAT(devices[0]->info().architecture, HasSubstr("PJRT 0."));
  EXPECT_EQ(devices[0]->target().name(), "xla:cpu");
  EXPECT_TRUE(devices[0]->target().capabilities().whole_graph_only);
  EXPECT_FALSE(devices[0]->target().capabilities().raw_pointers);
  EXPECT_EQ(backend_->targets().size(), 3U);
}

// Those of XLA's pool for the work of one operator.
std::size_t count_computing_threads() {
  std::size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name.find("XLAEigen") != std::string::npos) ++count;
  }
  return count;
}

TEST_F(XlaBackendTest, ComputesWithAsManyThreadsAsTheOptionSays) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto count_new = [this](int threads) {
    context_.threads = threads;
    backend_ = make_xla_backend(context_);
    const std::size_t before = count_computing_threads();
    EXPECT_TRUE(device().upload(make({1}, {1})).ok());
    return count_computing_threads() - before;
  };
  const std::size_t three = count_new(3);
  EXPECT_EQ(count_new(7), three + 4);
}

TEST_F(XlaBackendTest, OutputsThatStayOnTheDeviceAreInputsOfTheNextRun) {
  KPT_NEEDS_CPU_PLUGIN();
  for (const std::size_t devices : {1U, 2U}) {  // several make each output by way of the host
    SCOPED_TRACE(devices);
    context_.pjrt_devices = devices;
    backend_ = make_xla_backend(context_);
    auto executable = load(kAnySize, {});
    ASSERT_TRUE(executable.ok()) << executable.status().message();
    RunContext context;
    context.outputs_on_device = true;
    std::vector<Tensor> first;
    ASSERT_TRUE((*executable)->run(context, std::vector<Tensor>{make({2, 3}, {1, 2, 3, 4, 5, 6})}, first).ok());
    ASSERT_EQ(first.size(), 1U);
    EXPECT_EQ(first[0].data(), nullptr);
    EXPECT_EQ(first[0].device(), "xla:cpu");
    std::vector<Tensor> second;
    ASSERT_TRUE((*executable)->run(context, first, second).ok());
    EXPECT_THAT(values_of(device().download(second[0]).value()), ElementsAre(4, 8, 12, 16, 20, 24));
    context.outputs_on_device = false;
    ASSERT_TRUE((*executable)->run(context, first, second).ok());
    EXPECT_THAT(values_of(second[0]), ElementsAre(4, 8, 12, 16, 20, 24));
  }
}

TEST_F(XlaBackendTest, RunsAGraphWithResidentWeights) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const Tensor w = random_floats(random, {4, 3});
  const auto executable = load(kScaleAndShift, {{"weight", w}});
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  EXPECT_EQ((*executable)->device(), "xla:cpu");
  EXPECT_FALSE((*executable)->is_stateful());
  EXPECT_EQ((*executable)->plan().size(), 2U);
  std::vector<Tensor> outputs;
  void* memory = nullptr;
  for (int round = 0; round < 3; ++round) {
    const Tensor x = random_floats(random, {4, 3});
    RunContext context;
    const Tensor inputs[] = {x};
    const Status status = (*executable)->run(context, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(outputs.size(), 2U);
    for (std::size_t i = 0; i < 12; ++i) {
      const float product = x.elements<float>()[i] * w.elements<float>()[i];
      EXPECT_NEAR(outputs[0].elements<float>()[i], product + x.elements<float>()[i], 1e-6);
      EXPECT_EQ(outputs[1].elements<float>()[i], product);
    }
    if (round > 0) {
      EXPECT_EQ(outputs[0].data(), memory) << "a steady run uses the outputs' memory again";
    }
    memory = outputs[0].data();
  }
}

TEST_F(XlaBackendTest, TensorsOfTheDeviceAreTakenAsTheyAre) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto executable = load(kScaleAndShift, {{"weight", make({4, 3}, std::vector<float>(12, 2))}}).value();
  const Tensor x = make({4, 3}, std::vector<float>(12, 5));
  const Tensor uploaded = device().upload(x).value();
  EXPECT_EQ(uploaded.data(), nullptr);
  EXPECT_EQ(uploaded.device(), "xla:cpu");
  x.elements<float>()[0] = 100;  // a copy was made
  RunContext context;
  std::vector<Tensor> outputs;
  const Tensor inputs[] = {uploaded};
  ASSERT_TRUE(executable->run(context, inputs, outputs).ok());
  EXPECT_EQ(outputs[0].elements<float>()[0], 15);
  EXPECT_EQ(values_of(device().download(uploaded).value())[0], 5);
  EXPECT_EQ(values_of(device().download(device().allocate(DType::kFloat32, Dims{2}).value()).value())[1], 0);
  EXPECT_EQ(device().download(Tensor()).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(XlaBackendTest, EverySizeGetsItsProgramAndOldOnesGo) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto executable = load(kAnySize, {});
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  std::mt19937 random(3);
  const auto run = [&](std::int64_t size) {
    const Tensor x = random_floats(random, {size, 3});
    RunContext context;
    std::vector<Tensor> outputs;
    const Tensor inputs[] = {x};
    const Status status = (*executable)->run(context, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(outputs[0].dims(), (Dims{size, 3}));
    EXPECT_EQ(outputs[0].elements<float>().back(), 2 * x.elements<float>().back());
  };
  for (std::int64_t size = 1; size <= static_cast<std::int64_t>(XlaExecutable::kMostShapes) + 3; ++size) run(size);
  run(1);
  run(7);
}

TEST_F(XlaBackendTest, BuffersThatAModelWritesLiveInTheState) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto loaded = load(kCounter, {{"count", make({3}, {1, 2, 3})}});
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  Executable& executable = **loaded;
  ASSERT_TRUE(executable.is_stateful());
  const auto first = executable.make_state().value();
  const auto second = executable.make_state().value();
  const Tensor inputs[] = {make({3}, {10, 10, 10})};
  const auto run = [&](State& state) {
    RunContext context;
    context.state = &state;
    std::vector<Tensor> outputs;
    const Status status = executable.run(context, inputs, outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    return values_of(outputs.at(0));
  };
  EXPECT_THAT(run(*first), ElementsAre(22, 24, 26));
  EXPECT_THAT(run(*first), ElementsAre(42, 44, 46));
  EXPECT_THAT(run(*first), ElementsAre(62, 64, 66));
  EXPECT_THAT(run(*second), ElementsAre(22, 24, 26)) << "states know nothing of each other";
  EXPECT_THAT(first->names(), ElementsAre("count"));
  EXPECT_THAT(values_of(first->read("count").value()), ElementsAre(31, 32, 33));
  ASSERT_TRUE(first->write("count", make({3}, {0, 0, 1})).ok());
  EXPECT_THAT(run(*first), ElementsAre(20, 20, 22));
  ASSERT_TRUE(first->reset().ok());
  EXPECT_THAT(run(*first), ElementsAre(22, 24, 26));
  EXPECT_EQ(first->read("other").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(first->write("count", make({2}, {0, 0})).code(), StatusCode::kInvalidArgument);
  RunContext without;
  std::vector<Tensor> outputs;
  EXPECT_EQ(executable.run(without, inputs, outputs).code(), StatusCode::kInvalidArgument);
}

TEST_F(XlaBackendTest, AnInputThatTheModelWritesIsWritten) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto loaded = load(R"(kpt_graph 1
input x: float32[2, 3]
sum: float32[2, 3] = aten.add.Tensor(self=%x, other=%x)
input_mutation %sum "x"
output %sum "y"
)",
                           {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_FALSE((*loaded)->is_stateful());
  RunContext context;
  std::vector<Tensor> outputs;
  const Tensor plain = make({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor storage = make({3, 2}, {1, 4, 2, 5, 3, 6});
  const Tensor strided = Tensor::from_buffer(storage.buffer(), DType::kFloat32, Dims{2, 3}, Dims{1, 2}, 0).value();
  for (const Tensor& x : {plain, strided}) {
    const Tensor inputs[] = {x};
    ASSERT_TRUE((*loaded)->run(context, inputs, outputs).ok());
    EXPECT_THAT(values_of(x.contiguous_copy().value()), ElementsAre(2, 4, 6, 8, 10, 12));
  }
  const Tensor uploaded[] = {device().upload(plain).value()};
  ASSERT_TRUE((*loaded)->run(context, uploaded, outputs).ok());
  EXPECT_THAT(values_of(device().download(uploaded[0]).value()), ElementsAre(4, 8, 12, 16, 20, 24));
}

TEST_F(XlaBackendTest, WeightsThatDoNotFitAreNamed) {
  KPT_NEEDS_CPU_PLUGIN();
  EXPECT_THAT(load(kScaleAndShift, {}).status().message(), HasSubstr("weight 'weight' is missing"));
  const Status wrong = load(kScaleAndShift, {{"weight", make({3}, {1, 2, 3})}}).status();
  EXPECT_EQ(wrong.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(wrong.message(), HasSubstr("weight 'weight' is float32[3]"));
}

TEST_F(XlaBackendTest, WhatCannotBeLoweredIsListed) {
  KPT_NEEDS_CPU_PLUGIN();
  const Status status = load(R"(kpt_graph 1
input x: float32[2]
a: float32[2] = aten.no_such_operator.default(self=%x)
output %a "y"
)",
                             {})
                            .status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("aten.no_such_operator.default"));
}

TEST_F(XlaBackendTest, LimitsAreLookedAtBeforeARun) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto executable = load(kScaleAndShift, {{"weight", make({4, 3}, std::vector<float>(12, 2))}}).value();
  const Tensor inputs[] = {make({4, 3}, std::vector<float>(12, 5))};
  std::vector<Tensor> outputs;
  RunContext context;
  context.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  EXPECT_EQ(executable->run(context, inputs, outputs).code(), StatusCode::kDeadlineExceeded);
  const std::atomic<bool> cancelled{true};
  context.deadline.reset();
  context.cancelled = &cancelled;
  EXPECT_EQ(executable->run(context, inputs, outputs).code(), StatusCode::kCancelled);
}

TEST_F(XlaBackendTest, StoredProgramsComeBack) {
  KPT_NEEDS_CPU_PLUGIN();
  const Target& target = device().target();
  const auto program = target.compile(ir::read_graph(kScaleAndShift).value()).value();
  const std::string bytes = program->serialize().value();
  const auto again = target.deserialize(bytes);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ((*again)->graph(), program->graph());
  EXPECT_EQ(target.deserialize("nonsense").status().code(), StatusCode::kCorruptData);
  EXPECT_EQ(target.deserialize(bytes.substr(0, bytes.size() / 2)).status().code(), StatusCode::kCorruptData);
  const Target& other = *backend_->targets()[1];
  EXPECT_EQ(other.deserialize(bytes).status().code(), StatusCode::kVersionMismatch);
  Device* const devices[] = {&device()};
  EXPECT_EQ(backend_->load(other.compile(ir::read_graph(kScaleAndShift).value()).value(), {}, devices).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(XlaBackendTest, ManyThreadsRunManySizes) {
  KPT_NEEDS_CPU_PLUGIN();
  const auto executable = load(kAnySize, {}).value();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned index = 0; index < 4; ++index) {
    threads.emplace_back([&, index] {
      std::mt19937 random(index);
      for (int round = 0; round < 10; ++round) {
        const std::int64_t size = 1 + static_cast<std::int64_t>(random() % 4);
        const Tensor x = random_floats(random, {size, 3});
        RunContext context;
        std::vector<Tensor> outputs;
        const Tensor inputs[] = {x};
        const Status status = executable->run(context, inputs, outputs);
        if (!status.ok() || outputs[0].elements<float>()[0] != 2 * x.elements<float>()[0]) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(XlaBackendTest, TheSecondLoadComesFromTheCache) {
  KPT_NEEDS_CPU_PLUGIN();
  const Weights weights = {{"weight", make({4, 3}, std::vector<float>(12, 2))}};
  ASSERT_TRUE(load(kScaleAndShift, weights).ok());
  backend_ = make_xla_backend(context_);
  ASSERT_TRUE(load(kScaleAndShift, weights).ok());
  const auto statistics = CompileCache::open(context_.compile_cache_folder, 1 << 26).value().statistics().value();
  EXPECT_EQ(statistics.writes, 1U);
  EXPECT_EQ(statistics.hits, 1U);
}

TEST_F(XlaBackendTest, WithATimeLimitTheCompilerRunsElsewhere) {
  KPT_NEEDS_CPU_PLUGIN();
  context_.compile_time_limit = std::chrono::seconds(120);
  backend_ = make_xla_backend(context_);
  const auto executable = load(kScaleAndShift, {{"weight", make({4, 3}, std::vector<float>(12, 2))}});
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  RunContext context;
  std::vector<Tensor> outputs;
  const Tensor inputs[] = {make({4, 3}, std::vector<float>(12, 5))};
  ASSERT_TRUE((*executable)->run(context, inputs, outputs).ok());
  EXPECT_EQ(outputs[0].elements<float>()[11], 15);
}

}  // namespace
}  // namespace kpt
