// Convolutions with int8 filters, against sums of the same integers.
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/conv.h"
#include "kernels/cpu/linear_sampling.h"

namespace kpt::kernels {
namespace {

struct Int8Case {
  ConvWeights weights;
  std::int64_t batch = 1, height = 5, width = 5;
  ElementType input_type = ElementType::kFloat32;
  bool bias = false;
  bool residual = false;
  int threads = 1;
  std::vector<std::int8_t> filters;  // [out, channel, y, x]
  std::vector<float> scales;

  std::int64_t area() const { return weights.kernel[0] * weights.kernel[1]; }
  bool has_scale_per_place() const {
    using Two = std::array<std::int64_t, 2>;
    return weights.kernel == Two{1, 1} && weights.stride == Two{1, 1} && weights.padding == Two{0, 0} &&
           weights.end_padding == Two{0, 0};
  }
};

std::string describe(const Int8Case& of) {
  const ConvWeights& w = of.weights;
  std::string text = std::to_string(of.batch) + " x " + std::to_string(of.height) + " x " + std::to_string(of.width) +
                     ", channels " + std::to_string(w.in_channels) + " to " + std::to_string(w.out_channels);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    text += ", axis " + std::to_string(axis) + ": kernel " + std::to_string(w.kernel[axis]) + " stride " +
            std::to_string(w.stride[axis]) + " padding " + std::to_string(w.padding[axis]) + " and " +
            std::to_string(w.end_padding[axis]) + " dilation " + std::to_string(w.dilation[axis]);
  }
  return text + ", threads " + std::to_string(of.threads);
}

Int8Case draw_case(std::mt19937& random) {
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  Int8Case of;
  ConvWeights& w = of.weights;
  w.form = LinearForm::kInt8;
  w.in_channels = pick(2, 40);
  w.out_channels = pick(1, 60);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    w.kernel[axis] = pick(1, 4);
    w.stride[axis] = pick(1, 3);
    w.padding[axis] = pick(0, 3);
    w.end_padding[axis] = pick(0, 3);
    w.dilation[axis] = pick(1, 2);
  }
  if (pick(0, 2) == 0) {
    w.kernel = {1, 1};
    if (pick(0, 2) > 0) w.stride = {1, 1};
    if (pick(0, 2) > 0) w.padding = w.end_padding = {0, 0};
  }
  of.batch = pick(0, 3);
  of.height = pick(7, 13);
  of.width = pick(7, 13);
  of.input_type = pick(0, 2) == 0 ? ElementType::kBfloat16 : ElementType::kFloat32;
  of.bias = pick(0, 1) == 0;
  of.residual = pick(0, 1) == 0;
  of.threads = static_cast<int>(pick(1, 4));
  return of;
}

void draw_filters(std::mt19937& random, Int8Case& of) {
  std::uniform_int_distribution<int> codes(-127, 127);
  std::uniform_real_distribution<float> scales(0.001F, 0.02F);
  of.filters.resize(static_cast<std::size_t>(of.weights.out_channels * of.weights.in_channels * of.area()));
  for (std::int8_t& code : of.filters) code = static_cast<std::int8_t>(codes(random));
  of.scales.resize(static_cast<std::size_t>(of.weights.out_channels));
  for (float& scale : of.scales) scale = scales(random);
  of.weights.data = of.filters.data();
  of.weights.scale = of.scales.data();
}

// What the input's elements become, and the scale of each pixel.
struct QuantizedImages {
  std::vector<std::int64_t> steps;
  std::vector<float> scales;
};

QuantizedImages quantize(const Int8Case& of, const SampledMatrix& input) {
  const std::int64_t channels = of.weights.in_channels;
  const std::int64_t pixels = of.batch * of.height * of.width;
  const std::int64_t together = of.has_scale_per_place() ? 1 : of.height * of.width;
  QuantizedImages result;
  for (std::int64_t first = 0; first < pixels; first += together) {
    float greatest = 0;
    for (std::int64_t i = first * channels; i < (first + together) * channels; ++i) {
      greatest = std::max(greatest, std::abs(static_cast<float>(input.at(i))));
    }
    const float scale = greatest / 127.0F;
    const float inverse = 1.0F / scale;
    for (std::int64_t i = first * channels; i < (first + together) * channels; ++i) {
      result.steps.push_back(std::lrint(static_cast<float>(input.at(i)) * inverse));
    }
    result.scales.insert(result.scales.end(), static_cast<std::size_t>(together), scale);
  }
  return result;
}

double convolve_at(const Int8Case& of, const QuantizedImages& images, std::int64_t image, std::int64_t y,
                   std::int64_t x, std::int64_t out) {
  const ConvWeights& w = of.weights;
  std::int64_t sum = 0;
  for (std::int64_t ky = 0; ky < w.kernel[0]; ++ky) {
    for (std::int64_t kx = 0; kx < w.kernel[1]; ++kx) {
      const std::int64_t row = y * w.stride[0] - w.padding[0] + ky * w.dilation[0];
      const std::int64_t column = x * w.stride[1] - w.padding[1] + kx * w.dilation[1];
      if (row < 0 || row >= of.height || column < 0 || column >= of.width) continue;
      const std::int64_t pixel = (image * of.height + row) * of.width + column;
      for (std::int64_t c = 0; c < w.in_channels; ++c) {
        const std::int64_t at = ((out * w.in_channels + c) * w.kernel[0] + ky) * w.kernel[1] + kx;
        sum += images.steps[static_cast<std::size_t>(pixel * w.in_channels + c)] *
               std::int64_t{of.filters[static_cast<std::size_t>(at)]};
      }
    }
  }
  const std::int64_t place = of.has_scale_per_place() ? y * of.width + x : 0;
  const auto scale = images.scales[static_cast<std::size_t>(image * of.height * of.width + place)];
  return static_cast<double>(sum) * static_cast<double>(scale) *
         static_cast<double>(of.scales[static_cast<std::size_t>(out)]);
}

