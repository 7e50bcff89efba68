#include "kernels/cpu/packed_linear.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/linear_sampling.h"

namespace kpt::kernels {
namespace {

constexpr LinearForm kForms[] = {LinearForm::kFloat32, LinearForm::kBfloat16, LinearForm::kInt8,
                                 LinearForm::kWeightInt8, LinearForm::kInt4};

std::vector<std::string> usable_kernels(LinearForm form) {
  std::vector<std::string> names;
  for (const KernelCandidate& candidate : list_kernels(form, cpu_features())) {
    if (candidate.why_not.empty()) names.emplace_back(candidate.kernel.name);
  }
  return names;
}

struct Case {
  LinearForm form = LinearForm::kFloat32;
  std::string kernel;
  std::int64_t m = 0, n = 0, k = 0;
  ElementType weight_type = ElementType::kFloat32;
  ElementType input_type = ElementType::kFloat32;
  ElementType output_type = ElementType::kFloat32;
  bool bias = false;
  bool residual = false;
  bool in_place = false;
  Activation activation = Activation::kNone;
  int threads = 1;
};

constexpr float kGuard = -12345.0F;

// A product with guard zones before, after and between the rows of its output.
struct Outcome {
  std::vector<float> floats;
  std::vector<std::uint16_t> halves;
  std::int64_t stride = 0;
  static constexpr std::int64_t kMargin = 40;

