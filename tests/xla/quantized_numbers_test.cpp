// Our operators in eight bits and fewer on XLA's CPU plugin, held against loops over doubles that round as the contract
// of ir/own_operators.h says.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph_run.h"
#include "ir/text.h"
#include "passes/weight_values.h"

namespace kpt {
namespace {

using Doubles = std::vector<double>;
using Extents = std::vector<std::int64_t>;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

using Rounding = double (*)(double);
using Places = std::vector<std::size_t>;  // of a group's elements

float find_scale(const Doubles& values, const Places& places, double greatest_code) {
  float greatest = 0;
  for (const std::size_t place : places) greatest = std::max(greatest, static_cast<float>(std::fabs(values[place])));
  return greatest / static_cast<float>(greatest_code);
}

// What the codes of a group stand for, in its place.
void round_group(Doubles& values, const Places& places, double greatest_code, Rounding round) {
  const bool finite = std::ranges::all_of(places, [&](std::size_t place) { return std::isfinite(values[place]); });
  const float scale = find_scale(values, places, greatest_code);
  for (const std::size_t place : places) {
    const float inverse = 1 / scale;
    const float code = std::isfinite(inverse) ? static_cast<float>(values[place]) * inverse : 0;
    values[place] = finite ? round(static_cast<double>(code)) * static_cast<double>(scale) : kNoNumber;
  }
}

double round_int8(double code) { return std::clamp(std::nearbyint(code), -127.0, 127.0); }

double round_fp8(double code) {
  const std::uint8_t stored = to_float8_e4m3fn(code);
  const Tensor one = Tensor::from_bytes(DType::kFloat8E4M3FN, Extents{1}, std::as_bytes(std::span(&stored, 1))).value();
  return read_as_double(one).value()[0];
}

class QuantizedNumbers : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = xla_test::ModuleRunner::open();
    if (!opened.ok()) GTEST_SKIP() << opened.status().message();
    runner_ = std::move(*opened);
    const auto seed = std::random_device{}();
    random_.seed(seed);
    RecordProperty("seed", std::to_string(seed));
    fmt::print("seed {}\n", seed);
  }

  std::int64_t draw_size(std::vector<std::int64_t> choices) { return choices[random_() % choices.size()]; }

  // Stored in the type, so that the reference sees what the program sees.
  void add(const std::string& name, DType dtype, const Extents& dims, double low, double high, bool whole = false) {
    std::size_t count = 1;
    for (const std::int64_t dim : dims) count *= static_cast<std::size_t>(dim);
    Doubles values(count);
    std::uniform_real_distribution<double> drawn(low, high);
    for (double& value : values) value = whole ? std::floor(drawn(random_)) : drawn(random_);
    set(name, dtype, dims, values);
  }
  void set(const std::string& name, DType dtype, const Extents& dims, const Doubles& values) {
    inputs_.insert_or_assign(
        name, is_code(dtype) ? make_codes(dtype, dims, values) : make_weight(dtype, dims, values).value());
  }
  static bool is_code(DType dtype) { return element_bytes(dtype) == 1; }
  static Tensor make_codes(DType dtype, const Extents& dims, const Doubles& values) {
    std::vector<std::uint8_t> bytes;
    for (const double value : values) {
      bytes.push_back(dtype == DType::kFloat8E4M3FN ? to_float8_e4m3fn(value)
                                                    : static_cast<std::uint8_t>(static_cast<int>(value)));
    }
    return Tensor::from_bytes(dtype, dims, std::as_bytes(std::span(bytes))).value();
  }
  Doubles read(const std::string& name) { return read_as_double(inputs_.at(name)).value(); }

  Doubles run(const std::string& result, const std::string& call) {
    std::string text = "kpt_graph 1\n";
    for (const auto& [name, tensor] : inputs_) {
      text += fmt::format("input {}: {}[{}]\n", name, to_string(tensor.dtype()), fmt::join(tensor.dims(), ", "));
    }
    text += fmt::format("y: {} = {}\noutput %y \"y\"\n", result, call);
    SCOPED_TRACE(text);
    const auto graph = ir::read_graph(text);
    EXPECT_TRUE(graph.ok()) << graph.status().message();
    const Weights weights;
    const auto outputs = xla_test::GraphRun(*runner_, *graph, weights).run(inputs_);
    EXPECT_TRUE(outputs.ok()) << outputs.status().message();
    return outputs.ok() ? read_as_double((*outputs)[0].tensor).value() : Doubles();
  }

