// Graphs with nodes of our own, run by the CPU backend: results, threads, memory, and files that lie.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <iostream>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/changed_calls.h"
#include "ir/own_operators.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "own_node_graph.h"

namespace kpt {
namespace {

using execution_test::GraphBuilder;
using execution_test::load_here;
using testing::HasSubstr;

struct NormCase {
  std::int64_t rows;
  std::int64_t width;
  bool residual;
  bool weights;
  std::string kind;
};

// What the operator means, in double.
std::pair<std::vector<double>, std::vector<double>> norm_exactly(const NormCase& shape, const Tensor& input,
                                                                 const Tensor& residual, const Tensor& weight,
                                                                 const Tensor& bias, double epsilon) {
  const auto count = static_cast<std::size_t>(shape.rows * shape.width);
  const auto width = static_cast<std::size_t>(shape.width);
  std::vector<double> normed(count);
  std::vector<double> sum(count);
  for (std::size_t index = 0; index < count; ++index) {
    sum[index] = static_cast<double>(input.elements<float>()[index]);
    if (shape.residual) sum[index] += static_cast<double>(residual.elements<float>()[index]);
  }
  for (std::size_t start = 0; start < count; start += width) {
    double mean = 0;
    for (std::size_t index = start; index < start + width; ++index) mean += sum[index] / static_cast<double>(width);
    if (shape.kind == "rms") mean = 0;
    double square = 0;
    for (std::size_t index = start; index < start + width; ++index) square += (sum[index] - mean) * (sum[index] - mean);
    const double scale = 1 / std::sqrt(square / static_cast<double>(width) + epsilon);
    for (std::size_t index = start; index < start + width; ++index) {
      normed[index] = (sum[index] - mean) * scale;
      if (!shape.weights) continue;
      normed[index] *= static_cast<double>(weight.elements<float>()[index - start]);
      normed[index] += static_cast<double>(bias.elements<float>()[index - start]);
    }
  }
  return {normed, sum};
}

class AddNorm : public testing::TestWithParam<NormCase> {};

TEST_P(AddNorm, IsWhatItMeans) {
  const NormCase& shape = GetParam();
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  GraphBuilder builder(seed);
  const auto input = builder.input("input", DType::kFloat32, {shape.rows, shape.width});
  const auto residual =
      shape.residual ? builder.input("residual", DType::kFloat32, {shape.rows, shape.width}) : ir::Argument{};
  const auto weight = shape.weights ? builder.weight("weight", DType::kFloat32, {shape.width}) : ir::Argument{};
  const auto bias = shape.weights ? builder.weight("bias", DType::kFloat32, {shape.width}) : ir::Argument{};
  const auto results =
      builder.node("kpt.add_norm.default",
                   {{"input", input},
                    {"residual", residual},
                    {"weight", weight},
                    {"bias", bias},
                    {"epsilon", {1e-5}},
                    {"kind", {shape.kind}}},
                   {{DType::kFloat32, {shape.rows, shape.width}}, {DType::kFloat32, {shape.rows, shape.width}}});
  builder.output(results[0]);
  builder.output(results[1]);
  const std::vector<Tensor> inputs = builder.draw_inputs();
  const Weights weights = builder.model.weights;
  const auto model = load_here(std::move(builder.model));
  const std::vector<Tensor> outputs = execution_test::run(*model, inputs).value();
  const auto [normed, sum] = norm_exactly(shape, inputs[0], shape.residual ? inputs[1] : Tensor(),
                                          shape.weights ? weights.at("weight") : Tensor(),
                                          shape.weights ? weights.at("bias") : Tensor(), 1e-5);
  ASSERT_EQ(outputs[0].element_count(), shape.rows * shape.width);
  for (std::size_t index = 0; index < normed.size(); ++index) {
    const double magnitude = 1 + std::abs(normed[index]);
    ASSERT_NEAR(static_cast<double>(outputs[0].elements<float>()[index]), normed[index], 3e-6 * magnitude) << index;
    ASSERT_NEAR(static_cast<double>(outputs[1].elements<float>()[index]), sum[index], 5e-7) << index;
  }
}

INSTANTIATE_TEST_SUITE_P(OwnNodes, AddNorm,
                         testing::Values(NormCase{5, 48, true, true, "layer"}, NormCase{3, 7, false, true, "layer"},
                                         NormCase{1, 1, true, false, "rms"}, NormCase{0, 8, true, true, "layer"},
                                         NormCase{300, 771, true, true, "rms"}, NormCase{2, 5003, true, false, "layer"},
                                         NormCase{17, 64, false, false, "rms"}));

// Weights of 16 bits are widened at load; the same numbers as float32 weights give the same results.
TEST(OwnNodes, SixteenBitWeightsAreTheirNumbers) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const auto run = [&](bool wide) {
    GraphBuilder builder(seed);
    const auto input = builder.input("input", DType::kBFloat16, {7, 50});
    const auto weight = builder.weight("weight", DType::kBFloat16, {50});
    const auto bias = builder.weight("bias", DType::kBFloat16, {50});
    const auto results = builder.node("kpt.add_norm.default",
                                      {{"input", input},
                                       {"residual", {}},
                                       {"weight", weight},
                                       {"bias", bias},
                                       {"epsilon", {1e-5}},
                                       {"kind", {std::string("layer")}}},
                                      {{DType::kBFloat16, {7, 50}}, {DType::kBFloat16, {7, 50}}});
    builder.output(results[0]);
    const std::vector<Tensor> inputs = builder.draw_inputs();
    for (auto& [name, tensor] : builder.model.weights) {
      if (!wide) continue;
      const Tensor widened = Tensor::empty(DType::kFloat32, tensor.dims()).value();
      for (std::size_t index = 0; index < 50; ++index) {
        const std::uint32_t bits = tensor.elements<std::uint16_t>()[index];
        widened.elements<float>()[index] = std::bit_cast<float>(bits << 16);
      }
      tensor = widened;
    }
    if (wide) {
      for (const auto& argument : {weight, bias}) {
        builder.model.graph.at(*argument.value_id()).tensor.dtype = DType::kFloat32;
      }
    }
    const auto model = load_here(std::move(builder.model));
    return execution_test::run(*model, inputs).value()[0];
  };
  EXPECT_TRUE(execution_test::same_bytes(run(false), run(true)));
}

TEST(OwnNodes, TargetSaysWhichItRuns) {
  const auto placed = find_runnable_device("cpu", BackendContext()).value();
  const Capabilities& capabilities = placed.device->target().capabilities();
  EXPECT_THAT(capabilities.own_operators, testing::IsSupersetOf({"kpt.add_norm.default", "kpt.attention.default",
                                                                 "kpt.glu.default", "kpt.rotary.default"}));
  for (const std::string& target : capabilities.own_operators) {
    EXPECT_NE(ir::find_own_operator(target), nullptr) << target;
  }
  EXPECT_THAT(capabilities.matrix_dtypes, testing::Not(testing::Contains(DType::kFloat32)));
}

// One model, several lengths in turn: places and workspaces follow the sizes of each run.
TEST(OwnNodes, LengthsMayVaryFromRunToRun) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  ImportedModel imported;
  imported.graph = ir::read_graph(R"(kpt_graph 1
symbol s0 in 1..256
input x: float32[1, s0, 48]
first: float32[1, s0, 48], sum: float32[1, s0, 48] = kpt.add_norm.default(input=%x, residual=%x, weight=none, bias=none, epsilon=1e-05, kind="layer")
heads: float32[1, s0, 4, 12] = aten.view.default(self=%first, size=[1, -1, 4, 12])
turned: float32[1, 4, s0, 12]{strides=[48*s0, 12, 48, 1]} = aten.transpose.int(self=%heads, dim0=1, dim1=2)
attention: float32[1, s0, 4, 12] = kpt.attention.default(query=%turned, key=%turned, value=%turned, mask=none, scale=0.3, causal=true)
glu: float32[1, s0, 4, 6] = kpt.glu.default(input=%attention, activation="gelu")
output %glu "out"
)")
                       .value();
  const auto model = load_here(std::move(imported));
  GraphBuilder builder(seed);
  const Tensor longest = builder.draw(DType::kFloat32, {1, 256, 48});
  const auto run = [&](std::int64_t length) {
    const Tensor input = Tensor::empty(DType::kFloat32, Dims{1, length, 48}).value();
    std::copy_n(longest.elements<float>().begin(), length * 48, input.elements<float>().begin());
    return execution_test::run(*model, {input}).value()[0];
  };
  const Tensor all = run(256);
  for (const std::int64_t length : {9, 256, 1, 130, 20, 9}) {
    const Tensor part = run(length);
    ASSERT_EQ(part.dims(), (Dims{1, length, 4, 6}));
    // Causal: what comes later changes nothing before. Few queries are computed in another order of sums.
    for (std::size_t index = 0; index < static_cast<std::size_t>(length * 24); ++index) {
      ASSERT_NEAR(part.elements<float>()[index], all.elements<float>()[index], 1e-5F) << length << ", " << index;
    }
  }
}

