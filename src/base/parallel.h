// Loops over large arrays on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace kpt {

// Calls work(begin, end) for stretches that together are [0, count), each of `stretch` items but the last. They are
// shared by default_thread_count() threads, at most 16; with one stretch, or where the system gives no thread,
// the caller does all. Returns when all are done. Stretches are disjoint, their order and threads are not fixed. What
// `work` throws is thrown here, and some stretches may then be left out. `stretch` must be above 0.
void for_each_stretch(std::size_t count, std::size_t stretch,
                      const std::function<void(std::size_t begin, std::size_t end)>& work);

}  // namespace kpt
