#include "engines/aten/module/own_memory.h"

#include <atomic>
#include <new>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include "base/sanitizers.h"

namespace kpt::aten {
namespace {

// libtorch's thread pool is not instrumented, so ThreadSanitizer sees neither that work begins after it was handed out
// nor that its end is waited for. These two say it.
#if defined(KPT_THREAD_SANITIZER)
void before_handover(void* work) { __tsan_release(work); }
void after_handover(void* work) { __tsan_acquire(work); }
#else
void before_handover(void*) {}
void after_handover(void*) {}
#endif

// Workers take the next task when they are done with one: tasks of causal attention differ in length.
struct Work {
  std::int64_t tasks;
  kernels::Parallel::Task task;
  void* context;
  std::atomic<std::int64_t> next_task = 0;
  std::atomic<int> next_worker = 0;

  void operator()(char**, const std::int64_t*, std::int64_t count, std::int64_t outer) {
    after_handover(this);
    for (std::int64_t element = 0; element < count * outer; ++element) {
      const int worker = next_worker.fetch_add(1, std::memory_order_relaxed);
      for (std::int64_t index = next_task.fetch_add(1, std::memory_order_relaxed); index < tasks;
           index = next_task.fetch_add(1, std::memory_order_relaxed)) {
        task(context, index, worker);
      }
    }
    before_handover(this);
  }
};

void run_tasks(void* pool, std::int64_t tasks, kernels::Parallel::Task task, void* context) {
  Work work{tasks, task, context};
  before_handover(&work);
  static_cast<at::TensorIterator*>(pool)->for_each(at::TensorIterator::loop2d_t(work), 1);
  after_handover(&work);
}

}  // namespace

void* Workspace::get(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  if (bytes > bytes_ || !memory_) {
    if (bytes > SIZE_MAX - kAlignment) throw std::bad_alloc();
    const std::size_t rounded = (bytes + kAlignment) / kAlignment * kAlignment;
    memory_.reset();
    bytes_ = 0;
    memory_.reset(std::aligned_alloc(kAlignment, rounded));  // NOLINT(cppcoreguidelines-no-malloc)
    if (!memory_) throw std::bad_alloc();
    bytes_ = rounded;
  }
  return memory_.get();
}

kernels::Parallel Workers::parallel() {
  const int threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  if (threads <= 1) return {};
  if (threads != threads_) {
    at::Tensor elements = at::empty({threads}, at::kChar);
    iterator_ = std::make_unique<at::TensorIterator>(at::TensorIterator::nullary_op(elements));
    threads_ = threads;
  }
  return {threads, run_tasks, iterator_.get()};
}

}  // namespace kpt::aten
