#include "memory/process_memory.h"

#include <sys/mman.h>

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace kpt {
namespace {

TEST(ProcessMemory, ReadsTheThreeFiguresOfTheKernel) {
  const auto memory = parse_process_status(
      "Name:\tkpt\nVmPeak:\t  999 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nRssAnon:\t     512 kB\nThreads:\t3\n");
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->peak_bytes, 2048U * 1024);
  EXPECT_EQ(memory->resident_bytes, 1024U * 1024);
  EXPECT_EQ(memory->anonymous_bytes, 512U * 1024);
}

TEST(ProcessMemory, WhatIsMissingOrNoNumberIsNoAnswer) {
  EXPECT_FALSE(parse_process_status(""));
  EXPECT_FALSE(parse_process_status("VmHWM: 1 kB\nVmRSS: 1 kB\n"));
  EXPECT_FALSE(parse_process_status("VmHWM: 1 kB\nVmRSS: x kB\nRssAnon: 1 kB\n"));
  EXPECT_FALSE(parse_process_status("VmHWM: 1 kB\nVmRSS: 18446744073709551615 kB\nRssAnon: 1 kB\n"));
  EXPECT_FALSE(parse_process_status("VmHWM: 1\nVmRSS: 1 kB\nRssAnon: 1 kB\n"));
  EXPECT_FALSE(read_process_memory(SystemFiles("/nowhere")).ok());
}

TEST(ProcessMemory, LoadIsThreeNumbersOrNone) {
  const auto load = read_load_average(SystemFiles());
  EXPECT_TRUE(load.size() == 3 || !SystemFiles().exists("/proc/loadavg"));
  for (const double average : load) EXPECT_GE(average, 0);
  EXPECT_TRUE(read_load_average(SystemFiles("/nowhere")).empty());
}

TEST(ProcessMemory, PeakRemembersWhatWasGivenBack) {
  const SystemFiles files;
  if (!read_process_memory(files).ok()) GTEST_SKIP() << "no /proc here";
  const bool resets = reset_peak(files).ok();
  const ProcessMemory before = *read_process_memory(files);
  constexpr std::size_t kBytes = std::size_t{64} << 20U;
  {
    // From the kernel itself: a sanitizer keeps what is freed for a while.
    void* block = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(block, MAP_FAILED);
    std::memset(block, 1, kBytes);
    EXPECT_GT(read_process_memory(files)->anonymous_bytes, before.anonymous_bytes + kBytes / 2);
    ASSERT_EQ(::munmap(block, kBytes), 0);
  }
  const ProcessMemory after = *read_process_memory(files);
  EXPECT_GE(after.peak_bytes, after.resident_bytes);
  if (resets) {
    EXPECT_GT(after.peak_bytes, before.resident_bytes + kBytes / 2);
    ASSERT_TRUE(reset_peak(files).ok());
    EXPECT_LT(read_process_memory(files)->peak_bytes, after.peak_bytes);
  }
}

}  // namespace
}  // namespace kpt
