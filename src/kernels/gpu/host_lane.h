// What a lane can ask of the block that runs it on the host. Kernels see it through Lane (simt.h) only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kpt::gpu {

class HostBlock;

class HostLane {
 public:
  std::int32_t thread = 0;
  std::int64_t block_index = 0;

  // Returns when all lanes of the block are here.
  void wait_for_block();
  // Gives `value` to the wave and returns what the lane `partner` (a thread of the same wave) gave.
  float exchange(float value, std::int32_t partner);
  // For instructions that a whole wave executes together: gives up to 32 values to the wave and waits for the others';
  // published() then reads theirs, until the next exchange.
  void publish(const float* values, int count);
  float published(std::int32_t lane_of_block, std::int32_t index) const;
  // The next array in shared memory, made by the first lane that asks and filled with bytes of ones: NaN where it is
  // read before it is written. An array of its own on the heap, so that AddressSanitizer sees an index out of it.
  void* shared_bytes(std::size_t bytes);

 private:
  friend class HostBlock;
  HostBlock* block_ = nullptr;
  std::size_t next_shared_ = 0;
  unsigned exchanges_ = 0;
};

}  // namespace kpt::gpu