  float at(ElementType type, std::int64_t row, std::int64_t column) const {
    const auto index = static_cast<std::size_t>(kMargin + row * stride + column);
    return type == ElementType::kFloat32 ? floats[index] : sample_from_bfloat16(halves[index]);
  }
};

Outcome run_case(const Case& of, const SampledWeights& weights, const SampledMatrix& input, std::int64_t input_stride,
                 const SampledMatrix& residual, std::int64_t residual_stride) {
  Outcome outcome;
  outcome.stride = of.in_place ? residual_stride : of.n + 5;
  const auto size = static_cast<std::size_t>(of.m * outcome.stride + 2 * Outcome::kMargin);
  const std::uint16_t guard = sample_to_bfloat16(kGuard);
  outcome.floats.assign(size, kGuard);
  outcome.halves.assign(size, guard);
  if (of.in_place) {
    std::copy(residual.floats.begin(), residual.floats.end(), outcome.floats.begin() + Outcome::kMargin);
  }
  auto packed = PackedLinear::pack(weights.weights, cpu_features(), of.kernel);
  EXPECT_TRUE(packed.ok()) << packed.status().message();
  LinearCall call;
  call.rows = of.m;
  call.input = input.data();
  call.input_stride = input_stride;
  call.input_type = of.input_type;
  call.output = of.output_type == ElementType::kFloat32 ? static_cast<void*>(outcome.floats.data() + Outcome::kMargin)
                                                        : outcome.halves.data() + Outcome::kMargin;
  call.output_stride = outcome.stride;
  call.output_type = of.output_type;
  if (of.residual) {
    call.residual = of.in_place ? call.output : residual.data();
    call.residual_stride = residual_stride;
    call.residual_type = residual.type;
  }
  call.activation = of.activation;
  const Parallel parallel = of.threads == 1 ? Parallel{} : threads_for_test(of.threads);
  // Aligned by hand, so that a sanitizer sees the end of what was promised.
  std::vector<std::byte> workspace(packed->workspace_bytes(of.m, of.threads) + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
  packed->run(call, workspace.data() + (64 - address % 64) % 64, parallel);
  if (of.in_place) return outcome;
  for (std::size_t i = 0; i < size; ++i) {
    const std::int64_t place = static_cast<std::int64_t>(i) - Outcome::kMargin;
    const bool inside = place >= 0 && place < of.m * outcome.stride && place % outcome.stride < of.n;
    if (inside) continue;
    EXPECT_EQ(outcome.floats[i], kGuard) << "written beyond the output at " << place;
    EXPECT_EQ(outcome.halves[i], guard) << "written beyond the output at " << place;
  }
  return outcome;
}

// How far the result may be from fp64, and the fp64 result.
struct Expected {
  double value = 0;
  double bound = 0;
};

Expected expect_at(const Case& of, const SampledWeights& weights, const SampledMatrix& input, std::int64_t input_stride,
                   const SampledMatrix& residual, std::int64_t residual_stride, std::int64_t row, std::int64_t column) {
  double sum = 0;
  double magnitude = 0;
  double greatest_input = 0;
  double weight_sum = 0;
  for (std::int64_t i = 0; i < of.k; ++i) {
    double a = input.at(row * input_stride + i);
    if (of.form == LinearForm::kBfloat16) {
      a = static_cast<double>(sample_from_bfloat16(sample_to_bfloat16(static_cast<float>(a))));
    }
    const double w = weights.values[static_cast<std::size_t>(column * of.k + i)];
    sum += a * w;
    magnitude += std::abs(a * w);
    greatest_input = std::max(greatest_input, std::abs(a));
    weight_sum += std::abs(w);
  }
  double bound = float_sum_error(of.k) * magnitude;
  // A quantized input is off by at most half a step.
  if (of.form == LinearForm::kInt8) bound = greatest_input / 127 * 0.5001 * weight_sum + 1e-5 * magnitude;
  // What is added rounds by its own size, also where it cancels the sum.
  const double bias = of.bias ? weights.bias.at(column) : 0;
  const double added = of.residual ? residual.at(row * residual_stride + column) : 0;
  sum += bias + added;
  bound += 4 * 0x1p-24 * (magnitude + std::abs(bias) + std::abs(added));
  Expected expected;
  expected.value = apply_exactly(of.activation, sum);
  // No activation is steeper than 1.5 (hardswish just below 3).
  expected.bound = 1.55 * bound + 3e-6 * std::abs(expected.value) + 1e-6 * bound + 1e-30;
  if (of.activation != Activation::kNone) expected.bound += 2e-7 * (1 + std::abs(sum));
  if (of.output_type == ElementType::kBfloat16) {
    expected.bound += 0x1p-8 * (std::abs(expected.value) + expected.bound);
  }
  return expected;
}

void check_case(std::mt19937& random, const Case& of) {
  SCOPED_TRACE(of.kernel + ", " + std::to_string(of.m) + " x " + std::to_string(of.n) + " x " + std::to_string(of.k) +
               ", activation " + std::to_string(static_cast<int>(of.activation)) + ", threads " +
               std::to_string(of.threads));
  const SampledWeights weights(random, of.form, of.n, of.k, of.weight_type, of.bias);
  const std::int64_t input_stride = of.k + 2;
  const std::int64_t residual_stride = of.n + 1;
  const SampledMatrix input(random, static_cast<std::size_t>(of.m * input_stride), of.input_type);
  const ElementType residual_type = of.in_place ? ElementType::kFloat32 : of.output_type;
  const SampledMatrix residual(random, static_cast<std::size_t>(of.m * residual_stride), residual_type);
  const Outcome outcome = run_case(of, weights, input, input_stride, residual, residual_stride);
  int wrong = 0;
  for (std::int64_t row = 0; row < of.m; ++row) {
    for (std::int64_t column = 0; column < of.n; ++column) {
      const Expected expected = expect_at(of, weights, input, input_stride, residual, residual_stride, row, column);
      const auto value = static_cast<double>(outcome.at(of.output_type, row, column));
      if (std::abs(value - expected.value) <= expected.bound) continue;
      if (++wrong <= 3) {
        ADD_FAILURE() << "at " << row << ", " << column << ": " << value << " instead of " << expected.value << " ± "
                      << expected.bound;
      }
    }
  }
  EXPECT_EQ(wrong, 0);
}

class LinearForms : public ::testing::TestWithParam<LinearForm> {};

Case draw_case(std::mt19937& random, LinearForm form, const std::string& kernel) {
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  Case of;
  of.form = form;
  of.kernel = kernel;
  of.m = pick(0, 3) == 0 ? pick(0, 9) : pick(0, 70);
  of.n = pick(0, 3) == 0 ? pick(0, 9) : pick(0, 120);
  of.k = pick(0, 3) == 0 ? pick(0, 17) : pick(0, 300);
  if (form == LinearForm::kInt4) of.k = of.k / 2 * 2;
  if (form == LinearForm::kFloat32 || form == LinearForm::kBfloat16) {
    of.weight_type = pick(0, 1) == 0 ? ElementType::kFloat32 : ElementType::kBfloat16;
  }
  of.input_type = pick(0, 2) == 0 ? ElementType::kBfloat16 : ElementType::kFloat32;
  of.output_type = pick(0, 2) == 0 ? ElementType::kBfloat16 : ElementType::kFloat32;
  of.bias = pick(0, 1) == 0;
  of.residual = pick(0, 1) == 0;
  of.in_place = of.residual && of.output_type == ElementType::kFloat32 && pick(0, 2) == 0;
  of.activation = static_cast<Activation>(pick(0, kActivationCount - 1));
  of.threads = static_cast<int>(pick(0, 2) == 0 ? pick(2, 5) : 1);
  return of;
}

TEST_P(LinearForms, EveryKernelOfThisMachineAgreesWithFp64OnRandomShapes) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (const std::string& kernel : usable_kernels(GetParam())) {
    for (int i = 0; i < 60; ++i) check_case(random, draw_case(random, GetParam(), kernel));
  }
}

// Every height of a tile, columns around its width, and sums around its units.
TEST_P(LinearForms, EdgesOfTilesAndUnits) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (const std::string& kernel : usable_kernels(GetParam())) {
    std::int64_t i = 0;
    for (const std::int64_t k : {0, 1, 31, 32, 33, 63, 64, 65, 100, 128, 513}) {
      for (std::int64_t m = 1 + k % 3; m <= 40; m += 3, ++i) {
        Case of = draw_case(random, GetParam(), kernel);
        of.m = m;
        of.n = i * 7 % 70 + 1;
        of.k = GetParam() == LinearForm::kInt4 ? k / 2 * 2 : k;
        check_case(random, of);
      }
    }
  }
}

// Rows that do not fill a panel are multiplied beside memory that nobody wrote: nothing of it may show.
TEST_P(LinearForms, WhatTheWorkspaceHeldBeforeDoesNotMatter) {
  std::mt19937 random(9);  // NOLINT(bugprone-random-generator-seed)
  for (const std::string& kernel : usable_kernels(GetParam())) {
    for (const std::int64_t m : {1, 3, 17, 33, 70}) {
      const SampledWeights weights(random, GetParam(), 45, 130, ElementType::kFloat32, true);
      const SampledMatrix input(random, static_cast<std::size_t>(m * 130), ElementType::kFloat32);
      const auto packed = PackedLinear::pack(weights.weights, cpu_features(), kernel);
      ASSERT_TRUE(packed.ok()) << packed.status().message();
      std::vector<std::vector<float>> results;
      for (const int fill : {0x00, 0xFF, 0x7F}) {  // zeros, NaN, great numbers
        results.emplace_back(static_cast<std::size_t>(m * 45));
        std::vector<std::byte> workspace(packed->workspace_bytes(m, 1) + 64, static_cast<std::byte>(fill));
        const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
        LinearCall call;
        call.rows = m;
        call.input = input.data();
        call.input_stride = 130;
        call.output = results.back().data();
        call.output_stride = 45;
        packed->run(call, workspace.data() + (64 - address % 64) % 64, Parallel{});
      }
      EXPECT_EQ(results[0], results[1]) << kernel << ", " << m << " rows";
      EXPECT_EQ(results[0], results[2]) << kernel << ", " << m << " rows";
    }
  }
}

TEST_P(LinearForms, LongSumsAreTakenInStretches) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (const std::string& kernel : usable_kernels(GetParam())) {
    for (const std::int64_t k : {512, 514, 1026, 5000}) {
      Case of;
      of.form = GetParam();
      of.kernel = kernel;
      of.m = 19;
      of.n = 29;
      of.k = k;
      of.bias = true;
      check_case(random, of);
    }
  }
}

