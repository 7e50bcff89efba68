#include "cli/memory_text.h"

#include <gtest/gtest.h>

namespace kpt::cli {
namespace {

TEST(MemoryText, SaysWhatIsKnownAndNothingElse) {
  MemoryStatistics memory;
  EXPECT_EQ(describe_memory(memory), "");
  memory.allocated_bytes = 1024;
  memory.free_bytes = 3072;
  EXPECT_EQ(describe_memory(memory), "in use 1.0 KiB, free 3.0 KiB");
  memory.total_bytes = 8192;
  memory.peak_bytes = 2048;
  memory.reserved_bytes = 4096;
  EXPECT_EQ(describe_memory(memory), "in use 1.0 KiB, peak 2.0 KiB, taken 4.0 KiB, free 3.0 KiB of 8.0 KiB");
}

TEST(MemoryText, JsonHasNullWhereNobodyCounts) {
  MemoryStatistics memory;
  memory.allocated_bytes = 100;
  memory.reserved_bytes = 400;
  memory.free_bytes = 50;
  memory.split_bytes = 100;
  memory.frees = 7;
  const auto json = to_json(memory);
  EXPECT_EQ(json.at("frees"), 7);
  EXPECT_EQ(json.at("available_bytes"), 350);
  EXPECT_EQ(json.at("fragmentation"), 0.25);
  EXPECT_TRUE(json.at("retries").is_null());
  EXPECT_TRUE(json.at("limit_bytes").is_null());
}

}  // namespace
}  // namespace kpt::cli
