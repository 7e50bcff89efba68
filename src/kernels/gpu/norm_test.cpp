#include "kernels/gpu/norm.h"

#include <cmath>

#include "kernels/gpu/gpu_testing.h"

namespace kpt::gpu::testing {
namespace {

class Norm : public KernelTest {
 protected:
  NormLayout draw_layout(const NormCall& call);
  void check_random_case(std::int64_t width, std::int64_t rows);
};

struct Wanted {
  double mean = 0, scale = 0;
  std::vector<double> sum, normed;
};

Wanted reference(const NormCall& call, const std::vector<double>& sum, const Buffer* weight, const Buffer* bias) {
  Wanted wanted;
  wanted.sum = sum;
  const auto width = static_cast<double>(sum.size());
  if (call.kind == NormKind::kLayer) {
    for (const double x : sum) wanted.mean += x / width;
  }
  double squares = 0;
  for (const double x : sum) squares += (x - wanted.mean) * (x - wanted.mean);
  wanted.scale = 1 / std::sqrt(squares / width + static_cast<double>(call.epsilon));
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const auto column = static_cast<std::int64_t>(i);
    double y = (sum[i] - wanted.mean) * wanted.scale;
    if (weight != nullptr) y *= weight->get(column);
    if (bias != nullptr) y += bias->get(column);
    wanted.normed.push_back(y);
  }
  return wanted;
}

void Norm::check_random_case(std::int64_t width, std::int64_t rows) {
  const DType dtype = draw_type();
  const DType parameter_dtype = pick({dtype, DType::kFloat32});
  const std::int64_t offset = draw(0, 3) == 0 ? draw(1, 3) : 0;
  NormCall call;
  call.dtype = dtype;
  call.kind = pick({NormKind::kLayer, NormKind::kRms});
  call.rows = rows;
  call.width = width;
  call.input_stride = width + pick<std::int64_t>({0, 0, 8, 3});
  call.residual_stride = width + pick<std::int64_t>({0, 16, 1});
  call.epsilon = 1e-5F;
  Buffer input(*device_, dtype, (rows - 1) * call.input_stride + width, offset);
  Buffer residual(*device_, dtype, (rows - 1) * call.residual_stride + width);
  Buffer weight(*device_, parameter_dtype, width);
  Buffer bias(*device_, parameter_dtype, width);
  Buffer normed(*device_, dtype, rows * width);
  Buffer sum(*device_, dtype, rows * width);
  Buffer mean(*device_, DType::kFloat32, rows);
  Buffer scale(*device_, DType::kFloat32, rows);
  input.fill(random_, 1.5, 3);
  residual.fill(random_);
  weight.fill(random_, 0.5, 1);
  bias.fill(random_);
  call.input = input.data();
  if (draw(0, 1) == 0) call.residual = residual.data();
  if (call.residual == nullptr) call.residual_stride = 0;
  if (draw(0, 3) != 0) call.weight = weight.data();
  if (draw(0, 2) != 0) call.bias = bias.data();
  call.weight_dtype = call.bias_dtype = parameter_dtype;
  if (draw(0, 4) != 0) call.normed = normed.data();
  if (draw(0, 1) == 0 || call.normed == nullptr) call.sum = sum.data();
  call.mean = mean.floats();
  call.scale = scale.floats();
  const auto plan = plan_norm(call, shape(), draw_layout(call));
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  SCOPED_TRACE(plan->front().kernel + " of " + std::to_string(rows) + "x" + std::to_string(width));
  run(plan);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<double> values;
    for (std::int64_t column = 0; column < width; ++column) {
      const double more = call.residual == nullptr ? 0.0 : residual.get(row * call.residual_stride + column);
      values.push_back(input.get(row * call.input_stride + column) + more);
    }
    const Wanted wanted =
        reference(call, values, call.weight == nullptr ? nullptr : &weight, call.bias == nullptr ? nullptr : &bias);
    ASSERT_TRUE(is_near(mean.get(row), wanted.mean, DType::kFloat32, 4e-6));
    // Of nearly equal values the differences have few digits left.
    double largest = 0;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    const double lost = 0x1p-23 * largest * wanted.scale;
    ASSERT_TRUE(is_near(scale.get(row), wanted.scale, DType::kFloat32, (4e-6 + lost) * wanted.scale));
    for (std::int64_t column = 0; column < width; ++column) {
      const auto i = static_cast<std::size_t>(column);
      if (call.normed != nullptr) {
        const double slack = 2e-5 * (1 + std::abs(values[i]) * wanted.scale);
        ASSERT_TRUE(is_near(normed.get(row * width + column), wanted.normed[i], dtype, slack)) << row << ", " << column;
      }
      if (call.sum != nullptr) {
        ASSERT_TRUE(is_near(sum.get(row * width + column), values[i], dtype, 1e-6));
      }
    }
  }
}

