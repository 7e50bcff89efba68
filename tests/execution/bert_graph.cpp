#include "bert_graph.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "api/model_loading.h"
#include "base/files.h"
#include "ir/text.h"
#include "runtime/generate_inputs.h"
#include "support/tree_paths.h"

namespace kpt::execution_test {

ImportedModel make_bert(std::uint64_t seed) {
  ImportedModel model;
  model.graph = ir::read_graph(*read_text_file(source_dir() + "/tests/execution/bert.graph", 1 << 20)).value();
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 0.2F);
  for (const ir::GraphInput& input : model.graph.inputs) {
    if (input.kind == ir::InputKind::kUser || input.kind == ir::InputKind::kFixed) continue;
    const ir::TensorType& type = model.graph.at(input.value).tensor;
    Dims dims;
    for (const ir::Expr& dim : type.dims) dims.push_back(*dim.constant());
    const Tensor weight = Tensor::empty(type.dtype, dims).value();
    if (type.dtype == DType::kFloat32) {
      for (float& value : weight.elements<float>()) value = normal(random);
    } else {
      std::memset(weight.data(), 0, weight.bytes());
    }
    model.weights.emplace(input.name, weight);
  }
  return model;
}

namespace {
std::string chosen_device = "cpu";
}  // namespace

void choose_device(std::string name) { chosen_device = std::move(name); }

PlacedDevice find_device_under_test() {
  const Environment environment = Environment::from_process();
  const auto context = make_backend_context(load_config({}, environment).value(), environment).value();
  return find_runnable_device(chosen_device, context).value();
}

bool runs_own_operator(std::string_view target) {
  const PlacedDevice placed = find_device_under_test();
  const auto& own = placed.device->target().capabilities().own_operators;
  return std::ranges::find(own, target) != own.end();
}

std::shared_ptr<const detail::LoadedModel> load_here(ImportedModel model) {
  PlacedDevice placed = find_device_under_test();
  Backend& backend = *placed.backend;
  return detail::LoadedModel::load(std::move(model), backend, *placed.device, std::move(placed.backend)).value();
}

std::vector<Tensor> make_inputs(const ir::Graph& graph, std::uint64_t seed) {
  std::vector<Tensor> inputs;
  for (NamedTensor& input : generate_inputs(graph, {seed, {}, {}}).value()) inputs.push_back(std::move(input.tensor));
  return inputs;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous_copy().value();
  const Tensor y = b.contiguous_copy().value();
  return x.dtype() == y.dtype() && x.dims() == y.dims() && std::memcmp(x.data(), y.data(), x.bytes()) == 0;
}

}  // namespace kpt::execution_test
