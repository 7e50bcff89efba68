// A model that is split between a device and a host, both of the test backend: what one of them gives alone is what the
// two give together.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "runtime/loaded_model.h"
#include "runtime/split_backend.h"
#include "runtime/split_plan.h"
#include "test_backend.h"

namespace kpt {
namespace {

using execution_test::make_test_backend;
using execution_test::TestMemory;
using execution_test::TestOperators;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

const TestOperators kHostOperators{{"aten.add.Tensor", "aten.mul.Tensor", "aten.sub.Tensor"}, "cpu"};

DevicePlace make_place(const TestOperators& operators, const TestMemory& memory = {}) {
  std::shared_ptr<Backend> backend = make_test_backend(memory, operators);
  Device* const device = backend->devices().value()[0];
  return {std::move(backend), device};
}

Result<std::shared_ptr<const detail::LoadedModel>> load(const ImportedModel& model, bool allowed,
                                                        const TestOperators& host = kHostOperators) {
  auto backend =
      make_split_backend(make_place({}), [host]() -> Result<DevicePlace> { return make_place(host); }, allowed);
  Device& device = *backend->devices().value()[0];
  return detail::LoadedModel::load(model, *backend, device, backend);
}

ImportedModel read_model(std::string_view text) {
  ImportedModel model;
  model.graph = ir::read_graph(text).value();
  return model;
}

Tensor draw(std::mt19937& random, const Dims& dims) {
  Tensor tensor = Tensor::empty(DType::kFloat32, dims).value();
  std::normal_distribution<float> normal;
  for (float& value : tensor.elements<float>()) value = normal(random);
  return tensor;
}

std::vector<float> values_of(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous_copy().value();
  return {dense.elements<float>().begin(), dense.elements<float>().end()};
}

std::vector<std::vector<float>> run(const detail::LoadedModel& model, const std::vector<Tensor>& inputs) {
  RunContext context;
  std::vector<Tensor> outputs;
  const Status status = model.run(context, inputs, outputs, nullptr);
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<std::vector<float>> values;
  for (const Tensor& output : outputs) {
    EXPECT_EQ(output.device(), "cpu");
    values.push_back(values_of(output));
  }
  return values;
}

// `a` is read on both sides; callers receive values of both, an input and a weight as they are.
constexpr const char* kModel = R"(kpt_graph 1
symbol s0 in 0..64
input x: float32[s0, 3]
parameter w: float32[3]
a: float32[s0, 3] = aten.mul.Tensor(self=%x, other=%w)
b: float32[s0, 3] = aten.sub.Tensor(self=%a, other=%x)
c: float32[s0, 3] = aten.add.Tensor(self=%b, other=%a)
d: float32[s0, 3] = aten.sub.Tensor(self=%c, other=%w)
output %c "sum"
output %b "difference"
output %x "same"
output %d "last"
output %w "weight"
output %c "sum_again"
)";

ImportedModel make_model(std::mt19937& random) {
  ImportedModel model = read_model(kModel);
  model.weights.emplace("w", draw(random, {3}));
  return model;
}

TEST(SplitModel, GivesWhatTheHostGivesAlone) {
  const std::uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const ImportedModel model = make_model(random);
  const auto split = load(model, true);
  ASSERT_TRUE(split.ok()) << split.status().message();
  const DevicePlace host = make_place(kHostOperators);
  const auto whole = detail::LoadedModel::load(model, *host.backend, *host.device, host.backend).value();
  EXPECT_EQ((*split)->executable().device(), "test:0+cpu");
  EXPECT_EQ((*split)->executable().describe_runs(), "part 1: one after the other; part 3: one after the other");
  ASSERT_NE((*split)->program().placement(), nullptr);
  EXPECT_EQ(describe_parts(*(*split)->program().placement()), "4 parts: 2 nodes on test:0, 2 on cpu");
  for (const std::int64_t rows : {1, 5, 0, 64}) {  // an empty batch too
    const std::vector<Tensor> inputs = {draw(random, {rows, 3})};
    EXPECT_EQ(run(**split, inputs), run(*whole, inputs)) << rows << " rows";
  }
}

TEST(SplitModel, InputsMayLieOnTheDeviceAndOutputsShareNoMemoryWithThem) {
  std::mt19937 random(1);
  const ImportedModel model = make_model(random);
  auto backend =
      make_split_backend(make_place({}), []() -> Result<DevicePlace> { return make_place(kHostOperators); }, true);
  Device& device = *backend->devices().value()[0];
  const auto loaded = detail::LoadedModel::load(model, *backend, device, backend).value();
  const Tensor x = draw(random, {4, 3});
  EXPECT_EQ(run(*loaded, {device.upload(x).value()}), run(*loaded, {x}));
  RunContext context;
  std::vector<Tensor> outputs;
  ASSERT_TRUE(loaded->run(context, std::vector<Tensor>{x}, outputs, nullptr).ok());
  EXPECT_NE(outputs[2].buffer(), x.buffer());
  EXPECT_NE(outputs[4].buffer(), model.weights.at("w").buffer());
}

TEST(SplitModel, WhatARunIsAskedReachesItsParts) {
  std::mt19937 random(1);
  std::vector<bool> heard;
  TestMemory memory;
  memory.as_written = &heard;
  auto backend = make_split_backend(
      make_place({}, memory), []() -> Result<DevicePlace> { return make_place(kHostOperators); }, true);
  const auto loaded =
      detail::LoadedModel::load(make_model(random), *backend, *backend->devices().value()[0], backend).value();
  RunContext context;
  context.as_written = true;
  std::vector<Tensor> outputs;
  ASSERT_TRUE(loaded->run(context, std::vector<Tensor>{draw(random, {4, 3})}, outputs, nullptr).ok());
  EXPECT_THAT(heard, ElementsAre(true, true));
}

TEST(SplitModel, KeysOfKeptResultsTellHowTheDeviceComputesAndWhetherItMayBeSplit) {
  std::vector<std::string> keys;
  for (const bool allowed : {false, true}) {
    const auto backend =
        make_split_backend(make_place({}), []() -> Result<DevicePlace> { return make_place(kHostOperators); }, allowed);
    keys.push_back(backend->devices().value()[0]->target().arithmetic());
  }
  EXPECT_THAT(keys, ElementsAre("test numbers", "test numbers split"));
}

TEST(SplitModel, ManyThreadsRunOneModel) {
  std::mt19937 random(2);
  const auto loaded = load(make_model(random), true).value();
  std::vector<Tensor> inputs;
  std::vector<std::vector<std::vector<float>>> wanted;
  for (std::int64_t rows = 1; rows <= 4; ++rows) {
    inputs.push_back(draw(random, {rows, 3}));
    wanted.push_back(run(*loaded, {inputs.back()}));
  }
  std::vector<std::thread> threads;
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    threads.emplace_back([&, index] {
      for (int round = 0; round < 50; ++round) EXPECT_EQ(run(*loaded, {inputs[index]}), wanted[index]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SplitModel, LimitsOfARunHold) {
  std::mt19937 random(3);
  const auto loaded = load(make_model(random), true).value();
  const std::vector<Tensor> inputs = {draw(random, {2, 3})};
  std::vector<Tensor> outputs;
  RunContext late;
  late.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  EXPECT_EQ(loaded->run(late, inputs, outputs, nullptr).code(), StatusCode::kDeadlineExceeded);
  const std::atomic<bool> yes = true;
  RunContext cancelled;
  cancelled.cancelled = &yes;
  EXPECT_EQ(loaded->run(cancelled, inputs, outputs, nullptr).code(), StatusCode::kCancelled);
}

TEST(SplitModel, SessionsNeedNoState) {
  std::mt19937 random(4);
  const auto loaded = load(make_model(random), true).value();
  EXPECT_FALSE(loaded->executable().is_stateful());
  EXPECT_TRUE(loaded->executable().make_state().value()->names().empty());
  Session session = detail::start_session(loaded).value();
  EXPECT_TRUE(session.reset().ok());
}

TEST(SplitModel, WhatTheDeviceRunsAloneIsNotSplit) {
  std::mt19937 random(5);
  ImportedModel model = make_model(random);
  for (ir::Node& node : model.graph.nodes) {
    if (node.target == "aten.sub.Tensor") node.target = "aten.add.Tensor";
  }
  auto backend = make_split_backend(
      make_place({}),
      []() -> Result<DevicePlace> {
        ADD_FAILURE() << "nobody needs the host";
        return make_place(kHostOperators);
      },
      true);
  const auto loaded = detail::LoadedModel::load(model, *backend, *backend->devices().value()[0], backend);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ((*loaded)->program().placement(), nullptr);
  EXPECT_EQ((*loaded)->executable().device(), "test:0");
}

TEST(SplitModel, WithoutTheOptionTheMessageSaysWhatWouldHelp) {
  std::mt19937 random(6);
  const ImportedModel model = make_model(random);
  const Status refused = load(model, false).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnsupported);
  EXPECT_THAT(refused.message(), HasSubstr("2 of 4 nodes cannot run on test: 'b' aten.sub.Tensor (first of 2): "));
  EXPECT_THAT(refused.message(), EndsWith("; allow placement.split to run them on the CPU"));
  // Where the host cannot run them either, there is nothing to advise.
  const Status hopeless = load(model, false, {{"aten.add.Tensor"}, "cpu"}).status();
  EXPECT_EQ(hopeless.code(), StatusCode::kUnsupported);
  EXPECT_THAT(hopeless.message(), EndsWith("the test backend adds and multiplies only"));
}

TEST(SplitModel, WithTheOptionRefusalsAreTypedAndGiveTheReason) {
  std::mt19937 random(7);
  const ImportedModel model = make_model(random);
  const Status hopeless = load(model, true, {{"aten.add.Tensor"}, "cpu"}).status();
  EXPECT_EQ(hopeless.code(), StatusCode::kUnsupported);
  EXPECT_THAT(hopeless.message(), HasSubstr("placement.split does not help: 2 of 4 nodes can run neither on test nor"));
  ImportedModel writes = make_model(random);
  const std::string text = kModel;
  writes.graph = ir::read_graph("kpt_graph 1\nsymbol s0 in 0..64\nbuffer kept: float32[3]\n" +
                                text.substr(text.find("input x")) + "buffer_mutation %w \"kept\"\n")
                     .value();
  writes.weights.emplace("kept", draw(random, {3}));
  const Status kept = load(writes, true).status();
  EXPECT_EQ(kept.code(), StatusCode::kUnsupported);
  EXPECT_THAT(kept.message(), HasSubstr("placement.split does not help: the model writes 'kept'"));
}

TEST(SplitModel, SizesAndNamesOfNodesComeThrough) {
  std::mt19937 random(8);
  const auto loaded = load(make_model(random), true).value();
  const Placement& placement = *loaded->program().placement();
  const ir::Graph& graph = loaded->graph();
  EXPECT_EQ(graph, read_model(kModel).graph) << "the program is of the whole graph";
  std::vector<std::string> order;
  for (const PlacedPart& part : placement.parts) {
    for (const std::size_t node : part.nodes) order.push_back(part.device + " " + graph.nodes[node].name);
  }
  EXPECT_THAT(order, ElementsAre("test:0 a", "cpu b", "test:0 c", "cpu d"));
}

// In the whole graph `b` is a result; in the part that reads it, an input.
TEST(SplitModel, WhatTheDeviceRefusesOnlyInAPartGoesToTheHostToo) {
  std::mt19937 random(10);
  const ImportedModel model = make_model(random);
  TestOperators operators;
  operators.refused_input = "b";
  auto backend = make_split_backend(
      make_place(operators), []() -> Result<DevicePlace> { return make_place(kHostOperators); }, true);
  const auto loaded = detail::LoadedModel::load(model, *backend, *backend->devices().value()[0], backend);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(describe_parts(*(*loaded)->program().placement()), "2 parts: 1 node on test:0, 3 on cpu");
  const DevicePlace host = make_place(kHostOperators);
  const auto whole = detail::LoadedModel::load(model, *host.backend, *host.device, host.backend).value();
  const std::vector<Tensor> inputs = {draw(random, {4, 3})};
  EXPECT_EQ(run(**loaded, inputs), run(*whole, inputs));
}

// A view that PyTorch could make of the recorded layout must stay possible on the host.
TEST(SplitModel, ValuesComeToTheHostAsPyTorchLaysThemOut) {
  const ImportedModel model = read_model(R"(kpt_graph 1
symbol s0 in 1..64
input x: float32[s0, 2, 3]
a: float32[s0, 2, 3]{strides=[6, 1, 2]} = aten.mul.Tensor(self=%x, other=%x)
b: float32[s0, 2, 3] = aten.add.Tensor(self=%x, other=%x)
c: float32[s0, 2, 3] = aten.sub.Tensor(self=%a, other=%b)
output %c "out"
)");
  std::vector<Dims> strides;
  TestMemory memory;
  memory.strides = &strides;
  auto backend = make_split_backend(
      make_place({}), [&memory]() -> Result<DevicePlace> { return make_place(kHostOperators, memory); }, true);
  const auto loaded = detail::LoadedModel::load(model, *backend, *backend->devices().value()[0], backend).value();
  std::mt19937 random(9);
  const Tensor x = draw(random, {2, 2, 3});
  const auto given = run(*loaded, {x});
  EXPECT_THAT(strides, ElementsAre(Dims{6, 1, 2}, Dims{6, 3, 1}));
  for (std::size_t index = 0; index < given[0].size(); ++index) {
    const float value = x.elements<float>()[index];
    const volatile float square = value * value;  // rounded: a compiler that has one instruction for both would not
    EXPECT_EQ(given[0][index], square - (value + value));
  }
}

// Random graphs of sums, differences and products, most values used several times.
ImportedModel draw_model(std::mt19937& random) {
  std::string text = "kpt_graph 1\ninput x: float32[2, 3]\ninput y: float32[2, 3]\nparameter w: float32[2, 3]\n";
  std::vector<std::string> values = {"x", "y", "w"};
  const std::size_t count = random() % 30 + 3;
  for (std::size_t node = 0; node < count; ++node) {
    const char* const targets[] = {"add", "mul", "sub"};
    const std::string name = "n" + std::to_string(node);
    text += name + ": float32[2, 3] = aten." + targets[random() % 3] + ".Tensor(self=%" +
            values[random() % values.size()] + ", other=%" + values[random() % values.size()] + ")\n";
    values.push_back(name);
  }
  for (std::size_t output = 0; output < 4; ++output) {
    text += "output %" + values[random() % values.size()] + " \"o" + std::to_string(output) + "\"\n";
  }
  ImportedModel model = read_model(text);
  model.weights.emplace("w", draw(random, {2, 3}));
  return model;
}

TEST(SplitModel, RandomGraphsGiveTheSameBits) {
  const std::uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const DevicePlace host = make_place(kHostOperators);
  int compared = 0;
  for (int round = 0; round < 200; ++round) {
    const ImportedModel model = draw_model(random);
    const auto split = load(model, true);
    if (!split.ok()) {  // differences only, or none that anybody sees
      EXPECT_EQ(split.status().code(), StatusCode::kUnsupported) << split.status().message();
      continue;
    }
    if ((*split)->program().placement() == nullptr) continue;  // no difference at all
    const auto whole = detail::LoadedModel::load(model, *host.backend, *host.device, host.backend).value();
    const std::vector<Tensor> inputs = {draw(random, {2, 3}), draw(random, {2, 3})};
    const auto given = run(**split, inputs);
    const auto wanted = run(*whole, inputs);
    ASSERT_EQ(given.size(), wanted.size());
    for (std::size_t output = 0; output < given.size(); ++output) {
      ASSERT_TRUE(std::equal(given[output].begin(), given[output].end(), wanted[output].begin(), [](float a, float b) {
        return a == b || (std::isnan(a) && std::isnan(b));
      })) << ir::print_graph(model.graph);
    }
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace kpt
