// What rules do on devices with matrix cores: which kernels nodes become, and their results against sums in double.
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/native/host_machine.h"
#include "engines/native/native_executable.h"
#include "ir/text.h"
#include "kernels/gpu/matrix.h"
#include "kernels/gpu/numbers.h"
#include "support/rounds.h"

namespace kpt::native {
namespace {

using ::testing::HasSubstr;
using testing::HostMachine;
using ::testing::Not;

constexpr float kOne = 1;

class MatrixCores : public ::testing::TestWithParam<gpu::MatrixUnit> {
 protected:
  MatrixCores() : machine_(wave(), GetParam()), seed_(std::random_device{}()), random_(seed_) {}
  void SetUp() override {
    trace_ = std::make_unique<::testing::ScopedTrace>(__FILE__, __LINE__, fmt::format("seed {}", seed_));
  }
  static int wave() { return GetParam() == gpu::MatrixUnit::kRdna3 || GetParam() == gpu::MatrixUnit::kRdna4 ? 32 : 64; }

  // Numbers that the type holds, and the same as double.
  struct Drawn {
    Tensor tensor;
    std::vector<double> numbers;
  };
  template <typename T>
  Drawn draw(DType dtype, const Dims& dims, float spread) {
    std::normal_distribution<float> normal(0, spread);
    std::vector<T> codes(static_cast<std::size_t>(kpt::count_elements(dims).value()));
    Drawn drawn;
    for (T& code : codes) {
      code = gpu::from_float<T>(normal(random_));
      drawn.numbers.push_back(static_cast<double>(gpu::to_float(code)));
    }
    drawn.tensor = Tensor::from_bytes(dtype, dims, std::as_bytes(std::span(codes))).value();
    return drawn;
  }
  Drawn halves(const Dims& dims, float spread = 1) { return draw<gpu::Half>(DType::kFloat16, dims, spread); }
  Drawn floats(const Dims& dims, float spread = 1) { return draw<float>(DType::kFloat32, dims, spread); }

  std::vector<double> run(const std::string& text, const std::vector<Tensor>& inputs) {
    const std::shared_ptr<Machine> machine(std::shared_ptr<void>(), &machine_);
    const auto executable =
        NativeExecutable::load(std::make_shared<const ir::Graph>(ir::read_graph(text).value()), {}, machine);
    EXPECT_TRUE(executable.ok()) << executable.status().to_string();
    if (!executable.ok()) return {};
    std::vector<Tensor> outputs;
    RunContext context;
    const Status status = (*executable)->run(context, inputs, outputs, nullptr);
    EXPECT_TRUE(status.ok()) << status.to_string();
    if (!status.ok()) return {};
    std::vector<double> numbers;
    const bool is_float = outputs[0].dtype() == DType::kFloat32;
    const auto count = static_cast<std::size_t>(outputs[0].element_count());
    for (std::size_t i = 0; i < count; ++i) {
      numbers.push_back(static_cast<double>(
          is_float ? outputs[0].elements<float>()[i]
                   : gpu::to_float(gpu::Half{static_cast<const std::uint16_t*>(outputs[0].data())[i]})));
    }
    return numbers;
  }
  std::string how(const std::string& text) {
    const auto needed = find_needed_kernels(ir::read_graph(text).value(), machine_.traits());
    EXPECT_TRUE(needed.ok()) << needed.status().to_string();
    return needed.ok() ? needed->nodes.back().how : "";
  }

