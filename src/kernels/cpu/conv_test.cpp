#include "kernels/cpu/conv.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/linear_sampling.h"

namespace kpt::kernels {
namespace {

struct ConvCase {
  ConvWeights weights;
  std::int64_t batch = 1, height = 5, width = 5;
  ElementType input_type = ElementType::kFloat32;
  ElementType output_type = ElementType::kFloat32;
  bool bias = false;
  bool residual = false;
  bool planar = false;  // where the convolution takes that
  Activation activation = Activation::kNone;
  int threads = 1;
};

std::string describe(const ConvCase& of) {
  const ConvWeights& w = of.weights;
  std::string text = std::to_string(of.batch) + " x " + std::to_string(of.height) + " x " + std::to_string(of.width);
  text += ", channels " + std::to_string(w.in_channels) + " to " + std::to_string(w.out_channels);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    text += ", axis " + std::to_string(axis) + ": kernel " + std::to_string(w.kernel[axis]) + " stride " +
            std::to_string(w.stride[axis]) + " padding " + std::to_string(w.padding[axis]) + " and " +
            std::to_string(w.end_padding[axis]) + " dilation " + std::to_string(w.dilation[axis]);
  }
  return text + ", groups " + std::to_string(w.groups) + ", threads " + std::to_string(of.threads);
}

// One result in double: what the sum is, and the sum of magnitudes that its error is measured by.
struct Exact {
  double sum = 0;
  double magnitude = 0;
};

Exact convolve_at(const ConvCase& of, const SampledMatrix& filters, const SampledMatrix& input, std::int64_t image,
                  std::int64_t y, std::int64_t x, std::int64_t out) {
  const ConvWeights& w = of.weights;
  const std::int64_t channels = w.in_channels / w.groups;
  const bool round = w.form == LinearForm::kBfloat16 && w.groups == 1 && (w.in_channels > 1 || w.out_channels > 1);
  const auto rounded = [&](double value) {
    return round ? static_cast<double>(sample_from_bfloat16(sample_to_bfloat16(static_cast<float>(value)))) : value;
  };
  Exact exact;
  for (std::int64_t ky = 0; ky < w.kernel[0]; ++ky) {
    for (std::int64_t kx = 0; kx < w.kernel[1]; ++kx) {
      const std::int64_t row = y * w.stride[0] - w.padding[0] + ky * w.dilation[0];
      const std::int64_t column = x * w.stride[1] - w.padding[1] + kx * w.dilation[1];
      if (row < 0 || row >= of.height || column < 0 || column >= of.width) continue;
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t channel = w.groups == 1 ? c : out;
        const double a = input.at(((image * of.height + row) * of.width + column) * w.in_channels + channel);
        const double f = filters.at(((out * channels + c) * w.kernel[0] + ky) * w.kernel[1] + kx);
        exact.sum += rounded(a) * rounded(f);
        exact.magnitude += std::abs(rounded(a) * rounded(f));
      }
    }
  }
  return exact;
}

