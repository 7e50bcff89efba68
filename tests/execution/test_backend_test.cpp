// The runtime with a backend it has never heard of.
#include "test_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/loaded_model.h"

namespace kpt {
namespace {

ir::ValueId add_value(ir::Graph& graph, const std::string& name) {
  ir::Value value;
  value.name = name;
  value.tensor.dims = {3};
  value.tensor.strides = {1};
  return graph.add_value(std::move(value));
}

// output = x * w + x
ImportedModel make_model() {
  ImportedModel model;
  ir::Graph& graph = model.graph;
  const ir::ValueId w = add_value(graph, "w");
  const ir::ValueId x = add_value(graph, "x");
  const ir::ValueId product = add_value(graph, "product");
  const ir::ValueId sum = add_value(graph, "sum");
  graph.inputs = {{ir::InputKind::kParameter, w, "weight", true, {}}, {ir::InputKind::kUser, x, "x", true, {}}};
  ir::Node node;
  node.target = "aten.mul.Tensor";
  node.name = "product";
  node.arguments = {{"self", {x}}, {"other", {w}}};
  node.outputs = {{false, {product}}};
  graph.nodes.push_back(node);
  node.target = "aten.add.Tensor";
  node.name = "sum";
  node.arguments = {{"self", {product}}, {"other", {x}}};
  node.outputs = {{false, {sum}}};
  graph.nodes.push_back(node);
  graph.outputs = {{ir::OutputKind::kUser, {sum}, "output"}};
  const Tensor weight = Tensor::empty(DType::kFloat32, Dims{3}).value();
  weight.elements<float>()[0] = 10;
  weight.elements<float>()[1] = 20;
  weight.elements<float>()[2] = 30;
  model.weights.emplace("weight", weight);
  return model;
}

TEST(TestBackend, ModelsRunThoughMemoryHasNoAddress) {
  const auto backend = execution_test::make_test_backend();
  Device& device = *backend->devices().value()[0];
  const auto model = detail::LoadedModel::load(make_model(), *backend, device);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->executable().device(), "test:0");
  Session session = detail::start_session(*model).value();
  const Tensor x = Tensor::empty(DType::kFloat32, Dims{3}).value();
  for (std::size_t index = 0; index < 3; ++index) x.elements<float>()[index] = static_cast<float>(index + 1);
  for (const Tensor& input : {x, device.upload(x).value()}) {
    const Tensor inputs[] = {input};
    std::vector<Tensor> outputs;
    ASSERT_TRUE(session.run(inputs, outputs).ok());
    EXPECT_EQ(outputs[0].data(), nullptr);
    const Tensor host = device.download(outputs[0]).value();
    EXPECT_THAT(std::vector<float>(host.elements<float>().begin(), host.elements<float>().end()),
                testing::ElementsAre(11, 42, 93));
  }
}

TEST(TestBackend, WhatItCannotDoIsListedByTheRuntime) {
  ImportedModel model = make_model();
  model.graph.nodes[0].target = "aten.div.Tensor";
  const auto backend = execution_test::make_test_backend();
  const auto loaded = detail::LoadedModel::load(std::move(model), *backend, *backend->devices().value()[0]);
  EXPECT_EQ(loaded.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(loaded.status().message(),
              testing::HasSubstr("1 of 2 nodes cannot run on test: 'product' aten.div.Tensor: the test backend adds"));
}

}  // namespace
}  // namespace kpt
