// How near XLA's CPU plugin comes to the functions that our lowering asks of it, in units in the last place of float32,
// held against the C library in double: a release that approximates more coarsely must not go unseen.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engines/xla/stablehlo/lower.h"
#include "engines/xla/testing/run_stablehlo.h"
#include "ir/text.h"

namespace kpt::xla {
namespace {

struct Function {
  const char* node;  // with %x for its argument
  float least, most;
  double (*exact)(double);
  double allowed;  // units in the last place
};

double softplus(double x) { return std::log1p(std::exp(x)); }

constexpr Function kFunctions[] = {
    {"aten.acos.default(self=%x)", -0.999F, 0.999F, std::acos, 4},
    {"aten.acosh.default(self=%x)", 1.1F, 50, std::acosh, 4},
    {"aten.asin.default(self=%x)", -1, 1, std::asin, 4},
    {"aten.asinh.default(self=%x)", -20, 20, std::asinh, 4},
    {"aten.atan.default(self=%x)", -20, 20, std::atan, 4},
    {"aten.atanh.default(self=%x)", -0.95F, 0.95F, std::atanh, 4},
    {"aten.cos.default(self=%x)", -1.5F, 1.5F, std::cos, 4},
    {"aten.cosh.default(self=%x)", -20, 20, std::cosh, 8},
    {"aten.erf.default(self=%x)", -4, 4, std::erf, 4},
    {"aten.erfc.default(self=%x)", -4, 4, std::erfc, 10},
    {"aten.exp.default(self=%x)", -20, 20, std::exp, 4},
    {"aten.exp2.default(self=%x)", -20, 20, std::exp2, 4},
    {"aten.expm1.default(self=%x)", -20, 20, std::expm1, 4},
    {"aten.expm1.default(self=%x)", -0.5F, 0.5F, std::expm1, 4},
    {"aten.log.default(self=%x)", 0.01F, 100, std::log, 4},
    {"aten.log10.default(self=%x)", 0.01F, 100, std::log10, 4},
    {"aten.log1p.default(self=%x)", -0.9F, 100, std::log1p, 4},
    {"aten.log1p.default(self=%x)", -0.3F, 1, std::log1p, 4},
    {"aten.log2.default(self=%x)", 0.01F, 100, std::log2, 4},
    {"aten.log_sigmoid.default(self=%x)", -20, 5, [](double x) { return -softplus(-x); }, 4},
    {"aten.mish.default(self=%x)", -10, 10, [](double x) { return x * std::tanh(softplus(x)); }, 4},
    {"aten.pow.Tensor_Scalar(self=%x, exponent=1.7)", 0.01F, 100, [](double x) { return std::pow(x, 1.7); }, 4},
    {"aten.pow.Scalar(self=1.5, exponent=%x)", -20, 20, [](double x) { return std::pow(1.5, x); }, 4},
    {"aten.reciprocal.default(self=%x)", 0.01F, 100, [](double x) { return 1 / x; }, 1},
    {"aten.rsqrt.default(self=%x)", 0.01F, 100, [](double x) { return 1 / std::sqrt(x); }, 2},
    {"aten.sigmoid.default(self=%x)", -20, 20, [](double x) { return 1 / (1 + std::exp(-x)); }, 4},
    {"aten.silu.default(self=%x)", -20, 20, [](double x) { return x / (1 + std::exp(-x)); }, 4},
    {"aten.sin.default(self=%x)", -3, 3, std::sin, 4},
    {"aten.sinh.default(self=%x)", -20, 20, std::sinh, 8},
    {"aten.softplus.default(self=%x)", -15, 15, softplus, 4},
    {"aten.sqrt.default(self=%x)", 0.01F, 100, std::sqrt, 1},
    {"aten.tan.default(self=%x)", -1.5F, 1.5F, std::tan, 4},
    {"aten.tanh.default(self=%x)", -10, 10, std::tanh, 4},
};

TEST(FunctionsOfXla, AreNearTheExactOnes) {
  constexpr std::int64_t kCount = 20000;
  if (testing::cpu_plugin_path().empty()) GTEST_SKIP() << testing::why_no_cpu_plugin();
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::string inputs = "kpt_graph 1\n";
  std::string nodes;
  std::string outputs;
  const std::vector<std::int64_t> dims = {kCount};
  std::vector<Tensor> given;
  for (std::size_t i = 0; i < std::size(kFunctions); ++i) {
    const Function& function = kFunctions[i];
    const std::string name = fmt::format("%x{}", i);
    std::string node = function.node;
    node.replace(node.find("%x"), 2, name);
    inputs += fmt::format("input x{}: float32[{}]\n", i, kCount);
    nodes += fmt::format("v{}: float32[{}] = {}\n", i, kCount, node);
    outputs += fmt::format("output %v{} \"o{}\"\n", i, i);
    Tensor x = Tensor::empty(DType::kFloat32, dims).value();
    std::uniform_real_distribution<float> number(function.least, function.most);
    for (float& element : x.elements<float>()) element = number(random);
    given.push_back(std::move(x));
  }
  const auto graph = ir::read_graph(inputs + nodes + outputs);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const auto module = lower(*graph, {});
  ASSERT_TRUE(module.ok()) << module.status().message();
  const auto results = testing::run_stablehlo(module->text, given);
  ASSERT_TRUE(results.ok()) << results.status().message();
  for (std::size_t i = 0; i < std::size(kFunctions); ++i) {
    const Function& function = kFunctions[i];
    double worst = 0;
    float where = 0;
    for (std::size_t k = 0; k < std::size_t{kCount}; ++k) {
      const float x = given[i].elements<float>()[k];
      const double exact = function.exact(static_cast<double>(x));
      const double unit = std::max(std::abs(exact), 1e-30) * static_cast<double>(std::numeric_limits<float>::epsilon());
      double off = std::abs(static_cast<double>((*results)[i].elements<float>()[k]) - exact) / unit;
      if (std::isnan(off)) off = HUGE_VAL;
      if (off > worst) {
        worst = off;
        where = x;
      }
    }
    EXPECT_LE(worst, function.allowed) << function.node << " at " << where;
  }
}

}  // namespace
}  // namespace kpt::xla