void check_case(std::mt19937& random, ConvCase of, const CpuFeatures& features = cpu_features()) {
  SCOPED_TRACE(describe(of) + ", instructions " + features.to_string());
  ConvWeights& w = of.weights;
  const std::int64_t depth = w.in_channels / w.groups * w.kernel[0] * w.kernel[1];
  const SampledMatrix filters(random, static_cast<std::size_t>(w.out_channels * depth), w.type);
  const SampledMatrix bias(random, static_cast<std::size_t>(w.out_channels), w.bias_type);
  w.data = filters.data();
  w.bias = of.bias ? bias.data() : nullptr;
  const auto conv = PackedConv::pack(w, features);
  ASSERT_TRUE(conv.ok()) << conv.status().message();
  const auto size = conv->output_size(of.height, of.width);
  ASSERT_TRUE(size.ok()) << size.status().message();
  const std::int64_t count = of.batch * (*size)[0] * (*size)[1] * w.out_channels;
  const SampledMatrix input(random, static_cast<std::size_t>(of.batch * of.height * of.width * w.in_channels),
                            of.input_type);
  const SampledMatrix residual(random, static_cast<std::size_t>(count), of.output_type);
  std::vector<float> floats(static_cast<std::size_t>(count) + 32, -7.0F);
  std::vector<std::uint16_t> halves(static_cast<std::size_t>(count) + 32, 0x7777);
  ConvCall call;
  call.batch = of.batch;
  call.height = of.height;
  call.width = of.width;
  call.input = input.data();
  call.input_type = of.input_type;
  call.residual = of.residual ? residual.data() : nullptr;
  call.residual_type = of.output_type;
  call.output = of.output_type == ElementType::kFloat32 ? static_cast<void*>(floats.data()) : halves.data();
  call.output_type = of.output_type;
  call.activation = of.activation;
  std::vector<float> planes;
  if (of.planar && conv->takes_planar_input(call)) {
    call.input_is_planar = true;
    const std::int64_t area = of.height * of.width;
    for (std::int64_t i = 0; i < of.batch * area * w.in_channels; ++i) {
      const std::int64_t place = i % area;
      const std::int64_t plane = i / area;
      planes.push_back(
          static_cast<float>(input.at((plane / w.in_channels * area + place) * w.in_channels + plane % w.in_channels)));
    }
    call.input = planes.data();
  }
  std::vector<std::byte> workspace(conv->workspace_bytes(call, of.threads) + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
  conv->run(call, workspace.data() + (64 - address % 64) % 64,
            of.threads == 1 ? Parallel{} : threads_for_test(of.threads));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t place = i / w.out_channels;
    Exact exact = convolve_at(of, filters, input, place / ((*size)[0] * (*size)[1]), place / (*size)[1] % (*size)[0],
                              place % (*size)[1], i % w.out_channels);
    if (of.bias) exact.sum += bias.at(i % w.out_channels);
    if (of.residual) exact.sum += residual.at(i);
    const double expected = apply_exactly(of.activation, exact.sum);
    double bound = 1.2 * float_sum_error(depth) * exact.magnitude + 1e-6 * (1 + std::abs(exact.sum));
    if (of.output_type == ElementType::kBfloat16) bound += 0x1p-8 * std::abs(expected);
    const float value = of.output_type == ElementType::kFloat32
                            ? floats[static_cast<std::size_t>(i)]
                            : sample_from_bfloat16(halves[static_cast<std::size_t>(i)]);
    ASSERT_NEAR(static_cast<double>(value), expected, bound) << "element " << i;
  }
  for (std::size_t i = static_cast<std::size_t>(count); i < floats.size(); ++i) {
    EXPECT_EQ(floats[i], -7.0F) << "written beyond the output";
    EXPECT_EQ(halves[i], 0x7777) << "written beyond the output";
  }
}

// The instruction sets that this processor has kernels for.
std::vector<CpuFeatures> instruction_sets() {
  const std::vector<std::string> no_avx512 = {"no-avx512"};
  const std::vector<std::string> no_amx = {"no-amx"};
  return {cpu_features(), cpu_features().without(no_amx), cpu_features().without(no_avx512), CpuFeatures{}};
}

ConvCase draw_case(std::mt19937& random, bool depthwise) {
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  ConvCase of;
  ConvWeights& w = of.weights;
  w.in_channels = depthwise && pick(0, 1) == 0 ? pick(16, 70) : pick(1, 20);  // also more than one vector
  w.out_channels = depthwise ? w.in_channels : pick(1, 30);
  w.groups = depthwise ? w.in_channels : 1;
  w.form = pick(0, 1) == 0 ? LinearForm::kFloat32 : LinearForm::kBfloat16;
  w.type = pick(0, 1) == 0 ? ElementType::kFloat32 : ElementType::kBfloat16;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    w.kernel[axis] = depthwise && pick(0, 7) == 0 ? pick(8, 9) : pick(1, 4);  // also more than 64 taps
    w.stride[axis] = pick(1, 3);
    w.padding[axis] = pick(0, 3);
    w.end_padding[axis] = pick(0, 3);
    w.dilation[axis] = w.kernel[axis] > 4 ? 1 : pick(1, 2);
  }
  if (pick(0, 3) == 0) {
    w.kernel = {1, 1};
    if (pick(0, 1) == 0) w.stride = {1, 1};
    if (pick(0, 1) == 0) w.padding = w.end_padding = {0, 0};
  }
  of.batch = pick(0, 2);
  of.height = pick(9, 13);
  of.width = pick(9, depthwise ? 24 : 13);
  of.input_type = pick(0, 2) == 0 ? ElementType::kBfloat16 : ElementType::kFloat32;
  of.output_type = pick(0, 2) == 0 ? ElementType::kBfloat16 : ElementType::kFloat32;
  of.bias = pick(0, 1) == 0;
  of.residual = pick(0, 1) == 0;
  of.activation = static_cast<Activation>(pick(0, kActivationCount - 1));
  of.threads = static_cast<int>(pick(1, 4));
  return of;
}

