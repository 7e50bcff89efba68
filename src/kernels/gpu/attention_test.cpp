#include "kernels/gpu/attention.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <gmock/gmock.h>

#include "kernels/gpu/gpu_testing.h"

namespace kpt::gpu::testing {
namespace {

struct Case {
  std::int64_t batches = 1, heads = 1, groups = 1, queries = 1, keys = 1, width = 64;
  std::optional<DType> mask = std::nullopt;
  bool causal = false;
  std::int64_t causal_offset = 0;
};

class Attention : public KernelTest {
 protected:
  struct Tensors {
    Buffer query, key, value, mask, output;  // [batch, row, head, width] in memory, as projections leave it
  };
  void check_case(MatrixUnit unit, DType dtype, const Case& test);
  void check_row(const Case& test, const AttentionCall& call, const Tensors& t, std::int64_t row);
};

RowStrides strides_of(std::int64_t rows, std::int64_t heads, std::int64_t width) {
  return {rows * heads * width, width, heads * width};
}

void Attention::check_case(MatrixUnit unit, DType dtype, const Case& test) {
  SCOPED_TRACE(std::string(unit_name(unit)) + " " + std::string(to_string(dtype)) + ", " +
               std::to_string(test.queries) + " x " + std::to_string(test.keys) + " of " + std::to_string(test.width));
  AttentionCall call;
  call.dtype = dtype;
  call.batches = test.batches;
  call.heads = test.heads;
  call.groups = test.groups;
  call.queries = test.queries;
  call.keys = test.keys;
  call.width = test.width;
  call.query_strides = call.output_strides = strides_of(test.queries, test.heads, test.width);
  call.key_strides = call.value_strides = strides_of(test.keys, test.groups, test.width);
  call.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(test.width)));
  call.causal = test.causal;
  call.causal_offset = test.causal_offset;
  const DType mask_dtype = test.mask.value_or(DType::kFloat32);
  const bool of_bytes = mask_dtype == DType::kBool;
  Tensors t{{*device_, dtype, test.batches * test.queries * test.heads * test.width},
            {*device_, dtype, test.batches * test.keys * test.groups * test.width},
            {*device_, dtype, test.batches * test.keys * test.groups * test.width},
            {*device_, of_bytes ? DType::kInt8 : mask_dtype, test.batches * test.queries * test.keys},
            {*device_, dtype, test.batches * test.queries * test.heads * test.width}};
  call.query = t.query.fill(random_, 2).data();
  call.key = t.key.fill(random_).data();
  call.value = t.value.fill(random_).data();
  call.output = t.output.data();
  t.mask.fill(random_, 2);
  if (of_bytes) {
    for (std::int64_t i = 0; i < t.mask.count(); ++i) t.mask.set(i, draw(0, 1) == 0 || i < test.keys ? 0 : 1);
  }
  if (test.mask) {
    call.mask = t.mask.data();
    call.mask_dtype = mask_dtype;
    call.mask_strides = {test.queries * test.keys, 0, test.keys};
  }
  run(plan_attention(call, with(unit)));
  for (std::int64_t row = 0; row < test.batches * test.heads * test.queries && !HasFatalFailure(); ++row) {
    check_row(test, call, t, row);
  }
}

// In double.
void Attention::check_row(const Case& test, const AttentionCall& call, const Tensors& t, std::int64_t row) {
  const std::int64_t batch = row / (test.heads * test.queries);
  const std::int64_t head = row / test.queries % test.heads;
  const std::int64_t q = row % test.queries;
  const std::int64_t group = head / (test.heads / test.groups);
  const auto key_place = [&](std::int64_t k) { return ((batch * test.keys + k) * test.groups + group) * test.width; };
  const std::int64_t query_place = ((batch * test.queries + q) * test.heads + head) * test.width;
  std::vector<double> weights;
  double greatest = -HUGE_VAL;
  for (std::int64_t k = 0; k < test.keys; ++k) {
    double score = 0;
    for (std::int64_t d = 0; d < test.width; ++d) score += t.query.get(query_place + d) * t.key.get(key_place(k) + d);
    score *= call.scale;
    const double own = t.mask.get((batch * test.queries + q) * test.keys + k);
    if (test.mask && *test.mask != DType::kBool) score += own;
    if (test.mask == DType::kBool && own == 0) score = -HUGE_VAL;
    if (test.causal && k > q + test.causal_offset) score = -HUGE_VAL;
    weights.push_back(score);
    greatest = std::max(greatest, score);
  }
  double total = 0;
  for (double& weight : weights) total += weight = greatest == -HUGE_VAL ? 0 : std::exp(weight - greatest);
  for (std::int64_t d = 0; d < test.width; ++d) {
    double wanted = 0;
    double size = 0;
    for (std::int64_t k = 0; k < test.keys && total > 0; ++k) {
      const double part = weights[static_cast<std::size_t>(k)] / total * t.value.get(key_place(k) + d);
      wanted += part;
      size += std::abs(part);
    }
    // Weights are rounded to the type before they meet the values.
    ASSERT_TRUE(is_near(t.output.get(query_place + d), wanted, call.dtype, size * (rounding(call.dtype) + 2e-5)))
        << "row " << row << ", column " << d;
  }
}

