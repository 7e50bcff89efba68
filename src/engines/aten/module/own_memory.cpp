#include "engines/aten/module/own_memory.h"

#include <new>
#include <span>
#include <utility>

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

}  // namespace

// Every worker begins with a stretch of neighbouring tasks, the same part of all tasks in every node. Where a kernel's
// tasks go from the first rows to the last, as those of convolutions do, what a thread wrote in one node is in its
// cache in the next. Who is done helps the others: tasks of causal attention differ in length, and threads in speed.
struct Workers::Work {
  std::span<Share> shares;
  const std::byte* first_element;
  kernels::Parallel::Task task;
  void* context;

  // Each element is a worker. Its number is that of libtorch's thread where that has one element, which is the rule.
  void operator()(char** data, const std::int64_t* strides, std::int64_t count, std::int64_t /*outer*/) {
    after_handover(this);
    for (std::int64_t element = 0; element < count; ++element) {
      const auto* at = reinterpret_cast<const std::byte*>(data[0]) + element * strides[0];
      work(static_cast<std::size_t>(at - first_element));
    }
    before_handover(this);
  }

  void work(std::size_t worker) {
    for (std::size_t i = 0; i < shares.size(); ++i) {
      Share& share = shares[(worker + i) % shares.size()];
      // Most often the others' are empty; a look takes their line from nobody.
      if (share.next.load(std::memory_order_relaxed) >= share.end) continue;
      for (std::int64_t index = share.next.fetch_add(1, std::memory_order_relaxed); index < share.end;
           index = share.next.fetch_add(1, std::memory_order_relaxed)) {
        task(context, index, static_cast<int>(worker));
      }
    }
  }
};

void Workers::run_tasks(void* pool, std::int64_t tasks, kernels::Parallel::Task task, void* context) {
  auto& self = *static_cast<Workers*>(pool);
  std::int64_t begin = 0;
  for (std::int64_t worker = 0; worker < self.threads_; ++worker) {
    Share& share = self.shares_[static_cast<std::size_t>(worker)];
    share.next.store(begin, std::memory_order_relaxed);
    begin += tasks / self.threads_ + (worker < tasks % self.threads_ ? 1 : 0);
    share.end = begin;
  }
  Work work{self.shares_, static_cast<const std::byte*>(self.iterator_->data_ptr(0)), task, context};
  before_handover(&work);
  self.iterator_->for_each(at::TensorIterator::loop2d_t(work), 1);
  after_handover(&work);
}

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
    auto iterator = std::make_unique<at::TensorIterator>(at::TensorIterator::nullary_op(elements));
    std::vector<Share> shares(static_cast<std::size_t>(threads));
    iterator_ = std::move(iterator);  // after all that may find no memory
    shares_ = std::move(shares);
    threads_ = threads;
  }
  return {threads, run_tasks, this};
}

}  // namespace kpt::aten