// The one that is taken, or any that holds the row.
NormLayout Norm::draw_layout(const NormCall& call) {
  if (draw(0, 1) == 0) return norm_layout(call, shape());
  const auto accesses = static_cast<int>(call.width / (16 / static_cast<int>(element_bytes(call.dtype))));
  const int wave = shape().wave;
  NormLayout layout;
  if (accesses <= wave && draw(0, 3) != 0) {
    layout.accesses = 1;
    layout.rows = call.residual == nullptr ? 4 : 2;
    do layout.row_threads = pick({1, 2, 4, 8, 16, 32, 64});
    while (layout.row_threads < accesses || layout.row_threads > wave);
    layout.threads = wave * static_cast<int>(draw(1, 256 / wave));
    return layout;
  }
  do {
    layout.accesses = call.residual == nullptr ? 4 : pick({2, 4});
    layout.row_threads = wave * static_cast<int>(draw(1, 1024 / wave));
  } while (layout.accesses * layout.row_threads < accesses);
  layout.threads = layout.row_threads;
  if (layout.accesses == 4 && layout.row_threads == wave) layout.threads *= static_cast<int>(draw(1, 3));
  return layout;
}

TEST_P(Norm, RandomShapesTypesAndStrides) {
  for (int round = 0; round < rounds(40); ++round) {
    check_random_case(draw_width(), draw(1, 14));
    if (HasFatalFailure()) return;
  }
}

TEST_P(Norm, ShortRowsBySomeLanesOfAWave) {
  for (int round = 0; round < rounds(40); ++round) {
    check_random_case(8 * draw(1, 34), draw(1, 70));
    if (HasFatalFailure()) return;
  }
}

TEST_P(Norm, EveryKernelIsChosenSomewhere) {
  alignas(16) static float memory[16];
  NormCall call;
  call.rows = 1;
  call.input = memory;
  struct Choice {
    std::int64_t width;
    const char* plain;
    const char* with_residual;
    int row_threads_of_plain;
  };
  const int wave = shape().wave;
  for (const Choice& choice : {Choice{4, "norm_narrow4_f32", "norm_sum_narrow2_f32", 1},
                               Choice{4 * wave, "norm_narrow4_f32", "norm_sum_narrow2_f32", wave},
                               Choice{4 * wave + 4, "norm_wave_f32", "norm_sum_wave_f32", wave},
                               Choice{16 * wave, "norm_wave_f32", "norm_sum_wave_f32", wave},
                               Choice{16 * wave + 4, "norm_block4_f32", "norm_sum_block2_f32", 2 * wave},
                               Choice{8192, "norm_block4_f32", "norm_sum_block2_f32", 512},
                               Choice{8196, "norm_block4_f32", "norm_sum_block4_f32", 512 + wave},
                               Choice{16388, "norm_streamed_f32", "norm_streamed_f32", 1024},
                               Choice{5, "norm_scalar_f32", "norm_scalar_f32", 1}}) {
    call.width = call.input_stride = call.residual_stride = choice.width;
    call.residual = nullptr;
    EXPECT_EQ(norm_layout(call, shape()).row_threads, choice.row_threads_of_plain) << choice.width;
    for (const char* name : {choice.plain, choice.with_residual}) {
      const auto plan = plan_norm(call, shape());
      ASSERT_TRUE(plan.ok()) << plan.status().to_string();
      EXPECT_EQ(plan->front().kernel, name) << choice.width;
      EXPECT_EQ(plan->front().threads % static_cast<unsigned>(wave), 0U);
      call.residual = memory;
    }
  }
}

