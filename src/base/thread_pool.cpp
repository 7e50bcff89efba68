#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/text.h"

namespace kpt {
namespace {

int affinity_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // More than 1024 CPUs do not fit the plain set; the call then fails and the hardware count stands.
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return static_cast<int>(std::thread::hardware_concurrency());
  return CPU_COUNT(&set);
}

std::optional<double> quota_v2(const SystemFiles& files, const std::string& folder) {
  const auto text = files.read(folder + "/cpu.max");
  if (!text.ok()) return std::nullopt;
  const auto parts = split(*text, ' ');
  if (parts.size() != 2) return std::nullopt;
  const auto quota = parse_int(parts[0]);
  const auto period = parse_int(parts[1]);
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;  // "max": no limit
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<double> quota_v1(const SystemFiles& files) {
  const auto quota_text = files.read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  const auto period_text = files.read("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (!quota_text.ok() || !period_text.ok()) return std::nullopt;
  const auto quota = parse_int(*quota_text);
  const auto period = parse_int(*period_text);
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// The tightest limit between this process's group and the root; outer groups limit inner ones.
std::optional<double> cpu_quota(const SystemFiles& files) {
  std::optional<double> tightest = quota_v1(files);
  std::string group;
  if (const auto text = files.read("/proc/self/cgroup"); text.ok()) {
    for (const std::string_view line : split(*text, '\n')) {
      if (line.starts_with("0::")) group = std::string(line.substr(3));
    }
  }
  while (true) {
    const auto quota = quota_v2(files, "/sys/fs/cgroup" + (group == "/" ? std::string() : group));
    if (quota && (!tightest || *quota < *tightest)) tightest = quota;
    if (group.empty() || group == "/") return tightest;
    group.erase(group.rfind('/'));
  }
}

}  // namespace

int usable_cpu_count(const SystemFiles& files) {
  int count = affinity_count();
  if (const auto quota = cpu_quota(files)) count = std::min(count, static_cast<int>(std::ceil(*quota)));
  return std::max(count, 1);
}

int default_thread_count(const SystemFiles& files, const Environment& environment) {
  const int count = usable_cpu_count(files);
  const auto omp = environment.find("OMP_NUM_THREADS");
  if (!omp) return count;
  const auto limit = parse_int(trim(split(*omp, ',').front()));
  return limit && *limit > 0 ? static_cast<int>(std::min<std::int64_t>(count, *limit)) : count;
}

ThreadPool::ThreadPool(int thread_count) {
  threads_.reserve(static_cast<std::size_t>(std::max(thread_count, 1)));
  for (int i = 0; i < std::max(thread_count, 1); ++i) threads_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::enqueue(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  ready_.notify_one();
}

void ThreadPool::work() {
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace kpt
