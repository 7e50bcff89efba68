// kpt.linear and its quantized forms, run by the CPU backend.
#include <atomic>
#include <cmath>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "own_node_graph.h"

namespace kpt {
namespace {

using execution_test::GraphBuilder;
using execution_test::load_here;
using testing::HasSubstr;

struct LinearCase {
  std::string form;  // "float32", "bfloat16", "int8", "weight_int8", "int4"
  std::vector<std::int64_t> leading;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool bias = true;
  bool residual = false;
  bool constant = true;     // the weight is the model's, not an input
  bool transposed = false;  // the input comes with its last two axes swapped
  std::string activation = "none";
};

float from_half(std::uint16_t half) { return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16); }
float round_to_half(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((word + 0x7FFFU + ((word >> 16) & 1U)) & 0xFFFF0000U);
}

std::string target_of(const LinearCase& of) {
  const bool plain = of.form == "float32" || of.form == "bfloat16";
  return plain ? "kpt.linear.default" : "kpt.linear_" + of.form + ".default";
}

// A graph of one product, and what it must give.
struct LinearGraph {
  explicit LinearGraph(const LinearCase& of, std::uint64_t seed) : shape(of), builder(seed), random(seed + 1) {
    input_sizes = of.leading;
    input_sizes.push_back(of.k);
    result_sizes = of.leading;
    result_sizes.push_back(of.n);
    rows = 1;
    for (const std::int64_t size : of.leading) rows *= size;
    ir::Argument input = add_input();
    const ir::Argument residual =
        of.residual ? builder.input("residual", DType::kFloat32, result_sizes) : ir::Argument{};
    std::vector<ir::NamedArgument> arguments = {{"input", input}};
    add_weight(arguments);
    arguments.push_back({"bias", of.bias ? builder.weight("bias", DType::kFloat32, {of.n}) : ir::Argument{}});
    arguments.push_back({"residual", residual});
    arguments.push_back({"activation", {of.activation}});
    if (of.form == "int4") arguments.push_back({"group", {kGroup}});
    builder.output(builder.node(target_of(of), arguments, {{DType::kFloat32, result_sizes}})[0]);
  }

  double weight_at(const Weights& weights, const std::vector<Tensor>& inputs, std::int64_t n, std::int64_t k) const {
    const Tensor& weight = shape.constant ? weights.at("weight") : inputs.back();
    const auto index = static_cast<std::size_t>(n * shape.k + k);
    if (shape.form == "float32") return static_cast<double>(weight.elements<float>()[index]);
    if (shape.form == "bfloat16") return static_cast<double>(from_half(weight.elements<std::uint16_t>()[index]));
    const auto scales = weights.at("scale").elements<float>();
    if (shape.form != "int4") {
      return static_cast<double>(weight.elements<std::int8_t>()[index]) *
             static_cast<double>(scales[static_cast<std::size_t>(n)]);
    }
    const int byte = weight.elements<std::uint8_t>()[index / 2];
    const int code = (k % 2 == 0 ? byte & 15 : byte >> 4) - 8;
    return code * static_cast<double>(scales[static_cast<std::size_t>(n * (shape.k / kGroup) + k / kGroup)]);
  }

  static constexpr std::int64_t kGroup = 16;
  LinearCase shape;
  GraphBuilder builder;
  std::mt19937_64 random;
  std::vector<std::int64_t> input_sizes;
  std::vector<std::int64_t> result_sizes;
  std::int64_t rows = 0;

 private:
  ir::Argument add_input() {
    if (!shape.transposed) return builder.input("input", DType::kFloat32, input_sizes);
    std::vector<std::int64_t> swapped = input_sizes;
    std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
    const ir::Argument given = builder.input("input", DType::kFloat32, swapped);
    return builder.node("aten.transpose.int",
                        {{"self", given}, {"dim0", {std::int64_t{-2}}}, {"dim1", {std::int64_t{-1}}}},
                        {{DType::kFloat32, input_sizes}})[0];
  }

