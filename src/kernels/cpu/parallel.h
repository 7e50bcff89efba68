// How a kernel spreads its work. Kernels start no threads: whoever calls them lends some.
#pragma once

#include <cstdint>

namespace kpt::kernels {

// A borrowed set of workers. `run` calls `task(context, index, worker)` once for every index in [0, tasks), in any
// order, some at the same time, and returns when all are done. `worker` is in [0, threads); two calls with the same
// worker never overlap, so scratch memory may be kept per worker. Tasks do not throw and start no further tasks.
struct Parallel {
  using Task = void (*)(void* context, std::int64_t index, int worker);

  int threads = 1;
  void (*run)(void* pool, std::int64_t tasks, Task task, void* context) = &run_in_order;
  void* pool = nullptr;

  // The serial one: everything on the calling thread, as worker 0.
  static void run_in_order(void* /*pool*/, std::int64_t tasks, Task task, void* context) {
    for (std::int64_t index = 0; index < tasks; ++index) task(context, index, 0);
  }

  // Calls `body(index, worker)` for every index; what needs no other thread stays on this one.
  template <typename Body>
  void for_each(std::int64_t tasks, Body& body) const {
    const Task task = [](void* context, std::int64_t index, int worker) {
      (*static_cast<Body*>(context))(index, worker);
    };
    if (tasks <= 1 || threads <= 1) {
      run_in_order(nullptr, tasks, task, &body);
    } else {
      run(pool, tasks, task, &body);
    }
  }
};

}  // namespace kpt::kernels