TEST(PackedConv, RandomConvolutionsAgreeWithFp64) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (const CpuFeatures& features : instruction_sets()) {
    for (int i = 0; i < 40; ++i) check_case(random, draw_case(random, false), features);
  }
}

TEST(PackedConv, RandomDepthwiseConvolutionsAgreeWithFp64) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (const CpuFeatures& features : instruction_sets()) {
    for (int i = 0; i < 40; ++i) check_case(random, draw_case(random, true), features);
  }
}

TEST(PackedConv, FirstLayerOfAnImageNetwork) {
  std::mt19937 random(11);  // NOLINT(bugprone-random-generator-seed)
  ConvCase of;
  of.weights.in_channels = 3;
  of.weights.out_channels = 16;
  of.weights.kernel = {7, 7};
  of.weights.stride = {2, 2};
  of.weights.padding = {3, 3};
  of.height = 31;
  of.width = 29;
  of.bias = true;
  of.activation = Activation::kRelu;
  of.threads = 2;
  check_case(random, of);
}

// One to four channels: their own kernel in float32, the product in other types and with a residual.
TEST(PackedConv, FewInputChannelsAgreeWithFp64) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (const CpuFeatures& features : instruction_sets()) {
    for (int i = 0; i < 40; ++i) {
      ConvCase of = draw_case(random, false);
      of.weights.in_channels = pick(1, 4);
      of.weights.out_channels = 16 * pick(1, 6);
      of.weights.form = LinearForm::kFloat32;
      of.weights.kernel = {pick(1, 7), pick(2, 7)};
      for (std::size_t axis = 0; axis < 2; ++axis) {
        of.weights.dilation[axis] = of.weights.kernel[axis] > 4 ? 1 : pick(1, 2);
      }
      of.weights.padding[1] = pick(0, 12);  // a place may see nothing but zeros
      of.height = pick(13, 34);
      of.width = pick(13, 40);
      of.planar = pick(0, 1) == 0;
      if (pick(0, 3) != 0) {
        of.input_type = of.output_type = ElementType::kFloat32;
        of.residual = false;
      }
      check_case(random, of, features);
    }
  }
}

TEST(PackedConv, FewInputChannelsHaveAKernelOfTheirOwn) {
  ConvWeights weights;
  const std::vector<float> filters(std::size_t{32} * 3 * 9);
  weights.data = filters.data();
  weights.out_channels = 32;
  weights.in_channels = 3;
  weights.kernel = {3, 3};
  const auto conv = PackedConv::pack(weights);
  ASSERT_TRUE(conv.ok()) << conv.status().message();
  EXPECT_EQ(conv->kernel_name().starts_with("few channels"), cpu_features().avx2);
  ConvCall call;
  call.height = call.width = 10;
  EXPECT_EQ(conv->takes_planar_input(call), cpu_features().avx2);
  call.height = 9;
  EXPECT_FALSE(conv->takes_planar_input(call)) << "fewer rows than threads may share";
  call.height = 10;
  call.width = std::int64_t{1} << 20;
  EXPECT_FALSE(conv->takes_planar_input(call)) << "lines that leave the cache";
  call.width = 10;
  call.input_type = ElementType::kBfloat16;
  EXPECT_FALSE(conv->takes_planar_input(call));
}