struct Outcome {
  std::vector<float> values;
  std::array<std::int64_t, 2> size = {};
};

Outcome run_case(const Int8Case& of, const void* input, const float* residual, const CpuFeatures& features) {
  const auto conv = PackedConv::pack(of.weights, features);
  EXPECT_TRUE(conv.ok()) << conv.status().message();
  Outcome outcome;
  outcome.size = conv->output_size(of.height, of.width).value();
  ConvCall call;
  call.batch = of.batch;
  call.height = of.height;
  call.width = of.width;
  call.input = input;
  call.input_type = of.input_type;
  call.residual = residual;
  outcome.values.resize(
      static_cast<std::size_t>(of.batch * outcome.size[0] * outcome.size[1] * of.weights.out_channels));
  call.output = outcome.values.data();
  std::vector<std::byte> workspace(conv->workspace_bytes(call, of.threads) + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
  conv->run(call, workspace.data() + (64 - address % 64) % 64,
            of.threads == 1 ? Parallel{} : threads_for_test(of.threads));
  return outcome;
}

void check_case(std::mt19937& random, Int8Case of, const CpuFeatures& features) {
  SCOPED_TRACE(describe(of));
  ConvWeights& w = of.weights;
  draw_filters(random, of);
  const SampledMatrix bias(random, static_cast<std::size_t>(w.out_channels), ElementType::kFloat32);
  if (of.bias) w.bias = bias.data();
  const SampledMatrix input(random, static_cast<std::size_t>(of.batch * of.height * of.width * w.in_channels),
                            of.input_type);
  const SampledMatrix residual(random, 200000, ElementType::kFloat32);
  const Outcome outcome = run_case(of, input.data(), of.residual ? residual.floats.data() : nullptr, features);
  ASSERT_LE(outcome.values.size(), residual.floats.size());
  const QuantizedImages images = quantize(of, input);
  for (std::size_t i = 0; i < outcome.values.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const std::int64_t out = index % w.out_channels;
    const std::int64_t place = index / w.out_channels;
    const std::int64_t area = outcome.size[0] * outcome.size[1];
    double expected =
        convolve_at(of, images, place / area, place % area / outcome.size[1], place % outcome.size[1], out);
    const double magnitude = std::abs(expected);
    if (of.bias) expected += bias.at(out);
    if (of.residual) expected += residual.at(index);
    ASSERT_NEAR(static_cast<double>(outcome.values[i]), expected, 2e-6 * (1 + magnitude + std::abs(expected)))
        << "element " << i;
  }
}

TEST(PackedConvInt8, EveryKernelAgreesWithSumsOfTheSameIntegers) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const CpuFeatures here = cpu_features();
  const std::vector<std::string> no_tiles = {"no-amx"};
  const std::vector<std::string> no_matrix = {"no-i8mm", "no-avx512"};
  for (const CpuFeatures& features : {here, here.without(no_tiles), here.without(no_matrix), CpuFeatures{}}) {
    SCOPED_TRACE(features.to_string());
    for (int i = 0; i < 40; ++i) check_case(random, draw_case(random), features);
  }
}

TEST(PackedConvInt8, ANanStaysInItsImage) {
  std::mt19937 random(5);  // NOLINT(bugprone-random-generator-seed)
  Int8Case of;
  of.weights.form = LinearForm::kInt8;
  of.weights.in_channels = 16;
  of.weights.out_channels = 8;
  of.weights.kernel = {3, 3};
  of.weights.padding = of.weights.end_padding = {1, 1};
  of.batch = 3;
  draw_filters(random, of);
  SampledMatrix input(random, std::size_t{3} * 25 * 16, ElementType::kFloat32);
  const Outcome clean = run_case(of, input.data(), nullptr, cpu_features());
  input.floats[25 * 16 + 7] = std::numeric_limits<float>::quiet_NaN();
  const Outcome outcome = run_case(of, input.data(), nullptr, cpu_features());
  for (std::size_t i = 0; i < outcome.values.size(); ++i) {
    if (i / (std::size_t{25} * 8) == 1) {
      EXPECT_TRUE(std::isnan(outcome.values[i])) << i;
    } else {
      EXPECT_EQ(outcome.values[i], clean.values[i]) << i;
    }
  }
}

TEST(PackedConvInt8, AnImageOfManyStretchesHasOneScale) {
  std::mt19937 random(6);  // NOLINT(bugprone-random-generator-seed)
  Int8Case of;
  of.weights.form = LinearForm::kInt8;
  of.weights.in_channels = 64;
  of.weights.out_channels = 3;
  of.weights.kernel = {3, 3};
  of.height = 40;
  of.width = 41;
  of.threads = 3;
  check_case(random, of, cpu_features());
}

TEST(PackedConvInt8, RefusesWhatItCannotDo) {
  const std::vector<std::int8_t> codes(1000, 1);
  const std::vector<float> scales(8, 1.0F);
  ConvWeights weights;
  weights.form = LinearForm::kInt8;
  weights.data = codes.data();
  weights.in_channels = 8;
  weights.out_channels = 8;
  const auto code = [&] { return PackedConv::pack(weights).status().code(); };
  EXPECT_EQ(code(), StatusCode::kInvalidArgument) << "no scales";
  weights.scale = scales.data();
  EXPECT_EQ(code(), StatusCode::kOk);
  weights.groups = 8;
  EXPECT_EQ(code(), StatusCode::kPrecisionCompilation);
}

}  // namespace
}  // namespace kpt::kernels
