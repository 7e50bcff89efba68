// Runs the lanes of one block on the host, each as a fiber with its own stack.
//
// A lane runs until it waits for its wave or its block or ends; then the next one runs. When all who must be there have
// come, they go on. Lanes that wait for each other at different places are an error with the kernel's name, not a hang.
// One thread does all of it, so a run is the same each time. The order of lanes can be changed by a seed: a kernel
// whose results change with it lacks a barrier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/gpu/host_lane.h"
#include "kpt/status.h"

namespace kpt::gpu {

// A kernel on the host: runs one lane to its end.
using HostKernel = void (*)(const void* args, HostLane& lane);

// Keeps its stacks between runs. Not for several threads at once.
class HostBlock {
 public:
  // 0: lanes run in their order; otherwise in one drawn from the seed, anew at every round.
  explicit HostBlock(std::uint64_t order_seed = 0);
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;
  ~HostBlock();

  // `threads`: a multiple of `wave`. Fails with kKernel when lanes wait at different places or the shared arrays of two
  // lanes differ, kOutOfMemory when there is no memory for stacks.
  Status run(std::string_view name, HostKernel kernel, const void* args, std::int64_t block_index, int threads,
             int wave);

 private:
  friend class HostLane;
  struct Fiber;
  enum class State : std::uint8_t { kReady, kWaitsForWave, kWaitsForBlock, kEnded };

  static void start_fiber(void* started);
  Status make_fibers(std::size_t count);
  void drop_fibers();
  void resume(Fiber& fiber);
  void suspend(Fiber& fiber, State state);
  std::size_t release_waiting();
  void shuffle_order();

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<std::size_t> order_;
  std::vector<std::unique_ptr<unsigned char[]>> shared_;
  std::vector<std::size_t> shared_bytes_;
  std::vector<float> exchanged_;  // two places of 32 values for each lane, used in turn
  HostKernel kernel_ = nullptr;
  const void* args_ = nullptr;
  std::size_t threads_ = 0;
  std::size_t wave_ = 0;
  std::uint64_t random_ = 0;
  bool shared_differs_ = false;
  bool stopping_ = false;
  struct Main;
  std::unique_ptr<Main> main_;
};

}  // namespace kpt::gpu
