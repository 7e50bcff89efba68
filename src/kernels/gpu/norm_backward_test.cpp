#include <cmath>

#include <fmt/format.h>

#include "kernels/gpu/gpu_testing.h"
#include "kernels/gpu/norm.h"

namespace kpt::gpu::testing {
namespace {

class NormBackward : public KernelTest {
 protected:
  void check_case(DType dtype, std::int64_t rows, std::int64_t width, std::int64_t offset);
  NormLayout draw_layout(const NormBackwardCall& call);
  NormLayout chosen_;  // for a small device; drawn where it has no threads
};

// The one that is taken, or any that holds the row.
NormLayout NormBackward::draw_layout(const NormBackwardCall& call) {
  const auto accesses = static_cast<int>(call.width / (16 / static_cast<int>(element_bytes(call.dtype))));
  if (draw(0, 2) == 0 || accesses > 512) return norm_layout(call, shape());
  const int wave = shape().wave;
  NormLayout layout;
  layout.blocks = static_cast<int>(draw(1, 2));
  if (accesses <= wave && draw(0, 2) == 0) {
    layout.accesses = 1;
    layout.stages = static_cast<int>(draw(0, 3));
    layout.rows = layout.stages > 0 ? pick({2, 4}) : 2;
    do layout.row_threads = pick({1, 2, 4, 8, 16, 32, 64});
    while (layout.row_threads < accesses || layout.row_threads > wave);
    layout.threads = wave * static_cast<int>(draw(1, 256 / wave));
    return layout;
  }
  layout.stages = static_cast<int>(draw(0, 1) * draw(1, 3));
  do {
    layout.accesses = layout.stages > 0 ? pick({3, 4}) : pick({1, 4});
    layout.row_threads = wave * static_cast<int>(draw(1, 512 / wave));
  } while (layout.accesses * layout.row_threads < accesses);
  layout.threads = layout.row_threads * static_cast<int>(draw(1, 512 / layout.row_threads));
  // Room for each thread's accesses of three tensors.
  while (layout.stages * 3 * layout.accesses * layout.threads * 16 > shape().shared_bytes) --layout.stages;
  return layout;
}

void check_columns(const Buffer& got, const std::vector<double>& wanted, const std::vector<double>& sizes,
                   DType dtype) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_TRUE(is_near(got.get(static_cast<std::int64_t>(i)), wanted[i], dtype, 1e-6 * sizes[i])) << i;
  }
}

void NormBackward::check_case(DType dtype, std::int64_t rows, std::int64_t width, std::int64_t offset) {
  SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(width) + " " + std::string(to_string(dtype)));
  const DType weight_dtype = pick({dtype, DType::kFloat32});
  Buffer gradient(*device_, dtype, rows * width, offset);
  Buffer input(*device_, dtype, rows * width);
  Buffer sum_gradient(*device_, dtype, rows * width);
  Buffer weight(*device_, weight_dtype, width);
  Buffer mean(*device_, DType::kFloat32, rows);
  Buffer scale(*device_, DType::kFloat32, rows);
  Buffer input_gradient(*device_, dtype, rows * width);
  Buffer weight_gradient(*device_, weight_dtype, width);
  Buffer bias_gradient(*device_, weight_dtype, width);
  gradient.fill(random_);
  input.fill(random_, 1, 0.5);
  sum_gradient.fill(random_);
  weight.fill(random_, 0.3, 1);
  mean.fill(random_, 0.2, 0.5);
  scale.fill(random_, 0.1, 1);
  NormBackwardCall call;
  call.dtype = dtype;
  call.kind = pick({NormKind::kLayer, NormKind::kRms});
  call.gradient = gradient.data();
  call.input = input.data();
  if (draw(0, 2) != 0) call.weight = weight.data();
  call.weight_dtype = weight_dtype;
  if (call.kind == NormKind::kLayer) call.mean = mean.floats();
  call.scale = scale.floats();
  if (draw(0, 1) == 0) call.sum_gradient = sum_gradient.data();
  call.input_gradient = input_gradient.data();
  if (draw(0, 2) != 0) call.weight_gradient = weight_gradient.data();
  if (draw(0, 1) == 0) call.bias_gradient = bias_gradient.data();
  call.rows = rows;
  call.width = width;
  const NormLayout layout = chosen_.threads > 0 ? chosen_ : draw_layout(call);
  DeviceShape device = shape();
  if (chosen_.threads > 0) device.multiprocessors = 2;
  const std::size_t bytes = norm_backward_workspace(call, device, layout);
  Buffer workspace(*device_, DType::kFloat32, static_cast<std::int64_t>(bytes / 4));
  call.workspace = workspace.data();
  const auto plan = plan_norm_backward(call, device, layout);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  SCOPED_TRACE(plan->front().kernel);
  run(plan);

  std::vector<double> weight_sum(static_cast<std::size_t>(width)), bias_sum(weight_sum), size_sum(weight_sum);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<double> g, y;
    double average = 0, average_product = 0;
    const double center = call.kind == NormKind::kLayer ? mean.get(row) : 0.0;
    for (std::int64_t column = 0; column < width; ++column) {
      const double dy = gradient.get(row * width + column);
      y.push_back((input.get(row * width + column) - center) * scale.get(row));
      g.push_back(dy * (call.weight == nullptr ? 1.0 : weight.get(column)));
      average += g.back() / static_cast<double>(width);
      average_product += g.back() * y.back() / static_cast<double>(width);
      const auto i = static_cast<std::size_t>(column);
      weight_sum[i] += dy * y.back();
      bias_sum[i] += dy;
      size_sum[i] += std::abs(dy) * (1 + std::abs(y.back()));
    }
    if (call.kind == NormKind::kRms) average = 0;
    for (std::int64_t column = 0; column < width; ++column) {
      const auto i = static_cast<std::size_t>(column);
      double wanted = scale.get(row) * (g[i] - average - y[i] * average_product);
      if (call.sum_gradient != nullptr) wanted += sum_gradient.get(row * width + column);
      ASSERT_TRUE(is_near(input_gradient.get(row * width + column), wanted, dtype, 1e-5)) << row << ", " << column;
    }
  }
  if (call.weight_gradient != nullptr) check_columns(weight_gradient, weight_sum, size_sum, weight_dtype);
  if (call.bias_gradient != nullptr) check_columns(bias_gradient, bias_sum, size_sum, weight_dtype);
}

