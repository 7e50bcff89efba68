#include "numbers_check.h"

#include <bit>
#include <cmath>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "api/backend_list.h"
#include "api/model_loading.h"
#include "graph_run.h"
#include "ir/text.h"
#include "kpt/model.h"
#include "numerics/accuracy.h"
#include "passes/promote_to_fp64.h"
#include "runtime/loaded_model.h"
#include "validation/reference.h"
#include "written_out.h"

namespace kpt::xla_test {
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

}  // namespace

void check_numbers(ModuleRunner& runner, const std::string& text, std::mt19937_64& random) {
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
  GraphRun graph_run(runner, model.graph, model.weights);
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

}  // namespace kpt::xla_test