// More columns than a stretch of rows meets at once, and rows for several blocks.
TEST_P(LinearForms, ManyColumnsAreTakenInGroups) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (const std::string& kernel : usable_kernels(GetParam())) {
    for (const int threads : {1, 3}) {
      Case of = draw_case(random, GetParam(), kernel);
      of.m = 61;
      of.n = 600;
      of.k = 520;
      of.threads = threads;
      check_case(random, of);
    }
  }
}

TEST_P(LinearForms, EmptyExtentsGiveTheBiasOrNothing) {
  std::mt19937 random(1);  // NOLINT(bugprone-random-generator-seed)
  for (const std::string& kernel : usable_kernels(GetParam())) {
    for (const auto& [m, n, k] : {std::tuple<int, int, int>{0, 7, 8}, {7, 0, 8}, {7, 9, 0}, {1, 1, 2}, {0, 0, 0}}) {
      Case of;
      of.form = GetParam();
      of.kernel = kernel;
      of.m = m;
      of.n = n;
      of.k = k;
      of.bias = true;
      of.threads = 3;
      check_case(random, of);
    }
  }
}

TEST_P(LinearForms, ManyThreadsGiveTheSameBitsAsOne) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (const std::int64_t m : {1, 8, 13, 64}) {
    Case of;
    of.form = GetParam();
    of.m = m;
    of.n = 151;
    of.k = 96;
    of.activation = Activation::kGelu;
    const SampledWeights weights(random, of.form, of.n, of.k, of.weight_type, true);
    const SampledMatrix input(random, static_cast<std::size_t>(of.m * of.k), of.input_type);
    const Outcome one = run_case(of, weights, input, of.k, {}, 0);
    of.threads = 4;
    const Outcome four = run_case(of, weights, input, of.k, {}, 0);
    EXPECT_EQ(one.floats, four.floats) << m << " rows";
  }
}

