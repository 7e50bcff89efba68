// Every family of the lowering with random sizes (0, 1 and odd ones among them) and types, on XLA's CPU plugin, held
// against libtorch and its fp64 run by the accuracy rule; integers and truth values must be equal.
#include <bit>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "graph_run.h"
#include "ir/text.h"
#include "kpt/model.h"
#include "lowering_cases.h"
#include "numerics/accuracy.h"
#include "passes/promote_to_fp64.h"
#include "runtime/loaded_model.h"
#include "validation/reference.h"
#include "written_out.h"

namespace kpt {
namespace {

PlacedDevice cpu() {
  const Environment environment = Environment::from_process();
  const auto context = make_backend_context(load_config({}, environment).value(), environment).value();
  return find_runnable_device("cpu", context).value();
}

Tensor draw(DType dtype, const std::vector<std::int64_t>& dims, std::mt19937_64& random) {
  Tensor wide = Tensor::empty(DType::kFloat32, dims).value();
  std::normal_distribution<float> normal(0, 2);
  for (float& element : wide.elements<float>()) element = normal(random);
  if (dtype == DType::kFloat32) return wide;
  const Tensor tensor = Tensor::empty(dtype, dims).value();
  const auto source = wide.elements<float>();
  for (std::size_t index = 0; index < source.size(); ++index) {
    const auto whole = static_cast<std::int64_t>(std::floor(source[index] * 2));
    switch (dtype) {
      case DType::kBool: tensor.elements<bool>()[index] = whole > 0; break;
      case DType::kUInt8: tensor.elements<std::uint8_t>()[index] = static_cast<std::uint8_t>(whole); break;
      case DType::kInt32: tensor.elements<std::int32_t>()[index] = static_cast<std::int32_t>(whole); break;
      case DType::kInt64: tensor.elements<std::int64_t>()[index] = whole; break;
      case DType::kFloat64: tensor.elements<double>()[index] = static_cast<double>(source[index]); break;
      case DType::kBFloat16:
        tensor.elements<std::uint16_t>()[index] =
            static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(source[index]) >> 16U);
        break;
      default: ADD_FAILURE() << "no inputs of type " << to_string(dtype);
    }
  }
  return tensor;
}

std::string fill_in(const char* text, std::mt19937_64& random) {
  const auto pick = [&](std::vector<std::int64_t> choices) { return choices[random() % choices.size()]; };
  const char* types[] = {"float32", "float32", "bfloat16", "float64"};
  return fmt::format(fmt::runtime(std::string("kpt_graph 1\n") + text), fmt::arg("a", pick({0, 1, 2, 3, 5})),
                     fmt::arg("p", pick({1, 2, 3, 5, 9})), fmt::arg("q", pick({1, 3, 4, 8})),
                     fmt::arg("t", types[random() % 4]));
}

class LoweringNumbers : public testing::TestWithParam<xla_test::LoweringCase> {
 protected:
  static xla_test::ModuleRunner* runner() {
    static const auto opened = xla_test::ModuleRunner::open();
    return opened.ok() ? opened->get() : nullptr;
  }