TEST(OwnNodes, PlanNamesTheKernel) {
  GraphBuilder builder(1);
  const auto input = builder.input("input", DType::kFloat32, {2, 8});
  const auto first = builder.add_norm(input, {}, {2, 8});
  builder.output(builder.add_norm(first[0], first[1], {2, 8})[0]);
  const auto model = load_here(std::move(builder.model));
  const std::vector<NodePlan> plan = model->executable().plan();
  ASSERT_EQ(plan.size(), 2U);
  EXPECT_THAT(plan[0].how, testing::StartsWith("own: layer_norm_"));
  EXPECT_THAT(plan[0].how, HasSubstr("planned"));
  EXPECT_THAT(plan[1].how, testing::Not(HasSubstr("planned"))) << "callers receive it";
}

TEST(OwnNodes, RecordedTypesThatDoNotFitAreReasons) {
  const auto reason = [](const auto& change) {
    GraphBuilder builder(1);
    const auto input = builder.input("input", DType::kFloat32, {2, 8});
    builder.output(builder.add_norm(input, {}, {2, 8})[0]);
    change(builder.model.graph);
    const auto placed = find_runnable_device("cpu", BackendContext()).value();
    const auto answers = placed.device->target().supports(builder.model.graph).value();
    EXPECT_FALSE(answers[0].supported);
    return answers[0].reason;
  };
  const auto argument = [](ir::Graph& graph, std::size_t index) -> ir::NamedArgument& {
    return graph.nodes[0].arguments[index];
  };
  EXPECT_THAT(reason([&](ir::Graph& graph) { graph.nodes[0].target = "kpt.nothing.default"; }),
              HasSubstr("has no such operator"));
  EXPECT_THAT(reason([&](ir::Graph& graph) { argument(graph, 2).name = "weights"; }),
              HasSubstr("no argument 'weights'"));
  EXPECT_THAT(reason([&](ir::Graph& graph) { graph.nodes[0].arguments.pop_back(); }), HasSubstr("'kind' is missing"));
  EXPECT_THAT(reason([&](ir::Graph& graph) { graph.nodes[0].arguments.push_back(argument(graph, 0)); }),
              HasSubstr("'input' is given twice"));
  EXPECT_THAT(reason([&](ir::Graph& graph) { argument(graph, 0).name = ""; }), HasSubstr("not given by name"));
  EXPECT_THAT(reason([&](ir::Graph& graph) { argument(graph, 5).value = {std::string("group")}; }),
              HasSubstr("neither \"layer\" nor \"rms\""));
  EXPECT_THAT(reason([&](ir::Graph& graph) { argument(graph, 4).value = {std::string("small")}; }),
              HasSubstr("'epsilon' is no constant number"));
  EXPECT_THAT(reason([&](ir::Graph& graph) { argument(graph, 0).value = {1.0}; }), HasSubstr("'input' is no tensor"));
  EXPECT_THAT(reason([&](ir::Graph& graph) { graph.values[0].tensor.dtype = DType::kInt64; }),
              HasSubstr("'input' is int64, it takes float32 or bfloat16 or float16"));
  EXPECT_THAT(reason([&](ir::Graph& graph) { argument(graph, 2).value = argument(graph, 0).value; }),
              HasSubstr("'weight' has rank 2, it takes 1"));
  EXPECT_THAT(reason([&](ir::Graph& graph) { graph.nodes[0].outputs.pop_back(); }), HasSubstr("has 1 results of it"));
  EXPECT_THAT(
      reason([&](ir::Graph& graph) { graph.at(graph.nodes[0].outputs[1].values[0]).tensor.dtype = DType::kFloat64; }),
      HasSubstr("its result 1 is float64 of rank 2 in the file, the operator gives float32 of rank 2"));
}

