// What own nodes borrow from a frame: memory for intermediate results, and libtorch's threads. Used by one run at a
// time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include <ATen/TensorIterator.h>

#include "kernels/cpu/parallel.h"

namespace kpt::aten {

struct FreeDeleter {
  void operator()(void* memory) const noexcept { std::free(memory); }  // NOLINT(cppcoreguidelines-no-malloc)
};

// Grows to the largest request and stays: a steady run allocates nothing.
class Workspace {
 public:
  // Aligned to 64 bytes; what it held is lost. Throws std::bad_alloc.
  void* get(std::size_t bytes);

 private:
  std::unique_ptr<void, FreeDeleter> memory_;
  std::size_t bytes_ = 0;
};

// The threads that libtorch's own operators use, so that two kinds of kernels do not fight for cores. libtorch compiles
// its parallel loops into itself; the one way in from outside that does not depend on the OpenMP library that it was
// built with is an iteration over a tensor with one element per thread.
class Workers {
 public:
  // Valid until the next call. Inside a parallel region of libtorch there is one worker.
  kernels::Parallel parallel();

 private:
  // The tasks that one worker begins with; others take of them when they have none of their own left.
  struct alignas(64) Share {
    std::atomic<std::int64_t> next = 0;
    std::int64_t end = 0;
  };
  struct Work;
  static void run_tasks(void* pool, std::int64_t tasks, kernels::Parallel::Task task, void* context);

  std::unique_ptr<at::TensorIterator> iterator_;
  std::vector<Share> shares_;  // one per thread
  int threads_ = 0;
};

}  // namespace kpt::aten
