#include "memory/shape_buckets.h"

#include <set>

#include <gtest/gtest.h>

namespace kpt {
namespace {

TEST(ShapeBuckets, AFewSizesHoldAllAndLessThanAThirdIsPadding) {
  std::set<std::int64_t> buckets;
  for (std::int64_t size = 1; size <= kLargestBucket; ++size) {
    const std::int64_t bucket = find_bucket(size, 1 << 20);
    EXPECT_GE(bucket, size);
    EXPECT_LT(3 * (bucket - size), bucket) << size;
    EXPECT_EQ(find_bucket(bucket, 1 << 20), bucket) << "a bucket is its own";
    buckets.insert(bucket);
  }
  EXPECT_EQ(buckets,
            (std::set<std::int64_t>{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024}));
}

TEST(ShapeBuckets, NothingGoesAboveWhatTheModelTakes) {
  EXPECT_EQ(find_bucket(5, 5), 5);
  EXPECT_EQ(find_bucket(17, 20), 20);
  EXPECT_EQ(find_bucket(9, 8), 9) << "too many: the check of inputs says so, not this";
  EXPECT_EQ(find_bucket(0, 8), 0);
  EXPECT_EQ(find_bucket(kLargestBucket + 1, 1 << 20), kLargestBucket + 1);
}

}  // namespace
}  // namespace kpt
