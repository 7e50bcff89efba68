#include "kernels/gpu/blind_rows.h"

#include <cmath>
#include <limits>

#include "kernels/gpu/gpu_testing.h"

namespace kpt::gpu::testing {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

class BlindRows : public KernelTest {
 protected:
  void check_random_case();
  void draw_mask_strides(BlindRowsCall& call);
  void draw_result_strides(BlindRowsCall& call);
};

std::int64_t mask_place(const BlindRowsCall& call, std::int64_t batch, std::int64_t head, std::int64_t query) {
  return batch * call.mask_batch_stride + head * call.mask_head_stride + query * call.mask_query_stride;
}

std::int64_t result_place(const BlindRowsCall& call, std::int64_t batch, std::int64_t head, std::int64_t query) {
  return batch * call.result_batch_stride + head * call.result_head_stride + query * call.result_query_stride;
}

// Elements of the memory in which every row lies; `last`: the place of the last element in its row.
std::int64_t memory_of(std::int64_t place, std::int64_t last) { return place + last + 1; }

// Broadcast along any axis, or with keys that do not lie side by side.
void BlindRows::draw_mask_strides(BlindRowsCall& call) {
  const bool apart = draw(0, 4) == 0;
  const std::int64_t row = call.keys + pick<std::int64_t>({0, 0, 8, 3});
  call.mask_key_stride = apart ? call.queries : 1;
  const bool per_query = apart || draw(0, 1) == 0;
  call.mask_query_stride = per_query ? (apart ? 1 : row) : 0;
  std::int64_t next = apart ? row * call.queries : row * (per_query ? call.queries : 1);
  call.mask_head_stride = draw(0, 2) == 0 ? next : 0;
  if (call.mask_head_stride != 0) next *= call.heads;
  call.mask_batch_stride = draw(0, 2) != 0 ? next : 0;
}

// As models have it, [batch, query, head, width], or with the heads outside.
void BlindRows::draw_result_strides(BlindRowsCall& call) {
  const std::int64_t row = call.width + pick<std::int64_t>({0, 0, 0, 8, 1});
  const bool heads_inside = draw(0, 2) != 0;
  call.result_head_stride = heads_inside ? row : row * call.queries;
  call.result_query_stride = heads_inside ? row * call.heads : row;
  call.result_batch_stride = row * call.heads * call.queries;
}

void BlindRows::check_random_case() {
  BlindRowsCall call;
  call.dtype = pick({DType::kFloat16, DType::kBFloat16});
  call.batches = draw(1, 3);
  call.heads = draw(1, 4);
  call.queries = draw(1, 5);
  call.keys = pick<std::int64_t>({1, 7, 8, 64, 128, 129, 256, 504, 512, 513, 1024, 1032, 2056});
  call.width = pick<std::int64_t>({1, 7, 8, 64, 72, 128});
  draw_mask_strides(call);
  draw_result_strides(call);
  const std::int64_t last[] = {call.batches - 1, call.heads - 1, call.queries - 1};
  Buffer mask(*device_, call.dtype,
              memory_of(mask_place(call, last[0], last[1], last[2]), (call.keys - 1) * call.mask_key_stride),
              draw(0, 4) == 0 ? 1 : 0);
  Buffer result(*device_, call.dtype, memory_of(result_place(call, last[0], last[1], last[2]), call.width - 1),
                draw(0, 4) == 0 ? 1 : 0);
  for (std::int64_t i = 0; i < mask.count(); ++i) mask.set(i, kHidden);
  for (std::int64_t i = 0; i < result.count(); ++i) result.set(i, static_cast<double>(i % 7 + 1));
  // Some rows see one key, which is mostly the first or the last, some many, some none.
  const std::int64_t seeing = draw(0, 3);
  const auto see = [&](std::int64_t batch, std::int64_t head, std::int64_t query) {
    const std::int64_t key = pick<std::int64_t>({0, call.keys - 1, draw(0, call.keys - 1)});
    const double value = pick({0.0, -3.5, static_cast<double>(std::nanf(""))});
    mask.set(mask_place(call, batch, head, query) + key * call.mask_key_stride, value);
  };
  for (std::int64_t batch = 0; batch < call.batches; ++batch) {
    for (std::int64_t head = 0; head < call.heads; ++head) {
      for (std::int64_t query = 0; query < call.queries; ++query) {
        if (draw(0, 3) < seeing) see(batch, head, query);
      }
    }
  }
  call.mask = mask.data();
  call.result = result.data();
  run(plan_blind_rows(call, shape()));
  std::vector<bool> cleared(static_cast<std::size_t>(result.count()), false);
  for (std::int64_t row = 0; row < call.batches * call.heads * call.queries; ++row) {
    const std::int64_t query = row % call.queries;
    const std::int64_t head = row / call.queries % call.heads;
    const std::int64_t batch = row / call.queries / call.heads;
    bool sees = false;
    for (std::int64_t key = 0; key < call.keys; ++key) {
      sees = sees || mask.get(mask_place(call, batch, head, query) + key * call.mask_key_stride) != kHidden;
    }
    const std::int64_t place = result_place(call, batch, head, query);
    for (std::int64_t i = 0; i < call.width && !sees; ++i) cleared[static_cast<std::size_t>(place + i)] = true;
  }
  for (std::int64_t i = 0; i < result.count(); ++i) {
    const double wanted = cleared[static_cast<std::size_t>(i)] ? 0 : static_cast<double>(i % 7 + 1);
    ASSERT_EQ(result.get(i), wanted) << i << " of " << call.batches << "x" << call.heads << "x" << call.queries << ", "
                                     << call.keys << " keys, width " << call.width;
  }
}

TEST_P(BlindRows, RowsWithoutAnyKeyBecomeZerosAndNoOthers) {
  for (int round = 0; round < rounds(80); ++round) {
    check_random_case();
    if (HasFatalFailure()) return;
  }
}

// A padded batch of which nothing is left, beside one without padding.
TEST_P(BlindRows, AWholeBatchMayBeHidden) {
  BlindRowsCall call;
  call.batches = 2;
  call.heads = 12;
  call.queries = 33;
  call.keys = 40;
  call.width = 64;
  call.mask_batch_stride = call.keys;
  call.result_head_stride = call.width;
  call.result_query_stride = call.width * call.heads;
  call.result_batch_stride = call.result_query_stride * call.queries;
  Buffer mask(*device_, call.dtype, 2 * call.keys);
  Buffer result(*device_, call.dtype, 2 * call.result_batch_stride);
  for (std::int64_t i = 0; i < mask.count(); ++i) mask.set(i, i < call.keys ? kHidden : 0);
  for (std::int64_t i = 0; i < result.count(); ++i) result.set(i, std::nan(""));
  call.mask = mask.data();
  call.result = result.data();
  run(plan_blind_rows(call, shape()));
  for (std::int64_t i = 0; i < result.count(); ++i) {
    ASSERT_EQ(std::isnan(result.get(i)), i >= call.result_batch_stride) << i;
    ASSERT_EQ(result.code(i) == 0, i < call.result_batch_stride) << i;
  }
}

// The greatest numbers below zero hide nothing by themselves, and +infinity least of all.
TEST_P(BlindRows, OnlyMinusInfinityHides) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    BlindRowsCall call;
    call.dtype = dtype;
    call.queries = 3;
    call.keys = call.mask_query_stride = 8;
    call.width = call.result_query_stride = 8;
    Buffer mask(*device_, dtype, 24);
    Buffer result(*device_, dtype, 24);
    const double lowest = dtype == DType::kFloat16 ? -65504.0 : -3.3895313892515355e38;
    for (std::int64_t i = 0; i < 24; ++i) {
      mask.set(i, i < 8 ? lowest : (i < 16 ? -kHidden : kHidden));
      result.set(i, 5);
    }
    call.mask = mask.data();
    call.result = result.data();
    run(plan_blind_rows(call, shape()));
    for (std::int64_t i = 0; i < 24; ++i) ASSERT_EQ(result.get(i), i < 16 ? 5.0 : 0.0) << i;
  }
}

TEST_P(BlindRows, BadCallsAreRefused) {
  BlindRowsCall call;
  EXPECT_TRUE(plan_blind_rows(call, shape())->empty());
  call.queries = call.width = 4;
  EXPECT_EQ(plan_blind_rows(call, shape()).status().message(), "blind_rows: there are no keys");
  call.keys = 4;
  EXPECT_EQ(plan_blind_rows(call, shape()).status().message(), "blind_rows: mask and result must be given");
  call.mask_query_stride = -1;
  EXPECT_FALSE(plan_blind_rows(call, shape()).ok());
  call.dtype = DType::kFloat32;
  EXPECT_EQ(plan_blind_rows(call, shape()).status().message(), "blind_rows: no kernel for float32");
}

KPT_KERNEL_TESTS(BlindRows);

}  // namespace
}  // namespace kpt::gpu::testing