  HostMachine machine_;
  unsigned seed_;
  std::mt19937 random_;
  std::unique_ptr<::testing::ScopedTrace> trace_;
};

std::string attention_graph(int width, const char* mask) {
  return fmt::format(R"(kpt_graph 1
values q, k, v, m, o
input q: float16[2, 4, 21, {0}]
input k: float16[2, 2, 37, {0}]
input v: float16[2, 2, 37, {0}]
input m: float32[21, 37]
o: float16[2, 21, 4, {0}] = kpt.attention.default(query=%q, key=%k, value=%v, mask={1}, scale=0.125, causal={2})
output %o "output"
)",
                     width, mask, std::string_view(mask) == "none" ? "true" : "false");
}

TEST_P(MatrixCores, AttentionIsOneKernel) {
  for (const char* mask : {"%m", "none"}) {
    const bool causal = std::string_view(mask) == "none";
    for (const int width : {64, 128}) {
      if (kpt::testing::kSanitized && causal != (width == 128)) continue;
      const std::string text = attention_graph(width, mask);
      EXPECT_EQ(how(text), fmt::format("own kernels: attention_{}_f16_{}", gpu::unit_name(GetParam()), width));
      const Drawn q = halves({2, 4, 21, width});
      const Drawn k = halves({2, 2, 37, width});
      const Drawn v = halves({2, 2, 37, width});
      const Drawn m = floats({21, 37});
      const auto got = run(text, {q.tensor, k.tensor, v.tensor, m.tensor});
      ASSERT_EQ(got.size(), q.numbers.size());
      const auto w = static_cast<std::size_t>(width);
      for (std::size_t row = 0; row < 2 * 4 * 21; ++row) {
        const std::size_t b = row / 84, h = row / 21 % 4, s = row % 21, g = b * 2 + h / 2;
        double weights[37];
        double total = 0;
        for (std::size_t t = 0; t < 37; ++t) {
          double score = 0;
          for (std::size_t d = 0; d < w; ++d) score += q.numbers[row * w + d] * k.numbers[(g * 37 + t) * w + d];
          score = score * 0.125 + (causal ? 0 : m.numbers[s * 37 + t]);
          total += weights[t] = causal && t > s ? 0 : std::exp(score);
        }
        for (std::size_t d = 0; d < w; ++d) {
          double wanted = 0;
          double size = 0;
          for (std::size_t t = 0; t < 37; ++t) {
            wanted += weights[t] / total * v.numbers[(g * 37 + t) * w + d];
            size += weights[t] / total * std::abs(v.numbers[(g * 37 + t) * w + d]);
          }
          ASSERT_NEAR(got[((b * 21 + s) * 4 + h) * w + d], wanted, 1.1e-3 * size) << row << ", " << d;
        }
      }
    }
  }
}

// A width without a kernel takes the products, and float32 too.
TEST_P(MatrixCores, AttentionThatDoesNotFitTakesProducts) {
  EXPECT_THAT(how(attention_graph(32, "%m")), HasSubstr("softmax"));
  std::string text = attention_graph(64, "%m");
  for (std::size_t at = 0; (at = text.find("float16")) != std::string::npos;) text.replace(at, 7, "float32");
  EXPECT_THAT(how(text), HasSubstr("softmax"));
}

TEST_P(MatrixCores, LinearTakesResidualsAndFloatInputs) {
  for (const char* type : {"float16", "float32"}) {
    const bool is_half = std::string_view(type) == "float16";
    const std::string text = fmt::format(R"(kpt_graph 1
values x, w, b, r, o
input x: {0}[3, 7, 40]
input w: float16[33, 40]
input b: float16[33]
input r: {0}[3, 7, 33]
o: {0}[3, 7, 33] = kpt.linear.default(input=%x, weight=%w, bias=%b, residual=%r, activation="relu")
output %o "output"
)",
                                         type);
    EXPECT_THAT(how(text), HasSubstr(fmt::format("matrix_{}_f16", gpu::unit_name(GetParam()))));
    const Drawn x = is_half ? halves({3, 7, 40}) : floats({3, 7, 40});
    const Drawn w = halves({33, 40});
    const Drawn b = halves({33});
    const Drawn r = is_half ? halves({3, 7, 33}) : floats({3, 7, 33});
    const auto got = run(text, {x.tensor, w.tensor, b.tensor, r.tensor});
    ASSERT_EQ(got.size(), 21U * 33U);
    for (std::size_t i = 0; i < got.size(); ++i) {
      double wanted = b.numbers[i % 33] + r.numbers[i];
      double size = std::abs(wanted);
      for (std::size_t k = 0; k < 40; ++k) {
        const double product = x.numbers[i / 33 * 40 + k] * w.numbers[i % 33 * 40 + k];
        wanted += product;
        size += std::abs(product);
      }
      // The input is rounded to the weight's type, or the result.
      ASSERT_NEAR(got[i], std::max(wanted, 0.0), 6e-4 * size) << type << " " << i;
    }
  }
}

