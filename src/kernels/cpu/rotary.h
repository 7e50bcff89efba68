// Rotary positions: row · cos + (-second half, first half) · sin.
#pragma once

#include <cstddef>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"

namespace kpt::kernels {

// All three have the same sizes (strides are 0 where one is broadcast) and an even width; cos and sin may be of another
// type than the input. `result`: contiguous, of the input's type.
struct Rotary {
  Rows input;
  Rows cosines;
  Rows sines;
  void* result = nullptr;
};

// Bytes of memory, aligned to 64, that run_rotary() needs for so many threads.
std::size_t rotary_workspace(const Rotary& call, int threads);
void run_rotary(const Rotary& call, const Parallel& parallel, void* workspace);

}  // namespace kpt::kernels
