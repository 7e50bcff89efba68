#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <system_error>

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

std::optional<double> ratio(std::string_view quota_text, std::string_view period_text) {
  const auto quota = parse_int(quota_text);
  const auto period = parse_int(period_text);
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;  // "max" or -1: no limit
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<double> quota_v2(const SystemFiles& files, const std::string& folder) {
  const auto text = files.read(folder + "/cpu.max");
  if (!text.ok()) return std::nullopt;
  const auto parts = split(*text, ' ');
  return parts.size() == 2 ? ratio(parts[0], parts[1]) : std::nullopt;
}

std::optional<double> quota_v1(const SystemFiles& files, const std::string& folder) {
  const auto quota = files.read(folder + "/cpu.cfs_quota_us");
  const auto period = files.read(folder + "/cpu.cfs_period_us");
  return quota.ok() && period.ok() ? ratio(*quota, *period) : std::nullopt;
}

// The tightest limit between `group` and the root; outer groups limit inner ones.
template <typename Quota>
std::optional<double> tightest_quota(std::string group, Quota quota_of) {
  // Inside a container the group may be named as the host sees it; the files of the root are there in any case.
  if (!group.starts_with('/') || group.size() > 4096) group.clear();
  std::optional<double> tightest;
  while (true) {
    const std::optional<double> quota = quota_of(group);
    if (quota && (!tightest || *quota < *tightest)) tightest = quota;
    if (group.empty()) return tightest;
    group.erase(group.rfind('/'));
  }
}

}  // namespace

std::optional<double> find_cpu_quota(const SystemFiles& files) {
  std::string group_v2;
  std::string group_v1;
  if (const auto text = files.read("/proc/self/cgroup"); text.ok()) {
    // Lines are "number:controllers:group"; the one of version 2 has no controllers.
    for (const std::string_view line : split(*text, '\n')) {
      const auto first = line.find(':');
      const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
      if (second == std::string_view::npos) continue;
      const std::string_view controllers = line.substr(first + 1, second - first - 1);
      if (controllers.empty()) group_v2 = line.substr(second + 1);
      if (std::ranges::count(split(controllers, ','), "cpu") > 0) group_v1 = line.substr(second + 1);
    }
  }
  const auto v2 =
      tightest_quota(group_v2, [&](const std::string& group) { return quota_v2(files, "/sys/fs/cgroup" + group); });
  const auto v1 =
      tightest_quota(group_v1, [&](const std::string& group) { return quota_v1(files, "/sys/fs/cgroup/cpu" + group); });
  if (v1 && v2) return std::min(*v1, *v2);
  return v1 ? v1 : v2;
}

int usable_cpu_count(const SystemFiles& files) {
  int count = affinity_count();
  // Compared as doubles: a quota can exceed every int.
  if (const auto quota = find_cpu_quota(files); quota && *quota < count) count = static_cast<int>(std::ceil(*quota));
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
  const int wanted = std::max(thread_count, 1);
  threads_.reserve(static_cast<std::size_t>(wanted));
  try {
    for (int i = 0; i < wanted; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // A container's limit on processes; one thread is enough to do the work, none is not.
    if (threads_.empty()) throw;
  }
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