TEST_P(Norm, LayoutsThatDoNotFitAreRefused) {
  alignas(16) static float memory[16];
  NormCall call;
  call.rows = 1;
  call.input = memory;
  call.residual = memory;
  call.width = call.input_stride = call.residual_stride = 2048;  // 512 accesses
  const int wave = shape().wave;
  EXPECT_TRUE(plan_norm(call, shape(), {2, 256, 256, 0}).ok());
  for (const NormLayout& layout :
       {NormLayout{3, 256, 256, 0}, NormLayout{1, 512, 512, 0}, NormLayout{2, 256 - wave, 256 - wave, 0},
        NormLayout{2, 256 + wave / 2, 256 + wave / 2, 0}, NormLayout{2, 256, 512, 0}, NormLayout{4, 2048, 2048, 0},
        NormLayout{2, 256, 256, 1}, NormLayout{}}) {
    EXPECT_EQ(plan_norm(call, shape(), layout).status().message(), "norm: the layout does not fit");
  }
  call.width = call.input_stride = call.residual_stride = 56;  // 14 accesses
  EXPECT_EQ(plan_norm(call, shape(), {1, 16, 128, 0, 2})->front().kernel, "norm_sum_narrow2_f32");
  for (const NormLayout& layout :
       {NormLayout{1, 16, 128, 0, 4}, NormLayout{1, 8, 128, 0, 2}, NormLayout{1, 24, 192, 0, 2},
        NormLayout{1, 2 * wave, 128, 0, 2}, NormLayout{1, 16, wave / 2, 0, 2}, NormLayout{1, 16, 512, 0, 2},
        NormLayout{2, 16, 128, 0, 2}, NormLayout{1, 16, 128, 1, 2}, NormLayout{1, 16, 128, 0, 3}}) {
    EXPECT_FALSE(plan_norm(call, shape(), layout).ok()) << layout.row_threads << ", " << layout.rows;
  }
  call.width = call.input_stride = call.residual_stride = 2048;
  call.residual = nullptr;
  EXPECT_TRUE(plan_norm(call, shape(), {4, 256, 256, 0}).ok());
  EXPECT_FALSE(plan_norm(call, shape(), {2, 256, 256, 0}).ok());
}

// One element far from the others, at the row's begin or elsewhere: where a sum of squares is moved by a wrong origin,
// it cancels.
TEST_P(Norm, AnOutlierDoesNotSpoilTheDeviation) {
  for (const std::int64_t place : {std::int64_t{0}, draw(1, 4095)}) {
    const std::int64_t width = 4096;
    Buffer input(*device_, DType::kFloat32, width);
    Buffer scale(*device_, DType::kFloat32, 1);
    Buffer normed(*device_, DType::kFloat32, width);
    input.fill(random_, 0.01, 10);
    input.set(place, 1000);
    NormCall call;
    call.input = input.data();
    call.normed = normed.data();
    call.scale = scale.floats();
    call.rows = 1;
    call.width = call.input_stride = width;
    std::vector<double> values;
    for (std::int64_t column = 0; column < width; ++column) values.push_back(input.get(column));
    const Wanted wanted = reference(call, values, nullptr, nullptr);
    for (const NormLayout& layout : {NormLayout{4, 256, 256, 0}, NormLayout{4, 1024, 1024, 0}}) {
      run(plan_norm(call, shape(), layout));
      ASSERT_TRUE(is_near(scale.get(0), wanted.scale, DType::kFloat32, 2e-6 * wanted.scale)) << place;
    }
  }
}

// Whatever the deviation is divided by: nothing is left of numbers that are all equal.
TEST_P(Norm, EqualNumbersBecomeZeros) {
  for (const std::int64_t width : {96, 1000, 4096, 10000}) {
    Buffer input(*device_, DType::kFloat32, width);
    Buffer normed(*device_, DType::kFloat32, width);
    for (std::int64_t column = 0; column < width; ++column) input.set(column, 1000);
    NormCall call;
    call.input = input.data();
    call.normed = normed.data();
    call.rows = 1;
    call.epsilon = 1e-5F;
    call.width = call.input_stride = width;
    run(plan_norm(call, shape()));
    for (std::int64_t column = 0; column < width; ++column) ASSERT_EQ(normed.get(column), 0) << width;
  }
}

