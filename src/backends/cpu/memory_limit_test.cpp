#include "backends/cpu/memory_limit.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/hardware_fixture.h"

namespace kpt {
namespace {

class MemoryLeft : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.path().string() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::optional<std::uint64_t> left() const { return find_memory_left(SystemFiles(folder_.path())); }

 private:
  testing::TemporaryFolder folder_;
};

TEST_F(MemoryLeft, IsWhatTheKernelCallsAvailable) {
  EXPECT_EQ(left(), std::nullopt);
  write("/proc/meminfo", "MemTotal:       900 kB\nMemFree:         100 kB\nMemAvailable:    700 kB\n");
  EXPECT_EQ(left(), 700U * 1024);
}

TEST_F(MemoryLeft, IsLessWhereAGroupHasLessAndItsCacheOfFilesCanGo) {
  write("/proc/meminfo", "MemAvailable: 700 kB\n");
  write("/proc/self/cgroup", "0::/job/inner\n");
  write("/sys/fs/cgroup/job/memory.max", "500000\n");
  write("/sys/fs/cgroup/job/memory.current", "300000\n");
  EXPECT_EQ(left(), 200000U);
  write("/sys/fs/cgroup/job/memory.stat", "anon 200000\ninactive_file 90000\n");
  EXPECT_EQ(left(), 290000U);
  write("/sys/fs/cgroup/job/inner/memory.max", "max\n");
  EXPECT_EQ(left(), 290000U);
  write("/sys/fs/cgroup/job/inner/memory.max", "1000\n");
  write("/sys/fs/cgroup/job/inner/memory.current", "2000\n");
  EXPECT_EQ(left(), 0U);
}

TEST_F(MemoryLeft, KnowsTheFirstVersionOfGroups) {
  write("/proc/meminfo", "MemAvailable: 700 kB\n");
  write("/proc/self/cgroup", "4:memory:/job\n");
  write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "5000\n");
  write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "3000\n");
  write("/sys/fs/cgroup/memory/job/memory.stat", "total_inactive_file 1000\n");
  EXPECT_EQ(left(), 3000U);
}

}  // namespace
}  // namespace kpt
