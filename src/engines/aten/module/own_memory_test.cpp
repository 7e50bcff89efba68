// Tasks of kernels on libtorch's threads.
#include "engines/aten/module/own_memory.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace kpt::aten {
namespace {

// So many threads of libtorch's, until it goes.
class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

// Every task once, and no worker twice at the same time.
void check(Workers& workers, std::int64_t tasks) {
  const kernels::Parallel parallel = workers.parallel();
  std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tasks));
  std::vector<std::atomic<int>> at_work(static_cast<std::size_t>(parallel.threads));
  std::atomic<int> wrong = 0;
  auto task = [&](std::int64_t index, int worker) {
    if (worker < 0 || worker >= parallel.threads) {
      ++wrong;
      return;
    }
    std::atomic<int>& here = at_work[static_cast<std::size_t>(worker)];
    if (here.fetch_add(1) != 0) ++wrong;
    if (index % 3 == 0) std::this_thread::yield();
    ++runs[static_cast<std::size_t>(index)];
    here.fetch_sub(1);
  };
  parallel.for_each(tasks, task);
  EXPECT_EQ(wrong, 0);
  for (std::int64_t index = 0; index < tasks; ++index) {
    EXPECT_EQ(runs[static_cast<std::size_t>(index)], 1) << "task " << index << " of " << tasks;
  }
}

TEST(Workers, RunEveryTaskOnceWithAnyNumberOfThreads) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  Workers workers;  // keeps its memory when the number of threads changes
  for (const int threads : {1, 2, 5, 3, 16, 2}) {
    const Threads of(threads);
    EXPECT_EQ(workers.parallel().threads, threads);
    for (int round = 0; round < 50; ++round) {
      check(workers, std::uniform_int_distribution<std::int64_t>(0, 40)(random));
    }
  }
}

TEST(Workers, BeginWithTheSamePartOfAllTasks) {
  constexpr std::int64_t kTasks = 1000;
  const Threads of(2);
  Workers workers;
  const kernels::Parallel parallel = workers.parallel();
  std::atomic<bool> has_begun[2] = {false, false};
  std::int64_t first[2] = {-1, -1};
  auto task = [&](std::int64_t index, int worker) {
    if (first[worker] >= 0) return;
    first[worker] = index;
    has_begun[worker] = true;
    // Or one might take all before the other wakes. Where there is no other, this is a failure and no hang.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!has_begun[1 - worker] && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  };
  parallel.for_each(kTasks, task);
  EXPECT_EQ(first[0], 0);
  EXPECT_EQ(first[1], kTasks / 2);
}

TEST(Workers, AreOneInsideARegionOfLibtorch) {
  const Threads of(2);
  Workers workers;
  std::atomic<int> most = 0;
  auto task = [&](std::int64_t /*index*/, int /*worker*/) {
    Workers inner;
    most = std::max(most.load(), inner.parallel().threads);
  };
  workers.parallel().for_each(2, task);
  EXPECT_EQ(most, 1);
}

}  // namespace
}  // namespace kpt::aten
