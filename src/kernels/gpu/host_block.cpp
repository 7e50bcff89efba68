#include "kernels/gpu/host_block.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/sanitizers.h"
#include "kernels/gpu/host_stack.h"

namespace kpt::gpu {
namespace {

// Sanitizers put red zones between locals.
constexpr std::size_t kStackBytes = 256U << 10U;

constexpr std::size_t kMostPublished = 32;
constexpr std::size_t kPlaces = 2 * kMostPublished;  // values of a lane in exchanged_

}  // namespace

struct HostBlock::Fiber {
  StackPlace place = nullptr;
  void* stack = nullptr;
  HostBlock* block = nullptr;
  HostLane lane;
  State state = State::kEnded;
#if defined(KPT_ADDRESS_SANITIZER)
  void* fake_stack = nullptr;
#endif
#if defined(KPT_THREAD_SANITIZER)
  void* handle = nullptr;
#endif
};

struct HostBlock::Main {
  StackPlace place = nullptr;
#if defined(KPT_ADDRESS_SANITIZER)
  void* fake_stack = nullptr;
  const void* stack = nullptr;
  std::size_t stack_bytes = 0;
#endif
#if defined(KPT_THREAD_SANITIZER)
  void* handle = nullptr;
#endif
};

HostBlock::HostBlock(std::uint64_t order_seed) : random_(order_seed), main_(std::make_unique<Main>()) {}

HostBlock::~HostBlock() { drop_fibers(); }

void HostBlock::resume(Fiber& fiber) {
#if defined(KPT_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(&main_->fake_stack, fiber.stack, kStackBytes);
#endif
#if defined(KPT_THREAD_SANITIZER)
  main_->handle = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber.handle, 0);
#endif
  switch_stack(&main_->place, fiber.place);
#if defined(KPT_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(main_->fake_stack, nullptr, nullptr);
#endif
}

void HostBlock::suspend(Fiber& fiber, State state) {
  fiber.state = state;
#if defined(KPT_ADDRESS_SANITIZER)
  // A fiber that does not come back gives its part of the sanitizer's memory away.
  __sanitizer_start_switch_fiber(stopping_ ? nullptr : &fiber.fake_stack, main_->stack, main_->stack_bytes);
#endif
#if defined(KPT_THREAD_SANITIZER)
  __tsan_switch_to_fiber(main_->handle, 0);
#endif
  switch_stack(&fiber.place, main_->place);
#if defined(KPT_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(fiber.fake_stack, &main_->stack, &main_->stack_bytes);
#endif
}

void HostBlock::start_fiber(void* started) {
  Fiber& fiber = *static_cast<Fiber*>(started);
  HostBlock& block = *fiber.block;
#if defined(KPT_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(nullptr, &block.main_->stack, &block.main_->stack_bytes);
#endif
  while (!block.stopping_) {
    block.kernel_(block.args_, fiber.lane);
    block.suspend(fiber, State::kEnded);
  }
  block.suspend(fiber, State::kEnded);
}

Status HostBlock::make_fibers(std::size_t count) {
  while (fibers_.size() < count) {
    auto fiber = std::make_unique<Fiber>();
    void* stack =
        mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) return {StatusCode::kOutOfMemory, "no memory for the stacks of a block's lanes"};
    fiber->stack = stack;
    fiber->block = this;
    fiber->lane.block_ = this;
    fiber->place = prepare_stack(stack, kStackBytes, &HostBlock::start_fiber, fiber.get());
#if defined(KPT_THREAD_SANITIZER)
    fiber->handle = __tsan_create_fiber(0);
#endif
    fibers_.push_back(std::move(fiber));
  }
  return {};
}

// Fibers at the end of their kernel are run once more to leave their loop. Those that wait inside a kernel (after an
// error) are let go as they are: nothing on their stacks owns memory.
void HostBlock::drop_fibers() {
  stopping_ = true;
  for (const auto& fiber : fibers_) {
    if (fiber->state == State::kEnded) resume(*fiber);
#if defined(KPT_ADDRESS_SANITIZER)
    __asan_unpoison_memory_region(fiber->stack, kStackBytes);  // whoever gets these addresses next
#endif
#if defined(KPT_THREAD_SANITIZER)
    __tsan_destroy_fiber(fiber->handle);
#endif
    munmap(fiber->stack, kStackBytes);
  }
  fibers_.clear();
  stopping_ = false;
}