// The first node's result is recorded with sizes that it does not have; the second node takes it.
TEST(OwnNodes, RecordedSizesThatLieAreFailuresNotWrites) {
  for (const std::vector<std::int64_t>& lie : {std::vector<std::int64_t>{1, 1}, {2, 4}, {8, 2}, {4000, 8000}, {2, 0}}) {
    for (const std::size_t result : {0U, 1U}) {
      GraphBuilder builder(1);
      const auto input = builder.input("input", DType::kFloat32, {2, 8});
      const auto first = builder.add_norm(input, {}, {2, 8});
      builder.output(builder.add_norm(first[0], first[1], {2, 8})[0]);
      builder.set_sizes(first[result], lie);
      const std::vector<Tensor> inputs = builder.draw_inputs();
      const auto model = load_here(std::move(builder.model));
      const auto outputs = execution_test::run(*model, inputs);
      if (lie[1] == 0) continue;  // nothing is planned for it; what really comes is used
      ASSERT_FALSE(outputs.ok());
      EXPECT_EQ(outputs.status().code(), StatusCode::kKernel);
      EXPECT_THAT(outputs.status().message(), HasSubstr("node 'node_0' (kpt.add_norm.default) failed: its result"));
    }
  }
}

// Whatever a file says in a call of ours: loading or running fails, or gives something, and touches no other memory.
TEST(OwnNodes, ChangedCallsAreFailuresNotWrites) {
  const std::uint64_t first_seed = std::random_device{}();
  std::cerr << "first seed " << first_seed << std::endl;  // a crash prints no trace
  const PlacedDevice placed = execution_test::find_device_under_test();
  int sound = 0;
  int loaded = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + 200; ++seed) {
    GraphBuilder builder(seed);
    execution_test::add_block(builder);
    const ir::Graph words = builder.model.graph;
    const std::string change = ir::CallChanger(words, seed).change(builder.model.graph);
    if (!ir::verify(builder.model.graph).ok()) continue;
    ++sound;
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << change);
    const auto inputs = builder.draw_inputs();
    const auto model = detail::LoadedModel::load(std::move(builder.model), *placed.backend, *placed.device);
    EXPECT_NE(model.status().code(), StatusCode::kInternal) << model.status().message();
    if (!model.ok()) continue;
    ++loaded;
    const auto outputs = execution_test::run(**model, inputs);
    EXPECT_NE(outputs.status().code(), StatusCode::kInternal) << outputs.status().message();
  }
  EXPECT_GT(sound, 50);
  EXPECT_GT(loaded, 0);
}

