#include "kernels/gpu/embedding.h"

#include "kernels/gpu/gpu_testing.h"

namespace kpt::gpu::testing {
namespace {

class Embedding : public KernelTest {};

TEST_P(Embedding, GathersRowsOfEveryTypeAndWidth) {
  for (int round = 0; round < 40; ++round) {
    EmbeddingCall call;
    call.dtype = pick({DType::kFloat32, DType::kFloat16, DType::kInt8, DType::kFloat64});
    call.id_dtype = pick({DType::kInt64, DType::kInt32});
    call.table_rows = draw(1, 30);
    call.width = pick<std::int64_t>({draw(1, 70), 64, 8, 2 * draw(1, 30)});
    call.table_stride = call.width + pick<std::int64_t>({0, 0, 8, 1});
    call.count = draw(1, 20);
    const auto bytes = static_cast<std::int64_t>(element_bytes(call.dtype));
    Buffer table(*device_, DType::kInt8, call.table_rows * call.table_stride * bytes, draw(0, 1) * bytes);
    Buffer ids(*device_, call.id_dtype, call.count);
    Buffer output(*device_, DType::kInt8, call.count * call.width * bytes);
    Buffer flag(*device_, DType::kInt32, 1);
    for (std::int64_t i = 0; i < table.count(); ++i) table.set(i, static_cast<double>(draw(-127, 126)));
    std::vector<std::int64_t> chosen;
    for (std::int64_t i = 0; i < call.count; ++i) {
      chosen.push_back(draw(0, call.table_rows - 1));
      ids.set(i, static_cast<double>(chosen.back()));
    }
    flag.set(0, 0);
    call.table = table.data();
    call.ids = ids.data();
    call.output = output.data();
    call.out_of_range = static_cast<std::int32_t*>(flag.data());
    const auto plan = plan_embedding(call, shape());
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    SCOPED_TRACE(plan->front().kernel);
    run(plan);
    EXPECT_EQ(flag.code(0), 0U);
    for (std::int64_t i = 0; i < output.count(); ++i) {
      const std::int64_t row = i / (call.width * bytes);
      const std::int64_t source =
          chosen[static_cast<std::size_t>(row)] * call.table_stride * bytes + i % (call.width * bytes);
      ASSERT_EQ(output.code(i), table.code(source)) << i;
    }
  }
}

TEST_P(Embedding, IdsOutsideTheTableAreReportedAndReadNothing) {
  for (const std::int64_t bad : {-1, 5, 1 << 30}) {
    EmbeddingCall call;
    call.table_rows = 5;
    call.width = call.table_stride = 4;
    call.count = 2;
    Buffer table(*device_, DType::kFloat32, 20);
    Buffer ids(*device_, DType::kInt64, 2);
    Buffer output(*device_, DType::kFloat32, 8);
    Buffer flag(*device_, DType::kInt32, 1);
    table.fill(random_);
    ids.set(0, static_cast<double>(bad));
    ids.set(1, 4);
    flag.set(0, 0);
    call.table = table.data();
    call.ids = ids.data();
    call.output = output.data();
    call.out_of_range = static_cast<std::int32_t*>(flag.data());
    run(plan_embedding(call, shape()));
    EXPECT_EQ(flag.code(0), 1U);
    for (std::int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(output.get(i), 0.0);
      EXPECT_EQ(output.get(4 + i), table.get(16 + i));
    }
  }
}

TEST_P(Embedding, BadCallsAreRefused) {
  EmbeddingCall call;
  EXPECT_TRUE(plan_embedding(call, shape())->empty());
  call.id_dtype = DType::kFloat32;
  EXPECT_EQ(plan_embedding(call, shape()).status().message(), "embedding: ids are float32 and must be int64 or int32");
  call.id_dtype = DType::kInt64;
  call.count = call.width = 1;
  EXPECT_FALSE(plan_embedding(call, shape()).ok());
}

KPT_KERNEL_TESTS(Embedding);

}  // namespace
}  // namespace kpt::gpu::testing
