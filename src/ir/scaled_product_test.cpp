#include "ir/scaled_product.h"

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"

namespace kpt::ir {
namespace {

using testing::HasSubstr;

// What differs between the cases; the rest is a product that is read.
struct Form {
  std::string self = "float8_e4m3fn[s0, 48]";
  std::string mat2 = "float8_e5m2[48, 32]{strides=[1, 48]}";
  std::string scale_a = "float32[s0, 1]";
  std::string scale_b = "float32[1, 32]";
  std::string bias = "bfloat16[32]";
  std::string arguments = "bias=%b, scale_result=none";
};

Result<ScaledProduct> read_form(const Form& form) {
  const auto graph = read_graph(
      fmt::format("kpt_graph 1\nsymbol s0 in 1..64\ninput x: {}\ninput w: {}\ninput p: {}\ninput q: {}\ninput b: {}\n"
                  "mm: bfloat16[s0, 32] = aten._scaled_mm.default(self=%x, mat2=%w, scale_a=%p, scale_b=%q, {}, "
                  "out_dtype=dtype(bfloat16), use_fast_accum=true)\noutput %mm \"y\"\n",
                  form.self, form.mat2, form.scale_a, form.scale_b, form.bias, form.arguments));
  if (!graph.ok()) return graph.status();
  const auto product = read_scaled_product(*graph, graph->nodes[0]);
  if (product.ok()) {
    EXPECT_EQ(graph->at(product->self).name, "x");
    EXPECT_EQ(graph->at(product->mat2).name, "w");
    EXPECT_EQ(graph->at(product->scale_a).name, "p");
    EXPECT_EQ(graph->at(product->scale_b).name, "q");
    EXPECT_EQ(graph->at(product->result).name, "mm");
  }
  return product;
}

TEST(ScaledProduct, ScalesAreOfTheTensorOrOfRowsAndColumns) {
  for (const std::string a : {"float32[]", "float32[1]", "float32[1, 1]", "float32[s0, 1]"}) {
    for (const std::string b : {"float32[]", "float32[1]", "float32[1, 1]", "float32[1, 32]"}) {
      const auto product = read_form({.scale_a = a, .scale_b = b});
      ASSERT_TRUE(product.ok()) << a << ", " << b << ": " << product.status().message();
      EXPECT_NE(product->bias, kNoValue);
    }
  }
  const auto without = read_form({.arguments = "bias=none"});
  ASSERT_TRUE(without.ok()) << without.status().message();
  EXPECT_EQ(without->bias, kNoValue);
}

TEST(ScaledProduct, OtherFormsAreRefusedWithTheReason) {
  const auto reason = [](const Form& form) {
    const auto product = read_form(form);
    EXPECT_EQ(product.status().code(), StatusCode::kUnsupported) << product.status().message();
    return product.status().message();
  };
  EXPECT_THAT(reason({.scale_a = "float32[s0, 3]"}), HasSubstr("'scale_a' is neither one scale nor one for each row"));
  EXPECT_THAT(reason({.scale_a = "float32[s0]"}), HasSubstr("'scale_a' is neither"));
  EXPECT_THAT(reason({.scale_a = "float32[7, 1]"}), HasSubstr("'scale_a' is neither")) << "seven rows are not s0";
  EXPECT_THAT(reason({.scale_a = "float8_e8m0fnu[s0, 1]"}), HasSubstr("'scale_a' is float8_e8m0fnu, not float32"));
  EXPECT_THAT(reason({.scale_b = "float32[32, 1]"}), HasSubstr("'scale_b' is neither one scale nor one for each col"));
  EXPECT_THAT(reason({.scale_b = "float32[1, 1, 1]"}), HasSubstr("'scale_b' is neither"));
  EXPECT_THAT(reason({.self = "uint8[s0, 48]"}), HasSubstr("'self' is uint8, not FP8"));
  EXPECT_THAT(reason({.mat2 = "float8_e8m0fnu[48, 32]"}), HasSubstr("'mat2' is float8_e8m0fnu, not FP8"));
  EXPECT_THAT(reason({.mat2 = "float8_e4m3fn[2, 48, 32]"}), HasSubstr("'mat2' is no matrix"));
  EXPECT_THAT(reason({.bias = "bfloat16[1, 32]"}), HasSubstr("'bias' is no row of floats"));
  EXPECT_THAT(reason({.arguments = "bias=none, scale_result=%q"}), HasSubstr("its result has a scale"));
}

}  // namespace
}  // namespace kpt::ir