  static void expect_near(const Doubles& actual, const Doubles& expected, double rounding = 1e-5) {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t at = 0; at < actual.size(); ++at) {
      ASSERT_EQ(std::isnan(actual[at]), std::isnan(expected[at])) << at;
      if (std::isnan(expected[at])) continue;
      EXPECT_LE(std::fabs(actual[at] - expected[at]), rounding * (1 + std::fabs(expected[at])))
          << at << ": " << actual[at] << " and not " << expected[at];
    }
  }

  // The input x as the numbers that the codes of its groups stand for. One that lies so near the middle of two codes
  // that the way there decides between them, which changes all results of its group, is made smaller first. `near`: how
  // far apart two ways may be, of the code.
  Doubles round_input(const std::vector<Places>& groups, double greatest_code, Rounding round, double near = 1e-5) {
    const DType dtype = inputs_.at("x").dtype();
    const Extents dims(inputs_.at("x").dims().begin(), inputs_.at("x").dims().end());
    Doubles values = read("x");
    for (bool is_clear = false; !is_clear;) {
      is_clear = true;
      for (const Places& places : groups) {
        const double scale = static_cast<double>(find_scale(values, places, greatest_code));
        for (const std::size_t place : places) {
          const double code = values[place] / scale;
          if (round(code * (1 - near)) == round(code * (1 + near))) continue;
          values[place] *= 0.97;
          is_clear = false;
        }
      }
      set("x", dtype, dims, values);
      values = read("x");
    }
    for (const Places& places : groups) round_group(values, places, greatest_code, round);
    return values;
  }

  // [rows, depth] · [columns, depth]ᵀ + bias, then added to the residual and cut at 0 (relu).
  Doubles multiply(const Doubles& input, const Doubles& weight, std::size_t depth) {
    const Doubles bias = read("b");
    const Doubles residual = read("r");
    const std::size_t columns = bias.size();
    Doubles result(residual.size());
    for (std::size_t at = 0; at < result.size(); ++at) {
      double sum = bias[at % columns] + residual[at];
      for (std::size_t k = 0; k < depth; ++k) {
        sum += input[at / columns * depth + k] * weight[at % columns * depth + k];
      }
      result[at] = sum > 0 ? sum : (std::isnan(sum) ? kNoNumber : 0);
    }
    return result;
  }

  // Inputs of a product: x, w, s, b and r; gives the call's arguments.
  struct Product {
    std::size_t rows, columns, depth;
    std::string result;
    const char* arguments = "input=%x, weight=%w, scale=%s, bias=%b, residual=%r, activation=\"relu\"";
  };
  Product draw_product(DType input, std::int64_t depth) {
    const std::int64_t rows = draw_size({1, 2, 5, 9});
    const std::int64_t columns = draw_size({1, 3, 16, 33});
    add("x", input, {rows, depth}, -3, 3);
    add("s", DType::kFloat32, {columns}, 0.001, 0.02);
    add("b", DType::kFloat32, {columns}, -1, 1);
    add("r", DType::kFloat32, {rows, columns}, -1, 1);
    return {static_cast<std::size_t>(rows), static_cast<std::size_t>(columns), static_cast<std::size_t>(depth),
            fmt::format("float32[{}, {}]", rows, columns)};
  }
  // The weight as numbers: codes by rows of `depth`, times the row's scale.
  Doubles scaled_weight(std::size_t depth) {
    Doubles weight = read("w");
    const Doubles scale = read("s");
    for (std::size_t at = 0; at < weight.size(); ++at) weight[at] *= scale[at / depth];
    return weight;
  }
  static std::vector<Places> rows_of(std::size_t count, std::size_t depth) {
    std::vector<Places> rows(count, Places(depth));
    for (std::size_t row = 0; row < count; ++row) std::iota(rows[row].begin(), rows[row].end(), row * depth);
    return rows;
  }

  std::unique_ptr<xla_test::ModuleRunner> runner_;
  std::mt19937_64 random_;
  std::map<std::string, Tensor> inputs_;
};

TEST_F(QuantizedNumbers, ProductsInInt8RoundEveryRow) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Product product = draw_product(dtype, draw_size({1, 7, 64, 129}));
    add("w", DType::kInt8, {static_cast<std::int64_t>(product.columns), static_cast<std::int64_t>(product.depth)}, -127,
        128, true);
    const Doubles input = round_input(rows_of(product.rows, product.depth), 127, round_int8);
    const Doubles expected = multiply(input, scaled_weight(product.depth), product.depth);
    expect_near(run(product.result, fmt::format("kpt.linear_int8.default({})", product.arguments)), expected);
  }
}

// A row of zeros gives the bias; one with an infinity or a NaN is lost, and no other is.
TEST_F(QuantizedNumbers, BrokenRowsStayAlone) {
  const Product product = draw_product(DType::kFloat32, 8);
  const double infinity = std::numeric_limits<double>::infinity();
  Doubles input(4 * 8, 1.5);
  std::fill_n(input.begin(), 8, 0.0);
  input[8 + 3] = kNoNumber;
  input[16 + 5] = -infinity;
  set("x", DType::kFloat32, {4, 8}, input);
  add("r", DType::kFloat32, {4, static_cast<std::int64_t>(product.columns)}, -1, 1);
  add("w", DType::kInt8, {static_cast<std::int64_t>(product.columns), 8}, -127, 128, true);
  for (const Places& row : rows_of(4, 8)) round_group(input, row, 127, round_int8);
  const Doubles expected = multiply(input, scaled_weight(8), 8);
  const std::string result = fmt::format("float32[4, {}]", product.columns);
  expect_near(run(result, fmt::format("kpt.linear_int8.default({})", product.arguments)), expected);
}