TEST_P(NormBackward, RandomShapesAndTypes) {
  for (int round = 0; round < rounds(25); ++round) {
    check_case(draw_type(), draw(1, 24), draw_width(), draw(0, 3) == 0 ? 1 : 0);
    if (HasFatalFailure()) return;
  }
}

TEST_P(NormBackward, ShortRowsBySomeLanesOfAWave) {
  for (int round = 0; round < rounds(40); ++round) {
    check_case(draw_type(), draw(1, 70), 8 * draw(1, 34), 0);
    if (HasFatalFailure()) return;
  }
}

TEST_P(NormBackward, WideRows) {
  check_case(DType::kBFloat16, 3, 16384, 0);
  check_case(DType::kFloat32, 3, 8200, 0);  // more than registers hold
}

// More rows than all stages of all blocks have at once, so that slots are filled again.
TEST_P(NormBackward, ManyRowsThroughSharedMemory) {
  for (int round = 0; round < rounds(6); ++round) {
    chosen_ = {static_cast<int>(draw(3, 4)), 64, 64 * static_cast<int>(draw(1, 2)), 1, 1, static_cast<int>(draw(1, 3))};
    check_case(draw_type(), draw(1, 40), 8 * draw(1, 32), 0);
    if (HasFatalFailure()) return;
    const int lanes = pick({4, 8, 16});
    chosen_ = {1, lanes, 64, 1, 2, static_cast<int>(draw(0, 3))};
    if (chosen_.stages > 0) chosen_.rows = pick({2, 4});
    check_case(draw_type(), draw(1, 600), 4 * lanes, 0);
    if (HasFatalFailure()) return;
  }
}

TEST_P(NormBackward, LayoutsThatDoNotFitAreRefused) {
  alignas(16) static float memory[16];
  NormBackwardCall call;
  call.kind = NormKind::kRms;
  call.gradient = call.input = call.input_gradient = memory;
  call.scale = memory;
  call.rows = 1;
  call.width = 4800;  // 1200 accesses
  const int wave = shape().wave;
  EXPECT_TRUE(plan_norm_backward(call, shape(), {4, 320, 320, 1}).ok());
  for (const NormLayout& layout :
       {NormLayout{4, 256, 256, 1}, NormLayout{4, 320 + wave / 2, 320 + wave / 2, 1}, NormLayout{2, 640, 640, 1},
        NormLayout{1, 1216, 1216, 1}, NormLayout{4, 320, 320, 0}, NormLayout{3, 448, 448, 1, 1, 4},
        NormLayout{3, 448, 448, 1, 1, -1}, NormLayout{2, 640, 640, 1, 1, 1}, NormLayout{3, 448, 1344, 1, 1, 1},
        NormLayout{4, 64, 64, 1, 2}, NormLayout{}}) {
    EXPECT_EQ(plan_norm_backward(call, shape(), layout).status().message(), "norm_backward: the layout does not fit");
  }
  EXPECT_EQ(plan_norm_backward(call, shape(), {3, 448, 448, 1, 1, 3})->front().kernel, "norm_backward_staged3_f32");
  EXPECT_EQ(plan_norm_backward(call, shape(), {3, 448, 448, 1, 1, 3})->front().shared_bytes, 129024U);
  DeviceShape without = shape();
  without.shared_bytes = 0;
  EXPECT_FALSE(plan_norm_backward(call, without, {3, 448, 448, 1, 1, 1}).ok());
  call.dtype = DType::kBFloat16;
  call.weight_dtype = DType::kBFloat16;
  call.width = 4608;  // groups share a tile that holds no such row
  EXPECT_TRUE(plan_norm_backward(call, shape(), {4, 192, 192, 1}).ok());
  EXPECT_FALSE(plan_norm_backward(call, shape(), {4, 192, 384, 1}).ok());
}