// What decomposed exports have in the place of linear layers: the weight as it lies, or turned.
TEST_P(MatrixCores, ProductsOfMatricesAreLinear) {
  struct Case {
    const char* weight;  // [40, 33] or what it is made of
    const char* turned;  // the node before
    const char* product;
    std::int64_t rows;
    bool on_matrix_cores;
  };
  constexpr const char* kLies = "input w: float16[40, 33]";
  constexpr const char* kStored = "input v: float16[33, 40]";
  constexpr const char* kTurned = "w: float16[40, 33]{strides=[1, 40]} = aten.t.default(self=%v)\n";
  constexpr const char* kMm = "aten.mm.default(self=%x, mat2=%w)";
  constexpr const char* kRow = "aten.addmm.default(self=%b, mat1=%x, mat2=%w)";
  constexpr const char* kWhole = "aten.addmm.default(self=%r, mat1=%x, mat2=%w)";
  constexpr const char* kTwice = "aten.addmm.default(self=%b, mat1=%x, mat2=%w, alpha=2)";
  for (const Case& form : {Case{kStored, kTurned, kMm, 3, true}, Case{kStored, kTurned, kRow, 3, true},
                           Case{kStored, kTurned, kWhole, 3, true}, Case{kLies, "", kMm, 130, true},
                           Case{kLies, "", kRow, 130, true}, Case{kLies, "", kWhole, 130, true},
                           Case{kLies, "", kMm, 21, false}, Case{kStored, kTurned, kTwice, 21, false}}) {
    const std::string text = fmt::format(
        "kpt_graph 1\ninput x: float16[{0}, 40]\n{1}\ninput b: float16[33]\ninput r: float16[{0}, 33]\n"
        "{2}o: float16[{0}, 33] = {3}\noutput %o \"output\"\n",
        form.rows, form.weight, form.turned, form.product);
    SCOPED_TRACE(text);
    EXPECT_THAT(how(text), HasSubstr(form.on_matrix_cores ? fmt::format("matrix_{}_f16", gpu::unit_name(GetParam()))
                                                          : "product_f16"));
    const bool turned = form.turned == kTurned;
    const Drawn x = halves({form.rows, 40});
    const Drawn w = turned ? halves({33, 40}) : halves({40, 33});
    const Drawn b = halves({33});
    const Drawn r = halves({form.rows, 33});
    const auto got = run(text, {x.tensor, w.tensor, b.tensor, r.tensor});
    ASSERT_EQ(got.size(), static_cast<std::size_t>(form.rows) * 33U);
    for (std::size_t i = 0; i < got.size(); ++i) {
      double wanted = 0;
      if (form.product == kRow || form.product == kTwice) wanted = b.numbers[i % 33];
      if (form.product == kWhole) wanted = r.numbers[i];
      double size = std::abs(wanted);
      for (std::size_t k = 0; k < 40; ++k) {
        const double weight = turned ? w.numbers[i % 33 * 40 + k] : w.numbers[k * 33 + i % 33];
        const double product = x.numbers[i / 33 * 40 + k] * weight * (form.product == kTwice ? 2 : 1);
        wanted += product;
        size += std::abs(product);
      }
      ASSERT_NEAR(got[i], wanted, 6e-4 * size) << i;
    }
  }
}

std::string quantized_graph(const char* kind, const char* type) {
  return fmt::format(R"(kpt_graph 1
values x, w, s, b, o
input x: float16[5, 48]
input w: {1}[32, 48]
input s: float32[32]
input b: float32[32]
o: float16[5, 32] = kpt.linear_{0}.default(input=%x, weight=%w, scale=%s, bias=%b, residual=none, activation="none")
output %o "output"
)",
                     kind, type);
}

TEST_P(MatrixCores, LinearInEightBits) {
  const auto types = gpu::matrix_types(GetParam());
  for (const bool is_fp8 : {false, true}) {
    const std::string text = is_fp8 ? quantized_graph("fp8", "float8_e4m3fn") : quantized_graph("int8", "int8");
    const DType type = is_fp8 ? gpu::matrix_fp8_type(GetParam()) : DType::kInt8;
    if (std::ranges::find(types, type) == types.end()) {
      const auto answers = check_nodes(ir::read_graph(text).value(), machine_.traits());
      EXPECT_EQ(answers[0].reason, "there are no matrix cores for float8_e4m3fn");
      continue;
    }
    EXPECT_THAT(how(text), HasSubstr("quantize_rows_f16_"));
    EXPECT_THAT(how(text), HasSubstr(fmt::format("matrix_{}_{}", gpu::unit_name(GetParam()), is_fp8 ? "e4m3" : "i8")));
    const Drawn x = halves({5, 48});
    const Drawn w =
        is_fp8 ? draw<gpu::E4M3>(DType::kFloat8E4M3FN, {32, 48}, 100) : draw<gpu::Int8>(DType::kInt8, {32, 48}, 50);
    const Drawn s = floats({32}, 0.01F);
    const Drawn b = floats({32});
    const auto got = run(text, {x.tensor, w.tensor, s.tensor, b.tensor});
    ASSERT_EQ(got.size(), 5U * 32U);
    for (std::size_t row = 0; row < 5; ++row) {
      double greatest = 0;
      for (std::size_t k = 0; k < 48; ++k) greatest = std::max(greatest, std::abs(x.numbers[row * 48 + k]));
      // Of one rounding: half a step of int8, one part in 16 of FP8.
      for (std::size_t column = 0; column < 32; ++column) {
        double wanted = 0;
        double slack = 0;
        for (std::size_t k = 0; k < 48; ++k) {
          const double value = x.numbers[row * 48 + k];
          const double weight = w.numbers[column * 48 + k] * s.numbers[column];
          wanted += value * weight;
          slack += std::abs(weight) * (is_fp8 ? std::abs(value) / 16 + greatest * 1e-4 : greatest / 127 * 0.51);
        }
        wanted += b.numbers[column];
        ASSERT_NEAR(got[row * 32 + column], wanted, slack + 1e-3 * std::abs(wanted)) << is_fp8 << " " << row;
      }
    }
  }
}