TEST_P(Attention, LengthsWidthsAndGroups) {
  for (const MatrixUnit unit : units()) {
    for (const std::int64_t width : {64, 128}) {
      for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
        check_case(unit, dtype, {.batches = 2, .heads = 2, .groups = 1, .queries = 3, .keys = 70, .width = width});
      }
      const DType dtype = pick({DType::kFloat16, DType::kBFloat16});
      check_case(unit, dtype, {.queries = 1, .keys = 1, .width = width});
      check_case(unit, dtype, {.queries = draw(120, 140), .keys = draw(60, 140), .width = width});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Attention, MasksAndCausality) {
  for (const MatrixUnit unit : units()) {
    const DType dtype = pick({DType::kFloat16, DType::kBFloat16});
    const std::int64_t width = pick<std::int64_t>({64, 128});
    for (const DType mask : {DType::kBool, DType::kFloat32, dtype}) {
      check_case(
          unit, dtype,
          {.batches = 2, .heads = 2, .queries = draw(1, 40), .keys = draw(1, 100), .width = width, .mask = mask});
    }
    check_case(unit, dtype, {.queries = 133, .keys = 90, .width = width, .causal = true});
    check_case(unit, dtype, {.queries = 20, .keys = 90, .width = width, .causal = true, .causal_offset = 70});
    // The first rows see nothing.
    check_case(unit, dtype, {.queries = 20, .keys = 33, .width = width, .causal = true, .causal_offset = -5});
    check_case(unit, dtype,
               {.queries = 31, .keys = 40, .width = width, .mask = DType::kBool, .causal = true, .causal_offset = 9});
    if (HasFatalFailure()) return;
  }
}

TEST_P(Attention, BadCallsAreRefused) {
  alignas(16) static constexpr std::byte kBytes[16] = {};
  AttentionCall call;
  EXPECT_EQ(plan_attention(call, with(MatrixUnit::kNone)).status().code(), StatusCode::kAttention);
  EXPECT_TRUE(plan_attention(call, with(MatrixUnit::kCdna3))->empty());
  call.queries = 1;
  EXPECT_EQ(plan_attention(call, with(MatrixUnit::kCdna3)).status().message(),
            "attention: query, key, value and output must be given");
  EXPECT_TRUE(fits_attention(call, MatrixUnit::kRdna4));
  for (const auto change :
       {+[](AttentionCall& c) { c.width = 80; }, +[](AttentionCall& c) { c.key_strides[2] = 12; },
        +[](AttentionCall& c) { c.dtype = DType::kFloat32; }, +[](AttentionCall& c) { c.value = kBytes + 8; }}) {
    AttentionCall other = call;
    change(other);
    EXPECT_FALSE(fits_attention(other, MatrixUnit::kRdna4));
    EXPECT_EQ(plan_attention(other, with(MatrixUnit::kRdna4)).status().code(), StatusCode::kAttention);
  }
  call.value = kBytes;
  EXPECT_TRUE(fits_attention(call, MatrixUnit::kRdna4));
  call.heads = 3;
  call.groups = 2;
  const Status heads = plan_attention(call, with(MatrixUnit::kCdna3)).status();
  EXPECT_EQ(heads.code(), StatusCode::kAttention) << heads.to_string();
  EXPECT_THAT(heads.message(), ::testing::HasSubstr("no multiple of those of the keys"));
  EXPECT_EQ(heads.vendor(), Vendor::kAmd);
  alignas(16) std::uint16_t number = 0;
  call.heads = 2;
  call.keys = 1;
  call.query = call.key = call.value = call.mask = &number;
  call.output = &number;
  call.mask_dtype = DType::kInt8;
  const Status masked = plan_attention(call, with(MatrixUnit::kCdna3)).status();
  EXPECT_EQ(masked.code(), StatusCode::kAttention) << masked.to_string();
  EXPECT_THAT(masked.message(), ::testing::HasSubstr("the mask must be bool"));
}

KPT_KERNEL_TESTS(Attention);

}  // namespace
}  // namespace kpt::gpu::testing