TEST_F(QuantizedNumbers, ProductsInFp8RoundEveryRow) {
  const Product product = draw_product(DType::kFloat32, draw_size({16, 48, 128}));
  add("w", DType::kFloat8E4M3FN, {static_cast<std::int64_t>(product.columns), static_cast<std::int64_t>(product.depth)},
      -400, 400);
  // XLA's cast differs near a tie as one by way of float16 does.
  const Doubles input = round_input(rows_of(product.rows, product.depth), 448, round_fp8, 1e-3);
  const Doubles expected = multiply(input, scaled_weight(product.depth), product.depth);
  expect_near(run(product.result, fmt::format("kpt.linear_fp8.default({})", product.arguments)), expected, 1e-4);
}

TEST_F(QuantizedNumbers, WeightsAloneLeaveTheInputAsItIs) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Product product = draw_product(dtype, draw_size({1, 7, 64}));
    add("w", DType::kInt8, {static_cast<std::int64_t>(product.columns), static_cast<std::int64_t>(product.depth)}, -127,
        128, true);
    const Doubles expected = multiply(read("x"), scaled_weight(product.depth), product.depth);
    expect_near(run(product.result, fmt::format("kpt.linear_weight_int8.default({})", product.arguments)), expected,
                1e-4);
  }
}

TEST_F(QuantizedNumbers, WeightsOfFourBitsHaveAScalePerGroup) {
  const Product product = draw_product(DType::kFloat32, 64);
  const auto columns = static_cast<std::int64_t>(product.columns);
  add("w", DType::kUInt8, {columns, 32}, 0, 256, true);
  add("s", DType::kFloat32, {columns, 2}, 0.001, 0.02);
  const Doubles pairs = read("w");
  const Doubles scale = read("s");
  Doubles weight;
  for (std::size_t at = 0; at < pairs.size(); ++at) {
    const auto bits = static_cast<unsigned>(pairs[at]);
    for (const unsigned code : {bits & 15U, bits >> 4U}) weight.push_back((code - 8.0) * scale[at * 2 / 32]);
  }
  expect_near(run(product.result, fmt::format("kpt.linear_int4.default({}, group=32)", product.arguments)),
              multiply(read("x"), weight, 64), 1e-4);
}

// A convolution in doubles, 3 x 3 with padding 1 and stride 2, or 1 x 1.
TEST_F(QuantizedNumbers, ConvolutionsRoundAnImageOrEveryPlace) {
  for (const std::int64_t side : {3, 1}) {
    const std::int64_t images = draw_size({1, 2});
    const std::int64_t channels = draw_size({4, 16});
    const std::int64_t filters = draw_size({1, 5});
    const std::int64_t height = draw_size({3, 6});
    const std::int64_t width = draw_size({4, 5});
    const std::int64_t stride = side == 3 ? 2 : 1;
    const std::int64_t padding = side / 2;
    inputs_.clear();
    add("x", DType::kFloat32, {images, channels, height, width}, -3, 3);
    add("w", DType::kInt8, {filters, channels, side, side}, -127, 128, true);
    add("s", DType::kFloat32, {filters}, 0.001, 0.02);
    const std::int64_t area = height * width;
    std::vector<Places> groups;
    for (std::int64_t image = 0; image < images; ++image) {
      for (std::int64_t place = 0; place < (side == 1 ? area : 1); ++place) {
        Places& places = groups.emplace_back();
        for (std::int64_t at = place; at < channels * area; at += side == 1 ? area : 1) {
          places.push_back(static_cast<std::size_t>(image * channels * area + at));
        }
      }
    }
    const Doubles input = round_input(groups, 127, round_int8);
    const Doubles weight = read("w");
    const Doubles scale = read("s");
    const Extents size = {(height + 2 * padding - side) / stride + 1, (width + 2 * padding - side) / stride + 1};
    Doubles expected;
    for (std::int64_t at = 0; at < images * filters * size[0] * size[1]; ++at) {
      const std::int64_t filter = at / (size[0] * size[1]) % filters;
      const std::int64_t image = at / (size[0] * size[1] * filters);
      double sum = 0;
      for (std::int64_t tap = 0; tap < channels * side * side; ++tap) {
        const std::int64_t y = at / size[1] % size[0] * stride - padding + tap / side % side;
        const std::int64_t x = at % size[1] * stride - padding + tap % side;
        if (y < 0 || y >= height || x < 0 || x >= width) continue;
        sum += input[static_cast<std::size_t>(((image * channels + tap / (side * side)) * height + y) * width + x)] *
               weight[static_cast<std::size_t>(filter * channels * side * side + tap)];
      }
      expected.push_back(sum * scale[static_cast<std::size_t>(filter)]);
    }
    const Doubles actual =
        run(fmt::format("float32[{}, {}, {}, {}]", images, filters, size[0], size[1]),
            fmt::format("kpt.conv2d_int8.default(input=%x, weight=%w, scale=%s, bias=none, residual=none, stride=[{0}, "
                        "{0}], padding=[{1}, {1}], dilation=[1, 1], activation=\"none\")",
                        stride, padding));
    expect_near(actual, expected);
  }
}

}  // namespace
}  // namespace kpt
