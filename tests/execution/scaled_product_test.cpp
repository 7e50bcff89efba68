// Products of FP8 on the CPU, with every kind of scale, against sums in double.
#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bert_graph.h"
#include "fp8_checkpoint.h"
#include "ir/text.h"
#include "passes/promote_to_fp64.h"

namespace kpt {
namespace {

using testing::HasSubstr;

struct Product {
  std::size_t rows = 5;
  std::size_t inner = 48;
  std::size_t columns = 32;
  std::string self = "float8_e4m3fn";
  std::string mat2 = "float8_e4m3fn";
  std::string scale_a = "[]";
  std::string scale_b = "[]";
  std::string bias = {};       // its type; empty: none
  std::string out_dtype = {};  // empty: none, which means that of self
  std::string scale_result = "none";
  std::size_t given_rows = 5;  // how many scales there really are

  const std::string& result() const { return out_dtype.empty() ? self : out_dtype; }
};

ImportedModel make_model(const Product& form, std::uint64_t seed) {
  const bool cut = form.given_rows != form.rows;
  const std::string part = fmt::format("part: float32{} = aten.slice.Tensor(self=%a, dim=0, start=0, end={})\n",
                                       form.scale_a, form.given_rows);
  const std::string opening = fmt::format(
      "kpt_graph 1\nbuffer x: {3}[{0}, {1}]\nbuffer w: {4}[{2}, {1}]\nbuffer a: float32{5}\nbuffer s: float32{6}\n"
      "buffer b: {7}[{2}]\nbuffer r: float32[]\nt: {4}[{1}, {2}]{{strides=[1, {1}]}} = aten.t.default(self=%w)\n",
      form.rows, form.inner, form.columns, form.self, form.mat2, form.scale_a, form.scale_b,
      form.bias.empty() ? "float32" : form.bias);
  const std::string product = fmt::format(
      "mm: {}[{}, {}] = aten._scaled_mm.default(self=%x, mat2=%t, scale_a=%{}, scale_b=%s, bias={}, scale_result={}, "
      "out_dtype={}, use_fast_accum=false)\noutput %mm \"y\"\n",
      form.result(), form.rows, form.columns, cut ? "part" : "a", form.bias.empty() ? "none" : "%b", form.scale_result,
      form.out_dtype.empty() ? "none" : fmt::format("dtype({})", form.out_dtype));
  ImportedModel model;
  model.graph = ir::read_graph(opening + (cut ? part : "") + product).value();
  execution_test::draw_fp8_weights(model, seed);
  return model;
}

std::vector<double> numbers_of(const Tensor& tensor) {
  const Tensor wide = promote_to_fp64(tensor).value().contiguous_copy().value();
  return {wide.elements<double>().begin(), wide.elements<double>().end()};
}

Result<std::vector<double>> run(const ImportedModel& model) {
  const auto loaded = execution_test::load_here(model);
  std::vector<Tensor> outputs;
  RunContext context;
  KPT_RETURN_IF_ERROR(loaded->executable().run(context, {}, outputs));
  return numbers_of(outputs[0]);
}

std::string how(const ImportedModel& model) {
  for (const NodePlan& plan : execution_test::load_here(model)->executable().plan()) {
    if (plan.target == "aten._scaled_mm.default") return plan.how;
  }
  return "no such node";
}

// Of one rounding to the type, relative.
double rounding_of(const std::string& type) {
  if (type == "float32") return 0x1p-24;
  if (type == "bfloat16") return 0x1p-8;
  return type == "float8_e4m3fn" ? 0x1p-4 : 0x1p-3;
}

void expect_sums(const Product& form, const ImportedModel& model, const std::vector<double>& got) {
  const auto x = numbers_of(model.weights.at("x"));
  const auto w = numbers_of(model.weights.at("w"));
  const auto a = numbers_of(model.weights.at("a"));
  const auto s = numbers_of(model.weights.at("s"));
  const auto b = numbers_of(model.weights.at("b"));
  ASSERT_EQ(got.size(), form.rows * form.columns);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::size_t row = i / form.columns;
    const std::size_t column = i % form.columns;
    const double scale = a[a.size() == 1 ? 0 : row] * s[s.size() == 1 ? 0 : column];
    double wanted = form.bias.empty() ? 0 : b[column];
    double size = std::abs(wanted);
    for (std::size_t k = 0; k < form.inner; ++k) {
      const double product = x[row * form.inner + k] * w[column * form.inner + k] * scale;
      wanted += product;
      size += std::abs(product);
    }
    // What FP8 cannot hold is NaN, infinity or the largest number, by version.
    if (form.out_dtype.empty() && std::abs(wanted) > 440) continue;
    const double least = form.out_dtype.empty() ? 0x1p-10 : 0;  // half a step of the smallest numbers
    ASSERT_NEAR(got[i], wanted, 4e-6 * size + rounding_of(form.result()) * std::abs(wanted) + least) << i;
  }
}

TEST(ScaledProductOnTheCpu, IsTheSumOfTheNumbersTimesTheirScales) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto pick = [&](const auto& choices) { return choices[random() % std::size(choices)]; };
  const std::size_t extents[] = {1, 2, 5, 17, 48};
  const std::string codes[] = {"float8_e4m3fn", "float8_e5m2"};
  const std::string one[] = {"[]", "[1]", "[1, 1]"};
  const std::string biases[] = {"", "float32", "bfloat16"};
  const std::string results[] = {"float32", "float32", "bfloat16", ""};
  for (int round = 0; round < 60 && !testing::Test::HasFailure(); ++round) {
    Product form{pick(extents), pick(extents), pick(extents), pick(codes), pick(codes)};
    form.given_rows = form.rows;
    const bool rows = round % 2 == 1;  // both kinds of scales with both
    const bool columns = round % 4 >= 2;
    form.scale_a = rows ? fmt::format("[{}, 1]", form.rows) : pick(one);
    form.scale_b = columns ? fmt::format("[1, {}]", form.columns) : pick(one);
    form.bias = pick(biases);
    form.out_dtype = pick(results);
    const ImportedModel model = make_model(form, random());
    SCOPED_TRACE(ir::print_graph(model.graph));
    EXPECT_EQ(how(model), "own step");
    const auto got = run(model);
    ASSERT_TRUE(got.ok()) << got.status().message();
    expect_sums(form, model, *got);
  }
}

// A file may say anything of its sizes.
TEST(ScaledProductOnTheCpu, OtherScalesThanTheFileSaysFailTheRun) {
  Product form;
  form.scale_a = "[5, 1]";
  form.out_dtype = "float32";
  EXPECT_TRUE(run(make_model(form, 1)).ok());
  form.given_rows = 3;
  const auto failed = run(make_model(form, 1));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.status().code(), StatusCode::kPrecisionCompilation);
  EXPECT_THAT(failed.status().message(), HasSubstr("node 'mm' (aten._scaled_mm.default) failed"));
  EXPECT_THAT(failed.status().message(), HasSubstr("its scales are neither one nor one for each row or column"));
}

TEST(ScaledProductOnTheCpu, FormsThatAreNotOursStayLibtorchs) {
  Product form;
  EXPECT_EQ(how(make_model(form, 1)), "own step");
  form.scale_result = "%r";
  EXPECT_EQ(how(make_model(form, 1)), "boxed");
}

}  // namespace
}  // namespace kpt