// A broken value must show in every result of its row and in no other row.
TEST_P(LinearForms, NanAndInfinityReachTheirRowAndNoOther) {
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed)
  for (const std::string& kernel : usable_kernels(GetParam())) {
    for (const float broken : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      for (const std::int64_t bad_row : {0, 3, 9}) {
        Case of;
        of.form = GetParam();
        of.kernel = kernel;
        of.m = 10;
        of.n = 13;
        of.k = 34;
        const SampledWeights weights(random, of.form, of.n, of.k, of.weight_type, false);
        SampledMatrix input(random, static_cast<std::size_t>(of.m * of.k), ElementType::kFloat32);
        input.floats[static_cast<std::size_t>(bad_row * of.k + 33)] = broken;
        const Outcome outcome = run_case(of, weights, input, of.k, {}, 0);
        for (std::int64_t row = 0; row < of.m; ++row) {
          for (std::int64_t column = 0; column < of.n; ++column) {
            const bool zero_weight = weights.values[static_cast<std::size_t>(column * of.k + 33)] == 0;
            if (row == bad_row && zero_weight && GetParam() != LinearForm::kInt8) continue;
            EXPECT_EQ(std::isfinite(outcome.at(of.output_type, row, column)), row != bad_row)
                << kernel << " at " << row << ", " << column;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LinearForms, ::testing::ValuesIn(kForms),
                         [](const auto& suite) { return std::string(to_string(suite.param)); });

TEST(PackedLinear, Int8KernelsAgreeToTheLastPlaces) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  Case of;
  of.form = LinearForm::kInt8;
  of.m = 33;
  of.n = 50;
  of.k = 1003;
  const SampledWeights weights(random, of.form, of.n, of.k, of.weight_type, true);
  const SampledMatrix input(random, static_cast<std::size_t>(of.m * of.k), of.input_type);
  const std::vector<std::string> kernels = usable_kernels(of.form);
  of.kernel = kernels.back();
  const Outcome portable = run_case(of, weights, input, of.k, {}, 0);
  for (const std::string& kernel : kernels) {
    of.kernel = kernel;
    const Outcome outcome = run_case(of, weights, input, of.k, {}, 0);
    for (std::size_t i = 0; i < outcome.floats.size(); ++i) {
      EXPECT_NEAR(outcome.floats[i], portable.floats[i], 1e-6F * (1 + std::abs(portable.floats[i]))) << kernel;
    }
  }
}

TEST(PackedLinear, ZeroRowsOfAnInt8ProductGiveTheBias) {
  std::mt19937 random(3);  // NOLINT(bugprone-random-generator-seed)
  for (const std::string& kernel : usable_kernels(LinearForm::kInt8)) {
    Case of;
    of.form = LinearForm::kInt8;
    of.kernel = kernel;
    of.m = 3;
    of.n = 20;
    of.k = 40;
    const SampledWeights weights(random, of.form, of.n, of.k, of.weight_type, true);
    SampledMatrix input(random, static_cast<std::size_t>(of.m * of.k), of.input_type);
    std::fill_n(input.floats.begin() + of.k, of.k, 0.0F);
    for (std::int64_t i = 0; i < of.k; ++i) input.floats[static_cast<std::size_t>(2 * of.k + i)] *= 1e-44F;  // denormal
    const Outcome outcome = run_case(of, weights, input, of.k, {}, 0);
    for (std::int64_t column = 0; column < of.n; ++column) {
      EXPECT_EQ(outcome.at(of.output_type, 1, column), weights.bias.floats[static_cast<std::size_t>(column)]) << kernel;
      EXPECT_EQ(outcome.at(of.output_type, 2, column), weights.bias.floats[static_cast<std::size_t>(column)]) << kernel;
    }
  }
}

TEST(PackedLinear, RefusesWeightsThatContradictThemselves) {
  const std::vector<float> values(64, 1.0F);
  LinearWeights weights;
  weights.data = values.data();
  weights.rows = 4;
  weights.columns = 8;
  weights.row_stride = 8;
  EXPECT_TRUE(PackedLinear::pack(weights).ok());
  weights.row_stride = 7;
  EXPECT_EQ(PackedLinear::pack(weights).status().code(), StatusCode::kInvalidArgument);
  weights.row_stride = 8;
  weights.rows = -1;
  EXPECT_EQ(PackedLinear::pack(weights).status().code(), StatusCode::kInvalidArgument);
  weights.rows = 4;
  weights.data = nullptr;
  EXPECT_EQ(PackedLinear::pack(weights).status().code(), StatusCode::kInvalidArgument);
  weights.data = values.data();
  weights.form = LinearForm::kInt8;
  EXPECT_EQ(PackedLinear::pack(weights).status().code(), StatusCode::kInvalidArgument) << "no scales";
  weights.form = LinearForm::kWeightInt8;
  EXPECT_EQ(PackedLinear::pack(weights).status().code(), StatusCode::kInvalidArgument) << "no scales";
  weights.scale = values.data();
  EXPECT_TRUE(PackedLinear::pack(weights).ok());
  weights.form = LinearForm::kInt8;
  EXPECT_TRUE(PackedLinear::pack(weights).ok());
  weights.form = LinearForm::kInt4;
  weights.group = 3;
  EXPECT_EQ(PackedLinear::pack(weights).status().code(), StatusCode::kPrecisionCompilation) << "3 does not divide 8";
  weights.columns = 7;
  weights.group = 7;
  EXPECT_EQ(PackedLinear::pack(weights).status().code(), StatusCode::kPrecisionCompilation) << "two share a byte";
}

TEST(PackedLinear, SumsOfInt8ProductsThatLeave32BitsAreRefused) {
  constexpr std::int64_t kMost = 131072;
  const std::vector<std::int8_t> codes(kMost + 1, 1);
  const float scale = 1;
  LinearWeights weights;
  weights.form = LinearForm::kInt8;
  weights.data = codes.data();
  weights.scale = &scale;
  weights.rows = 1;
  weights.columns = weights.row_stride = kMost;
  EXPECT_TRUE(PackedLinear::pack(weights).ok());
  weights.columns = weights.row_stride = kMost + 1;
  const Status status = PackedLinear::pack(weights).status();
  EXPECT_EQ(status.code(), StatusCode::kPrecisionCompilation);
  EXPECT_EQ(status.message(), "int8 weights of 131073 columns: sums fit into 32 bits only up to 131072");
}

TEST(PackedLinear, RefusesKernelsThatCannotRunOrDoNotExist) {
  const std::vector<float> values(64, 1.0F);
  LinearWeights weights;
  weights.data = values.data();
  weights.rows = 4;
  weights.columns = 8;
  weights.row_stride = 8;
  EXPECT_EQ(PackedLinear::pack(weights, cpu_features(), "float32 abacus").status().code(), StatusCode::kNotFound);
  const auto candidates = list_kernels(LinearForm::kFloat32, CpuFeatures{});
  if (candidates.size() > 1) {
    const auto refused = PackedLinear::pack(weights, CpuFeatures{}, candidates.front().kernel.name);
    EXPECT_EQ(refused.status().code(), StatusCode::kUnsupported);
  }
  const auto portable = PackedLinear::pack(weights, CpuFeatures{});
  ASSERT_TRUE(portable.ok());
  EXPECT_EQ(portable->kernel_name(), candidates.back().kernel.name);
}

}  // namespace
}  // namespace kpt::kernels
