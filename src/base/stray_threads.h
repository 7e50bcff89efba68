// Threads inside a library that may never come back, and that nobody waits for any more. A process that ends while
// there are some leaves without destroying what they may use (std::_Exit).
#pragma once

#include <cstddef>

namespace kpt {

// Thread safe.
std::size_t count_stray_threads();
void add_stray_thread();
void remove_stray_thread();

}  // namespace kpt