// As PyTorch exports it: the weight is transposed, scales are one number or one for each row.
std::string scaled_graph(int rows, int columns, const char* row_scale, const char* column_scale, const char* bias) {
  return fmt::format(R"(kpt_graph 1
values x, w, a, s, b, t, o
input x: float8_e4m3fn[{0}, 48]
input w: float8_e4m3fn[{1}, 48]
input a: float32{2}
input s: float32{3}
input b: float16[{1}]
t: float8_e4m3fn[48, {1}]{{strides=[1, 48]}} = aten.t.default(self=%w)
o: float32[{0}, {1}] = aten._scaled_mm.default(self=%x, mat2=%t, scale_a=%a, scale_b=%s, bias={4}, scale_result=none, out_dtype=dtype(float32), use_fast_accum=false)
output %o "output"
)",
                     rows, columns, row_scale, column_scale, bias);
}

bool multiplies_fp8(gpu::MatrixUnit unit) {
  const auto types = gpu::matrix_types(unit);
  return std::ranges::find(types, gpu::matrix_fp8_type(unit)) != types.end();
}

TEST_P(MatrixCores, ScaledProductsOfFp8) {
  for (const bool each : {false, true}) {
    const std::string text = scaled_graph(5, 32, each ? "[5, 1]" : "[]", each ? "[1, 32]" : "[]", each ? "%b" : "none");
    EXPECT_THAT(how(text),
                HasSubstr(multiplies_fp8(GetParam()) ? fmt::format("matrix_{}_e4m3", gpu::unit_name(GetParam()))
                                                     : fmt::format("matrix_{}_f16", gpu::unit_name(GetParam()))));
    const Drawn x = draw<gpu::E4M3>(DType::kFloat8E4M3FN, {5, 48}, 100);
    const Drawn w = draw<gpu::E4M3>(DType::kFloat8E4M3FN, {32, 48}, 100);
    const Drawn a = each ? floats({5, 1}, 0.01F) : floats({}, 0.01F);
    const Drawn s = each ? floats({1, 32}, 0.01F) : floats({}, 0.01F);
    const Drawn b = halves({32});
    const auto got = run(text, {x.tensor, w.tensor, a.tensor, s.tensor, b.tensor});
    ASSERT_EQ(got.size(), 5U * 32U);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::size_t row = i / 32;
      const std::size_t column = i % 32;
      const double scale = a.numbers[each ? row : 0] * s.numbers[each ? column : 0];
      double wanted = each ? b.numbers[column] : 0;
      double size = std::abs(wanted);
      for (std::size_t k = 0; k < 48; ++k) {
        const double product = x.numbers[row * 48 + k] * w.numbers[column * 48 + k] * scale;
        wanted += product;
        size += std::abs(product);
      }
      ASSERT_NEAR(got[i], wanted, 1e-6 * size) << each << " " << i;
    }
  }
}

// Stored codes mean what OCP says on hardware of both flavours and without FP8, as the weight and as the input.
TEST_P(MatrixCores, EveryCodeOfAnFp8CheckpointIsItsNumber) {
  const auto number = [](std::size_t code) {
    const int exponent = static_cast<int>(code >> 3U & 15U);
    const int mantissa = static_cast<int>(code & 7U);
    if (exponent == 15 && mantissa == 7) return std::nan("");
    const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    return code < 128 ? size : -size;
  };
  const auto diagonal = [](std::size_t rows, const std::function<std::uint8_t(std::size_t)>& code) {
    std::vector<std::uint8_t> codes(rows * 48, 0);
    for (std::size_t row = 0; row < rows; ++row) codes[row * 48 + row % 48] = code(row);
    return Tensor::from_bytes(DType::kFloat8E4M3FN, Dims{static_cast<std::int64_t>(rows), 48},
                              std::as_bytes(std::span(codes)))
        .value();
  };
  const Tensor all = diagonal(256, [](std::size_t row) { return static_cast<std::uint8_t>(row); });
  const Tensor ones = diagonal(48, [](std::size_t) { return std::uint8_t{0x38}; });
  const Tensor one = Tensor::from_bytes(DType::kFloat32, Dims{}, std::as_bytes(std::span(&kOne, 1))).value();
  const Tensor unused = halves({256}).tensor;
  const Tensor other = halves({48}).tensor;
  const auto weights = run(scaled_graph(48, 256, "[]", "[]", "none"), {ones, all, one, one, unused});
  const auto inputs = run(scaled_graph(256, 48, "[]", "[]", "none"), {all, ones, one, one, other});
  ASSERT_EQ(weights.size(), 48U * 256U);
  ASSERT_EQ(inputs.size(), 48U * 256U);
  for (std::size_t code = 0; code < 256; ++code) {
    const double wanted = number(code);
    for (const double got : {weights[code % 48 * 256 + code], inputs[code * 48 + code % 48]}) {
      ASSERT_TRUE(std::isnan(wanted) ? std::isnan(got) : got == wanted) << code << ": " << got << ", not " << wanted;
    }
  }
}

