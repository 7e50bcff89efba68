#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <optional>
#include <system_error>
#include <vector>

#include "base/environment.h"
#include "base/files.h"
#include "base/thread_pool.h"

namespace kpt {

void for_each_stretch(std::size_t count, std::size_t stretch,
                      const std::function<void(std::size_t begin, std::size_t end)>& work) {
  constexpr std::size_t kMaxThreads = 16;
  const std::size_t stretches = count / stretch + (count % stretch != 0 ? 1 : 0);
  std::atomic<std::size_t> next{0};
  const auto take = [&] {
    for (std::size_t at = next.fetch_add(1); at < stretches; at = next.fetch_add(1)) {
      work(at * stretch, std::min(count, (at + 1) * stretch));
    }
  };
  std::size_t threads = std::min(stretches, kMaxThreads);
  if (threads > 1) {
    const int allowed = default_thread_count(SystemFiles(), Environment::from_process());
    threads = std::min(threads, static_cast<std::size_t>(allowed));
  }
  std::vector<std::future<void>> others;
  std::optional<ThreadPool> pool;  // goes first, so that nobody is left in `take`
  if (threads > 1) {
    try {
      pool.emplace(static_cast<int>(threads) - 1);
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): no thread to be had, the caller does all
    }
  }
  for (int i = 0; pool && i < pool->thread_count(); ++i) others.push_back(pool->submit(take));
  take();
  for (std::future<void>& other : others) other.get();
}

}  // namespace kpt