  void run(const std::string& text, std::mt19937_64& random) {
    SCOPED_TRACE(text);
    const auto graph = ir::read_graph(text);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    ImportedModel model;
    model.graph = *graph;
    std::vector<NamedTensor> given;
    std::map<std::string, Tensor> inputs;
    for (const ir::GraphInput& input : graph->inputs) {
      const ir::TensorType& type = graph->at(input.value).tensor;
      std::vector<std::int64_t> dims;
      for (const ir::Expr& extent : type.dims) dims.push_back(*extent.constant());
      const Tensor tensor = draw(type.dtype, dims, random);
      given.push_back({input.name, tensor});
      inputs.emplace(input.name, tensor.contiguous_copy().value());
    }
    const PlacedDevice placed = cpu();
    ImportedModel plain = model;
    pass_runs::write_out_own_operators(plain);
    auto reference = Reference::load(plain, *placed.backend, *placed.device);
    ASSERT_TRUE(reference.ok()) << reference.status().message();
    const auto exact = reference->run(given);
    ASSERT_TRUE(exact.ok()) << exact.status().message();
    auto loaded = detail::LoadedModel::load(plain, *placed.backend, *placed.device);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    auto session = detail::start_session(*loaded);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const auto expected = session->run(given);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    xla_test::GraphRun graph_run(*runner(), model.graph, model.weights);
    const auto actual = graph_run.run(inputs);
    ASSERT_TRUE(actual.ok()) << actual.status().message();
    ASSERT_EQ(actual->size(), expected->size());
    for (std::size_t index = 0; index < actual->size(); ++index) {
      const NamedTensor& output = (*actual)[index];
      const Tensor& baseline = (*expected)[index].tensor;
      const Tensor wide = *promote_to_fp64((*exact)[index].tensor);
      const auto verdict = compare(output.tensor, baseline, wide, default_tolerance(baseline.dtype()));
      ASSERT_TRUE(verdict.ok()) << output.name << ": " << verdict.status().message();
      EXPECT_TRUE(verdict->passed) << output.name << ": " << verdict->reason;
    }
  }
};

TEST_P(LoweringNumbers, AgreeWithLibtorch) {
  if (runner() == nullptr) GTEST_SKIP() << "XLA's CPU plugin cannot be used here; CMake's output says why";
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 5 && !HasFailure(); ++round) run(fill_in(GetParam().text, random), random);
}

INSTANTIATE_TEST_SUITE_P(Families, LoweringNumbers, testing::ValuesIn(xla_test::kLoweringCases),
                         [](const auto& family) { return std::string(family.param.name); });

// PyTorch raises for these; a compiled program shows NaN instead of another row.
TEST(LoweringIndices, OutOfRangeShowsAsNan) {
  const auto opened = xla_test::ModuleRunner::open();
  if (!opened.ok()) GTEST_SKIP() << opened.status().message();
  const auto graph = ir::read_graph(
                         "kpt_graph 1\ninput table: float32[3, 2]\ninput ids: int64[5]\ninput place: int64[1]\n"
                         "e: float32[5, 2] = aten.embedding.default(weight=%table, indices=%ids)\n"
                         "n: int64[5] = aten.index_select.default(self=%ids, dim=0, index=%ids)\n"
                         "r: float32[1, 2] = aten.slice.Tensor(self=%table, dim=0, start=0, end=1)\n"
                         "c: float32[3, 2] = aten.index_copy.default(self=%table, dim=0, index=%place, source=%r)\n"
                         "output %e \"rows\"\noutput %n \"numbers\"\noutput %c \"written\"\n")
                         .value();
  const std::int64_t ids[] = {0, 3, -1, -4, 2};
  const std::int64_t place[] = {7};
  const float table[] = {1, 2, 3, 4, 5, 6};
  const auto make = [](DType dtype, std::vector<std::int64_t> dims, const void* data, std::size_t bytes) {
    return Tensor::from_bytes(dtype, dims, {static_cast<const std::byte*>(data), bytes}).value();
  };
  const Weights weights;
  xla_test::GraphRun run(**opened, graph, weights);
  const auto outputs = run.run({{"table", make(DType::kFloat32, {3, 2}, table, sizeof table)},
                                {"ids", make(DType::kInt64, {5}, ids, sizeof ids)},
                                {"place", make(DType::kInt64, {1}, place, sizeof place)}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  const auto rows = (*outputs)[0].tensor.elements<float>();
  EXPECT_EQ(rows[0], 1);
  EXPECT_TRUE(std::isnan(rows[2]) && std::isnan(rows[3]));
  EXPECT_EQ(rows[4], 5);  // -1 is the last row
  EXPECT_TRUE(std::isnan(rows[6]));
  EXPECT_EQ(rows[8], 5);
  const auto numbers = (*outputs)[1].tensor.elements<std::int64_t>();
  EXPECT_EQ(numbers[0], 0);
  EXPECT_EQ(numbers[1], -4);
  EXPECT_EQ(numbers[2], 2);
  const auto written = (*outputs)[2].tensor.elements<float>();
  EXPECT_EQ(written[0], 1);
  EXPECT_TRUE(std::isnan(written[4]) && std::isnan(written[5]));  // the nearest row
}

}  // namespace
}  // namespace kpt
