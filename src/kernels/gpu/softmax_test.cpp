#include "kernels/gpu/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/gpu/gpu_testing.h"

namespace kpt::gpu::testing {
namespace {

constexpr double kInfiniteScore = std::numeric_limits<double>::infinity();

class Softmax : public KernelTest {
 protected:
  void check_random_case();
};

// What the mask adds to an element.
double mask_of(const SoftmaxCall& call, const Buffer& mask, std::int64_t batch, std::int64_t head, std::int64_t query,
               std::int64_t key) {
  if (call.causal && key > query + call.causal_offset) return -kInfiniteScore;
  if (call.mask == nullptr) return 0;
  const std::int64_t place =
      batch * call.mask_batch_stride + head * call.mask_head_stride + query * call.mask_query_stride + key;
  if (call.mask_dtype == DType::kBool) return mask.code(place) != 0 ? 0 : -kInfiniteScore;
  return mask.get(place);
}

void check_row(const std::vector<double>& scores, const Buffer& output, std::int64_t place, DType dtype) {
  double greatest = -kInfiniteScore;
  for (const double score : scores) greatest = std::max(greatest, score);
  double total = 0;
  for (const double score : scores) total += greatest == -kInfiniteScore ? 0 : std::exp(score - greatest);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double wanted = greatest == -kInfiniteScore ? 0 : std::exp(scores[i] - greatest) / total;
    ASSERT_TRUE(is_near(output.get(place + static_cast<std::int64_t>(i)), wanted, dtype, 4e-6 * wanted + 1e-30)) << i;
  }
}

void Softmax::check_random_case() {
  SoftmaxCall call;
  call.dtype = draw_type();
  call.batches = draw(1, 2);
  call.heads = draw(1, 3);
  call.queries = draw(1, 3);
  call.width = draw_width();
  call.input_stride = call.width + pick<std::int64_t>({0, 0, 8, 5});
  call.scale = 0.7F;
  const std::int64_t rows = call.batches * call.heads * call.queries;
  Buffer input(*device_, call.dtype, (rows - 1) * call.input_stride + call.width, draw(0, 4) == 0 ? 1 : 0);
  Buffer output(*device_, call.dtype, rows * call.width);
  input.fill(random_, 3);
  call.input = input.data();
  call.output = output.data();
  call.mask_dtype = pick({DType::kBool, DType::kFloat32, call.dtype});
  const bool per_query = draw(0, 1) == 0;
  const bool per_batch = draw(0, 1) == 0;
  call.mask_query_stride = per_query ? call.width : 0;
  call.mask_batch_stride = per_batch ? call.width * (per_query ? call.queries : 1) : 0;
  Buffer mask(*device_, call.mask_dtype, call.width * (per_query ? call.queries : 1) * (per_batch ? call.batches : 1));
  for (std::int64_t i = 0; i < mask.count(); ++i) {
    const bool hidden = draw(0, 3) == 0;
    mask.set(i, call.mask_dtype == DType::kBool ? (hidden ? 0.0 : 1.0) : (hidden ? -kInfiniteScore : 0.5));
  }
  if (draw(0, 2) != 0) call.mask = mask.data();
  call.causal = draw(0, 1) == 0;
  call.causal_offset = pick<std::int64_t>({call.width - call.queries, 0, -1, call.width / 2});
  const auto plan = plan_softmax(call, shape());
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  SCOPED_TRACE(plan->front().kernel + " of " + std::to_string(rows) + "x" + std::to_string(call.width));
  run(plan);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t query = row % call.queries;
    const std::int64_t head = row / call.queries % call.heads;
    const std::int64_t batch = row / call.queries / call.heads;
    std::vector<double> scores;
    for (std::int64_t key = 0; key < call.width; ++key) {
      const double scaled = input.get(row * call.input_stride + key) * static_cast<double>(call.scale);
      scores.push_back(scaled + mask_of(call, mask, batch, head, query, key));
    }
    SCOPED_TRACE("row " + std::to_string(row));
    check_row(scores, output, row * call.width, call.dtype);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Softmax, RandomShapesMasksAndCausality) {
  for (int round = 0; round < rounds(50); ++round) {
    check_random_case();
    if (HasFatalFailure()) return;
  }
}

TEST_P(Softmax, RowsWithoutAnyKeyAreZerosAndNanShows) {
  for (const std::int64_t width : {16, 17, 2056}) {
    Buffer input(*device_, DType::kFloat32, 3 * width);
    Buffer output(*device_, DType::kFloat32, 3 * width);
    input.fill(random_);
    for (std::int64_t key = 0; key < width; ++key) input.set(key, -kInfiniteScore);
    input.set(width + width / 2, std::nan(""));
    for (std::int64_t key = 0; key < width; ++key)
      input.set(2 * width + key, key == 3 ? std::nan("") : -kInfiniteScore);
    SoftmaxCall call;
    call.input = input.data();
    call.output = output.data();
    call.queries = 3;
    call.width = call.input_stride = width;
    run(plan_softmax(call, shape()));
    for (std::int64_t key = 0; key < width; ++key) {
      ASSERT_EQ(output.get(key), 0.0) << width;
      ASSERT_TRUE(std::isnan(output.get(width + key))) << width;
    }
    EXPECT_TRUE(std::isnan(output.get(2 * width + 3)));
  }
}

TEST_P(Softmax, RowsWithoutAnyKeyAreNanWhereThatIsWanted) {
  for (const std::int64_t width : {8, 7, 2048}) {  // one for each kernel
    SoftmaxCall call;
    call.queries = 1;
    call.width = call.input_stride = width;
    call.empty_is_nan = true;
    Buffer input(*device_, DType::kFloat32, width);
    Buffer output(*device_, DType::kFloat32, width);
    for (std::int64_t i = 0; i < width; ++i) input.floats()[i] = -std::numeric_limits<float>::infinity();
    call.input = input.data();
    call.output = output.data();
    run(plan_softmax(call, shape()));
    for (std::int64_t i = 0; i < width; ++i) ASSERT_TRUE(std::isnan(output.get(i))) << width;
  }
}

TEST_P(Softmax, LargeScoresDoNotOverflow) {
  Buffer input(*device_, DType::kFloat32, 9);
  Buffer output(*device_, DType::kFloat32, 9);
  for (std::int64_t key = 0; key < 9; ++key) input.set(key, 3e38);
  SoftmaxCall call;
  call.input = input.data();
  call.output = output.data();
  call.queries = 1;
  call.width = call.input_stride = 9;
  run(plan_softmax(call, shape()));
  for (std::int64_t key = 0; key < 9; ++key) EXPECT_NEAR(output.get(key), 1.0 / 9, 1e-7);
}

TEST_P(Softmax, BadCallsAreRefused) {
  SoftmaxCall call;
  call.queries = call.width = 4;
  EXPECT_EQ(plan_softmax(call, shape()).status().message(), "softmax: input and output must be given");
  float memory[16];
  call.input = memory;
  call.output = memory;
  call.mask = memory;
  call.mask_dtype = DType::kInt64;
  EXPECT_EQ(plan_softmax(call, shape()).status().code(), StatusCode::kInvalidArgument);
  call.queries = 0;
  call.mask = nullptr;
  EXPECT_TRUE(plan_softmax(call, shape())->empty());
}

KPT_KERNEL_TESTS(Softmax);

}  // namespace
}  // namespace kpt::gpu::testing
