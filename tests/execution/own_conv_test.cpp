// kpt.conv2d, run by the CPU backend, against libtorch's convolution in the same graph.
#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "own_node_graph.h"

namespace kpt {
namespace {

using execution_test::GraphBuilder;
using execution_test::load_here;
using testing::HasSubstr;

struct ConvCase {
  std::vector<std::int64_t> input;  // [N, C, H, W]
  std::int64_t filters = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool residual = false;
  bool channels_last = false;  // the result, and then also the residual's memory differs from it
  bool constant = true;
};

ir::Argument two(std::int64_t value) {
  ir::List list;
  list.items = {{value}, {value}};
  return {list};
}

std::vector<std::int64_t> result_sizes(const ConvCase& of) {
  const auto extent = [&](std::int64_t size) {
    return (size + 2 * of.padding - of.dilation * (of.kernel - 1) - 1) / of.stride + 1;
  };
  return {of.input[0], of.filters, extent(of.input[2]), extent(of.input[3])};
}

void set_channels_last(GraphBuilder& builder, const ir::Argument& value, const std::vector<std::int64_t>& sizes) {
  builder.model.graph.at(*value.value_id()).tensor.strides = {sizes[1] * sizes[2] * sizes[3], 1, sizes[1] * sizes[3],
                                                              sizes[1]};
}

// Our node and libtorch's, each with the residual added and relu applied.
void build(GraphBuilder& builder, const ConvCase& of) {
  const std::vector<std::int64_t> sizes = result_sizes(of);
  const auto input = builder.input("input", DType::kFloat32, of.input);
  const auto residual = of.residual ? builder.input("residual", DType::kFloat32, sizes) : ir::Argument{};
  const std::vector<std::int64_t> weight_sizes = {of.filters, of.input[1] / of.groups, of.kernel, of.kernel};
  const auto weight = of.constant ? builder.weight("weight", DType::kFloat32, weight_sizes)
                                  : builder.input("weight", DType::kFloat32, weight_sizes);
  const auto bias = builder.weight("bias", DType::kFloat32, {of.filters});
  const auto own = builder.node("kpt.conv2d.default",
                                {{"input", input},
                                 {"weight", weight},
                                 {"bias", bias},
                                 {"residual", residual},
                                 {"stride", two(of.stride)},
                                 {"padding", two(of.padding)},
                                 {"dilation", two(of.dilation)},
                                 {"groups", {of.groups}},
                                 {"activation", {std::string("relu")}}},
                                {{DType::kFloat32, sizes}})[0];
  if (of.channels_last) set_channels_last(builder, own, sizes);
  auto theirs = builder.node("aten.conv2d.default",
                             {{"input", input},
                              {"weight", weight},
                              {"bias", bias},
                              {"stride", two(of.stride)},
                              {"padding", two(of.padding)},
                              {"dilation", two(of.dilation)},
                              {"groups", {of.groups}}},
                             {{DType::kFloat32, sizes}})[0];
  if (of.residual) {
    theirs = builder.node("aten.add.Tensor", {{"self", theirs}, {"other", residual}}, {{DType::kFloat32, sizes}})[0];
  }
  theirs = builder.node("aten.relu.default", {{"self", theirs}}, {{DType::kFloat32, sizes}})[0];
  // Further nodes, so that our result is planned memory and used with its strides.
  builder.output(builder.node("aten.abs.default", {{"self", own}}, {{DType::kFloat32, sizes}})[0]);
  builder.output(theirs);
}

class OwnConv : public testing::TestWithParam<ConvCase> {};

TEST_P(OwnConv, AgreesWithLibtorch) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  GraphBuilder builder(seed);
  build(builder, GetParam());
  const std::vector<Tensor> inputs = builder.draw_inputs();
  const auto model = load_here(std::move(builder.model));
  const auto outputs = execution_test::run(*model, inputs).value();
  ASSERT_EQ(outputs[0].dims(), outputs[1].dims());
  const Tensor own = outputs[0].contiguous_copy().value();
  const Tensor theirs = outputs[1].contiguous_copy().value();
  for (std::size_t index = 0; index < static_cast<std::size_t>(own.element_count()); ++index) {
    const float expected = theirs.elements<float>()[index];
    ASSERT_NEAR(own.elements<float>()[index], expected, 2e-5F * (10 + std::abs(expected))) << index;
  }
}

INSTANTIATE_TEST_SUITE_P(OwnNodes, OwnConv,
                         testing::Values(ConvCase{{2, 5, 9, 8}, 7, 3, 1, 1, 1, 1, true, false, true},
                                         ConvCase{{2, 5, 9, 8}, 7, 3, 2, 1, 1, 1, true, true, true},
                                         ConvCase{{1, 3, 31, 30}, 16, 7, 2, 3, 1, 1, false, true, true},
                                         ConvCase{{1, 16, 6, 5}, 24, 1, 1, 0, 1, 1, true, true, true},
                                         ConvCase{{1, 16, 6, 5}, 24, 1, 2, 0, 1, 1, false, false, false},
                                         ConvCase{{2, 12, 11, 10}, 12, 3, 1, 2, 2, 12, true, true, true},
                                         ConvCase{{1, 6, 7, 7}, 6, 5, 3, 2, 1, 6, false, false, false}));

// In int8, against the same product by libtorch with weights made floats: the input's steps are what is left.
TEST(OwnConvInt8, AgreesWithLibtorchWithinTheStepsOfItsInput) {
  if (!execution_test::runs_own_operator("kpt.conv2d_int8.default")) {
    GTEST_SKIP() << "the device does not run kpt.conv2d_int8.default";
  }
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (const ConvCase& of : {ConvCase{{2, 24, 9, 8}, 7, 3, 2, 1, 1, 1, true, true, true},
                             ConvCase{{1, 16, 6, 5}, 24, 1, 1, 0, 1, 1, true, false, true},
                             ConvCase{{2, 16, 6, 5}, 24, 1, 2, 0, 1, 1, false, true, false}}) {
    GraphBuilder builder(seed);
    const std::vector<std::int64_t> sizes = result_sizes(of);
    const std::vector<std::int64_t> weight_sizes = {of.filters, of.input[1], of.kernel, of.kernel};
    const auto input = builder.input("input", DType::kFloat32, of.input);
    const auto residual = of.residual ? builder.input("residual", DType::kFloat32, sizes) : ir::Argument{};
    const auto weight = of.constant ? builder.weight("weight", DType::kInt8, weight_sizes)
                                    : builder.input("weight", DType::kInt8, weight_sizes);
    const auto scale = builder.weight("scale", DType::kFloat32, {of.filters});
    const auto own = builder.node("kpt.conv2d_int8.default",
                                  {{"input", input},
                                   {"weight", weight},
                                   {"scale", scale},
                                   {"bias", {}},
                                   {"residual", residual},
                                   {"stride", two(of.stride)},
                                   {"padding", two(of.padding)},
                                   {"dilation", two(of.dilation)},
                                   {"activation", {std::string("none")}}},
                                  {{DType::kFloat32, sizes}})[0];
    if (of.channels_last) set_channels_last(builder, own, sizes);
    const auto wide = builder.node("aten.to.dtype", {{"self", weight}, {"dtype", {DType::kFloat32}}},
                                   {{DType::kFloat32, weight_sizes}})[0];
    ir::List column;
    column.items = {{of.filters}, {std::int64_t{1}}, {std::int64_t{1}}};
    auto theirs = builder.node("aten.conv2d.default",
                               {{"input", input},
                                {"weight", wide},
                                {"bias", {}},
                                {"stride", two(of.stride)},
                                {"padding", two(of.padding)},
                                {"dilation", two(of.dilation)},
                                {"groups", {std::int64_t{1}}}},
                               {{DType::kFloat32, sizes}})[0];
    const auto scales = builder.node("aten.view.default", {{"self", scale}, {"size", {column}}},
                                     {{DType::kFloat32, {of.filters, 1, 1}}})[0];
    theirs = builder.node("aten.mul.Tensor", {{"self", theirs}, {"other", scales}}, {{DType::kFloat32, sizes}})[0];
    if (of.residual) {
      theirs = builder.node("aten.add.Tensor", {{"self", theirs}, {"other", residual}}, {{DType::kFloat32, sizes}})[0];
    }
    builder.output(builder.node("aten.neg.default", {{"self", own}}, {{DType::kFloat32, sizes}})[0]);
    builder.output(theirs);
    const std::vector<Tensor> inputs = builder.draw_inputs();
    const auto model = load_here(std::move(builder.model));
    const auto outputs = execution_test::run(*model, inputs).value();
    const Tensor first = outputs[0].contiguous_copy().value();
    const Tensor second = outputs[1].contiguous_copy().value();
    double error = 0;
    double square = 0;
    for (std::size_t index = 0; index < static_cast<std::size_t>(first.element_count()); ++index) {
      const double expected = second.elements<float>()[index];
      error += std::pow(-static_cast<double>(first.elements<float>()[index]) - expected, 2);
      square += expected * expected;
    }
    EXPECT_LT(std::sqrt(error / square), 0.015) << of.kernel << " x " << of.kernel;
    EXPECT_GT(error, 0) << "nothing was quantized";
  }
}

TEST(OwnConv, PlanNamesTheKernelAndWhatCannotRunHasAReason) {
  const auto reason = [](std::size_t position, ir::Argument value) {
    GraphBuilder builder(1);
    build(builder, {{1, 4, 5, 5}, 4, 3, 1, 1, 1, 1, false, false, true});
    builder.model.graph.nodes[0].arguments[position].value = std::move(value);
    const auto placed = find_runnable_device("cpu", BackendContext()).value();
    return placed.device->target().supports(builder.model.graph).value()[0].reason;
  };
  EXPECT_THAT(reason(7, {std::int64_t{2}}), HasSubstr("'groups' is neither 1 nor the number of channels"));
  EXPECT_THAT(reason(4, two(0)), HasSubstr("'stride' is too small"));
  EXPECT_THAT(reason(5, {std::int64_t{1}}), HasSubstr("'padding' is no list of 2 integers"));
  GraphBuilder builder(1);
  build(builder, {{1, 4, 5, 5}, 4, 3, 1, 1, 1, 1, false, true, true});
  const auto model = load_here(std::move(builder.model));
  EXPECT_THAT(model->executable().plan().at(0).how, HasSubstr("own: convolution by float32"));
  EXPECT_THAT(model->executable().plan().at(0).how, HasSubstr("channels-last"));
  EXPECT_THAT(model->executable().plan().at(0).how, HasSubstr("not Winograd's tiles: "));
  GraphBuilder depthwise(1);
  build(depthwise, {{1, 4, 5, 5}, 4, 3, 1, 1, 1, 4, false, true, true});
  const auto each = load_here(std::move(depthwise.model));
  EXPECT_THAT(each->executable().plan().at(0).how, HasSubstr("each channel has its own filter"));
}

}  // namespace
}  // namespace kpt