TEST_P(Norm, WeightAndBiasMayHaveDifferentTypes) {
  const std::int64_t width = 264;
  Buffer input(*device_, DType::kBFloat16, width), normed(*device_, DType::kBFloat16, width);
  Buffer weight(*device_, DType::kBFloat16, width), bias(*device_, DType::kFloat32, width);
  input.fill(random_);
  weight.fill(random_);
  bias.fill(random_);
  NormCall call;
  call.dtype = call.weight_dtype = DType::kBFloat16;
  call.input = input.data();
  call.bias = bias.data();
  call.normed = normed.data();
  call.rows = 1;
  call.width = call.input_stride = width;
  std::vector<double> values;
  for (std::int64_t column = 0; column < width; ++column) values.push_back(input.get(column));
  for (const void* given : {static_cast<const void*>(nullptr), static_cast<const void*>(weight.data())}) {
    call.weight = given;
    run(plan_norm(call, shape()));
    const Wanted wanted = reference(call, values, given == nullptr ? nullptr : &weight, &bias);
    for (std::int64_t column = 0; column < width; ++column) {
      const double exact = wanted.normed[static_cast<std::size_t>(column)];
      ASSERT_TRUE(is_near(normed.get(column), exact, DType::kBFloat16, 2e-5)) << column;
    }
  }
}

TEST_P(Norm, LongRowsAreStreamed) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const std::int64_t width = 33000;
    Buffer input(*device_, dtype, width);
    Buffer normed(*device_, dtype, width);
    input.fill(random_, 2, 100);  // far from zero: the sum of squares would cancel
    NormCall call;
    call.dtype = dtype;
    call.input = input.data();
    call.normed = normed.data();
    call.rows = 1;
    call.width = call.input_stride = width;
    call.epsilon = 1e-5F;
    run(plan_norm(call, shape()));
    std::vector<double> values;
    for (std::int64_t column = 0; column < width; ++column) values.push_back(input.get(column));
    const Wanted wanted = reference(call, values, nullptr, nullptr);
    for (std::int64_t column = 0; column < width; ++column) {
      const double exact = wanted.normed[static_cast<std::size_t>(column)];
      ASSERT_TRUE(is_near(normed.get(column), exact, dtype, 5e-5)) << column;
    }
  }
}

TEST_P(Norm, ZerosStayZerosAndNanStaysInItsRow) {
  const std::int64_t width = 72;
  Buffer input(*device_, DType::kFloat16, 3 * width);
  Buffer normed(*device_, DType::kFloat16, 3 * width);
  input.fill(random_);
  for (std::int64_t column = 0; column < width; ++column) input.set(column, 0);
  input.set(width + 3, std::nan(""));
  NormCall call;
  call.dtype = DType::kFloat16;
  call.input = input.data();
  call.normed = normed.data();
  call.rows = 3;
  call.width = call.input_stride = width;
  call.epsilon = 1e-6F;
  run(plan_norm(call, shape()));
  for (std::int64_t column = 0; column < width; ++column) {
    EXPECT_EQ(normed.get(column), 0.0);
    EXPECT_TRUE(std::isnan(normed.get(width + column)));
    EXPECT_FALSE(std::isnan(normed.get(2 * width + column)));
  }
}

TEST_P(Norm, NothingToDoIsNoLaunchAndBadCallsAreRefused) {
  NormCall call;
  call.width = 8;
  EXPECT_TRUE(plan_norm(call, shape())->empty());
  call.rows = 2;
  EXPECT_EQ(plan_norm(call, shape()).status().code(), StatusCode::kInvalidArgument);
  call.rows = -1;
  EXPECT_EQ(plan_norm(call, shape()).status().message(), "norm: a size is -1");
  call.rows = std::int64_t{1} << 40;
  call.width = std::int64_t{1} << 30;
  EXPECT_FALSE(plan_norm(call, shape()).ok());
  call.rows = call.width = 1;
  call.dtype = DType::kInt32;
  EXPECT_EQ(plan_norm(call, shape()).status().message(), "norm: no kernel for int32");
}

KPT_KERNEL_TESTS(Norm);

}  // namespace
}  // namespace kpt::gpu::testing
