#include "base/thread_pool.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "base/build_info.h"
#include "base/text.h"
#include "support/hardware_fixture.h"

namespace kpt {
namespace {

// A machine that has only the files given to it.
class FakeMachine {
 public:
  FakeMachine& file(const std::string& absolute_path, const std::string& content) {
    const Status status = write_file_atomically(folder_.path() / absolute_path.substr(1), content);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return *this;
  }
  SystemFiles files() const { return SystemFiles(folder_.path()); }

 private:
  testing::TemporaryFolder folder_;
};

int affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

TEST(CpuQuota, NoFilesMeanNoLimit) {
  const FakeMachine machine;
  EXPECT_EQ(find_cpu_quota(machine.files()), std::nullopt);
  EXPECT_EQ(usable_cpu_count(machine.files()), affinity());
}

TEST(CpuQuota, Version2OfAContainerIsReadAtTheRoot) {
  FakeMachine machine;
  machine.file("/proc/self/cgroup", "0::/\n").file("/sys/fs/cgroup/cpu.max", "150000 100000\n");
  EXPECT_EQ(find_cpu_quota(machine.files()), 1.5);
  machine.file("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(find_cpu_quota(machine.files()), std::nullopt);
}

TEST(CpuQuota, NestedGroupsOfVersion2TakeTheTightest) {
  FakeMachine machine;
  machine.file("/proc/self/cgroup", "0::/a/b/c\n")
      .file("/sys/fs/cgroup/a/cpu.max", "300000 100000")
      .file("/sys/fs/cgroup/a/b/cpu.max", "200000 100000")
      .file("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000");
  EXPECT_EQ(find_cpu_quota(machine.files()), 2.0);
  machine.file("/sys/fs/cgroup/a/cpu.max", "50000 100000");
  EXPECT_EQ(find_cpu_quota(machine.files()), 0.5);
  machine.file("/sys/fs/cgroup/a/b/c/cpu.max", "1000 100000");
  EXPECT_EQ(find_cpu_quota(machine.files()), 0.01);
  machine.file("/sys/fs/cgroup/b/cpu.max", "1 100000");  // a sibling that is none of our business
  EXPECT_EQ(find_cpu_quota(machine.files()), 0.01);
}

TEST(CpuQuota, GroupNamedAsTheHostSeesItStillFindsTheRoot) {
  FakeMachine machine;
  machine.file("/proc/self/cgroup", "0::/../../kubepods/pod1\n").file("/sys/fs/cgroup/cpu.max", "250000 100000");
  EXPECT_EQ(find_cpu_quota(machine.files()), 2.5);
}

TEST(CpuQuota, Version1IsReadAtTheRootAndInTheGroup) {
  FakeMachine machine;
  machine.file("/proc/self/cgroup", "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/docker/x\n")
      .file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n")
      .file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(find_cpu_quota(machine.files()), 4.0);
  machine.file("/sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "50000")
      .file("/sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000");
  EXPECT_EQ(find_cpu_quota(machine.files()), 0.5);
  machine.file("/sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(find_cpu_quota(machine.files()), 4.0);
  machine.file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(find_cpu_quota(machine.files()), std::nullopt);
}

TEST(CpuQuota, CpusetIsNotTakenForTheCpuController) {
  FakeMachine machine;
  machine.file("/proc/self/cgroup", "3:cpu:/ours\n2:cpuset:/other\n")
      .file("/sys/fs/cgroup/cpu/other/cpu.cfs_quota_us", "1000")
      .file("/sys/fs/cgroup/cpu/other/cpu.cfs_period_us", "100000");
  EXPECT_EQ(find_cpu_quota(machine.files()), std::nullopt);
}

TEST(CpuQuota, MixedSystemTakesTheTighterVersion) {
  FakeMachine machine;
  machine.file("/sys/fs/cgroup/cpu.max", "200000 100000")
      .file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000")
      .file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(find_cpu_quota(machine.files()), 2.0);
  machine.file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000");
  EXPECT_EQ(find_cpu_quota(machine.files()), 1.0);
}

TEST(CpuQuota, BrokenFilesMeanNoLimitAndNoCrash) {
  for (const std::string text : {"", "max", "100000", "100000 0", "0 100000", "-5 100000", "a b", "1 2 3", "1  2",
                                 "99999999999999999999 100000", "1e5 1e5", "\xff\xfe"}) {
    FakeMachine machine;
    machine.file("/sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(find_cpu_quota(machine.files()), std::nullopt) << text;
    EXPECT_EQ(usable_cpu_count(machine.files()), affinity()) << text;
  }
  for (const std::string& text : {std::string("0::garbage"), std::string("0::"), std::string(":"), std::string("::"),
                                  std::string("no colon"), "0::/" + std::string(100000, '/')}) {
    FakeMachine machine;
    machine.file("/proc/self/cgroup", text).file("/sys/fs/cgroup/cpu.max", "100000 100000");
    EXPECT_EQ(find_cpu_quota(machine.files()), 1.0) << text.substr(0, 20);
  }
}

TEST(UsableCpuCount, QuotaIsRoundedUpAndNeverBelowOne) {
  FakeMachine machine;
  machine.file("/sys/fs/cgroup/cpu.max", "1000 100000");
  EXPECT_EQ(usable_cpu_count(machine.files()), 1);
  machine.file("/sys/fs/cgroup/cpu.max", "100000 100000");
  EXPECT_EQ(usable_cpu_count(machine.files()), 1);
  machine.file("/sys/fs/cgroup/cpu.max", "100001 100000");
  EXPECT_EQ(usable_cpu_count(machine.files()), std::min(2, affinity()));
}

TEST(UsableCpuCount, QuotaAboveTheMachineChangesNothing) {
  FakeMachine machine;
  for (const char* text : {"100000000 100000", "9223372036854775807 1"}) {
    machine.file("/sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(usable_cpu_count(machine.files()), affinity()) << text;
  }
}

TEST(UsableCpuCount, RespectsTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  std::size_t first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(usable_cpu_count(FakeMachine().files()), 1);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(DefaultThreadCount, OmpNumThreadsLowersTheCount) {
  const FakeMachine machine;
  const int cpus = affinity();
  const auto count = [&](const std::string& value) {
    return default_thread_count(machine.files(), Environment::from_map({{"OMP_NUM_THREADS", value}}));
  };
  EXPECT_EQ(count("1"), 1);
  EXPECT_EQ(count(" 1 "), 1);
  EXPECT_EQ(count("1,4"), 1);
  EXPECT_EQ(count("1 , 4"), 1);
  EXPECT_EQ(count("1000000"), cpus);
  EXPECT_EQ(count("9000000000"), cpus);
  for (const char* bad : {"", "0", "-3", "many", "1.5", ",", ",1", " ", "99999999999999999999", "0x1"}) {
    EXPECT_EQ(count(bad), cpus) << bad;
  }
  EXPECT_EQ(default_thread_count(machine.files(), Environment::from_map({})), cpus);
}

TEST(ThreadPool, FutureCarriesTheValue) {
  ThreadPool pool(3);
  EXPECT_EQ(pool.thread_count(), 3);
  std::vector<std::future<int>> futures;
  futures.reserve(100);
  for (int i = 0; i < 100; ++i) futures.push_back(pool.submit([i] { return i * i; }));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(futures[static_cast<std::size_t>(i)].get(), i * i);
}

TEST(ThreadPool, FutureCarriesTheExceptionAndThePoolGoesOn) {
  ThreadPool pool(1);
  std::future<int> broken = pool.submit([]() -> int { throw std::runtime_error("task broke"); });
  std::future<int> next = pool.submit([] { return 5; });
  EXPECT_THROW(broken.get(), std::runtime_error);
  EXPECT_EQ(next.get(), 5);
}

TEST(ThreadPool, OneThreadKeepsTheOrderOfSubmission) {
  std::vector<int> order;
  {
    ThreadPool pool(1);
    for (int i = 0; i < 200; ++i) pool.submit([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 200u);
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST(ThreadPool, DestructorFinishesWhatWasSubmitted) {
  std::atomic<int> done{0};
  {
    ThreadPool pool(2);
    for (int i = 0; i < 50; ++i) {
      pool.submit([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++done;
      });
    }
  }
  EXPECT_EQ(done.load(), 50);
}

TEST(ThreadPool, TaskMaySubmitAnotherEvenWhileThePoolEnds) {
  std::atomic<int> done{0};
  {
    ThreadPool pool(2);
    pool.submit([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      pool.submit([&] { ++done; });
      ++done;
    });
  }
  EXPECT_EQ(done.load(), 2);
}

TEST(ThreadPool, TasksRunAtTheSameTime) {
  ThreadPool pool(2);
  std::promise<void> first_is_running;
  std::promise<void> second_is_running;
  auto first = pool.submit([&] {
    first_is_running.set_value();
    return second_is_running.get_future().wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  });
  auto second = pool.submit([&] {
    second_is_running.set_value();
    return first_is_running.get_future().wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  });
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(second.get());
}

TEST(ThreadPool, TakesMoveOnlyTasksAndManySubmitters) {
  std::atomic<int> sum{0};
  {
    ThreadPool pool(4);
    std::vector<std::thread> submitters;
    submitters.reserve(4);
    for (int t = 0; t < 4; ++t) {
      submitters.emplace_back([&] {
        for (int i = 0; i < 100; ++i) pool.submit([&sum, one = std::make_unique<int>(1)] { sum += *one; });
      });
    }
    for (std::thread& submitter : submitters) submitter.join();
  }
  EXPECT_EQ(sum.load(), 400);
}

TEST(ThreadPool, CountBelowOneStillGivesOneThread) {
  for (const int count : {0, -1, -1000000}) {
    ThreadPool pool(count);
    EXPECT_EQ(pool.thread_count(), 1);
    EXPECT_EQ(pool.submit([] { return 1; }).get(), 1);
  }
}

// Address space for a few stacks only: the system refuses most of the threads.
int run_pool_with_little_room() {
  const auto status = read_text_file("/proc/self/statm", 4096);
  if (!status.ok()) return 3;
  const auto pages = parse_uint(split(*status, ' ').front());
  if (!pages) return 4;
  rlimit limit{};
  limit.rlim_cur = limit.rlim_max = *pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{128} << 20);
  if (::setrlimit(RLIMIT_AS, &limit) != 0) return 5;
  ThreadPool pool(500);
  if (pool.thread_count() < 1 || pool.thread_count() >= 500) return 6;
  return pool.submit([] { return 0; }).get();
}

TEST(ThreadPoolDeathTest, FewerThreadsWhereTheSystemRefusesMore) {
  if (build_info().sanitizer != "none") GTEST_SKIP() << "sanitizers need more address space than the test leaves";
  EXPECT_EXIT(::_exit(run_pool_with_little_room()), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace kpt
