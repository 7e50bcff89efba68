#include "memory/available_memory.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using testing::HasSubstr;

MemoryStatistics make_memory() {
  MemoryStatistics memory;
  memory.total_bytes = 1000;
  memory.free_bytes = 300;  // another process holds 200
  memory.allocated_bytes = 400;
  memory.reserved_bytes = 500;
  memory.split_bytes = 50;
  return memory;
}

TEST(AvailableMemory, AShortageHasThreeNames) {
  for (const StatusCode code : {StatusCode::kOutOfMemory, StatusCode::kMemoryAllocation, StatusCode::kMemoryPool}) {
    EXPECT_TRUE(is_shortage(code)) << to_string(code);
  }
  for (const StatusCode code : {StatusCode::kOk, StatusCode::kMemory, StatusCode::kDevice, StatusCode::kUnsupported}) {
    EXPECT_FALSE(is_shortage(code)) << to_string(code);
  }
}

TEST(AvailableMemory, IsWhatIsFreeAndWhatIsKeptForLater) {
  MemoryStatistics memory = make_memory();
  EXPECT_EQ(count_available(memory), 400U);
  memory.reserved_bytes = std::nullopt;
  EXPECT_EQ(count_available(memory), 300U);
  memory.free_bytes = std::nullopt;
  EXPECT_EQ(count_available(memory), std::nullopt);
}

TEST(AvailableMemory, EndsWhereTheProcessMayTakeNoMore) {
  MemoryStatistics memory = make_memory();
  memory.limit_bytes = 600;
  EXPECT_EQ(count_available(memory), 200U);
  memory.limit_bytes = 100;  // set when more was in use already
  EXPECT_EQ(count_available(memory), 0U);
}

TEST(AvailableMemory, ChecksWithAMargin) {
  const MemoryStatistics memory = make_memory();
  EXPECT_TRUE(check_available(memory, 350, 50, Vendor::kNvidia, "the run").ok());
  const Status status = check_available(memory, 351, 50, Vendor::kNvidia, "the run");
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(status.vendor(), Vendor::kNvidia);
  EXPECT_THAT(status.message(), HasSubstr("the run needs 351 B of memory and 350 B can be had"));
  for (const char* part : {"needed_bytes=351", "available_bytes=400", "free_bytes=300", "margin_bytes=50", "advice="}) {
    EXPECT_THAT(status.to_string(), HasSubstr(part));
  }
}

TEST(AvailableMemory, NeitherWrapsNorRefusesWhatItCannotKnow) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_FALSE(check_available(make_memory(), kMost, kMost, Vendor::kNone, "it").ok());
  EXPECT_FALSE(check_available(make_memory(), 1, kMost, Vendor::kNone, "it").ok());
  EXPECT_TRUE(check_available(MemoryStatistics{}, kMost, 0, Vendor::kNone, "it").ok());
}

TEST(AvailableMemory, AShortageSaysWhatIsKnownOfItAndNoMore) {
  const Status failure(StatusCode::kOutOfMemory, "it failed", Vendor::kNvidia);
  EXPECT_EQ(with_memory_facts(failure, 700, make_memory(), "mend it").to_string(),
            "it failed (needed_bytes=700, available_bytes=400, free_bytes=300, total_bytes=1000, advice=mend it)");
  const Status unknown = with_memory_facts(failure, std::nullopt, MemoryStatistics{}, "mend it");
  EXPECT_EQ(unknown.to_string(), "it failed (advice=mend it)");
  EXPECT_EQ(unknown.code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(unknown.vendor(), Vendor::kNvidia);
}

TEST(AvailableMemory, FragmentationIsAShareOfWhatWasTaken) {
  MemoryStatistics memory = make_memory();
  EXPECT_EQ(count_fragmentation(memory), 0.1);
  memory.reserved_bytes = 0;
  EXPECT_EQ(count_fragmentation(memory), 0.0);
  memory.split_bytes = std::nullopt;
  EXPECT_EQ(count_fragmentation(memory), std::nullopt);
}

}  // namespace
}  // namespace kpt