// A checkpoint whose weight is made wide by the graph itself.
TEST_P(MatrixCores, Fp8WeightsBecomeOtherTypes) {
  const std::string text = R"(kpt_graph 1
values x, w, s, c, m, o
input x: float16[5, 48]
input w: float8_e4m3fn[32, 48]
input s: float16[32, 1]
c: float16[32, 48] = aten.to.dtype(self=%w, dtype=dtype(float16))
m: float16[32, 48] = aten.mul.Tensor(self=%c, other=%s)
o: float16[5, 32] = aten.linear.default(input=%x, weight=%m)
output %o "output"
)";
  const Drawn x = halves({5, 48});
  const Drawn w = draw<gpu::E4M3>(DType::kFloat8E4M3FN, {32, 48}, 100);
  const Drawn s = halves({32, 1}, 0.01F);
  const auto got = run(text, {x.tensor, w.tensor, s.tensor});
  ASSERT_EQ(got.size(), 5U * 32U);
  for (std::size_t i = 0; i < got.size(); ++i) {
    double wanted = 0;
    double size = 0;
    for (std::size_t k = 0; k < 48; ++k) {
      const double product = x.numbers[i / 32 * 48 + k] * w.numbers[i % 32 * 48 + k] * s.numbers[i % 32];
      wanted += product;
      size += std::abs(product);
    }
    ASSERT_NEAR(got[i], wanted, 1.5e-3 * size) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Units, MatrixCores,
                         ::testing::Values(gpu::MatrixUnit::kCdna2, gpu::MatrixUnit::kCdna3, gpu::MatrixUnit::kCdna4,
                                           gpu::MatrixUnit::kRdna3, gpu::MatrixUnit::kRdna4),
                         [](const auto& parameter) { return std::string(gpu::unit_name(parameter.param)); });

TEST(WithoutMatrixCores, ScaledProductsAreThoseOfFloat16) {
  const HostMachine machine(32);
  const auto answers = check_nodes(ir::read_graph(scaled_graph(5, 32, "[]", "[]", "none")).value(), machine.traits());
  EXPECT_TRUE(answers[1].supported) << answers[1].reason;
}

// What would need another rule is refused, and says why.
TEST(WithoutMatrixCores, OtherScaledProductsAreRefused) {
  const HostMachine machine(32);
  const auto reason = [&](const std::string& text) {
    return check_nodes(ir::read_graph(text).value(), machine.traits())[1].reason;
  };
  EXPECT_EQ(reason(scaled_graph(5, 32, "[5, 2]", "[]", "none")), "the scales are neither one nor one for each row");
  std::string text = scaled_graph(5, 32, "[]", "[]", "none");
  for (std::size_t at = 0; (at = text.find("e4m3fn", at)) != std::string::npos;) text.replace(at, 6, "e5m2");
  EXPECT_EQ(reason(text), "products with scales are of float8_e4m3fn, not of float8_e5m2 and float8_e5m2");
  text = scaled_graph(5, 32, "[]", "[]", "none");
  text.replace(text.find("scale_result=none"), 17, "scale_result=%a");
  EXPECT_EQ(reason(text), "the result has a scale");
}

TEST(WithoutMatrixCores, LinearInEightBitsIsRefused) {
  const HostMachine machine(32);
  const auto answers = check_nodes(ir::read_graph(quantized_graph("int8", "int8")).value(), machine.traits());
  EXPECT_FALSE(answers[0].supported);
  EXPECT_EQ(answers[0].reason, "there are no matrix cores for int8");
}

}  // namespace
}  // namespace kpt::native
