#include "own_node_graph.h"

#include <bit>

#include "passes/weight_values.h"

namespace kpt::execution_test {
namespace {

void set_type(ir::TensorType& type, const std::vector<std::int64_t>& sizes) {
  type.dims.assign(sizes.begin(), sizes.end());
  type.strides.assign(sizes.size(), 1);
  std::int64_t stride = 1;
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    type.strides[axis] = stride;
    stride *= sizes[axis] > 0 ? sizes[axis] : 1;
  }
}

}  // namespace

ir::ValueId GraphBuilder::add_value(const std::string& name, DType dtype, const std::vector<std::int64_t>& sizes) {
  ir::Value value;
  value.name = name;
  value.tensor.dtype = dtype;
  set_type(value.tensor, sizes);
  return model.graph.add_value(std::move(value));
}

ir::Argument GraphBuilder::input(const std::string& name, DType dtype, const std::vector<std::int64_t>& sizes) {
  const ir::ValueId id = add_value(name, dtype, sizes);
  model.graph.inputs.push_back({ir::InputKind::kUser, id, name, true, {}});
  inputs_.push_back({dtype, sizes});
  return {id};
}

ir::Argument GraphBuilder::weight(const std::string& name, DType dtype, const std::vector<std::int64_t>& sizes) {
  const ir::ValueId id = add_value(name, dtype, sizes);
  model.graph.inputs.push_back({ir::InputKind::kParameter, id, name, true, {}});
  model.weights.emplace(name, draw(dtype, sizes));
  return {id};
}

std::vector<ir::Argument> GraphBuilder::node(const std::string& target, std::vector<ir::NamedArgument> arguments,
                                             const std::vector<ResultType>& results) {
  ir::Node node;
  node.target = target;
  node.name = "node_" + std::to_string(model.graph.nodes.size());
  node.arguments = std::move(arguments);
  std::vector<ir::Argument> values;
  for (const ResultType& result : results) {
    const ir::ValueId id =
        add_value(node.name + "_result_" + std::to_string(values.size()), result.dtype, result.sizes);
    node.outputs.push_back({false, {id}});
    values.push_back({id});
  }
  model.graph.nodes.push_back(std::move(node));
  return values;
}

std::vector<ir::Argument> GraphBuilder::add_norm(const ir::Argument& input, const ir::Argument& residual,
                                                 const std::vector<std::int64_t>& sizes) {
  return node("kpt.add_norm.default",
              {{"input", input},
               {"residual", residual},
               {"weight", {}},
               {"bias", {}},
               {"epsilon", {1e-5}},
               {"kind", {std::string("layer")}}},
              {{DType::kFloat32, sizes}, {DType::kFloat32, sizes}});
}

void GraphBuilder::output(const ir::Argument& value) {
  model.graph.outputs.push_back({ir::OutputKind::kUser, value, "output_" + std::to_string(model.graph.outputs.size())});
}

void GraphBuilder::set_sizes(const ir::Argument& value, const std::vector<std::int64_t>& sizes) {
  set_type(model.graph.at(*value.value_id()).tensor, sizes);
}

std::vector<Tensor> GraphBuilder::draw_inputs() {
  std::vector<Tensor> tensors;
  for (const ResultType& type : inputs_) tensors.push_back(draw(type.dtype, type.sizes));
  return tensors;
}

Tensor GraphBuilder::draw(DType dtype, const std::vector<std::int64_t>& sizes) {
  Dims dims;
  for (const std::int64_t size : sizes) dims.push_back(size);
  const Tensor tensor = Tensor::empty(dtype, dims).value();
  std::normal_distribution<float> normal;
  if (dtype == DType::kFloat32) {
    for (float& value : tensor.elements<float>()) value = normal(random_);
  } else if (dtype == DType::kFloat16) {
    std::vector<double> values(static_cast<std::size_t>(tensor.element_count()));
    for (double& value : values) value = normal(random_);
    return make_weight(dtype, dims, values).value();
  } else if (dtype == DType::kBFloat16) {
    for (std::uint16_t& value : tensor.elements<std::uint16_t>()) {
      value = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(normal(random_)) >> 16);
    }
  } else {
    for (std::uint8_t& value : tensor.elements<std::uint8_t>()) value = static_cast<std::uint8_t>(random_() % 2);
  }
  return tensor;
}

void add_block(GraphBuilder& builder) {
  constexpr std::int64_t kBatch = 3;
  constexpr std::int64_t kHeads = 4;
  constexpr std::int64_t kLength = 40;
  constexpr std::int64_t kWidth = 24;
  const std::vector<std::int64_t> sizes = {kBatch, kLength, kHeads, kWidth};
  const std::vector<std::int64_t> heads = {kBatch, kHeads, kLength, kWidth};
  const auto input = builder.input("input", DType::kFloat32, sizes);
  const auto mask = builder.input("mask", DType::kBool, {kBatch, 1, 1, kLength});
  const auto table = builder.weight("table", DType::kFloat32, {kLength, kWidth});
  const auto first = builder.add_norm(input, {}, sizes);
  const auto view =
      builder.node("aten.transpose.int", {{"self", first[0]}, {"dim0", {std::int64_t{1}}}, {"dim1", {std::int64_t{2}}}},
                   {{DType::kFloat32, heads}})[0];
  const auto query = builder.node("kpt.rotary.default", {{"input", view}, {"cos", table}, {"sin", table}},
                                  {{DType::kFloat32, heads}})[0];
  const auto attention = builder.node(
      "kpt.attention.default",
      {{"query", query}, {"key", view}, {"value", view}, {"mask", mask}, {"scale", {0.2}}, {"causal", {false}}},
      {{DType::kFloat32, sizes}})[0];
  const auto second = builder.add_norm(attention, input, sizes);
  const auto glu = builder.node("kpt.glu.default", {{"input", second[0]}, {"activation", {std::string("silu")}}},
                                {{DType::kFloat32, {kBatch, kLength, kHeads, kWidth / 2}}})[0];
  builder.output(glu);
  builder.output(second[1]);
}

Result<std::vector<Tensor>> run(const detail::LoadedModel& model, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs;
  RunContext context;
  KPT_RETURN_IF_ERROR(model.executable().run(context, inputs, outputs));
  return outputs;
}

}  // namespace kpt::execution_test