TEST_P(NormBackward, WidthThirdTensorAndSharedMemoryChooseTheKernel) {
  alignas(16) static float memory[16];
  NormBackwardCall call;
  call.kind = NormKind::kRms;
  call.gradient = call.input = call.input_gradient = memory;
  call.scale = memory;
  call.rows = 1;
  struct Choice {
    std::int64_t width;
    const char* two;
    const char* three;
    const char* two_in_registers;
    const char* three_in_registers;
  };
  DeviceShape without = shape();
  without.shared_bytes = 0;
  for (const Choice& choice : {Choice{4, "_narrow_staged4", "_narrow_staged2", "_narrow2", "_narrow2"},
                               Choice{300, "_staged3", "_staged3", "4", "1"}, Choice{2048, "4", "_staged4", "4", "1"},
                               Choice{2052, "4", "_staged4", "4", "4"}, Choice{8196, "_any", "_any", "_any", "_any"}}) {
    const auto expect = [&](const DeviceShape& device, const void* third, const char* name) {
      call.width = choice.width;
      call.sum_gradient = third;
      EXPECT_EQ(plan_norm_backward(call, device)->front().kernel, fmt::format("norm_backward{}_f32", name))
          << choice.width;
    };
    expect(shape(), nullptr, choice.two);
    expect(shape(), memory, choice.three);
    expect(without, nullptr, choice.two_in_registers);
    expect(without, memory, choice.three_in_registers);
  }
}

TEST_P(NormBackward, OverNoRowsTheParametersGradientsAreZeros) {
  Buffer weight_gradient(*device_, DType::kFloat32, 40);
  NormBackwardCall call;
  call.width = 40;
  call.weight_gradient = weight_gradient.data();
  run(plan_norm_backward(call, shape()));
  for (std::int64_t column = 0; column < 40; ++column) EXPECT_EQ(weight_gradient.get(column), 0.0);
}

TEST_P(NormBackward, TheSameBitsInEveryRun) {
  for (const std::int64_t width : {40, 264, 1032}) {  // narrow, through shared memory, in registers
    const std::int64_t rows = 9;
    Buffer gradient(*device_, DType::kFloat32, rows * width), input(*device_, DType::kFloat32, rows * width);
    Buffer scale(*device_, DType::kFloat32, rows), out(*device_, DType::kFloat32, rows * width);
    Buffer first(*device_, DType::kFloat32, width), second(*device_, DType::kFloat32, width);
    gradient.fill(random_);
    input.fill(random_);
    scale.fill(random_);
    NormBackwardCall call;
    call.kind = NormKind::kRms;
    call.gradient = gradient.data();
    call.input = input.data();
    call.scale = scale.floats();
    call.input_gradient = out.data();
    call.rows = rows;
    call.width = width;
    call.weight_gradient = first.data();
    Buffer workspace(*device_, DType::kFloat32, static_cast<std::int64_t>(norm_backward_workspace(call, shape()) / 4));
    call.workspace = workspace.data();
    run(plan_norm_backward(call, shape()));
    call.weight_gradient = second.data();
    run(plan_norm_backward(call, shape()));
    for (std::int64_t column = 0; column < width; ++column) ASSERT_EQ(first.code(column), second.code(column));
  }
}

TEST_P(NormBackward, BadCallsAreRefused) {
  NormBackwardCall call;
  call.rows = call.width = 4;
  EXPECT_EQ(plan_norm_backward(call, shape()).status().code(), StatusCode::kInvalidArgument);
  call.weight_dtype = DType::kInt8;
  EXPECT_EQ(plan_norm_backward(call, shape()).status().message(),
            "norm_backward: the weight must be of the input's type or float32");
}

KPT_KERNEL_TESTS(NormBackward);

}  // namespace
}  // namespace kpt::gpu::testing
