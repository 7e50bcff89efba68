#include "kernels/cpu/product_plan.h"

#include <algorithm>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace kpt::kernels {
namespace {

// Work of the slowest thread over the mean work, tasks dealt out in equal numbers.
double imbalance(const ProductShape& shape, const ProductPlan& plan) {
  const std::int64_t rounds = (plan.tasks() + shape.threads - 1) / shape.threads;
  const auto slowest = static_cast<double>(rounds * plan.row_block * plan.column_block);
  return slowest * shape.threads / static_cast<double>(shape.row_panels * shape.column_panels);
}

TEST(ProductPlan, CoversEveryTileOnce) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 2000; ++i) {
    ProductShape shape;
    shape.row_panels = std::uniform_int_distribution<std::int64_t>(1, 2000)(random);
    shape.column_panels = std::uniform_int_distribution<std::int64_t>(1, 300)(random);
    shape.stretch_bytes = std::uniform_int_distribution<std::size_t>(0, 1 << 20)(random);
    shape.threads = std::uniform_int_distribution<int>(1, 64)(random);
    shape.packs_late = std::uniform_int_distribution<int>(0, 1)(random) == 1;
    const ProductPlan plan = plan_product(shape);
    EXPECT_GE(plan.row_blocks * plan.row_block, shape.row_panels);
    EXPECT_LT((plan.row_blocks - 1) * plan.row_block, shape.row_panels);
    EXPECT_GE(plan.column_blocks * plan.column_block, shape.column_panels);
    EXPECT_LT((plan.column_blocks - 1) * plan.column_block, shape.column_panels);
  }
}

TEST(ProductPlan, NothingToDoMakesNoTask) {
  EXPECT_EQ(plan_product({0, 5, 64, 4}).tasks(), 0);
  EXPECT_EQ(plan_product({5, 0, 64, 4}).tasks(), 0);
}

TEST(ProductPlan, ThreadsOfUsualTransformersAreBalanced) {
  for (const int threads : {2, 3, 4, 6, 8, 12, 16}) {
    for (const std::int64_t columns : {384, 768, 1152, 1536, 2304, 3072}) {
      for (const std::int64_t depth : {384, 768, 3072}) {
        const ProductShape shape = {128 / 8, columns / 12,
                                    static_cast<std::size_t>(std::min<std::int64_t>(depth, 512) * 8 * 4), threads};
        EXPECT_LE(imbalance(shape, plan_product(shape)), 1.26)
            << threads << " threads, N = " << columns << ", K = " << depth;
      }
    }
  }
}

// Nothing is shared then, so that nothing is waited for: few rows are cut by columns alone.
TEST(ProductPlan, FewRowsThatArePackedLateAreCutByColumns) {
  const ProductPlan plan = plan_product({4, 64, 14 << 10, 2, true});
  EXPECT_EQ(plan.row_blocks, 1);
  EXPECT_GE(plan.column_blocks, 2);
  EXPECT_LE(imbalance({4, 64, 14 << 10, 2, true}, plan), 1.05);
}

TEST(ProductPlan, OneRowIsSharedByAllThreads) {
  const ProductPlan plan = plan_product({1, 64, 3072, 16});
  EXPECT_EQ(plan.row_blocks, 1);
  EXPECT_GE(plan.column_blocks, 16);
}

}  // namespace
}  // namespace kpt::kernels
