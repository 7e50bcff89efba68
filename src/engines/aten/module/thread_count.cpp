#include "engines/aten/module/thread_count.h"

#include <atomic>
#include <mutex>

#include <ATen/Parallel.h>

namespace kpt::aten {
namespace {

// How often the number was set: a thread that took an earlier one takes the last. Every module has its own count, and
// the CPU's module alone sets; in the others it stays, so that their threads take the number once.
std::atomic<unsigned> settings = 1;
thread_local unsigned taken = 0;
// libtorch reads its number and writes it back when a thread takes it: one that is set meanwhile would be lost.
std::mutex changing;

}  // namespace

void set_thread_count(int threads) {
  const std::lock_guard lock(changing);
  at::set_num_threads(threads);
  taken = ++settings;
}

void take_thread_count() {
  if (taken == settings.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(changing);
  at::init_num_threads();
  taken = settings;
}

}  // namespace kpt::aten