void HostBlock::shuffle_order() {
  if (random_ == 0) return;
  for (std::size_t index = order_.size(); index > 1; --index) {
    random_ ^= random_ << 13U;
    random_ ^= random_ >> 7U;
    random_ ^= random_ << 17U;
    std::swap(order_[index - 1], order_[random_ % index]);
  }
}

// Lets go on who has company enough; how many that were.
std::size_t HostBlock::release_waiting() {
  std::size_t at_barrier = 0;
  std::size_t released = 0;
  for (std::size_t first = 0; first < threads_; first += wave_) {
    std::size_t at_shuffle = 0;
    for (std::size_t thread = first; thread < first + wave_; ++thread) {
      at_shuffle += fibers_[thread]->state == State::kWaitsForWave ? 1U : 0U;
      at_barrier += fibers_[thread]->state == State::kWaitsForBlock ? 1U : 0U;
    }
    if (at_shuffle != wave_) continue;
    for (std::size_t thread = first; thread < first + wave_; ++thread) fibers_[thread]->state = State::kReady;
    released += wave_;
  }
  if (at_barrier != threads_) return released;
  for (std::size_t thread = 0; thread < threads_; ++thread) fibers_[thread]->state = State::kReady;
  return threads_;
}

Status HostBlock::run(std::string_view name, HostKernel kernel, const void* args, std::int64_t block_index, int threads,
                      int wave) {
  threads_ = static_cast<std::size_t>(threads);
  wave_ = static_cast<std::size_t>(wave);
  KPT_RETURN_IF_ERROR(make_fibers(threads_));
  kernel_ = kernel;
  args_ = args;
  shared_.clear();
  shared_bytes_.clear();
  shared_differs_ = false;
  exchanged_.assign(kPlaces * threads_, 0.0F);
  if (order_.size() != threads_) {
    order_.resize(threads_);
    for (std::size_t index = 0; index < threads_; ++index) order_[index] = index;
  }
  for (std::size_t thread = 0; thread < threads_; ++thread) {
    HostLane& lane = fibers_[thread]->lane;
    lane.thread = static_cast<std::int32_t>(thread);
    lane.block_index = block_index;
    lane.next_shared_ = 0;
    lane.exchanges_ = 0;
    fibers_[thread]->state = State::kReady;
  }
  while (true) {
    shuffle_order();
    std::size_t ended = 0;
    for (const std::size_t index : order_) {
      Fiber& fiber = *fibers_[index];
      if (fiber.state == State::kReady) resume(fiber);
      ended += fiber.state == State::kEnded ? 1 : 0;
    }
    if (shared_differs_ || (ended != threads_ && release_waiting() == 0)) {
      drop_fibers();
      return {StatusCode::kKernel,
              fmt::format("kernel {}, block {}: its lanes {}", name, block_index,
                          shared_differs_ ? "ask for different shared memory" : "wait at different barriers")};
    }
    if (ended == threads_) return {};
  }
}

void HostLane::wait_for_block() {
  block_->suspend(*block_->fibers_[static_cast<std::size_t>(thread)], HostBlock::State::kWaitsForBlock);
}

// Two places in turn: a lane writes the same one again only after all others have read it, because they have been to
// the next exchange in between.
void HostLane::publish(const float* values, int count) {
  const std::size_t place = kPlaces * static_cast<std::size_t>(thread) + kMostPublished * (++exchanges_ % 2);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) block_->exchanged_[place + i] = values[i];
  block_->suspend(*block_->fibers_[static_cast<std::size_t>(thread)], HostBlock::State::kWaitsForWave);
}

float HostLane::published(std::int32_t lane_of_block, std::int32_t index) const {
  const std::size_t place = kPlaces * static_cast<std::size_t>(lane_of_block) + kMostPublished * (exchanges_ % 2);
  return block_->exchanged_[place + static_cast<std::size_t>(index)];
}

float HostLane::exchange(float value, std::int32_t partner) {
  publish(&value, 1);
  return published(partner, 0);
}

void* HostLane::shared_bytes(std::size_t bytes) {
  const std::size_t index = next_shared_++;
  if (index == block_->shared_.size()) {
    auto array = std::make_unique<unsigned char[]>(bytes);
    std::memset(array.get(), 0xff, bytes);
    block_->shared_.push_back(std::move(array));
    block_->shared_bytes_.push_back(bytes);
  }
  if (block_->shared_bytes_[index] != bytes) block_->shared_differs_ = true;
  return block_->shared_[index].get();
}

}  // namespace kpt::gpu
