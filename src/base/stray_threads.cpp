#include "base/stray_threads.h"

#include <atomic>

namespace kpt {
namespace {

std::atomic<std::size_t>& counter() {
  static std::atomic<std::size_t> count{0};
  return count;
}

}  // namespace

std::size_t count_stray_threads() { return counter(); }
void add_stray_thread() { ++counter(); }
void remove_stray_thread() { --counter(); }

}  // namespace kpt
