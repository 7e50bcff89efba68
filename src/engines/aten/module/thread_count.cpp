#include "engines/aten/module/thread_count.h"

#include <atomic>

#include <ATen/Parallel.h>

namespace kpt::aten {
namespace {

// How often the number was set: a thread that took an earlier one takes the last. Every module has its own count, and
// the CPU's module alone sets; in the others it stays, so that their threads take the number once.
std::atomic<unsigned> settings = 1;
thread_local unsigned taken = 0;

}  // namespace

void set_thread_count(int threads) {
  at::set_num_threads(threads);
  taken = ++settings;
}

void take_thread_count() {
  const unsigned current = settings.load(std::memory_order_acquire);
  if (taken == current) return;
  at::init_num_threads();
  taken = current;
}

}  // namespace kpt::aten