// An operator of libtorch gives something else than the file says, and a node of ours relies on it.
TEST(OwnNodes, OperandsThatAreNotAsRecordedAreFailures) {
  const auto failure = [](const std::string& target, std::vector<ir::NamedArgument> further, DType dtype,
                          std::vector<std::int64_t> recorded, bool as_residual) {
    GraphBuilder builder(1);
    const auto input = builder.input("input", DType::kFloat32, {2, 8});
    std::vector<ir::NamedArgument> arguments = {{"self", input}};
    arguments.insert(arguments.end(), further.begin(), further.end());
    const auto other = builder.node(target, arguments, {{dtype, recorded}})[0];
    builder.output(as_residual ? builder.add_norm(input, other, {2, 8})[0] : builder.add_norm(other, {}, {2, 8})[0]);
    const std::vector<Tensor> inputs = builder.draw_inputs();
    const auto model = load_here(std::move(builder.model));
    return execution_test::run(*model, inputs).status().message();
  };
  EXPECT_THAT(failure("aten.isnan.default", {}, DType::kFloat32, {2, 8}, false),
              HasSubstr("another element type than the file says"));
  EXPECT_THAT(failure("aten.unsqueeze.default", {{"dim", {std::int64_t{0}}}}, DType::kFloat32, {2, 8}, false),
              HasSubstr("another rank than the file says"));
  EXPECT_THAT(failure("aten.t.default", {}, DType::kFloat32, {2, 8}, true),
              HasSubstr("the residual is not of the input's sizes"));
}

TEST(OwnNodes, EightThreadsOnOneModelGiveTheSameBitsAsOne) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  GraphBuilder builder(seed);
  execution_test::add_block(builder);
  std::vector<std::vector<Tensor>> inputs;
  for (int index = 0; index < 8; ++index) inputs.push_back(builder.draw_inputs());
  const auto model = load_here(std::move(builder.model));
  std::vector<std::vector<Tensor>> expected;
  for (const auto& given : inputs) expected.push_back(execution_test::run(*model, given).value());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    threads.emplace_back([&, index] {
      for (int round = 0; round < 25; ++round) {
        const auto outputs = execution_test::run(*model, inputs[index]);
        if (!outputs.ok() || !execution_test::same_bytes((*outputs)[0], expected[index][0])) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace kpt