  void add_weight(std::vector<ir::NamedArgument>& arguments) {
    if (shape.form == "float32" || shape.form == "bfloat16") {
      const DType dtype = shape.form == "float32" ? DType::kFloat32 : DType::kBFloat16;
      arguments.push_back({"weight", shape.constant ? builder.weight("weight", dtype, {shape.n, shape.k})
                                                    : builder.input("weight", dtype, {shape.n, shape.k})});
      return;
    }
    const bool int8 = shape.form != "int4";
    arguments.push_back({"weight", builder.weight("weight", int8 ? DType::kInt8 : DType::kUInt8,
                                                  {shape.n, int8 ? shape.k : shape.k / 2})});
    for (std::uint8_t& byte : builder.model.weights.at("weight").elements<std::uint8_t>()) {
      byte = static_cast<std::uint8_t>(random() % 256);
    }
    std::vector<std::int64_t> sizes = {shape.n};
    if (!int8) sizes.push_back(shape.k / kGroup);
    arguments.push_back({"scale", builder.weight("scale", DType::kFloat32, sizes)});
  }
};

double activate_sum(const std::string& name, double x) {
  if (name == "relu") return std::max(x, 0.0);
  if (name == "gelu") return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  return x;
}

class OwnLinear : public testing::TestWithParam<LinearCase> {};

TEST_P(OwnLinear, IsWhatItMeans) {
  const LinearCase& shape = GetParam();
  if (!execution_test::runs_own_operator(target_of(shape))) {
    GTEST_SKIP() << "the device does not run " << target_of(shape);
  }
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  LinearGraph graph(shape, seed);
  const std::vector<Tensor> inputs = graph.builder.draw_inputs();
  const Weights weights = graph.builder.model.weights;
  const auto model = load_here(std::move(graph.builder.model));
  const auto outputs = execution_test::run(*model, inputs).value();
  ASSERT_EQ(outputs[0].element_count(), graph.rows * shape.n);
  const std::int64_t last = shape.leading.empty() ? 1 : shape.leading.back();
  for (std::int64_t row = 0; row < graph.rows; ++row) {
    for (std::int64_t n = 0; n < shape.n; ++n) {
      double sum = 0;
      double magnitude = 1e-6;
      double greatest = 0;
      double weight_sum = 0;
      for (std::int64_t k = 0; k < shape.k; ++k) {
        const std::int64_t place =
            shape.transposed ? (row / last * shape.k + k) * last + row % last : row * shape.k + k;
        float a = inputs[0].elements<float>()[static_cast<std::size_t>(place)];
        if (shape.form == "bfloat16") a = round_to_half(a);
        const double w = graph.weight_at(weights, inputs, n, k);
        sum += static_cast<double>(a) * w;
        magnitude += std::abs(static_cast<double>(a) * w);
        greatest = std::max(greatest, std::abs(static_cast<double>(a)));
        weight_sum += std::abs(w);
      }
      const auto place = static_cast<std::size_t>(row * shape.n + n);
      if (shape.bias) sum += static_cast<double>(weights.at("bias").elements<float>()[static_cast<std::size_t>(n)]);
      if (shape.residual) sum += static_cast<double>(inputs[1].elements<float>()[place]);
      double bound = 1e-5 * (magnitude + std::abs(sum));
      if (shape.form == "int8") bound += greatest / 127 * 0.51 * weight_sum;
      ASSERT_NEAR(static_cast<double>(outputs[0].elements<float>()[place]), activate_sum(shape.activation, sum), bound)
          << row << ", " << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OwnNodes, OwnLinear,
                         testing::Values(LinearCase{"float32", {2, 9}, 37, 50, true, true, true, false, "gelu"},
                                         LinearCase{"float32", {}, 5, 8, false, false, true, false, "none"},
                                         LinearCase{"float32", {1}, 200, 64, true, false, true, false, "relu"},
                                         LinearCase{"float32", {3, 20}, 24, 33, true, false, true, true, "none"},
                                         LinearCase{"float32", {40}, 24, 33, true, false, false, false, "none"},
                                         LinearCase{"float32", {0, 4}, 7, 8, true, true, true, false, "none"},
                                         LinearCase{"float32", {3}, 7, 0, true, true, true, false, "none"},
                                         LinearCase{"bfloat16", {70}, 61, 96, true, true, true, false, "gelu"},
                                         LinearCase{"bfloat16", {2, 5}, 16, 31, false, false, false, false, "none"},
                                         LinearCase{"int8", {2, 33}, 61, 96, true, true, true, false, "relu"},
                                         LinearCase{"int8", {2, 3}, 5, 17, false, false, true, true, "none"},
                                         LinearCase{"weight_int8", {2, 33}, 61, 97, true, true, true, false, "gelu"},
                                         LinearCase{"weight_int8", {1}, 40, 31, false, false, true, false, "none"},
                                         LinearCase{"weight_int8", {2, 3}, 5, 17, false, false, true, true, "none"},
                                         LinearCase{"weight_int8", {3}, 7, 0, true, true, true, false, "none"},
                                         LinearCase{"int4", {2, 33}, 61, 96, true, true, true, false, "gelu"},
                                         LinearCase{"int4", {1}, 40, 32, false, false, true, false, "none"},
                                         LinearCase{"weight_int8", {1}, 70, 1040, true, true, true, false, "none"},
                                         LinearCase{"weight_int8", {2, 4}, 70, 512, true, true, true, false, "gelu"},
                                         LinearCase{"int4", {8}, 9, 1056, true, true, true, false, "relu"}));

TEST(OwnLinear, PlanNamesTheKernelAndWhetherWeightsArePackedOnce) {
  for (const bool constant : {true, false}) {
    LinearGraph graph({"float32", {4}, 8, 16, true, false, constant, false, "none"}, 1);
    const auto model = load_here(std::move(graph.builder.model));
    const std::string how = model->executable().plan().at(0).how;
    EXPECT_THAT(how, HasSubstr("own: float32"));
    EXPECT_EQ(how.find("packed in every run") == std::string::npos, constant) << how;
  }
}

TEST(OwnLinear, WhatDoesNotFitIsAReasonOrAFailure) {
  const auto reason = [](const auto& change) {
    LinearGraph graph({"int4", {4}, 8, 16, true, false, true, false, "none"}, 1);
    change(graph.builder.model.graph);
    const auto placed = find_runnable_device("cpu", BackendContext()).value();
    return placed.device->target().supports(graph.builder.model.graph).value()[0].reason;
  };
  EXPECT_THAT(reason([](ir::Graph& graph) { graph.nodes[0].arguments[5].value = {std::string("swish")}; }),
              HasSubstr("'activation' names no activation"));
  EXPECT_THAT(reason([](ir::Graph& graph) { graph.nodes[0].arguments[6].value = {std::int64_t{0}}; }),
              HasSubstr("'group' is not above zero"));
  EXPECT_THAT(reason([](ir::Graph& graph) { graph.nodes[0].arguments[1].value = graph.nodes[0].arguments[0].value; }),
              HasSubstr("'weight' is float32, it takes uint8"));
  // The recorded input is wider than the weight.
  GraphBuilder builder(1);
  const auto input = builder.input("input", DType::kFloat32, {2, 9});
  const auto weight = builder.weight("weight", DType::kFloat32, {4, 8});
  builder.output(builder.node(
      "kpt.linear.default",
      {{"input", input}, {"weight", weight}, {"bias", {}}, {"residual", {}}, {"activation", {std::string("none")}}},
      {{DType::kFloat32, {2, 4}}})[0]);
  const std::vector<Tensor> inputs = builder.draw_inputs();
  const auto model = load_here(std::move(builder.model));
  EXPECT_THAT(execution_test::run(*model, inputs).status().message(),
              HasSubstr("the input's last axis is not as long as the weight's"));
}

// Three scales for four rows: when the model is loaded, or at the run that brings the weight.
TEST(OwnLinear, AFormOfFewBitsThatCannotBeMadeIsATypedFailure) {
  const auto placed = find_runnable_device("cpu", BackendContext()).value();
  for (const bool constant : {true, false}) {
    GraphBuilder builder(1);
    const auto input = builder.input("input", DType::kFloat32, {2, 8});
    const auto weight =
        constant ? builder.weight("weight", DType::kInt8, {4, 8}) : builder.input("weight", DType::kInt8, {4, 8});
    const auto scale = builder.weight("scale", DType::kFloat32, {3});
    builder.output(builder.node("kpt.linear_int8.default",
                                {{"input", input},
                                 {"weight", weight},
                                 {"scale", scale},
                                 {"bias", {}},
                                 {"residual", {}},
                                 {"activation", {std::string("none")}}},
                                {{DType::kFloat32, {2, 4}}})[0]);
    const std::vector<Tensor> inputs = {builder.draw(DType::kFloat32, {2, 8}),
                                        Tensor::empty(DType::kInt8, Dims{4, 8}).value()};
    const auto model = detail::LoadedModel::load(std::move(builder.model), *placed.backend, *placed.device);
    EXPECT_EQ(model.ok(), !constant);
    const Status status = constant ? model.status() : execution_test::run(**model, inputs).status();
    EXPECT_EQ(status.code(), StatusCode::kPrecisionCompilation) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr("node 'node_0' (kpt.linear_int8.default)"));
    EXPECT_THAT(status.message(), HasSubstr("its scales do not fit its weight"));
  }
}

TEST(OwnLinear, EightThreadsShareThePackedWeights) {
  LinearGraph graph({"float32", {64}, 100, 120, true, true, true, false, "gelu"}, 5);
  std::vector<std::vector<Tensor>> inputs;
  for (int index = 0; index < 8; ++index) inputs.push_back(graph.builder.draw_inputs());
  const auto model = load_here(std::move(graph.builder.model));
  std::vector<std::vector<Tensor>> expected;
  for (const auto& given : inputs) expected.push_back(execution_test::run(*model, given).value());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    threads.emplace_back([&, index] {
      for (int round = 0; round < 20; ++round) {
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
