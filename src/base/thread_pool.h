// A fixed set of worker threads, and how many of them this process should have.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/environment.h"
#include "base/files.h"

namespace kpt {

// CPU time per unit of time that the container grants, e.g. 1.5: the tightest of the groups (cgroup v2 or v1) from this
// process's own up to the root. Nothing without a limit.
std::optional<double> find_cpu_quota(const SystemFiles& files);

// Cores that this process may really use: the least of the affinity mask and the container's CPU quota
// (rounded up), at least 1.
int usable_cpu_count(const SystemFiles& files);

// usable_cpu_count(), further limited by OMP_NUM_THREADS when that is a positive number ("4", or the first of "4,2").
int default_thread_count(const SystemFiles& files, const Environment& environment);

// Tasks run in the order of submission on `thread_count` threads. The destructor finishes what was submitted.
// Where the system refuses so many threads there are fewer, at least one; std::system_error when it refuses even that.
// Thread safe. A task must not wait for another task of the same pool.
class ThreadPool {
 public:
  explicit ThreadPool(int thread_count);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int thread_count() const { return static_cast<int>(threads_.size()); }

  // The future carries the task's value or its exception.
  template <typename Task>
  std::future<std::invoke_result_t<Task>> submit(Task task) {
    // std::function needs a copyable callable, std::packaged_task is not: share it.
    auto packaged = std::make_shared<std::packaged_task<std::invoke_result_t<Task>()>>(std::move(task));
    auto future = packaged->get_future();
    enqueue([packaged] { (*packaged)(); });
    return future;
  }

 private:
  void enqueue(std::function<void()> task);
  void work();

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kpt