TEST(PackedConv, FewInputChannelsKeepANaN) {
  ConvWeights weights;
  const std::vector<float> filters(std::size_t{16} * 3 * 9, 1.0F);
  weights.data = filters.data();
  weights.out_channels = 16;
  weights.in_channels = 3;
  weights.kernel = {3, 3};
  const auto conv = PackedConv::pack(weights);
  ASSERT_TRUE(conv.ok()) << conv.status().message();
  std::vector<float> image(std::size_t{10} * 10 * 3, 2.0F);
  image[std::size_t{5} * 10 * 3 + std::size_t{5} * 3] = std::nanf("");
  std::vector<float> result(std::size_t{8} * 8 * 16);
  ConvCall call;
  call.batch = 1;
  call.height = call.width = 10;
  call.input = image.data();
  call.output = result.data();
  call.activation = Activation::kRelu6;
  std::vector<std::byte> workspace(conv->workspace_bytes(call, 1) + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
  conv->run(call, workspace.data() + (64 - address % 64) % 64, Parallel{});
  for (std::int64_t place = 0; place < 64; ++place) {
    const bool sees_it = place / 8 >= 3 && place / 8 <= 5 && place % 8 >= 3 && place % 8 <= 5;
    const float value = result[static_cast<std::size_t>(place) * 16];
    EXPECT_EQ(std::isnan(value), sees_it) << "place " << place;
    if (!sees_it) {
      EXPECT_EQ(value, 6.0F) << "place " << place;
    }
  }
}

TEST(PackedConv, WinogradsTilesAgreeWithFp64) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int i = 0; i < 24; ++i) {
    ConvCase of = draw_case(random, false);
    ConvWeights& w = of.weights;
    w.form = LinearForm::kFloat32;
    w.in_channels = 16 * pick(2, 4);
    w.out_channels = 16 * pick(1, 5);
    w.kernel = {3, 3};
    w.stride = w.dilation = {1, 1};
    of.height = pick(11, 18);
    of.width = pick(11, 18);
    w.expected = {of.height, of.width};
    if (pick(0, 3) == 0) w.expected = {16, 16};  // other sizes may come all the same
    check_case(random, of);
  }
}

TEST(PackedConv, WinogradsTilesAreForLargeImagesInFloat32) {
  const std::vector<float> values(std::size_t{32} * 32 * 9, 1.0F);
  ConvWeights weights;
  weights.data = values.data();
  weights.in_channels = weights.out_channels = 32;
  weights.kernel = {3, 3};
  weights.padding = weights.end_padding = {1, 1};
  weights.expected = {14, 14};
  const auto is_winograd = [&] { return PackedConv::pack(weights)->is_winograd(); };
  EXPECT_EQ(is_winograd(), cpu_features().avx512);
  const std::vector<std::string> no_avx512 = {"no-avx512"};
  EXPECT_FALSE(PackedConv::pack(weights, cpu_features().without(no_avx512))->is_winograd());
  weights.expected = {7, 7};
  EXPECT_FALSE(is_winograd()) << "few tiles, and many of their results outside the image";
  weights.expected = {0, 0};
  EXPECT_FALSE(is_winograd()) << "no known size";
  weights.expected = {14, 14};
  weights.form = LinearForm::kBfloat16;
  EXPECT_FALSE(is_winograd());
  weights.form = LinearForm::kFloat32;
  weights.stride = {2, 2};
  EXPECT_FALSE(is_winograd());
}

// Pixels that are taken where they lie: channels in whole units, more than one stretch of sums, strides, tiles that end
// in the middle of a line or an image.
TEST(PackedConv, PatchesInPiecesAgreeWithFp64) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (const CpuFeatures& features : instruction_sets()) {
    for (int i = 0; i < 16; ++i) {
      ConvCase of = draw_case(random, false);
      of.weights.in_channels = 8 * pick(1, 12);
      of.weights.out_channels = pick(1, 90);
      check_case(random, of, features);
    }
  }
}

TEST(PackedConv, RefusesWhatItCannotDo) {
  const std::vector<float> values(1000, 1.0F);
  ConvWeights weights;
  weights.data = values.data();
  weights.in_channels = 4;
  weights.out_channels = 8;
  weights.kernel = {3, 3};
  const auto code = [&] { return PackedConv::pack(weights).status().code(); };
  EXPECT_EQ(code(), StatusCode::kOk);
  weights.groups = 2;
  EXPECT_EQ(code(), StatusCode::kUnsupported);
  weights.groups = 1;
  weights.form = LinearForm::kInt4;
  EXPECT_EQ(code(), StatusCode::kPrecisionCompilation);
  weights.form = LinearForm::kFloat32;
  weights.stride = {1, 0};
  EXPECT_EQ(code(), StatusCode::kInvalidArgument);
  weights.stride = {1, 1};
  weights.kernel = {std::int64_t{1} << 30, std::int64_t{1} << 30};
  EXPECT_EQ(code(), StatusCode::kOutOfMemory);
  weights.kernel = {3, 3};
  weights.dilation = {2, 2};
  const auto conv = PackedConv::pack(weights);
  ASSERT_TRUE(conv.ok());
  EXPECT_FALSE(conv->output_size(4, 9).ok()) << "the filter reaches over 5";
  EXPECT_TRUE(conv->output_size(5, 9).ok());
}

}  // namespace
}  // namespace kpt::kernels
