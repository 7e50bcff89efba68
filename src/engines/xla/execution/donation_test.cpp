#include "engines/xla/execution/donation.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace kpt {
namespace {

constexpr const char* kGraph = R"(kpt_graph 1
buffer c: float32[3] "count"
input x: float32[3]
sum: float32[3] = aten.add.Tensor(self=%c, other=%x)
buffer_mutation %sum "count"
input_mutation %sum "x"
output %sum "y"
)";

xla::LoweredModule make_module() {
  xla::LoweredModule module;
  module.text =
      "module @kpt {\n  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> (tensor<3xf32>) {";
  module.arguments = {{0, DType::kFloat32, {3}}, {1, DType::kFloat32, {3}}};
  module.results = {{0, DType::kFloat32, {3}}, {0, DType::kFloat32, {3}}, {1, DType::kFloat32, {3}}};
  module.output_count = 1;
  return module;
}

std::string mark(const xla::LoweredModule& module) {
  MainAttributes attributes;
  mark_donated_buffers(ir::read_graph(kGraph).value(), module, attributes);
  return add_attributes(module.text, attributes);
}

TEST(Donation, WrittenBuffersAreAliasedAndInputsAreNot) {
  EXPECT_EQ(mark(make_module()),
            "module @kpt {\n  func.func public @main(%arg0: tensor<3xf32> {tf.aliasing_output = 1 : i32}, "
            "%arg1: tensor<3xf32>) -> (tensor<3xf32>) {");
}

TEST(Donation, AnotherShapeOrAnotherFormIsLeftAlone) {
  xla::LoweredModule other = make_module();
  other.results[1].dims = {4};
  EXPECT_EQ(mark(other), other.text);
  xla::LoweredModule odd = make_module();
  odd.text = "module {\n @main(%c: tensor<3xf32>) {\n %arg0: tensor<3xf32>";
  EXPECT_EQ(mark(odd), odd.text);
}

}  // namespace
}  // namespace kpt
